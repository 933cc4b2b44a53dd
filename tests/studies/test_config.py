"""A specification is read strictly: an unknown key or a wrong value is an error that says where."""

import pytest

from tightrope.errors import InputError
from tightrope.studies.config import load_study, study_from
from tightrope.studies.job_plan import plan_jobs

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
    job = plan_jobs(load_study(path)).of("train")[0]
    assert job.spec["settings"]["huber"] == "inf"


WRONG = {
    "": [
        ({"nmae": "x"}, "options among name, .* found 'nmae'"),
        ({"name": "Not A Name"}, "`name` must be "),
        ({"seed": -1}, "at least 0"),
        ({"train": []}, "nothing to certify"),
        ({"certify": []}, "nothing is asked"),
        ({"train": [3]}, "expected a table in .* train 1, found 3"),
        ({"policies": [{"folder": "x", "names": []}]}, "policies 1: `names` must be .* 1"),
    ],
    "train": [
        ({"agent": "dqn"}, "'redq', 'sac' or 'ppo', found 'dqn'"),
        ({"instances": []}, "`instances` must be .* 1"),
        ({"instances": [1, 1]}, "distinct"),
        ({"levels": [3, 2, 1]}, "rising"),
        ({"settings": {"widht": 3}}, "found 'widht'"),
    ],
    "certify": [
        ({"schemes": ["rec-99"]}, "expected a scheme among"),
        ({"presets": ["loose"]}, "'paper' or 'tight'"),
        ({"layer_norm": [True, True]}, "distinct"),
        ({"episodes": [3]}, "at least 6 validation episodes"),
        ({"options": {"delta": 3}}, "delta"),
        ({"options": {"preset": "paper"}}, "`presets` beside it"),
        ({"options": {"seed": 3}}, "a study decides it"),
    ],
}


@pytest.mark.parametrize("table", WRONG)
def test_a_wrong_key_or_value_is_named_with_its_table(table):
    for wrong, words in WRONG[table]:
        given = content(**{table: wrong}) if table else {**content(), **wrong}
        with pytest.raises(InputError, match=words) as error:
            study_from(given)
        assert not table or f"{table} 1: " in str(error.value)
