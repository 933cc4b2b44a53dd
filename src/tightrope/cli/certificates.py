"""Commands on certificates: certify, verify, check, plan and report."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from tightrope.certificates.options import Options
from tightrope.cli.flags import command
from tightrope.cli.text import in_flags, show, show_json
from tightrope.deploy.check import Conditions
from tightrope.errors import InputError
from tightrope.imports import needed, user_function
from tightrope.rollouts.collecting import Loading, Rollout
from tightrope.rollouts.results_table import Reading

__all__ = ["certify", "check", "plan", "report", "source_or_demo", "verify"]


@command(
    "env columns out scheme paper unit preset episodes gamma delta fail_below property "
    "workers seed trust demo details json"
)
def certify(
    source: str = "",
    /,
    *,
    env: Annotated[str, "ID"] = "",
    reading: Reading,
    out: Path = Path("certificate-SOURCE"),
    demo: bool = False,
    options: Options,
    property: Annotated[tuple[str, ...], "NAME=FILE.py:FUNCTION"] = (),  # noqa: A002
    property_limit: Annotated[tuple[str, ...], "NAME<=LIMIT"] = (),
    rollout: Rollout,
    details: bool = False,
    json: bool = False,
) -> int:
    """Certify what a policy returns, how often it fails, and how well its return is predicted.

    Args:
        source: A policy (as for collect; rolled out here), recorded episodes (.safetensors, .npz,
            .hdf5, .csv, .tsv, .parquet, a LeRobot folder, a Minari id or folder), a table
            with one row per episode, or counts such as 74/80.
        env: Environment to roll a policy out in; by default the one that it was trained in, if
            train wrote it.
        out: New folder; for certificate.json, predictor.safetensors, rollouts.safetensors and
            report.html.
        demo: Certify the policy that ships with the package.
        property: A number per episode of your own; such as "peak torque=mine.py:peak". May be
            repeated. Without a function, such as "peak torque", if it is recorded or a column.
        property_limit: What a property should keep to, such as "peak torque<=80"; its side is
            certified, and how often an episode breaks it. May be repeated.
        details: Print everything that the certificate states.
        json: Print the certificate as JSON on standard output; nothing else there.
    """
    from tightrope.certificates import certify as library
    from tightrope.certificates.folder import as_text, to_document, write
    from tightrope.certificates.text import details as all_details
    from tightrope.certificates.text import summary
    from tightrope.files import refuse_to_overwrite
    from tightrope.reports import write_page

    source, env = source_or_demo(source, env, demo, "a policy or recorded episodes")
    named = Path(source.rpartition(":")[2] or source)
    stem = named.resolve().name if named.is_dir() else named.stem
    out = Path(str(out).replace("SOURCE", stem))
    refuse_to_overwrite(out)
    certificate = library.certify(
        source,
        env or None,
        rollout=rollout,
        properties=_properties(property, property_limit),
        progress=True,
        **{**vars(reading), "columns": reading.columns or None},
        **vars(options),
    )
    certificate = write(certificate, out, page=write_page)
    reached, words = True, ""
    if certificate.settings.until is not None:
        reached, words = library.search_summary(certificate)
    if json:
        print(as_text(to_document(certificate)), end="")
    else:
        show((all_details if details else summary)(certificate), lines=True)
        show(f"Written to {out}. More: --details, report.html. Check: tightrope verify {out}")
        if words:
            show(words)
    return 0 if reached else 1


@command()
def verify(
    folder: Path,
    /,
    *,
    property: Annotated[tuple[str, ...], "NAME=FILE.py:FUNCTION"] = (),  # noqa: A002
    replay: int = 0,
    policy: str = "",
    env: Annotated[str, "ID"] = "",
    loading: Loading,
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
        json: Print the outcome as JSON on standard output, and nothing else there.
    """
    from tightrope.certificates import verify as library
    from tightrope.certificates.folder import read_document

    if replay < 0 or bool(replay) != bool(policy):
        raise InputError("expected `replay` of at least 1 with `policy`, and neither alone")
    if not replay and (env or loading != Loading()):
        raise InputError("expected `replay` with `env`, `normalize` and `trust`, found none")
    given = _properties(property)
    problems = library.verify(folder, properties=given)
    recorded: list[str] = []
    replayed: list[Any] = []
    if not problems:
        stated = read_document(folder)[0].settings.properties
        recorded = [each.name for each in stated if each.name not in given]
        if replay:
            from tightrope.deploy.replay import replay as run_again

            rollout = Rollout(**vars(loading))
            replayed, problems = run_again(
                folder, policy, env or None, episodes=replay, rollout=rollout
            )
    if json:
        outcome = {"verified": not problems, "problems": problems}
        outcome |= {"replayed": [str(one) for one in replayed]} if replay else {}
        show_json(outcome | ({"as_recorded": recorded} if recorded else {}))
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


