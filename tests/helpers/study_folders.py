"""Folders of studies as finished jobs leave them, from tables whose numbers are known."""

import hashlib
import json

from tightrope.studies.certificate_records import POLICY


def study_folder(path, table, *, name="synthetic", about="Planted numbers."):
    """Write study.json and a certify job per policy.

    Args:
        path: of the folder.
        table: as `study_tables.study_table` gives it; names of documents are replaced.
        name: of the study.
        about: it.
    """
    path.mkdir(parents=True)
    (path / "study.json").write_text(json.dumps({"name": name, "about": about}))
    for key, rows in table.groupby(POLICY, sort=True):
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]
        folder = path / "jobs" / f"certify-{digest}"
        folder.mkdir(parents=True)
        found = rows.assign(certificate=[f"{number:04d}.json" for number in range(len(rows))])
        (folder / "rows.json").write_text(found.to_json(orient="records"))
    return path
