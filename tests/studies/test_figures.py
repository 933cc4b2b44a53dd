"""Figures of a study: what is drawn is read back from the axes, and is what the files say."""

import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats
from study_tables import study_table, with_bounds, without_tests

from tightrope.errors import InputError
from tightrope.studies import figures
from tightrope.studies.columns import DTYPES
from tightrope.studies.figures.style import looks, plain
from tightrope.studies.figures.write import file_names
from tightrope.studies.slices import ordered

PANELS = {chart.name: chart.panel for chart in figures.CHARTS}
SMALL = {
    "environments": ("Hopper-v4",),
    "levels": ("starter", "expert"),
    "schemes": ("nonrec-inf", "rec-6"),
    "presets": ("tight",),
    "repetitions": 2,
}
WHOLE = {**SMALL, "sampling": ("local", "weights"), "episodes": (25, 100)}


def markers(ax):
    """(x, y) of everything drawn by markers, without guide lines."""
    lines = [line for line in ax.lines if line.get_marker() not in ("None", "_", "|", 2, 3)]
    return np.concatenate([line.get_xydata() for line in lines])


def ends(ax):
    """(lowest, highest) of every bar of a range."""
    segments = [s for c in ax.collections for s in c.get_segments() if len(s)]
    return np.array([(segment[:, 1].min(), segment[:, 1].max()) for segment in segments])


def box_lines(ax):
    """Per box: whisker_low, quartile_1, median, quartile_3, whisker_high, from the artists."""
    found = []
    for patch in ax.patches:
        corners = patch.get_path().vertices[:-1]
        middle = corners[:4, 0].mean()
        at = [line for line in ax.lines if np.isclose(np.mean(line.get_xdata()), middle)]
        heights = np.concatenate([line.get_ydata() for line in at])
        flat = [line for line in at if np.ptp(line.get_xdata()) > 0]
        wide = max(flat, key=lambda line: np.ptp(line.get_xdata()))
        low, high = corners[:, 1].min(), corners[:, 1].max()
        found.append([heights.min(), low, wide.get_ydata()[0], high, heights.max()])
    return np.array(found)


def drawn(name, axes):
    """The numbers that a chart shows, in any order."""
    if name == "scatter":
        return np.concatenate([markers(ax) for ax in axes])
    if name == "tightness":
        return np.concatenate([box_lines(ax) for ax in axes])
    if name == "correlation":
        arrays = [image.get_array() for ax in axes for image in ax.get_images()]
        return np.concatenate([array.filled(np.nan).reshape(-1, 1) for array in arrays])
    heights = np.concatenate([markers(ax)[:, 1] for ax in axes])
    return np.column_stack([heights, np.concatenate([ends(ax) for ax in axes])])


COLUMNS = {
    "scatter": ["bound", "test_error"],
    "bounds": ["bound", "lowest_instance", "highest_instance"],
    "tightness": ["whisker_low", "quartile_1", "median", "quartile_3", "whisker_high"],
    "validation-size": ["tightness", "lowest_instance", "highest_instance"],
    "sampling": ["tightness", "lowest_instance", "highest_instance"],
    "correlation": ["correlation"],
}


def in_any_order(rows):
    rows = np.asarray(rows, float)
    return rows[np.lexsort(rows.T[::-1])]


@pytest.fixture(scope="module")
def whole():
    return study_table(**WHOLE)


