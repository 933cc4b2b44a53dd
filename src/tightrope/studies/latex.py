"""The paper's tables for print: train error, test error and bound of every policy instance."""

from collections.abc import Iterator

import pandas as pd

from tightrope.errors import printable
from tightrope.studies.certificate_records import SLICE, STRATUM
from tightrope.studies.summary_statistics import in_order

__all__ = ["instances_latex"]

_VALUES = {"train_error": "train", "test_error": "test", "bound": "bound"}


def instances_latex(means: pd.DataFrame) -> str:
    r"""A tabular for every preset, unit, agent and environment.

    Args:
        means: as :func:`tightrope.studies.summary_statistics.instance_means` gives them.
    """
    return "% Needs \\usepackage{booktabs,multirow}\n" + "\n".join(_tables(means))


def _tables(means: pd.DataFrame) -> Iterator[str]:
    for key, part in means.groupby([*SLICE, *STRATUM], sort=True):
        preset, unit, agent, environment = map(str, key)
        title = printable(f"{agent}, {environment} (preset {preset}, unit {unit})")
        for name in ("level", "instance", "scheme"):
            order = in_order(name, part[name])
            part = part.assign(**{name: pd.Categorical(part[name], order)})
        wide = part.pivot(index=["level", "instance"], columns="scheme", values=list(_VALUES))
        wide = wide.swaplevel(axis=1).sort_index(axis=1, level=0, sort_remaining=False).sort_index()
        wide.columns = pd.MultiIndex.from_tuples(
            [(title, printable(str(key[0])), _VALUES[key[1]]) for key in wide.columns]
        )
        wide.index = pd.MultiIndex.from_tuples(
            [tuple(map(printable, map(str, row))) for row in wide.index],
            names=["level", "instance"],
        )
        style = wide.style.format("{:#.3g}", na_rep="--")
        for axis in (0, 1):
            style = style.format_index(escape="latex", axis=axis)
        yield style.to_latex(hrules=True, multicol_align="c", clines="skip-last;data")
