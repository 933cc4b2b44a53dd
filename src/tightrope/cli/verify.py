"""tightrope verify: whether every number of a certificate follows from its files."""

from pathlib import Path
from typing import Annotated, Literal

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError
from tightrope.rollouts.collecting import Rollout

__all__ = ["verify"]


@command()
def verify(
    folder: Path,
    /,
    *,
    property: Annotated[tuple[str, ...], "NAME=FILE.py:FUNCTION"] = (),  # noqa: A002
    replay: int = 0,
    policy: str = "",
    env: Annotated[str, "ID"] = "",
    normalize: Literal["none"] | Path = "none",
    no_normalize: bool = False,
    trust: bool = False,
    json: bool = False,
) -> int:
    """Recompute every number of a certificate from the files beside it.

    Exit code 0 if all agree, 1 with a list of what does not.

    Args:
        folder: Folder that certify wrote.
        property: The function of a property, so that its numbers are recomputed, too; otherwise
            they are taken as recorded. May be repeated.
        replay: Run so many of its episodes, drawn at random, again with the policy.
        policy: With --replay: the policy that was certified.
        env: With --replay: its environment; by default the one that the certificate names.
        normalize: With --replay: observation statistics of an SB3 policy, as for certify.
        no_normalize: With --replay: an SB3 policy without the observation statistics of its
            training.
        trust: With --replay: allow loading files that execute code.
        json: Print the outcome as JSON on standard output, and nothing else there.
    """
    import json as text

    from tightrope.certificates.folder import read_document
    from tightrope.certificates.verify import verify as problems_of
    from tightrope.cli.certify import properties_given

    if replay < 0 or bool(replay) != bool(policy):
        raise InputError("expected `replay` of at least 1 with `policy`, and neither alone")
    loading = Rollout(normalize=normalize, no_normalize=no_normalize, trust=trust)
    if not replay and (env or loading != Rollout()):
        raise InputError("expected `replay` with `env`, `normalize` and `trust`, found none")
    given = properties_given(property)
    problems = problems_of(folder, properties=given)
    recorded: list[str] = []
    if not problems:
        stated = read_document(folder)[0].settings.properties
        recorded = [each.name for each in stated if each.name not in given]
    replayed: list[str] = []
    if replay and not problems:
        from tightrope.deploy.replay import replay as run_again

        episodes, problems = run_again(
            folder, policy, env or None, episodes=replay, rollout=loading
        )
        replayed = [str(one) for one in episodes]
    if json:
        outcome = {"verified": not problems, "problems": problems}
        outcome |= {"replayed": replayed} if replay else {}
        outcome |= {"as_recorded": recorded} if recorded else {}
        print(text.dumps(outcome, indent=1))
        return 1 if problems else 0
    for line in (*replayed, *problems):
        show(line)
    if problems:
        count = f"{len(problems)} disagreement{'s' if len(problems) > 1 else ''}"
        show(f"NOT verified: {count} in {folder}")
        return 1
    show(f"verified: every number in {folder} follows from its files")
    if recorded:
        show(f"not recomputed, but taken as recorded: {', '.join(recorded)}; give --property")
    if replayed:
        show(f"verified: {len(replayed)} of its episodes are those of {policy}")
    if (folder / "report.html").exists():
        show("report.html was not looked at; tightrope report draws it again")
    return 0