@pytest.fixture(scope="module")
def written(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return folder, figures.write_figures(whole, folder)


def test_every_chart_is_written_in_three_formats_with_its_numbers(written):
    folder, result = written
    names = {f"{name}-redq-tight-step" for name in COLUMNS}
    expected = {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png", "csv")}
    assert {path.name for path in result.files} == expected
    assert {path.name for path in folder.iterdir()} == expected
    assert result.left_out == ()
    for path in result.files:
        start = path.read_bytes()[:8]
        if path.suffix == ".png":
            assert start == b"\x89PNG\r\n\x1a\n"
            width = int.from_bytes(path.read_bytes()[16:20], "big")
            assert width >= 4.2 * 160  # dots per inch
        elif path.suffix == ".pdf":
            assert start.startswith(b"%PDF")
        elif path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize("chart", figures.CHARTS, ids=lambda chart: chart.name)
def test_the_numbers_drawn_are_those_of_the_csv(chart, whole, written):
    csv = pd.read_csv(written[0] / f"{chart.name}-redq-tight-step.csv", dtype={"instance": str})
    figure = figures.grid(chart, chart.select(ordered(whole)))
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    np.testing.assert_allclose(
        in_any_order(drawn(chart.name, panels)), in_any_order(csv[COLUMNS[chart.name]]), rtol=1e-9
    )


def test_the_same_rows_in_another_order_give_the_same_bytes_without_a_date(
    whole, written, tmp_path, monkeypatch
):
    monkeypatch.setattr(figures.write, "CHARTS", (figures.SCATTER, figures.BOXES))
    again = figures.write_figures(whole.sample(frac=1, random_state=2), tmp_path)
    assert len(again.files) == 8
    for path in again.files:
        assert path.read_bytes() == (written[0] / path.name).read_bytes(), path.name
        assert not re.search(rb"CreationDate|dc:date|tIME", path.read_bytes())


def test_a_chart_without_data_is_left_out_with_the_reason(tmp_path):
    result = figures.write_figures(without_tests(study_table(**SMALL)), tmp_path)
    assert {path.stem for path in result.files} == {"bounds-redq-tight-step"}
    reasons = {
        each.figure.removesuffix("-redq-tight-step"): each.reason for each in result.left_out
    }
    assert reasons.keys() == COLUMNS.keys() - {"bounds"}
    assert reasons["scatter"] == "no test errors of certificates with local sampling"
    assert "several numbers of validation episodes" in reasons["correlation"]


def test_every_agent_preset_and_unit_has_files_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(figures.write, "CHARTS", (figures.BOUNDS,))
    axes = {**SMALL, "presets": ("paper", "tight"), "agents": ("sac", "redq"), "repetitions": 1}
    axes |= {"schemes": ("rec-6",), "levels": ("expert",)}
    result = figures.write_figures(study_table(**axes), tmp_path)
    stems = {path.stem for path in result.files}
    expected = {f"bounds-{a}-{p}-step" for a in ("sac", "redq") for p in ("paper", "tight")}
    assert stems == expected
    numbers = pd.read_csv(tmp_path / "bounds-sac-paper-step.csv")
    assert set(numbers["agent"]) == {"sac"}
    assert set(numbers["preset"]) == {"paper"}


def test_files_of_others_stay_and_old_figures_are_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(figures.write, "CHARTS", (figures.BOUNDS,))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "bounds-redq-tight-step.csv").write_text("old")
    figures.write_figures(study_table(**SMALL), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "bounds-redq-tight-step.csv").read_text().startswith("preset,unit")


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        figures.write_figures(study_table(**SMALL), tmp_path / "file")


def test_an_empty_table_gives_no_files(tmp_path):
    result = figures.write_figures(study_table(**SMALL)[:0], tmp_path / "new")
    assert result.files == ()


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_takes_and_returns_axes(name, whole):
    chart = next(chart for chart in figures.CHARTS if chart.name == name)
    rows = chart.select(ordered(whole))
    rows = rows[rows["level"] == "expert"] if chart.columns == "level" else rows
    ax = Figure().subplots()
    assert chart.panel(rows, ax=ax) is ax
    alone = chart.panel(rows)
    assert alone.figure is not ax.figure
    np.testing.assert_array_equal(drawn(name, [alone]), drawn(name, [ax]))


def test_the_scatter_names_the_correlation_of_every_level():
    table = study_table(**{**SMALL, "schemes": ("rec-6",), "repetitions": 5})
    ax = figures.scatter(table)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    expected = []
    for level in ("starter", "expert"):
        part = table[table["level"] == level]
        value = stats.pearsonr(part["bound"], part["test_error"]).statistic
        expected.append(f"r {value:.2f}".replace("-", "\u2212"))
    assert texts == expected


def test_boxes_have_the_quartiles_and_whiskers_computed_by_hand():
    """Quartiles of 1..9 and 30 are 3.25, 5.5, 7.75; 30 lies beyond 7.75 + 1.5 * 4.5 = 14.5."""
    table = study_table(**{**SMALL, "levels": ("expert",), "schemes": ("rec-6",),
                           "instances": ("0", "1"), "repetitions": 5})  # fmt: skip
    values = np.array([9, 1, 30, 2, 8, 3, 7, 4, 6, 5]) / 100
    table = with_bounds(table.assign(test_error=0.0625), 0.0625 + values)
    np.testing.assert_allclose(
        box_lines(figures.boxes(table)), [[0.01, 0.0325, 0.055, 0.0775, 0.09]]
    )
    numbers = figures.BOXES.numbers(table).iloc[0]
    assert (numbers["certificates"], numbers["outliers_hidden"]) == (10, 1)


def test_ranges_span_the_means_of_instances_not_single_repetitions():
    table = study_table(**{**SMALL, "levels": ("expert",), "schemes": ("rec-6",)})
    means = [
        np.mean([row["bound"] for row in table.to_dict("records") if row["instance"] == name])
        for name in ("0", "1", "2")
    ]
    ax = figures.bounds(table)
    np.testing.assert_allclose(markers(ax)[:, 1], [np.mean(means)])
    np.testing.assert_allclose(ends(ax), [[min(means), max(means)]])


def test_validation_sizes_are_the_ticks_of_their_axis(whole):
    rows = figures.VALIDATION_SIZE.select(ordered(whole))
    ax = figures.validation_size(rows[rows["level"] == "expert"])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["25", "100"]
    assert ax.get_xscale() == "log"
    places = np.unique(np.round(np.log2(markers(ax)[:, 0] / 25)))
    np.testing.assert_array_equal(places, [0, 2])


def test_heat_maps_show_the_correlation_and_hatch_what_is_undefined(whole):
    vacuous = (whole["scheme"] == "rec-6") & (whole["episodes"] == 25)
    table = with_bounds(whole, np.where(vacuous, 1.0, whole["bound"]))
    rows = figures.HEATMAP.select(ordered(table))
    rows = rows[rows["level"] == "expert"]
    ax = figures.heatmap(rows)
    part = rows[(rows["scheme"] == "nonrec-inf") & (rows["episodes"] == 100)]
    value = stats.pearsonr(part["bound"], part["test_error"]).statistic
    (image,) = ax.get_images()
    shown = image.get_array().filled(np.nan)  # (schemes, sizes)
    assert shown[0, 1] == pytest.approx(value)
    assert np.isnan(shown[1, 0])
    texts = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    assert texts[1, 0] == f"{value:.2f}".replace("-", "\u2212")
    assert texts[0, 1] == "\u2013"
    assert [patch.get_xy() for patch in ax.patches] == [(-0.5, 0.5)]


def test_void_certificates_are_no_dots_but_count_among_the_bounds():
    table = study_table(**SMALL)
    void = table["repetition"] == 0
    table = with_bounds(table, np.where(void, 1.0, table["bound"])).assign(void=void)
    shown = figures.SCATTER.numbers(figures.SCATTER.select(table))
    assert len(shown) == (~void).sum()
    assert figures.BOUNDS.numbers(figures.BOUNDS.select(table))["bound"].min() > 0.5


@pytest.mark.parametrize(
    "axes",
    [
        {"instances": ("0",)},
        {"levels": ("mine",)},
        {"schemes": ("auto",)},
        {"instances": ("0",), "levels": ("x",), "schemes": ("10,20,70",), "repetitions": 1},
    ],
)
def test_small_tables_are_drawn(axes):
    table = ordered(study_table(**{**WHOLE, **axes}))
    for chart in figures.CHARTS:
        figure = figures.grid(chart, chart.select(table))
        figure.draw_without_rendering()
        panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
        numbers = chart.numbers(chart.select(table))
        assert len(drawn(chart.name, panels)) == len(numbers) > 0


@pytest.mark.parametrize("bound", [0.0, 0.004, 1.0])
@pytest.mark.parametrize("chart", figures.CHARTS, ids=lambda chart: chart.name)
def test_bounds_of_zero_bounds_of_one_and_bounds_that_failed_are_drawn(chart, bound, whole):
    """At 0 every tightness is negative; at 0.004 some are."""
    table = with_bounds(whole, bound)
    table.loc[table["level"] == "starter", ["test_error", "tightness"]] = [0.0, bound]
    figure = figures.grid(chart, chart.select(ordered(table)))
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert all(np.isfinite(ax.get_ylim()).all() for ax in panels)


HOSTILE = {
    "agents": ("<script>$x^{_</script>", "../../etc"),
    "environments": ("a_b%&", '_hidden,\n"x"', "\u6e2c\u8a66"),
    "levels": ("$\\frac{", "starter"),
    "schemes": ("rec-6", "10,20,70"),
    "instances": ("0", "<b>"),
}


def test_hostile_names_are_shown_literally_and_stay_inside_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(figures.write, "CHARTS", (figures.SCATTER, figures.BOUNDS))
    table = study_table(**{**SMALL, **HOSTILE, "repetitions": 1})
    folder = tmp_path / "deep" / "figures"
    result = figures.write_figures(table, folder)
    assert len(result.files) == 2 * 2 * 4
    assert {path.parent for path in result.files} == {folder}
    assert len(set(result.files)) == len(result.files)
    assert all(re.fullmatch(r"[a-z0-9.-]+", path.name) for path in result.files)
    for path in result.files:
        if path.suffix == ".svg":
            tags = {element.tag.split("}")[-1] for element in ElementTree.parse(path).iter()}
            assert "script" not in tags
    numbers = pd.concat(
        pd.read_csv(path, dtype=str) for path in result.files if path.suffix == ".csv"
    )
    assert set(numbers["environment"]) == set(HOSTILE["environments"])
    assert set(numbers["agent"]) == set(HOSTILE["agents"])


def test_names_that_differ_give_files_that_differ():
    names = ["a/b", "a\\b", "A", "a", "", "-", "x" * 300, "x" * 301]
    safe = file_names(names)
    assert len(set(safe.values())) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]{1,60}", name) for name in safe.values())
    assert file_names(["REDQ"]) == {"REDQ": "redq"}