@command()
def check(source: str, /, *, conditions: Conditions, reading: Reading, json: bool = False) -> int:
    """Say whether a certificate states enough: exit code 0 if all conditions hold, 1 if not.

    Args:
        source: Folder that certify wrote, its certificate.json, a table of results, or counts such
            as 74/80; a table is certified first, and nothing is written.
        json: Print the outcome as JSON on standard output, and nothing else there.
    """
    from tightrope.deploy import check as library

    report = library.check(source, conditions, **vars(reading))
    if json:
        show_json(report.to_json())
    else:
        show(in_flags(report, check), lines=True)
        if not library.is_table(source, reading.columns):
            show(f"No number was recomputed: tightrope verify {source} does that.")
    return 0 if report.passed else 1


@command("numbers max_failure min_success min_return max_rms share columns")
def plan(
    source: str,
    /,
    *,
    numbers: tuple[int, ...] = (200, 400, 1000),
    conditions: Conditions,
    reading: Reading,
) -> int:
    """Forecast how the statements of a certificate would shrink with more episodes.

    With conditions, in the words of check: how many episodes would meet them; exit code 1 if no
    number would.

    Args:
        source: Folder of a certificate, or recorded episodes, a table of results or counts such as
            74/80, which are certified first with the default options (nothing is written).
        numbers: Numbers of episodes to fit and to calibrate to forecast for; the number to fit
            stays.
    """
    from tightrope.certificates import certify as library
    from tightrope.certificates.folder import DOCUMENT, load_certificate
    from tightrope.deploy.plan import summary, target_summary
    from tightrope.rollouts import is_recording
    from tightrope.rollouts.results_table import is_results

    if not numbers or min(numbers) < 1:
        raise InputError(f"`numbers` must be at least 1 each, found {list(numbers)}")
    if (Path(source) / DOCUMENT).is_file():
        found = load_certificate(source)
    elif is_results(source, reading.columns) or is_recording(source):
        given = {**vars(reading), "columns": reading.columns or None}
        found = library.certify(source, progress=True, **given)
    else:
        raise InputError(
            f"expected a certificate, recorded episodes or a table of results, found {source!r}"
        )
    show(summary(found, sorted(numbers)), lines=True)
    if found.fitted is not None:
        from tightrope.reports.page import consists_of

        show(f"\n{consists_of(found)}", lines=True)
    if conditions == Conditions():
        return 0
    count, words = target_summary(found, conditions)
    show(f"\n{in_flags(words, plan)}", lines=True)
    return 0 if count is not None else 1


@command()
def report(folder: Path, /) -> int:
    """Write report.html of a certificate or a study, or index.html of a folder of certificates.

    Args:
        folder: Folder that certify or study wrote, or a folder with certificates' folders in it.
    """
    from tightrope import reports

    page, own = folder / "report.html", (folder / "certificate.json").exists()
    kept = (folder / "table.csv").is_file()
    if not own and (kept or (folder / "study.json").is_file()):
        needed("pandas", "a study", "studies")
        from tightrope.studies.certificate_records import read_table
        from tightrope.studies.results import analyse, write_results
        from tightrope.studies.study_folder import StudyFolder

        results = analyse(read_table(folder))
        write_results(results, folder if kept else folder / "results")
        reports.write_study_page(results, folder, failed=StudyFolder(folder).failed())
        show(f"Written to {page} ({len(results.table):,} certificates)")
    elif not own and folder.is_dir():
        found = reports.write_index(folder)
        bad = sum(bool(entry.problem) for entry in found)
        note = f", {bad} of them unreadable" if bad else ""
        show(f"Written to {folder / 'index.html'} ({len(found)} certificates{note})")
    else:
        from tightrope.certificates.folder import load_certificate

        reports.write_page(load_certificate(folder), folder)
        show(f"Written to {page}")
    return 0


def source_or_demo(source: str, env: str, demo: bool, expected: str) -> tuple[str, str]:
    """What was named and its environment, or those of the shipped policy.

    Raises:
        InputError: there is neither, or both.
    """
    if demo and (source or env):
        raise InputError("expected `demo` alone, found something else or `env` beside it")
    if not demo and not source:
        raise InputError(f"expected {expected}, or `demo`, found neither")
    from tightrope.demo import ENVIRONMENT, policy_path

    return (str(policy_path()), ENVIRONMENT) if demo else (source, env)


def _properties(given: tuple[str, ...], limits: tuple[str, ...] = ()) -> dict[str, Any]:
    """Properties by name from what was typed.

    Raises:
        InputError: there is no such function, or a limit is not of a property.
    """
    from tightrope.certificates.properties import Property

    found = {}
    for words in given:
        name, _, place = (part.strip() for part in words.partition("="))
        if not name:
            raise InputError(f"expected `property` NAME=FILE.py:FUNCTION, found {words!r}")
        found[name] = Property(user_function(place) if place else None)
    for words in limits:
        parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*", words)
        if not parts or parts[1] not in found:
            raise InputError(
                "expected `property_limit` NAME<=LIMIT or NAME>=LIMIT with the NAME of a "
                f"`property` ({', '.join(found) or 'there is none'}), found {words!r}"
            )
        direction: Literal["at-most", "at-least"] = "at-most" if parts[2] == "<=" else "at-least"
        found[parts[1]] = Property(found[parts[1]].function, direction, float(parts[3]))
    return found
