"""A specification is read strictly: an unknown key or a wrong value is an error that says where."""

import re
from pathlib import Path

import pytest

from tightrope.errors import InputError
from tightrope.studies.graph import build_graph
from tightrope.studies.spec import load_study, study_from

STUDIES = Path(__file__).parents[2] / "studies"
TRAIN = {"agent": "redq", "environments": ["Hopper-v4"], "instances": [0, 1]}
CERTIFY = {"schemes": ["rec-6"]}


def content(train=None, certify=None, **rest):
    found = {"name": "small", "train": [{**TRAIN, **(train or {})}]}
    return {**found, "certify": [{**CERTIFY, **(certify or {})}], **rest}


def test_what_is_not_said_is_the_papers():
    study = study_from(content())
    assert study.train[0].steps == (100_000, 200_000, 300_000)
    assert study.certify[0].repetitions == 5
    assert study.certify[0].episodes == (100,)
    assert study.test_episodes == 100


def test_infinity_is_a_number_of_toml(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "s"\n[[train]]\nagent = "redq"\nenvironments = ["Hopper-v4"]\ninstances = [0]\n'
        'settings = { huber = inf }\n[[certify]]\nschemes = ["auto"]\n'
    )
    job = build_graph(load_study(path), tmp_path).of("train")[0]
    assert job.spec["settings"]["huber"] == "inf"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nmae": "x"}, "keys among name, .* found 'nmae'"),
        ({"name": "Not A Name"}, "lower-case"),
        ({"name": 3}, "expected a text in .*, name, found 3"),
        ({"seed": -1}, "at least 0"),
        ({"seed": True}, "a whole number"),
        ({"test_episodes": 0}, "at least 1"),
        ({"train": []}, "nothing to certify"),
        ({"certify": []}, "nothing is asked"),
        ({"train": {"agent": "redq"}}, "expected a list"),
        ({"train": [3]}, "expected a table in .* train 1, found 3"),
    ],
)
def test_a_wrong_key_or_value_is_named(wrong, words):
    with pytest.raises(InputError, match=words):
        study_from({**content(), **wrong})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"agent": "dqn"}, "redq, sac, ppo .*found 'dqn'"),
        ({"instances": []}, "at least one of `instances`"),
        ({"instances": [1, 1]}, "distinct"),
        ({"instances": [-1]}, "at least 0"),
        ({"levels": [1, 2]}, "a list of 3"),
        ({"levels": [3, 2, 1]}, "rising"),
        ({"settings": {"widht": 3}}, "found `widht`"),
        ({"settings": {"batch": -3}}, "batch"),
    ],
)
def test_a_wrong_training_is_named(wrong, words):
    with pytest.raises(InputError, match=words):
        study_from(content(train=wrong))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schemes": ["rec-99"]}, "expected a scheme among"),
        ({"presets": ["loose"]}, "paper, tight"),
        ({"units": ["year"]}, "step, episode"),
        ({"samplings": ["both"]}, "local, weights"),
        ({"episodes": [3]}, "at least 6 validation episodes"),
        ({"repetitions": 0}, "at least 1"),
        ({"options": {"deltas": 0.1}}, "found 'deltas'"),
        ({"options": {"delta": 3}}, "delta"),
        ({"options": {"preset": "paper"}}, "`presets` beside it"),
        ({"options": {"seed": 3}}, "a study decides it"),
    ],
)
def test_a_wrong_certification_is_named_with_its_table(wrong, words):
    with pytest.raises(InputError, match=words) as error:
        study_from(content(certify=wrong))
    assert "certify 1" in str(error.value)


@pytest.mark.parametrize("text", ["name = ", "\x00", "[[train]]\n[train]"])
def test_what_is_no_toml_is_refused(tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InputError, match="expected TOML"):
        load_study(tmp_path / "s.toml")


def test_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected a study at"):
        load_study(tmp_path / "none.toml")


def test_an_unknown_environment_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="Hoper-v4"):
        build_graph(study_from(content(train={"environments": ["Hoper-v4"]})), tmp_path)


def test_a_certification_for_no_policy_is_refused(tmp_path):
    with pytest.raises(InputError, match=re.escape("[[certify]] 1 to be for some policy")):
        build_graph(study_from(content(certify={"agents": ["sac"]})), tmp_path)


def test_the_same_policy_twice_is_refused(tmp_path):
    twice = content(train={"instances": [0]})
    twice["train"] *= 2
    with pytest.raises(InputError, match="twice"):
        build_graph(study_from(twice), tmp_path)


