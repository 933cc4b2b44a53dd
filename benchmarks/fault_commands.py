"""The commands that are disturbed: what they write, when that is whole, and what is compared."""

import csv
import hashlib
import json
from pathlib import Path

STUDY = """
name = "small"
test_episodes = 2
[[train]]
agent = "ppo"
environments = ["Pendulum-v1"]
instances = [0]
levels = [256, 512, 768]
settings = { hidden = [8], rollout = 256, batch = 64, epochs = 1 }
[[certify]]
schemes = ["nonrec-noninf"]
presets = ["paper"]
repetitions = 2
episodes = [4]
levels = ["expert"]
"""
LEVELS = ("starter", "intermediate", "expert")


class Train:
    """Three levels with checkpoints between them, and a few updates."""

    verb, out = "train", "run"
    needs = ()

    def words(self, work, out):
        """Of the command line."""
        options = {
            "--steps": 630,
            "--warmup": 600,
            "--batch": 8,
            "--hidden": 8,
            "--seed": 3,
            "--checkpoint-every": 200,
            "--evaluate-every": 600,
            "--evaluation-episodes": 1,
        }
        given = [str(word) for pair in options.items() for word in pair]
        return [
            "train",
            "sac",
            "--env",
            "Pendulum-v1",
            "--out",
            out,
            *given,
            "--levels",
            *["200", "400", "630"],
        ]

    def check(self, out):
        """How many artefacts are there, all whole; raises if one is not."""
        from tightrope.agents.checkpoint import load_checkpoint
        from tightrope.agents.log import read_log
        from tightrope.files import sha256

        count = _policies(out)
        if (out / "run.json").exists():
            json.loads((out / "run.json").read_text())
            count += 1
        if (out / "log.csv").exists():
            read_log(out / "log.csv")
            count += 1
        if (out / "checkpoint.pt").exists():
            content = load_checkpoint(out / "checkpoint.pt")
            for first, end, digest in content["segments"]:
                assert sha256(out / "replay" / f"{first}-{end}.safetensors") == digest
            count += 1
        if (out / "finished").exists():
            assert all((out / level).is_dir() for level in LEVELS)
        return count

    def content(self, out):
        """What must be equal: weights, records, the log but for its seconds."""
        found = {
            f"{level} weights": _digest(out / level / "policy.safetensors") for level in LEVELS
        }
        for level in LEVELS:
            record = json.loads((out / level / "policy.json").read_text())
            record["digests"].pop("policy.zip")  # a zip has the time in it
            found[f"{level} record"] = record
        with (out / "log.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        found["log"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
        found["files"] = sorted(path.name for path in out.iterdir() if path.name != "tensorboard")
        return found


class Collect:
    """A few episodes by two workers."""

    verb, out = "collect", "episodes.safetensors"
    needs = ("run",)

    def words(self, work, out):
        """Of the command line."""
        return [
            *("collect", work / "run" / "expert", "--episodes", "24", "--seed", "1"),
            *("--workers", "2", "--out", out),
        ]

    def check(self, out):
        """How many artefacts are there, all whole; raises if one is not."""
        from tightrope.rollouts import load

        if not out.exists():
            return 0
        assert len(load(out)) == 24
        return 1

    def content(self, out):
        """What must be equal."""
        return {"bytes": _digest(out)}


class Certify:
    """A policy rolled out, fitted and certified, with a page."""

    verb, out = "certify", "certificate"
    needs = ("run",)

    def words(self, work, out):
        """Of the command line."""
        options = {"--scheme": "rec-2", "--episodes": 6, "--test-episodes": 2, "--seed": 1}
        options |= {"--pilot-episodes": 2, "--workers": 2, "--mc-passes": 2}
        given = [str(word) for pair in options.items() for word in pair]
        return ["certify", work / "run" / "expert", "--out", out, *given]

    def check(self, out):
        """How many artefacts are there, all whole; raises if one is not."""
        from tightrope.certificates.verify import verify

        if not out.exists():
            return 0
        assert verify(out) == []
        assert "</html>" in (out / "report.html").read_text()
        return 4

    def content(self, out):
        """What must be equal."""
        names = ("certificate.json", "predictor.safetensors", "rollouts.safetensors")
        return {name: _digest(out / name) for name in names}


class Study:
    """A training, a roll-out, certificates of two repetitions, and the results."""

    verb, out = "study", "study"
    needs = ()

    def words(self, work, out):
        """Of the command line."""
        (work / "small.toml").write_text(STUDY)
        return ["study", work / "small.toml", "--out", out, "--workers", "1"]

    def check(self, out):
        """How many artefacts are there, all whole; raises if one is not."""
        from tightrope.rollouts import load
        from tightrope.studies.jobs import read_job

        count = 0
        if (out / "study.json").exists():
            json.loads((out / "study.json").read_text())
            count += 1
        for folder in (out / "jobs").glob("[a-z]*"):
            stage = read_job(folder)["stage"]
            if stage == "train":
                assert _policies(folder) == len(LEVELS)
            elif stage == "collect":
                load(folder / "rollouts.safetensors")
            else:
                for row in json.loads((folder / "rows.json").read_text()):
                    assert row
                json.loads((folder / "0000.json").read_text())
            count += 1
        if (out / "results").exists():
            import pandas as pd

            assert len(pd.read_csv(out / "results" / "table.csv")) == 2
            assert len(pd.read_csv(out / "results" / "table.csv")) == 2
            assert (out / "results" / "figures").is_dir()
            count += 1
        return count

    def content(self, out):
        """What must be equal."""
        found = {"table": _digest(out / "results" / "table.csv")}
        for path in sorted((out / "jobs").glob("[a-z]*/**/*")):
            if path.suffix in (".safetensors", ".json") and path.name not in ("job.json",):
                text = path.read_bytes()
                if path.name == "policy.json":
                    record = json.loads(text)
                    record["digests"].pop("policy.zip")
                    text = json.dumps(record).encode()
                found[str(path.relative_to(out))] = hashlib.sha256(text).hexdigest()
        return found


COMMANDS = {each.verb: each for each in (Train(), Collect(), Certify(), Study())}


def _policies(folder):
    """Snapshots that are there; raises unless each is whole and its files are those recorded."""
    from tightrope.files import load_tensors, sha256

    count = 0
    for level in LEVELS:
        if (folder / level).exists():
            record = json.loads((folder / level / "policy.json").read_text())
            load_tensors(folder / level / "policy.safetensors", "tightrope.policy/1")
            for name, digest in record["digests"].items():
                assert sha256(folder / level / name) == digest
            count += 1
    return count


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
