"""A certificate's folder: written whole or not at all, read as it was written or refused."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
from recordings import certified, recording

from tightrope.certificates import as_text, load_certificate, to_document, write
from tightrope.certificates.folder import FILES, digest_problems, document_digest, read_document
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.rollouts import load

OPTIONS = {"test_episodes": 3, "thin": 1, "gamma": 0.5, "mc_passes": 2, "seed": 2}
NAMES = ["certificate.json", "predictor.safetensors", "rollouts.safetensors"]


def issue(scheme, *, recorded_as=1, **changes):
    return certified(recording(47, seed=recorded_as), scheme=scheme, **{**OPTIONS, **changes})


@pytest.fixture(scope="module", params=["auto", "rec-2"])
def certificate(request):
    return issue(request.param)


@pytest.fixture(scope="module")
def original(certificate, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates") / "original"
    write(certificate, folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(original, tmp_path / "copy")


# --- writing ------------------------------------------------------------------------------------


def test_a_written_certificate_is_three_files_that_read_back(certificate, tmp_path):
    folder = tmp_path / "deep" / "certificate"
    written = write(certificate, folder)
    assert sorted(os.listdir(folder)) == NAMES
    assert os.listdir(folder.parent) == ["certificate"]
    record, problems = read_document(folder)
    document = to_document(record)
    assert problems == []
    assert document == to_document(written) == json.loads((folder / NAMES[0]).read_text())
    assert set(document["digests"]) == {"predictor", "rollouts", "certificate"}
    assert document["digests"]["certificate"] == document_digest(document)
    assert {name: sha256(folder / file) for name, file in FILES.items()} == written.digests
    loaded = load_certificate(folder)
    assert len(loaded.posteriors) == len(certificate.posteriors)
    np.testing.assert_array_equal(loaded.rollouts.rewards, certificate.rollouts.rewards)
    assert len(load(folder / NAMES[2])) == 47
    assert folder.stat().st_mode & 0o777 == 0o755
    assert digest_problems(folder, record) == []


def test_a_page_beside_the_certificate_is_written_with_it_and_not_hashed(certificate, tmp_path):
    folder = tmp_path / "c"
    write(certificate, folder, page=lambda c, f: (f / "report.html").write_text(repr(c)))
    assert sorted(os.listdir(folder)) == sorted([*NAMES, "report.html"])
    (folder / "report.html").write_text("changed")
    assert load_certificate(folder).bound == certificate.bound
    (folder / "report.html").unlink()
    assert load_certificate(folder).bound == certificate.bound


def test_only_the_episodes_of_the_certificate_are_written(tmp_path):
    found = write(issue("rec-2", episodes=10, pilot_episodes=4), tmp_path / "c")
    assert len(load(tmp_path / "c" / NAMES[2])) == 4 + 10 + 3
    assert found.episodes.validation == 10


def test_no_file_holds_a_path_of_this_machine(original):
    for path in original.iterdir():
        content = path.read_bytes()
        assert str(original.parent).encode() not in content
        assert os.path.expanduser("~").encode() not in content


def test_what_is_there_is_left_as_it_is(certificate, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "precious").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for place in (tmp_path / "c", tmp_path / "file"):
        with pytest.raises(InputError, match=str(place)):
            write(certificate, place)
    with pytest.raises(InputError, match="cannot write"):
        write(certificate, tmp_path / "file" / "c")
    assert sorted(os.listdir(tmp_path)) == ["c", "file"]
    assert os.listdir(tmp_path / "c") == ["precious"]


@pytest.mark.parametrize("culprit", ["save_predictor", "save", "sha256", "page"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("bang")])
def test_a_failure_in_the_middle_leaves_nothing_behind(
    culprit, error, certificate, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise error

    if culprit != "page":
        monkeypatch.setattr(f"tightrope.certificates.folder.{culprit}", fail)
    expected = InputError if isinstance(error, OSError) else RuntimeError
    with pytest.raises(expected, match=r"No space left|bang"):
        write(certificate, tmp_path / "c", page=fail)
    assert os.listdir(tmp_path) == []


# --- reading ------------------------------------------------------------------------------------


def test_a_loaded_certificate_is_the_one_that_was_written(certificate, original):
    loaded = load_certificate(original)
    assert loaded.digests
    assert loaded == dataclasses.replace(certificate, digests=loaded.digests)
    assert str(loaded) == str(certificate)
    rows = certificate.rollouts.observations[:4]
    elapsed = [0, 1, 2, 3]
    np.testing.assert_array_equal(
        loaded.predictor(rows, elapsed=elapsed).mean,
        certificate.predictor(rows, elapsed=elapsed).mean,
    )


@pytest.mark.parametrize("file", NAMES)
def test_a_changed_file_is_refused_and_loads_only_on_request(file, folder):
    """Files that are whole and well-formed, but not those that were hashed."""
    path = folder / file
    if file == "certificate.json":
        document = json.loads(path.read_text())
        document["bound"] /= 2
        path.write_text(as_text(document))
    else:
        other = issue(load_certificate(folder).scheme, recorded_as=9)
        write(other, folder.parent / "other")
        shutil.copy(folder.parent / "other" / file, path)
    with pytest.raises(InputError, match="expected the certificate as it was written") as error:
        load_certificate(folder)
    assert file in str(error.value)
    assert "\n" not in str(error.value)
    loaded = load_certificate(folder, verify=False)
    assert len(loaded.rollouts) == 47


def test_a_document_with_other_spaces_is_refused(folder):
    path = folder / "certificate.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(InputError, match="its text is not what tightrope writes"):
        load_certificate(folder)


def test_a_folder_that_is_no_certificate_is_an_input_error(folder, tmp_path):
    with pytest.raises(InputError, match="expected a certificate"):
        load_certificate(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="expected a certificate"):
        read_document(tmp_path / "empty")
    (folder / "certificate.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected a certificate") as error:
        load_certificate(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file", FILES.values())
def test_a_missing_file_is_an_input_error_with_its_name(file, folder):
    (folder / file).unlink()
    for verify in (True, False):
        with pytest.raises(InputError, match=file):
            load_certificate(folder, verify=verify)
