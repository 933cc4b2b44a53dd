"""The page of a study in a real browser: filters, dots, tables, colour schemes, phone, paper."""

import base64
import json
import re

import numpy as np
import pytest
from browsing import CONTRAST, DESK, PHONE, Tab
from pages import HOSTILE

from tightrope.reports import write_study_page
from tightrope.studies.findings import load_findings

PLOT, READOUT = '[data-chart="scatter"] .plot', '[data-chart="scatter"] .readout'


@pytest.fixture(scope="module")
def written(study):
    write_study_page(study)
    return study


@pytest.fixture
def page(browser, written):
    return Tab(browser, written / "report.html").open()


def check(page, *labels):
    for label in labels:
        page.run("arguments[0].click()", page.one(f"#filters input{label}"))


def test_filters_choose_dots_conditions_certificates_and_say_so(page, written):
    table = load_findings(written).table
    dots = "return document.querySelectorAll('.plot path.dots:not(.hole)').length"
    assert page.run(dots) == 2  # starter and expert
    count = "return [...document.querySelectorAll('.plot path.dots:not(.hole)')]"
    count += ".map((p) => p.getAttribute('d').split('M').length - 1)"
    assert sum(page.run(count)) == len(table)
    check(page, "[name=level][value='1']", "[name=scheme][value='0']")
    chosen = table[(table["level"] == "expert") & (table["scheme"] == "nonrec-inf")]
    assert page.run(count) == [len(chosen)]
    assert page.text("#count") == f"{len(chosen)} of {len(table)}"
    assert page.text(READOUT).startswith(f"{len(chosen)} certificates of 3 policies")
    middle = float(re.search(r"test error ([\d.]+);", page.text(READOUT))[1])
    assert middle == pytest.approx(chosen["tightness"].median(), rel=1e-3)
    visible = page.all("#by-condition tbody tr:not([hidden])")
    assert len(visible) == chosen["episodes"].nunique()
    said = page.text(".picked")
    assert (
        said == f"Only level expert; scheme nonrec-inf: {len(chosen)} of {len(table)} certificates."
    )
    page.one("#filters button").click()
    page.run("return new Promise((done) => setTimeout(done))")
    assert sum(page.run(count)) == len(table)
    assert not page.one(".picked").is_displayed()
    assert page.complaints() == ([], [])


def test_pointing_and_keys_tell_which_policy_a_dot_is(page, written):
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    table = load_findings(written).table
    top = table.loc[table["bound"].idxmax()]
    axes = json.loads(page.run("return JSON.stringify(data.charts.scatter)"))
    share = []
    for axis, value in (("x", top["bound"]), ("y", top["test_error"])):
        ends = np.array([*axes[axis][:2], value])
        low, high, value = np.log(ends) if axis in axes["log"] else ends
        share.append((value - low) / (high - low))
    actions = page.point(PLOT, share[0], 1 - share[1])
    said = page.text(READOUT)
    assert said.startswith(f"redq, Hopper-v4, {top['level']}, instance {top['instance']} ·")
    assert f"scheme {top['scheme']} ·" in said
    assert f"repetition {top['repetition']} ·" in said
    link = page.one(f"{READOUT} a")
    assert link.get_attribute("href") == (written / top["certificate"]).as_uri()
    kin = page.one(".plot path.kin").get_attribute("d").count("M")
    same = (table[["instance", "level"]] == top[["instance", "level"]]).all(axis=1)
    assert kin == int(same.sum())
    actions.click().perform()  # keeps it
    page.point(PLOT, 0.05, 0.95)
    assert page.text(READOUT) == said

    page.one(PLOT).send_keys(Keys.ESCAPE)
    page.one(PLOT).send_keys(Keys.HOME)
    first = page.text(READOUT)
    page.one(PLOT).send_keys(Keys.ARROW_RIGHT)
    second = page.text(READOUT)
    bounds = [float(re.search(r"· bound ([\d.]+)", each)[1]) for each in (first, second)]
    assert bounds == sorted(bounds)
    page.one(PLOT).send_keys(Keys.ARROW_UP)
    assert page.text(READOUT).split(",")[2] != second.split(",")[2]  # another level

    Select(page.one("#by")).select_by_value("scheme")
    legend = [each.text for each in page.all('[data-chart="scatter"] .legend li')]
    assert legend == ["test error = bound", "nonrec-inf", "rec-2"]
    assert page.complaints() == ([], [])