def test_formulas_and_hidden_names_are_plain_text():
    ax = Figure().subplots()
    ax.set_title(plain("$\\frac{$"))
    ax.plot([0, 1], [0, 1], label=plain("_x"))
    ax.legend()
    ax.figure.savefig(io.BytesIO())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [" _x"]


def test_every_look_differs_by_shape_as_well_as_by_colour():
    schemes = ["nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "auto", "mine", "other"]
    found = looks("scheme", schemes).values()
    for attribute in ("colour", "marker", "hatch"):
        assert len({getattr(look, attribute) for look in found}) == len(schemes), attribute
    levels = looks("level", ["starter", "intermediate", "expert"]).values()
    assert len({look.marker for look in levels}) == 3


@pytest.mark.parametrize("chart", figures.CHARTS, ids=lambda chart: chart.name)
def test_what_was_not_certified_leaves_a_gap_and_its_neighbours_as_they_are(chart):
    axes = {**WHOLE, "environments": tuple("ABCDE"), "repetitions": 1}
    table = study_table(**axes)
    gap = (table["environment"] == "C") & (table["scheme"] == "rec-6")
    gap |= (table["environment"] == "B") & (table["level"] == "starter")
    rows = chart.select(ordered(table[~gap]))
    figure = figures.grid(chart, rows)
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    data = [
        ax for ax in panels if ax.axison and not any(t.get_text() == "no data" for t in ax.texts)
    ]
    shown = in_any_order(drawn(chart.name, data))
    expected = in_any_order(chart.numbers(rows)[COLUMNS[chart.name]])
    if chart.name == "correlation":  # a heat map also has a cell for what is missing
        shown = shown[np.isfinite(shown[:, 0])]
        expected = expected[np.isfinite(expected[:, 0])]
    np.testing.assert_allclose(shown, expected, rtol=1e-9)
    assert all(len(ax.get_yticks()) for ax in data)


def test_a_name_looks_the_same_whatever_else_is_shown():
    alone = looks("scheme", ["rec-6"])["rec-6"]
    assert looks("scheme", ["rec-6", "auto", "mine"])["rec-6"] == alone


def test_a_table_read_back_from_its_csv_gives_the_same_numbers(whole):
    again = pd.read_csv(io.StringIO(whole.to_csv(index=False)), dtype=DTYPES)
    for chart in figures.CHARTS:
        pd.testing.assert_frame_equal(
            chart.numbers(chart.select(ordered(again))),
            chart.numbers(chart.select(ordered(whole))),
        )
