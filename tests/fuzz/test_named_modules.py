"""Documents that name a module: it is imported only if the user names it, whatever is trusted."""

import json
import shutil
import sys

import pytest
from command import run
from recordings import certified

from tightrope.certificates.folder import as_text, document_digest, write
from tightrope.deploy import Monitor
from tightrope.environments import EnvInfo, recorded_environment
from tightrope.errors import InputError
from tightrope.files import load_tensors, save_tensors, sha256, tensors_format
from tightrope.rollouts import collect, policy_source

EVIL = "evilmodule:Pendulum-v1"
IMPORTED = "import pathlib; pathlib.Path(__file__).with_name('imported').touch()"
PLACES = (".", "made", "run")  # of evilmodule.py: the working directory is one of them

# Where a document would choose the environment.
CHOOSING = {
    "certify a folder": ("certify", "run", "--out", "new"),
    "certify its policy": ("certify", "run/policy.safetensors", "--out", "new"),
    "collect": ("collect", "run", "--out", "new.safetensors"),
    "compare": ("compare", "run", "run"),
    "audit": ("audit", "run", "--out", "new"),
    "replay": ("verify", "made", "--replay", "1", "--policy", "plain.safetensors"),
    "replay with a record": ("verify", "made", "--replay", "1", "--policy", "run"),
    "monitor": ("monitor", "made", "--policy", "plain.safetensors"),
    "monitor with a record": ("monitor", "made", "--policy", "run"),
    "saved monitor": ("monitor", "monitor.safetensors", "--policy", "plain.safetensors"),
}
# These need no environment.
READING = {
    "verify": ("verify", "made"),
    "report": ("report", "made"),
    "index": ("report", "."),
    "check": ("check", "made", "--min-confidence", "0.5"),
    "plan": ("plan", "made"),
    "compare recordings": ("compare", "made", "made/rollouts.safetensors"),
}


@pytest.fixture(scope="session")
def forged(trained, tmp_path_factory):
    """A training run, the certificate of its policy and a monitor, all of which name EVIL."""
    place = tmp_path_factory.mktemp("forged")
    (place / "run").mkdir()
    trained(place / "run", environment=named(EVIL))
    shutil.copy(place / "run" / "policy.safetensors", place / "plain.safetensors")
    episodes = collect(place / "plain.safetensors", "Pendulum-v1", 14, 5, workers=1)
    made = certified(episodes, gamma=0.97, seed=0)
    write(made, place / "made")
    Monitor(made).save(place / "monitor.safetensors")
    for name in ("made/rollouts", "monitor"):
        rename(place / f"{name}.safetensors")
    document = place / "made" / "certificate.json"
    content = json.loads(document.read_text())
    content["subject"]["environment"] = named(EVIL)
    content["digests"]["rollouts"] = sha256(place / "made" / "rollouts.safetensors")
    content["digests"]["certificate"] = document_digest(content)
    document.write_text(as_text(content))
    for folder in PLACES:
        (place / folder / "evilmodule.py").write_text(IMPORTED)
    return place


def named(environment, suite="gymnasium"):
    """A record of Pendulum by another name."""
    return {**EnvInfo.of("Pendulum-v1").to_json(), "id": environment, "suite": suite}


def rename(path):
    form = tensors_format(path)
    arrays, header = load_tensors(path, form)
    header["subject"]["environment"] = named(EVIL)
    path.unlink()
    save_tensors(path, arrays, header)


@pytest.fixture
def place(forged, tmp_path, monkeypatch):
    """A copy of it, as the working directory."""
    shutil.copytree(forged, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    yield tmp_path / "place"
    sys.modules.pop("evilmodule", None)


def imported(place):
    return "evilmodule" in sys.modules or bool(list(place.rglob("imported")))


def absolute(words, place):
    """The words with the names of what is in `place` in full."""
    return [str(place / word) if (place / word).exists() else word for word in words]


@pytest.mark.parametrize("command", CHOOSING)
def test_a_module_that_only_a_document_names_is_never_imported(command, place, monkeypatch, capfd):
    words = absolute(CHOOSING[command], place)
    trusts = [[]] if command == "audit" else [[], ["--trust"]]
    for folder in PLACES:
        monkeypatch.chdir(place / folder)
        for trust in trusts:
            code, out, said = run(capfd, *words, *trust)
            assert (code, out, len(said)) == (2, "", 1)
            assert f"a record that names '{EVIL}'" in said[0]
            assert said[0].endswith("name it in --env")
    assert not imported(place)


@pytest.mark.parametrize("command", READING)
def test_what_needs_no_environment_reads_such_documents_and_imports_nothing(command, place, capfd):
    assert run(capfd, *READING[command])[0] == 0
    assert not imported(place)


def test_the_files_of_a_zoo_folder_name_no_module_to_import(place, capfd):
    """Neither as the environment nor as a wrapper of it."""
    (place / "zoo").mkdir()
    (place / "zoo" / "model.zip").write_bytes(b"")
    shutil.copy(place / "evilmodule.py", place / "zoo")
    for arguments, config in (
        (f"env: {EVIL}", ""),
        ("env: Pendulum-v1", "env_wrapper: evilmodule.Wrapper"),
        ("env: Pendulum-v1", "env_wrapper:\n- evilmodule.Wrapper:\n    a: 1"),
        ("env: Pendulum-v1\nenv_kwargs: {module: evilmodule}", ""),
    ):
        (place / "zoo" / "args.yml").write_text(arguments)
        (place / "zoo" / "config.yml").write_text(config)
        for trust in ([], ["--trust"]):
            code, out, said = run(capfd, "certify", "zoo", "--out", "new", *trust)
            assert (code, out, len(said)) == (2, "", 1)
            assert "--env" in said[0]
    assert not imported(place)


def test_the_page_of_a_study_whose_table_names_a_module_imports_nothing(place, capfd):
    from study_tables import study_table

    table = study_table(environments=(EVIL,), presets=("tight",), levels=("expert",))
    (place / "study").mkdir()
    table.to_csv(place / "study" / "table.csv", index=False)
    assert run(capfd, "report", "study")[0] == 0
    assert not imported(place)


def test_a_module_that_the_user_names_is_imported(place):
    assert policy_source("run", EVIL).environment.id == EVIL
    assert imported(place)  # so it could have been found


OTHERS = {
    "a module of a module": named("gymnasium:evilmodule:Pendulum-v1"),
    "a module with Meta-World's suite": named("evilmodule:reach-v3", "metaworld"),
    "a module with DM-Control's suite": named("dm_control/evilmodule:Env-v0", "dm_control"),
    "an object": named("evilmodule.Environment", "custom"),
    "an object by a known name": named("Pendulum-v1", "custom"),
}


@pytest.mark.parametrize("record", OTHERS.values(), ids=OTHERS)
def test_no_record_makes_what_is_not_registered_by_a_known_package(record, place):
    with pytest.raises(InputError, match=r"name it in `env`$"):
        recorded_environment(record)
    assert not imported(place)


def test_of_a_record_only_a_known_id_is_used():
    """A suite or a time limit that is not the environment's own changes nothing."""
    lying = {**named("Pendulum-v1", "metaworld"), "time_limit": 3, "thin": 1}
    assert recorded_environment(lying) == EnvInfo.of("Pendulum-v1")
    for record in (None, "Pendulum-v1"):
        with pytest.raises(InputError, match="expected `env`, an environment to run in"):
            recorded_environment(record)
    with pytest.raises(InputError, match="did you mean Pendulum-v1"):
        recorded_environment(named("Pendulun-v1"))
