"""Results are written once, equal bytes for equal tables, beside what else is in the folder."""

import pandas as pd
import pytest
from study_tables import study_table

from tightrope.studies.certificate_records import checked_table, read_table
from tightrope.studies.results import analyse, instances_latex, write_results
from tightrope.studies.summary_statistics import instance_means

FILES = ["claims.csv", "conditions.csv", "figures", "instances.csv", "instances.tex", "table.csv"]


@pytest.fixture(scope="module")
def table():
    rows = study_table(environments=("A",), levels=("expert",), presets=("paper",), repetitions=2)
    return checked_table(rows[rows["scheme"].isin(["rec-2", "nonrec-inf"])])


def test_the_same_certificates_in_any_order_give_the_same_files(table, tmp_path):
    shuffled = checked_table(table.sample(frac=1, random_state=1))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/README.md").write_text("mine")
    for name, rows in (("a", table), ("b", shuffled)):
        write_results(analyse(rows), tmp_path / name)
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == FILES
    assert (tmp_path / "a/README.md").read_text() == "mine"
    for path in (tmp_path / "b").rglob("*.*"):
        same = tmp_path / "a" / path.relative_to(tmp_path / "b")
        assert same.read_bytes() == path.read_bytes(), path
    kinds = {path.suffix for path in (tmp_path / "a/figures").iterdir()}
    assert kinds == {".pdf", ".png", ".csv"}
    pd.testing.assert_frame_equal(read_table(tmp_path / "a"), table)
    claims = pd.read_csv(tmp_path / "a/claims.csv")
    assert claims["verdict"].tolist() == ["too little data"] * 7


def test_latex_has_the_mean_over_repetitions_and_strange_names_stay_text(table):
    strange = table.assign(agent="a_b&\n%", level="100%", environment="$x$")
    text = instances_latex(instance_means(strange))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    head = r"a\_b\&\textbackslash n\%, \$x\$ (preset paper, unit step)"
    assert rf"\multicolumn{{6}}{{c}}{{{head}}}" in text
    assert r"\multirow[c]{3}{*}{100\%}" in text
    means = table[table["instance"] == "1"].groupby("scheme")[["train_error", "bound"]].mean()
    (row,) = [line for line in text.splitlines() if line.startswith(" & 1 ")]
    cells = [cell.strip(" \\") for cell in row.split("&")]
    found = [f"{means.loc[s, v]:#.3g}" for s in means.index for v in means]
    assert [cells[2], cells[4], cells[5], cells[7]] == found
