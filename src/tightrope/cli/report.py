"""tightrope report: the page of a certificate or of a study, or the index of many."""

from pathlib import Path

from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.imports import needed

__all__ = ["report"]


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
