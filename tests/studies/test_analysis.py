"""One folder with everything that a table says."""

import pandas as pd
import pytest
from study_tables import study_table

from tightrope.errors import InputError
from tightrope.studies import figures
from tightrope.studies.analysis import write_analysis

TABLE = {"environments": ("Hopper-v4",), "schemes": ("rec-2", "rec-6"), "presets": ("tight",)}
TABLE |= {"levels": ("starter", "expert"), "repetitions": 2}


def test_everything_is_written_and_twice_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(figures.write, "CHARTS", (figures.BOUNDS, figures.SAMPLING))
    table = study_table(**TABLE)
    found = write_analysis(table, tmp_path / "a")
    names = {str(path.relative_to(tmp_path / "a")) for path in found.files}
    kinds = ("csv", "png", "svg", "pdf")
    assert names == {
        *("metrics.csv", "claims.csv", "claims.md"),
        *("instances.csv", "instances.md", "instances.tex"),
        *(f"figures/bounds-redq-tight-step.{kind}" for kind in kinds),
    }
    assert [each.figure for each in found.left_out] == ["sampling-redq-tight-step"]
    verdict = found.claims.set_index(["claim", "preset"])["verdict"]
    assert verdict["deeper-recursion", "all"] == "supported"
    again = pd.read_csv(tmp_path / "a" / "claims.csv")
    assert again["verdict"].tolist() == found.claims["verdict"].tolist()
    write_analysis(table.sample(frac=1, random_state=1), tmp_path / "b")
    for name in names:
        first, second = (tmp_path / folder / name for folder in "ab")
        assert first.read_bytes() == second.read_bytes(), name


def test_wrong_input_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="columns of a study"):
        write_analysis(pd.DataFrame({"bound": [0.1]}), tmp_path / "new")
    assert not (tmp_path / "new").exists()
