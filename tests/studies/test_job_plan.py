"""From a study to its jobs: what the axes multiply to, seeds by names, runs that are not there."""

import re
from itertools import chain
from pathlib import Path

import pytest

from tightrope.errors import InputError
from tightrope.studies.config import load_study, study_from
from tightrope.studies.job_plan import plan_jobs

STUDIES = Path(__file__).parents[2] / "studies"
TRAIN = {"agent": "redq", "environments": ["Hopper-v4"], "instances": [0, 1]}
CERTIFY = {"schemes": ["rec-6"], "repetitions": 2}


def plan(train=None, certify=None, **rest):
    blocks = {"train": [{**TRAIN, **(train or {})}], "certify": [{**CERTIFY, **(certify or {})}]}
    return plan_jobs(study_from({"name": "small", **blocks, **rest}))


def test_what_cannot_work_is_refused_before_anything_runs():
    none = re.escape("[[certify]] 1 to be for some policy")
    for changes, words in (
        ({"train": {"environments": ["Hoper-v4"]}}, "Hoper-v4"),
        ({"certify": {"agents": ["sac"]}}, none),
        ({"certify": {"instances": ["2"]}}, none),
    ):
        with pytest.raises(InputError, match=words):
            plan(**changes)
    twice = {"name": "small", "train": [TRAIN] * 2, "certify": [CERTIFY]}
    with pytest.raises(InputError, match=r"each policy once, found redq Hopper-v4 0 .* twice"):
        plan_jobs(study_from(twice))
    with pytest.raises(InputError, match="each certificate once, found scheme rec-6, "):
        plan_jobs(study_from({**twice, "train": [TRAIN], "certify": [CERTIFY] * 2}))


def test_the_jobs_are_those_that_the_axes_multiply_to():
    """A roll-out per policy and repetition; a job for all certificates that may share fits."""
    found = plan(
        train={"environments": ["Hopper-v4", "Walker2d-v4"]},
        certify={
            "schemes": ["rec-2", "rec-6"],
            "presets": ["paper", "tight"],
            "episodes": [50, 100],
        },
    )
    policies = 2 * 2 * 3
    assert len(found.of("train")) == 2 * 2
    assert len(found.of("collect")) == policies * 2
    assert len(found.of("certify")) == policies * 2 * 2 * 2
    assert found.certificates == policies * 2 * 8
    assert {job.spec["episodes"] for job in found.of("collect")} == {10 + 100 + 100}
    known = set()
    for job in found.jobs:
        assert set(job.needs) <= known
        known.add(job.id)


def test_seeds_differ_between_policies_and_repetitions_and_are_the_same_every_time():
    plans = [plan() for _ in range(2)]
    seeds = [job.spec["seed"] for job in plans[0].jobs if job.stage != "train"]
    assert len(set(seeds)) == len(seeds) == 2 * 3 * 2 * 2
    assert [job.id for job in plans[0].jobs] == [job.id for job in plans[1].jobs]
    wide = plan(train={"environments": ["Walker2d-v4", "Hopper-v4"]})
    assert {job.id for job in plans[0].jobs} <= {job.id for job in wide.jobs}


def own(tmp_path, *, folder="mine", **block):
    study = study_from(
        {
            "name": "own",
            "policies": [{"folder": str(tmp_path / folder), **block}],
            "certify": [{"schemes": ["auto"], "repetitions": 1}],
        }
    )
    found = plan_jobs(study)
    return [tuple(job.spec["policy"].values()) for job in found.of("certify")], found


def test_a_folder_without_policies_or_with_a_damaged_one_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="expected a folder of policies"):
        own(tmp_path, folder="none")
    with pytest.raises(InputError, match="expected policies to certify, found none"):
        own(tmp_path)
    (tmp_path / "mine/run").mkdir()
    for content in ("[]", '{"agent": "sac", "seed": "x"}', "[" * 100_000):
        (tmp_path / "mine/run/run.json").write_text(content)
        with pytest.raises(InputError, match=r"expected a training's run\.json"):
            own(tmp_path)