def test_the_script_draws_the_dots_where_the_page_has_them(page):
    static = page.run(
        "const t = new DOMParser().parseFromString(arguments[0], 'text/html');"
        "return [...t.querySelectorAll('[data-chart=scatter] .plot path.dots')]"
        ".map((p) => p.getAttribute('d'))",
        page.path.read_text(encoding="utf-8"),
    )
    drawn = [each.get_attribute("d") for each in page.all('[data-chart="scatter"] .plot path.dots')]
    for one, other in zip(static, drawn, strict=True):
        places = [sorted(map(float, re.findall(r"M([\d.]+)", each))) for each in (one, other)]
        assert places[0] == pytest.approx(places[1], abs=0.5)  # bounds are rounded up for reading


def test_the_tables_sort_search_and_turn_pages(page, written):
    table = load_findings(written).table

    def column(name):
        return [cell.text for cell in page.all(f'#certificates td[data-name="{name}"]')]

    heads = [head.text for head in page.all("#certificates thead th")]
    place = heads.index("bound") + 1
    page.one(f"#certificates thead th:nth-child({place}) button").click()
    shown = [float(text) for text in column("bound")]
    assert len(shown) == 25
    assert shown == pytest.approx(sorted(table["bound"])[:25], rel=1e-3)
    assert page.text("#page") == "Page 1 of 2"
    page.one('[data-turn="1"]').click()
    assert [float(text) for text in column("bound")] == pytest.approx(
        sorted(table["bound"])[25:50], rel=1e-3
    )
    page.one("#search").send_keys("EXPERT rec-2")
    assert set(column("level")) == {"expert"}
    assert set(column("scheme")) == {"rec-2"}
    link = page.one("#certificates a").get_attribute("href")
    assert re.search(r"/jobs/certify-[0-9a-f]{20}/\d{4}\.json$", link)

    rows = page.all("#by-condition thead th button")
    rows[[head.text for head in rows].index("mean bound")].click()
    orders = "return [...document.querySelectorAll('#by-condition td[data-name=\"mean bound\"]')]"
    means = [float(each) for each in page.run(f"{orders}.map((c) => c.dataset.order)")]
    assert means == sorted(means)
    assert page.complaints() == ([], [])


def test_both_colour_schemes_have_contrast_and_no_width_is_too_small(page):
    for scheme in ("light", "dark"):
        page.open(scheme=scheme)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        check(page, "[name=level][value='1']")
        ratio, text = page.run(CONTRAST)
        assert ratio >= 4.5, (scheme, text, ratio)
    for size in (PHONE, (320, 640), DESK):
        page.open(size=size)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        check(page, "[name=level][value='1']")
        assert page.fits(), size
    assert page.complaints() == ([], [])


def test_it_prints_on_a4_without_controls(page):
    page.open(size=(680, 960), scheme="dark", media="print")
    assert page.fits()
    assert not any(
        e.is_displayed() for e in page.all("#content button:not(th *), input, select, nav")
    )
    pdf = base64.b64decode(page.command("Page.printToPDF", preferCSSPageSize=True)["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert 3 <= len(boxes) <= 12
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {(595, 842)}


def test_it_reads_without_script(page):
    page.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open()
        assert len(page.all(".claims .card")) == 7
        assert not any(each.is_displayed() for each in page.all(".picker, .filters, .picked"))
        assert len(page.all("#certificates tbody tr")) == 48
        assert all(image.is_displayed() for image in page.all("figure.drawn img"))
        assert page.one('[data-chart="scatter"] path.dots').is_displayed()
    finally:
        page.command("Emulation.setScriptExecutionDisabled", value=False)


def test_hostile_names_do_nothing(browser, hostile_study):
    page = Tab(browser, hostile_study / "report.html").open()
    page.point(PLOT, 0.5, 0.5)
    assert page.text(READOUT).startswith(HOSTILE[:20])
    assert page.run("return window.hostile") is None
    assert page.run("return [...document.images].every((i) => i.src.startsWith('data:'))")
    page.one("#certificates thead button").click()
    assert page.open(size=PHONE).fits()
    assert page.complaints() == ([], [])
