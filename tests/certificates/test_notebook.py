"""What a notebook shows is what the certificate and the episodes say, and no markup of others."""

import dataclasses
import sys

import pytest
from matplotlib.figure import Figure
from recordings import recording, short_fits
from tightrope.certificates.words import headline, sentence, title

import tightrope
from tightrope.errors import InputError

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def certificate():
    with short_fits():
        return tightrope.certify(recording(40, seed=1), pilot_episodes=4, thin=2, seed=0)


def test_a_certificate_shows_its_title_headline_and_every_statement(certificate):
    text = certificate._repr_html_()
    assert title(certificate) in text
    assert headline(certificate) in text
    assert all(sentence(statement) in text for statement in certificate.statements)
    assert text.count("<tr>") == 1 + len(certificate.statements)


def test_hostile_names_are_escaped(certificate):
    named = dataclasses.replace(certificate, subject={"log": HOSTILE})
    shown = recording(3, subject={"log": HOSTILE, "environment": {"id": HOSTILE}})
    for text in (named._repr_html_(), shown._repr_html_()):
        assert "<script" not in text
        assert "&lt;script&gt;" in text


def test_a_warning_is_shown(certificate):
    assert "VACUOUS" in dataclasses.replace(certificate, bound=1.0)._repr_html_()


def test_plot_draws_on_the_axes_given_or_on_new_ones(certificate):
    axes = Figure().subplots(1, 2)
    assert certificate.plot(axes) is axes
    assert [len(ax.lines) > 0 for ax in axes] == [True, True]
    from matplotlib import pyplot

    made = certificate.plot()
    assert made[0].figure in map(pyplot.figure, pyplot.get_fignums())
    assert [ax.get_title() for ax in made] == ["One episode", "Every episode"]
    pyplot.close(made[0].figure)


def test_to_pandas_has_a_row_for_each_statement(certificate):
    frame = certificate.to_pandas()
    names = [field.name for field in dataclasses.fields(certificate.statements[0])]
    assert list(frame.columns) == names
    assert frame.value_raw.tolist() == [s.value_raw for s in certificate.statements]
    assert frame.target.tolist() == [s.target for s in certificate.statements]


def test_without_pandas_to_pandas_says_what_to_install(certificate, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        certificate.to_pandas()


def test_save_writes_what_verify_reads(certificate, tmp_path):
    written = certificate.save(tmp_path / "c")
    assert written == tightrope.load_certificate(tmp_path / "c")
    assert dataclasses.replace(written, digests={}) == certificate
    with pytest.raises(InputError, match="already there"):
        certificate.save(tmp_path / "c")
