"""The pages in a real browser: nothing fails, nothing leaves, and they do what they offer."""

import base64
import dataclasses
import json
import re

import pytest
from browsing import CONTRAST, DESK, PHONE, Tab
from pages import HOSTILE
from recordings import recording

from tightrope.certificates import write
from tightrope.reports import certificate_page, write_index, write_page


@pytest.fixture
def tab(browser, tmp_path):
    """A function that opens the page of a certificate."""

    def show(certificate, **how):
        path = tmp_path / "report.html"
        path.write_text(certificate_page(certificate), encoding="utf-8")
        return Tab(browser, path).open(**how)

    return show


@pytest.fixture(scope="module")
def long(issue):
    """Episodes of some length, with a band that has a profile."""
    return issue(recording(60, steps=40, seed=2), test_episodes=12)


def test_pointing_choosing_and_keys_read_the_values_of_any_episode(tab, long):
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    page = tab(long)
    plot, readout = '[data-chart="along"] .plot', '[data-chart="along"] .readout'
    line = '[data-chart="along"] .plot path.role-predicted'
    data = json.loads(page.run("return document.getElementById('data').textContent"))
    first = page.one(line).get_attribute("d")
    assert f"Episode {data['episodes'][data['shown']]['episode']}:" in page.text(readout)

    page.point(plot, 0.5, 0.5)
    found = re.match(r"elapsed step (\d+) · observed (\S+) · predicted (\S+)", page.text(readout))
    shown = data["episodes"][data["shown"]]
    index = shown["step"].index(int(found[1]))
    for text, values in ((found[2], shown["observed"]), (found[3], shown["predicted"])):
        value = float(text.replace("\N{MINUS SIGN}", "-"))
        assert value == pytest.approx(values[index], rel=1e-3)
    assert abs(int(found[1]) - 20) <= 2  # the middle of forty steps

    # The script draws the episode that the page was written with exactly where Python did.
    static = page.run(
        "const t = new DOMParser().parseFromString(arguments[0], 'text/html');"
        "return [...t.querySelectorAll('[data-chart=along] .plot path:not(.grid)')]"
        ".map((p) => p.getAttribute('d'))",
        page.path.read_text(encoding="utf-8"),
    )
    dynamic = [p.get_attribute("d") for p in page.all('[data-chart="along"] .plot path:not(.grid)')]
    for a, b in zip(static, dynamic, strict=True):
        a, b = ([float(n) for n in re.findall(r"[\d.]+", each)] for each in (a, b))
        assert a == pytest.approx(b, abs=0.2)

    by_error = sorted(range(12), key=lambda index: data["episodes"][index]["rms"])
    Select(page.one("#episode")).select_by_index(by_error[5])
    second = page.one(line).get_attribute("d")
    page.one('[data-pick="best"]').click()
    best = data["episodes"][by_error[0]]
    assert f"Episode {best['episode']}:" in page.text(readout)
    assert len({first, second, page.one(line).get_attribute("d")}) == 3

    page.one(plot).send_keys(Keys.ARROW_RIGHT)
    assert page.text(readout).startswith("elapsed step 0 ")
    page.one(plot).send_keys(Keys.ARROW_RIGHT)
    assert page.text(readout).startswith("elapsed step 2 ")
    page.one(plot).send_keys(Keys.END)
    assert page.text(readout).startswith("elapsed step 38 ")

    # A dot of a test episode leads to its curve.
    every = json.loads(page.run("return JSON.stringify(data.charts.every)"))
    dots = next(s for s in every["series"] if s["name"] == "test")
    share = [
        (values[3] - low) / (high - low)
        for values, (low, high, _) in ((dots["x"], every["x"]), (dots["y"], every["y"]))
    ]
    page.point('[data-chart="every"] .plot', share[0], 1 - share[1]).click().perform()
    assert f"Episode {dots['x'][3]}:" in page.text(readout)
    assert "seed" in page.text('[data-chart="every"] .readout')
    assert page.complaints() == ([], [])


