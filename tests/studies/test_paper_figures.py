"""Figures show the right certificates at the size of print, and the line is where bounds end."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from study_tables import study_table, with_bounds

from tightrope.studies.paper_figures import FIGURES, READINGS, draw_figures, figure_numbers
from tightrope.studies.plot_style import STYLE, WIDTH, label, looks

SIZES = {"levels": ("starter", "expert"), "schemes": ("nonrec-inf", "rec-2")}


@pytest.fixture(scope="module")
def drawn():
    """Every kind: four decades of bounds in one preset, a single level or environment in others."""
    full = study_table(**SIZES, sampling=("local", "weights"), episodes=(50, 100), repetitions=1)
    wide = study_table(agents=("sac",), levels=("expert",), presets=("tight",), repetitions=2)
    spread = 10.0 ** np.linspace(-4, 0, len(wide))
    return draw_figures(
        pd.concat([full, with_bounds(wide, np.maximum(spread, wide["test_error"]))])
    )


def panels(drawn, kind):
    return [
        (each, ax)
        for each in drawn.values()
        if each.kind == kind
        for ax in each.figure.axes
        if ax.axison and ax.has_data()
    ]


def test_there_is_every_kind_of_figure_with_its_numbers(drawn):
    assert list(FIGURES) == list(READINGS) == list(dict.fromkeys(f.kind for f in drawn.values()))
    assert "scatter-sac-tight-step" in drawn
    assert drawn["scatter-sac-tight-step"].about == "SAC, preset tight, unit step"
    numbers = figure_numbers(drawn)
    for name, part in numbers.groupby("figure"):
        assert len(part) == len(drawn[name].rows)
    assert set(drawn["scatter-redq-paper-step"].rows["episodes"]) == {100}
    assert set(drawn["scatter-redq-paper-step"].rows["sampling"]) == {"local"}
    assert set(drawn["validation-size-redq-paper-step"].rows["episodes"]) == {50, 100}
    assert set(drawn["sampling-redq-paper-step"].rows["episodes"]) == {100}
    assert draw_figures(drawn["scatter-sac-tight-step"].rows.assign(void=True)) == {}


def test_a_point_with_bound_equal_to_test_error_lies_on_the_line_in_every_panel(drawn):
    """In display coordinates, where reading happens; also where a linear scale is needed."""
    zero = study_table(**SIZES, repetitions=1, environments=("A",), presets=("paper",))
    zero.loc[zero.index[0], ["test_error", "tightness"]] = 0.0, zero["bound"].iloc[0]
    found = panels(drawn, "scatter") + panels(draw_figures(zero), "scatter")
    scales = set()
    for _, ax in found:
        (line,) = [each for each in ax.lines if each.get_label() == "bound = test error"]
        assert ax.get_xlim() == ax.get_ylim()
        scales.add((ax.get_xscale(), ax.get_yscale()))
        (x0, y0), (x1, y1) = ax.transData.transform(line.get_xydata())
        low, high = ax.get_xlim()
        for share in np.linspace(0, 1, 7):
            value = low * (high / low) ** share if low > 0 else low + share * (high - low)
            x, y = ax.transData.transform((value, value))
            across = (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)
            assert abs(across) < 1e-6 * np.hypot(x1 - x0, y1 - y0) ** 2
            assert min(x0, x1) - 1e-6 <= x <= max(x0, x1) + 1e-6
    assert scales == {("log", "log"), ("linear", "linear")}


def test_sound_certificates_lie_below_the_line_and_a_row_has_one_scale(drawn):
    for each, ax in panels(drawn, "scatter"):
        for line in ax.lines:
            x, y = ax.transAxes.inverted().transform(ax.transData.transform(line.get_xydata())).T
            assert (y <= x + 1e-9).all()
        row = {a.get_xlim() for _, a in panels({"": each}, "scatter")
               if a.get_subplotspec().rowspan == ax.get_subplotspec().rowspan}  # fmt: skip
        assert len(row) == 1


def test_correlations_in_figures_name_their_points(drawn):
    for _, ax in panels(drawn, "scatter"):
        rows = [text.get_text() for text in ax.texts]
        assert rows
        assert all(text.endswith((" (3)", " (6)")) for text in rows)
    texts = [text.get_text() for _, ax in panels(drawn, "correlation") for text in ax.texts]
    assert texts
    assert all(text.endswith("\n(3)") for text in texts)


def test_figures_fit_the_column_with_readable_type_and_no_title(drawn):
    for each in drawn.values():
        figure = each.figure
        assert figure.get_figwidth() <= WIDTH
        assert figure.get_suptitle() == ""
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
        assert min(sizes) >= 7
        figure.draw_without_rendering()
        (legend,) = figure.legends or (None,)
        if legend is not None:
            box = legend.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1
            below = [figure._supxlabel, *figure.axes]
            assert not any(box.overlaps(one.get_window_extent()) for one in below if one)


def test_the_test_error_stands_beside_the_bound(drawn):
    rows = drawn["bounds-redq-paper-step"].rows
    ax = panels(drawn, "bounds")[0][1]
    here = rows[rows["environment"] == "Hopper-v4"]
    tests = here.groupby(["scheme", "level"])["test_error"].mean()
    heights = np.concatenate([lines.get_segments() for lines in ax.collections
                              if len(lines.get_segments()[0]) == 2
                              and np.ptp(lines.get_segments()[0][:, 1]) == 0])[:, 0, 1]  # fmt: skip
    assert sorted(heights) == pytest.approx(sorted(tests))


def test_boxes_start_at_five_values_and_fewer_are_drawn_each():
    for repetitions, boxes in ((1, 0), (2, 1)):  # of three instances
        table = study_table(environments=("A",), levels=("expert",), schemes=("rec-2",),
                            presets=("paper",), repetitions=repetitions)  # fmt: skip
        (ax,) = draw_figures(table)["tightness-redq-paper-step"].figure.axes
        assert len(ax.patches) == boxes
        if not boxes:
            (line,) = ax.lines
            assert sorted(line.get_ydata()) == pytest.approx(sorted(table["tightness"]))


def test_names_look_different_without_colours_and_hostile_ones_stay_text():
    for column in ("level", "scheme"):
        names = {
            "level": ("starter", "intermediate", "expert"),
            "scheme": ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "auto"),
        }
        found = looks(column, names[column])
        assert len({look.marker for look in found.values()}) == len(found)
        assert len({look.colour for look in found.values()}) == len(found)
    hostile = "_$\\alpha$\n../<b>"
    table = study_table(agents=(hostile,), environments=(hostile,), levels=(hostile,),
                        schemes=("rec-2",), presets=("paper",), repetitions=1)  # fmt: skip
    figures = draw_figures(table)
    assert all(name.replace("-", "").isalnum() for name in figures)
    with mpl.rc_context(STYLE):
        for each in figures.values():
            each.figure.draw_without_rendering()
    assert "\n" not in label(hostile)
