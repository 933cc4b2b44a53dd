"""The page of a comparison says what the comparison says, and runs nothing."""

import dataclasses

import pytest
from pages import HOSTILE
from recordings import recording

from tightrope.comparison.compare import compare
from tightrope.errors import InputError
from tightrope.reports.comparison import comparison_figure, comparison_page, write_comparison


@pytest.fixture(scope="module")
def found():
    return compare(recording(24, seed=1), recording(24, seed=1, offset=2.0))


def test_every_question_has_its_interval_in_text_and_figure(found):
    text = comparison_page(found)
    assert found.title in text
    for interval in found.intervals:
        assert interval.title[1:] in text
        assert interval.ends in text
    assert all(assumption in text for assumption in found.assumptions)
    assert (text.count("<svg"), text.count("<script")) == (1, 1)  # the script is the page's own
    left, right = comparison_figure(found).axes
    for line, values in zip(left.lines, found.returns, strict=True):
        assert line.get_xdata().tolist() == sorted(values)
    drawn = [line.get_xdata() for line in right.lines if len(line.get_xdata()) == 2]
    for ends, interval in zip(drawn, reversed(found.intervals), strict=False):
        scale = max(map(abs, (interval.low, interval.high, interval.effect)))
        assert list(ends) == [interval.low / scale, interval.high / scale]


def test_hostile_names_are_text(found):
    named = dataclasses.replace(found, names=(HOSTILE, "B"), environment=f"</pre>{HOSTILE}")
    text = comparison_page(named)
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_the_page_is_a_new_file_and_the_same_for_the_same_comparison(found, tmp_path):
    write_comparison(found, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == comparison_page(found)
    with pytest.raises(InputError, match="already there"):
        write_comparison(found, tmp_path / "page.html")
