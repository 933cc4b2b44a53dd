"""The page of a comparison says what the comparison says, and runs nothing."""

import dataclasses
import json
import re

import numpy as np
import pytest
from pages import HOSTILE
from recordings import recording

from tightrope.comparison.compare import compare
from tightrope.errors import InputError
from tightrope.reports.comparison import comparison_page, write_comparison


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
    assert text.count("<script>") == 1  # the page's own
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    series = json.loads(block)["charts"]["returns"]["series"]
    for one, values in zip(series, found.returns, strict=True):
        np.testing.assert_allclose(one["x"], sorted(values), rtol=1e-4)


def test_hostile_names_are_text(found):
    named = dataclasses.replace(found, names=(HOSTILE, "B"), environment=f"</pre>{HOSTILE}")
    text = comparison_page(named)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_the_page_is_a_new_file_and_the_same_for_the_same_comparison(found, tmp_path):
    write_comparison(found, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == comparison_page(found)
    with pytest.raises(InputError, match="already there"):
        write_comparison(found, tmp_path / "page.html")
