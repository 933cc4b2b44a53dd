"""Folders of studies as a finished run leaves them, from tables whose numbers are known."""

import hashlib
import json

from tightrope.studies.analysis import write_analysis
from tightrope.studies.columns import POLICY
from tightrope.studies.jobs import JOB_FORMAT
from tightrope.studies.table import read_rows


def study_folder(path, table, *, name="synthetic", about="Planted numbers.", results=True, **plan):
    """Write study.json, plan.json, a certify job per policy and, unless told not to, the results.

    Args:
        path: of the folder.
        table: as `study_tables.study_table` gives it; names of documents are replaced.
        name: of the study.
        about: it.
        results: whether they are there.
        plan: jobs of each stage and `certificates`, if more were asked for than are there.
    """
    jobs = path / "jobs"
    jobs.mkdir(parents=True)
    asked = {"format": "tightrope.study/2", "name": name, "about": about, "seed": 0}
    (path / "study.json").write_text(json.dumps({**asked, "test_episodes": 100}))
    folders = []
    for key, rows in table.groupby(POLICY, sort=True):
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]
        folder = jobs / f"certify-{digest}"
        folder.mkdir()
        record = {"format": JOB_FORMAT, "id": folder.name, "stage": "certify", "seconds": 2.0}
        (folder / "job.json").write_text(json.dumps({**record, "versions": {"tightrope": "1.0"}}))
        found = rows.assign(certificate=[f"{number:04d}.json" for number in range(len(rows))])
        for file, bound in zip(found["certificate"], found["bound"], strict=True):
            (folder / file).write_text(json.dumps({"bound": bound}))
        (folder / "rows.json").write_text(found.to_json(orient="records"))
        folders.append(folder)
    planned = {"jobs": plan.get("jobs", {"certify": len(folders)})}
    planned["certificates"] = plan.get("certificates", len(table))
    (path / "plan.json").write_text(json.dumps(planned))
    if results:
        write_results(path, folders)
    return path


def write_results(path, folders):
    """The table of these jobs, and what comes of it."""
    table = read_rows(folders, path)
    new = path / "results"
    new.mkdir()
    table.to_csv(new / "table.csv", index=False, lineterminator="\n")
    table.to_parquet(new / "table.parquet", index=False)
    write_analysis(table, new)