def test_the_jobs_are_those_that_the_axes_multiply_to(tmp_path):
    study = study_from(
        content(
            train={"environments": ["Hopper-v4", "Walker2d-v4"]},
            certify={"schemes": ["rec-2", "rec-6"], "presets": ["paper", "tight"]},
        )
    )
    graph = build_graph(study, tmp_path)
    assert len(graph.of("train")) == 2 * 2
    assert len(graph.of("collect")) == len(graph.of("certify")) == 2 * 2 * 3
    for job in graph.of("certify"):
        assert len(job.spec["requests"]) == 4
        assert all(len(request["seeds"]) == 5 for request in job.spec["requests"])
    assert graph.of("collect")[0].spec["episodes"] == 10 + 100 + 100


def test_seeds_differ_between_policies_and_repetitions_and_are_the_same_every_time(tmp_path):
    graphs = [build_graph(study_from(content()), tmp_path) for _ in range(2)]
    seeds = [
        (job.spec["requests"][0]["seeds"] if job.stage == "certify" else [job.spec["seed"]])
        for job in graphs[0].jobs
        if job.stage != "train"
    ]
    flat = [seed for each in seeds for seed in each]
    assert len(set(flat)) == len(flat)
    assert [job.id for job in graphs[0].jobs] == [job.id for job in graphs[1].jobs]


def test_another_environment_in_the_study_does_not_change_the_jobs_of_the_first(tmp_path):
    wide = content(train={"environments": ["Walker2d-v4", "Hopper-v4"]})
    narrow = build_graph(study_from(content()), tmp_path)
    assert {job.id for job in narrow.jobs} <= {
        job.id for job in build_graph(study_from(wide), tmp_path).jobs
    }


def test_policies_of_ones_own_are_an_axis_instead_of_training(tmp_path, trained):
    for name in ("one", "two"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        trained(tmp_path / "mine" / name)
    study = study_from(
        {"name": "own", "policies": [{"folder": "mine"}], "certify": [{"schemes": ["auto"]}]}
    )
    graph = build_graph(study, tmp_path)
    assert {job.spec["policy"]["instance"] for job in graph.of("certify")} == {"one", "two"}
    assert graph.of("certify")[0].spec["policy"]["environment"] == "Pendulum-v1"
    assert not graph.of("train")


@pytest.mark.parametrize("folder", ["none", "empty"])
def test_a_folder_without_policies_is_refused(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    study = study_from(
        {"name": "own", "policies": [{"folder": folder}], "certify": [{"schemes": ["auto"]}]}
    )
    with pytest.raises(InputError, match=r"expected .*polic"):
        build_graph(study, tmp_path)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.name)
def test_the_studies_of_the_repository_are_specifications_with_their_cost_in_the_header(path):
    study = load_study(path)
    assert study.name == path.stem
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert re.search(r"\b(min|minutes|hours|days)\b", " ".join(header))
    assert re.search(r"\b(kB|MB|GB|TB)\b", " ".join(header))
    assert build_graph(study, path.parent).jobs


def test_the_papers_matrix_is_the_papers():
    study = load_study(STUDIES / "paper.toml")
    graph = build_graph(study, STUDIES)
    runs = [(j.spec["agent"], j.spec["environment"], j.spec["seed"]) for j in graph.of("train")]
    assert len([r for r in runs if r[0] == "redq"]) == 11 * 5
    for agent in ("sac", "ppo"):
        assert {r[1] for r in runs if r[0] == agent} == {
            *("HalfCheetah-v4", "Humanoid-v4", "Hopper-v4")
        }
    assert len(graph.of("certify")) == (11 + 3 + 3) * 5 * 3
    plain = next(j for j in graph.of("certify") if j.spec["policy"]["environment"] == "Ant-v4")
    schemes = [request["options"]["scheme"] for request in plain.spec["requests"]]
    assert sorted(schemes) == ["nonrec-inf", "nonrec-noninf", "rec-2", "rec-6"]
    ablation = next(
        j
        for j in graph.of("certify")
        if tuple(j.spec["policy"].values()) == ("redq", "Humanoid-v4", "0", "expert")
    )
    options = [request["options"] for request in ablation.spec["requests"]]
    assert {each["episodes"] for each in options} > {100}
    assert {each.get("sampling", "local") for each in options} == {"local", "weights"}