def test_both_colour_schemes_have_contrast_and_the_button_changes_between_them(tab, long):
    grounds = {}
    ground = "return getComputedStyle(document.body).backgroundColor"
    for scheme, other in (("light", "Dark"), ("dark", "Light")):
        page = tab(long, scheme=scheme)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        grounds[scheme] = page.run(ground)
        ratio, text = page.run(CONTRAST)
        assert ratio >= 4.5, (scheme, text, ratio)
        assert page.text("#theme") == other
    assert grounds["light"] != grounds["dark"]
    page.one("#theme").click()
    assert page.run(ground) == grounds["light"]
    assert page.text("#theme") == "Dark"
    assert page.complaints() == ([], [])


@pytest.mark.parametrize("size", [PHONE, (320, 640), DESK], ids=["phone", "small phone", "desk"])
def test_nothing_sticks_out_at_any_width(size, tab, long):
    subject = {"policy": {"name": "policy" * 60}, "environment": {"id": "Env-" + "x" * 200}}
    made = dataclasses.replace(long, subject=subject)
    page = tab(made, size=size)
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.fits()
    small = page.run(
        "return Math.min(...[...document.querySelectorAll('.tick, p, dd, td')]"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert small >= 12
    assert page.complaints() == ([], [])


def test_it_prints_on_a4_without_controls_and_in_light_colours(tab, long):
    page = tab(long, size=(680, 960), scheme="dark", media="print")
    assert page.fits()
    assert not any(e.is_displayed() for e in page.all("button, select, nav, .readout"))
    assert page.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    printed = page.command("Page.printToPDF", preferCSSPageSize=True)
    pdf = base64.b64decode(printed["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert 3 <= len(boxes) <= 12
    for width, height in boxes:
        assert (round(float(width)), round(float(height))) == (595, 842)


def test_hostile_names_do_nothing(tab, hostile):
    page = tab(hostile)
    assert page.run("return window.hostile") is None
    assert page.run("return document.querySelector('h1').textContent").endswith(HOSTILE)
    page.one('[data-pick="best"]').click()
    assert page.run("return document.images.length") == 0
    assert page.complaints() == ([], [])


def test_the_index_sorts_searches_and_fits(browser, certificate, issue, tmp_path):
    from selenium.webdriver import Keys

    names = ["alpha", "beta", "gamma <b>x</b>"]
    options = [{}, {"scheme": "holdout", "test_episodes": 0}, {"scheme": "rec-2", "seed": 3}]
    for name, given in zip(names, options, strict=True):
        write(issue(**given), tmp_path / name, beside=write_page)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "certificate.json").write_text("{")
    write_index(tmp_path)
    page = Tab(browser, tmp_path / "index.html").open()

    def column(number):
        cells = page.all(f"tbody tr:not([hidden]) td:nth-child({number})")
        return [cell.text for cell in cells]

    heads = [head.text for head in page.all("thead th")]
    place = heads.index("% of the range") + 1
    worst_first = column(2)
    assert worst_first[0] == "broken"
    button = page.one(f"thead th:nth-child({place}) button")
    button.click()
    up = [float(text) for text in column(place)]
    assert up == sorted(up)
    button.send_keys(Keys.ENTER)
    assert [float(text) for text in column(place)] == sorted(up, reverse=True)
    assert page.one(f"thead th:nth-child({place})").get_attribute("aria-sort") == "descending"
    page.one("thead th:nth-child(1) button").click()
    assert column(2) == worst_first

    page.one("#search").send_keys("GAMMA rec-2")
    assert column(2) == ["gamma <b>x</b>"]
    assert page.text("#count") == "1 of 4"
    for scheme in ("light", "dark"):
        page.open(scheme=scheme)
        assert page.run(CONTRAST)[0] >= 4.5
        assert page.fits()
    assert page.open(size=PHONE).fits()
    assert page.complaints() == ([], [])
    page.one("tbody tr:last-child a").click()
    assert page.driver.current_url.endswith("/report.html")