def test_policies_of_ones_own_are_an_axis_instead_of_training(tmp_path, trained):
    for name in ("one", "two"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        trained(tmp_path / "mine" / name)
    policies, found = own(tmp_path)
    assert policies == [("own", "Pendulum-v1", name, "own") for name in ("one", "two")]
    assert sorted(path.name for _, path in found.sources) == ["one", "two"]
    assert not found.of("train")


def test_trainings_give_all_their_levels_and_those_that_lack_one_or_are_missing_are_skipped(
    tmp_path, write_run
):
    for seed in (0, 1, 2):
        write_run(tmp_path / "mine" / f"sac-{seed}", seed)
    (tmp_path / "mine/sac-1/expert/policy.json").unlink()
    names = ["sac-[01]", "sac-2", "sac-3"]
    policies, found = own(tmp_path, names=names)
    levels = ("starter", "intermediate", "expert")
    assert policies == [("sac", "Pendulum-v1", seed, level) for seed in "02" for level in levels]
    assert found.skipped == ("sac-1 has no expert", f"not in {tmp_path / 'mine'}: sac-3")
    assert len(found.of("policy")) == 2
    alone, _ = own(tmp_path, names=["sac-2"])
    assert set(alone) < set(policies)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.name)
def test_the_studies_of_the_repository_are_specifications_with_their_cost_in_the_header(path):
    study = load_study(path)
    assert study.name == path.stem
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert re.search(r"\b(min|minutes|hours|days)\b", " ".join(header))
    assert re.search(r"\b(kB|MB|GB|TB)\b", " ".join(header))
    assert plan_jobs(study).jobs


def axes(found, agent, environment, instance, level):
    """Of the certificates of a policy: how many there are of each combination."""
    labels, counts = (agent, environment, instance, level), {}
    for job in found.of("certify"):
        if tuple(job.spec["policy"].values()) == labels:
            defaults = {"scheme": "auto", "preset": "tight", "sampling": "local", "unit": "auto"}
            for each in job.spec["requests"]:
                rest = {**defaults, **each}
                key = (rest["preset"], job.spec["layer_norm"], rest["sampling"], rest["episodes"])
                counts.setdefault(key, []).append((rest["scheme"], rest["unit"]))
    return counts


def test_the_papers_matrix_is_the_papers():
    found = plan_jobs(load_study(STUDIES / "paper.toml"))
    runs = [(j.spec["agent"], j.spec["environment"], j.spec["seed"]) for j in found.of("train")]
    assert len([r for r in runs if r[0] == "redq"]) == 11 * 5
    three = {"HalfCheetah-v4", "Humanoid-v4", "Hopper-v4"}
    for agent in ("sac", "ppo"):
        assert {r[1] for r in runs if r[0] == agent} == three
    assert len(found.of("collect")) == (11 + 3 + 3) * 5 * 3 * 5
    schemes = [(name, "step") for name in ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")] * 5
    assert axes(found, "redq", "Ant-v4", "0", "expert") == {("paper", True, "local", 100): schemes}
    ablation = axes(found, "redq", "Humanoid-v4", "0", "expert")
    sizes = {("paper", True, "local", size) for size in (20, 40, 60, 80, 100)}
    assert set(ablation) == sizes | {("paper", True, "weights", 100)}


def test_the_reproduction_asks_for_what_its_page_says():
    """Preset paper twice, preset tight once with auto, both units, on whatever runs are there."""
    found = plan_jobs(load_study(STUDIES / "reproduction.toml"))
    there = [path.parent for path in STUDIES.glob("../results/reproduction/trained/*/run.json")]
    named = load_study(STUDIES / "reproduction.toml").policies[0].names
    assert len(named) == 51
    assert {path.name for path in there} <= set(named)
    assert len(found.of("policy")) == len(there)
    (missing,) = found.skipped
    assert set(missing.partition(": ")[2].split(", ")) == set(named) - {each.name for each in there}
    assert len(found.of("collect")) == len(there) * 3 * 2
    schemes = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")
    pairs = [(scheme, unit) for scheme in schemes for unit in ("step", "episode")]
    plain = axes(found, "ppo", "Hopper-v4", "0", "starter")
    assert plain[("paper", True, "local", 100)] == pairs * 2
    tight = {*pairs, ("auto", "step"), ("auto", "episode")}
    assert set(plain[("tight", True, "local", 100)]) == tight
    assert len(plain) == 2
    expert = axes(found, "ppo", "Hopper-v4", "0", "expert")
    assert expert[("paper", False, "local", 100)] == pairs
    seeds = [job.spec["seed"] for job in found.of("collect")]
    assert len(set(chain(seeds))) == len(seeds)
