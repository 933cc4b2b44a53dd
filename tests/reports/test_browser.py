"""The pages in a real browser: they load, fit a small phone, sort, and read without script."""

import shutil

import pytest
from browsing import CONTRAST, DESK, Tab

from tightrope.certificates import write
from tightrope.reports import write_index, write_page, write_study_page

SMALL = (360, 740)


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium; the tests are skipped where there is none."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"no {missing[0]}: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--no-first-run", "--hide-scrollbars"),
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(programs["chromedriver"])
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(certificate, recursive, study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write(certificate, folder / "one", page=write_page)
    write(recursive, folder / "two", page=write_page)
    write_index(folder)
    write_study_page(study[1], shutil.copytree(study[0], folder / "study"))
    return {"index": folder / "index.html", "certificate": folder / "one" / "report.html",
            "study": folder / "study" / "report.html"}  # fmt: skip


OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
# Columns that are cut: tables wider than the box they scroll in.
CUT = (
    "return [...document.querySelectorAll('.scroll:not(.plate)')]"
    ".filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
    ".map((e) => e.getAttribute('aria-label'))"
)


@pytest.mark.parametrize("name", ["index", "certificate", "study"])
def test_a_page_loads_fits_and_has_contrast_in_both_colours_and_nothing_leaves(
    name, pages, browser
):
    page = Tab(browser, pages[name])
    for size, scheme in ((SMALL, "light"), (DESK, "dark")):
        page.open(size=size, scheme=scheme)
        page.run(OPEN_ALL)
        assert page.fits()
        assert page.run(CONTRAST)[0] >= 4.5
        if name == "study":
            assert page.run(CUT) == []
        assert page.complaints() == ([], [])


def test_without_script_a_page_has_its_text_tables_and_curves(pages, browser):
    page = Tab(browser, pages["study"])
    page.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open()
        assert "Bounds correlate with test errors." in page.text("main")
        assert page.one(".drawn img").is_displayed()
        page = Tab(browser, pages["certificate"]).open()
        assert page.one('[data-chart="along"] .plot path.role-predicted').is_displayed()
        assert not page.one("#episode").is_displayed()
    finally:
        page.command("Emulation.setScriptExecutionDisabled", value=False)


def test_tables_sort_and_a_chart_shows_the_episode_that_is_chosen(pages, browser):
    page = Tab(browser, pages["study"]).open()
    table = "#conditions ~ details .sortable"
    place = [head.text for head in page.all(f"{table} thead th")].index("bound") + 1
    button = page.one(f"{table} thead th:nth-child({place}) button")
    for way, order in (("ascending", 1), ("descending", -1)):
        button.click()
        cells = page.all(f"{table} tbody td:nth-child({place})")[:4]
        values = [order * float(cell.get_attribute("data-order")) for cell in cells]
        assert values == sorted(values)
        head = page.one(f"{table} thead th:nth-child({place})")
        assert head.get_attribute("aria-sort") == way
    page = Tab(browser, pages["certificate"]).open()
    line = '[data-chart="along"] .plot path.role-predicted'
    worst = page.one(line).get_attribute("d")
    page.one('[data-pick="best"]').click()
    assert page.one(line).get_attribute("d") != worst
    page.point('[data-chart="along"] .plot', 0.5, 0.5)
    assert page.text('[data-chart="along"] .readout').startswith("elapsed step ")
    assert page.complaints() == ([], [])
