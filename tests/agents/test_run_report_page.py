"""report.html of a run in a real browser: Debian's Chromium without a screen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.run_report import write_run_report
from tests.agents import run_folder, runs
from tests.agents.results_folder import HOSTILE

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium: requirements-dev.txt")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

from tests.chromium import chromium, needs_browser, wait  # noqa: E402

pytestmark = needs_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = run_folder.write(tmp_path_factory.mktemp("page") / "run", kept=6)
    write_run_report(folder)
    return folder


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(driver: Any, folder: Path) -> Iterator[Any]:
    """The page, opened; a test must leave the console empty, and ask nobody."""
    show(driver, folder / "report.html")
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert not driver.execute_script("return window.ran")


def show(driver: Any, page: Path, hash_: str = "") -> None:
    driver.get("about:blank")
    driver.get(f"{page.as_uri()}{hash_}")
    wait(driver, lambda: driver.execute_script("return document.documentElement.dataset.ready"))


def text(browser: Any, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent")


def table_of(place: Any) -> list[list[str]]:
    return [
        [cell.get_attribute("textContent") for cell in row.find_elements(By.XPATH, "*")]
        for row in place.find_elements(By.CSS_SELECTOR, "tr")
    ]


def figures(browser: Any) -> dict[str, Any]:
    found = browser.find_elements(By.CSS_SELECTOR, "#plots figure")
    return {one.find_element(By.TAG_NAME, "h3").text.strip(): one for one in found}


def test_before_and_after_with_the_interval(browser: Any) -> None:
    assert table_of(browser.find_element(By.ID, "summary")) == [
        ["", "exact match", "searches", "invalid turns"],
        ["before", "0.250", "1.20", "0.100"],
        ["after", "0.500", "2.00", "0.000"],
        ["difference", "+0.250", "", ""],
    ]
    assert "[+0.125, +0.375]" in text(browser, "#summary p")
    assert "5 of 9" in text(browser, "#facts") and "so_ppo" in text(browser, "#facts")


def test_every_curve_is_drawn_where_its_numbers_are(browser: Any, folder: Path) -> None:
    found = figures(browser)
    assert list(found) == [
        "Reward",
        "Exact match",
        "Clipped",
        "KL to the base model",
        "Gradient norm",
        "Seconds",
    ]
    rows = runs.read_rows(folder / "metrics.jsonl")
    assert table_of(found["Clipped"])[1:] == [
        [str(row["step"]), f"{row['clip_fraction']:g}", f"{row['clip_fraction_turns']:g}"]
        for row in rows
    ]
    # Heights: linear in the value; on the logarithmic axis, in its logarithm.
    for name, of in (("Reward", lambda step: step), ("Gradient norm", lambda step: step % 4)):
        points = found[name].find_elements(By.CSS_SELECTOR, "circle.line-0")
        heights = [float(point.get_attribute("cy")) for point in points]
        assert len(heights) == 5
        unit = (heights[1] - heights[0]) / (of(2) - of(1))
        for step, height in enumerate(heights, 1):
            assert height - heights[0] == pytest.approx(unit * (of(step) - of(1)), abs=0.2)
        assert unit < 0, "more is higher"
    # A step without a value is a gap: two strokes.
    path = found["KL to the base model"].find_element(By.CSS_SELECTOR, "path.curve")
    assert path.get_attribute("d").count("M") == 2


def test_events_stand_on_the_step_axis_and_in_a_table(browser: Any) -> None:
    assert table_of(browser.find_element(By.ID, "log"))[1] == [
        "3",
        "entropy",
        "0.01",
        "0.1",
        HOSTILE,
    ]
    for name, figure in figures(browser).items():
        mark = figure.find_element(By.CSS_SELECTOR, "line.event")
        third = figure.find_elements(By.CSS_SELECTOR, "circle.line-0")
        if name != "KL to the base model":  # whose second point is missing
            assert float(mark.get_attribute("x1")) == pytest.approx(
                float(third[2].get_attribute("cx")), abs=0.1
            )
        assert "step 3: entropy" in mark.get_attribute("textContent")


def test_pointing_at_a_curve_reads_all(browser: Any) -> None:
    browser.execute_script(
        "const drawn = document.querySelectorAll('#plots svg')[1];"
        "const box = drawn.querySelectorAll('circle')[3].getBoundingClientRect();"
        "drawn.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.x + 2}))"
    )
    read = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#plots .reading")]
    assert read[0] == "step 4: 0.4" and read[2] == "step 4: 0.04 · 0.08" and len(read) == 6


def test_filters_by_verdict_and_step(browser: Any) -> None:
    number = browser.find_element(By.ID, "number")
    assert number.text == "30 of 30 episodes"
    Select(browser.find_element(By.ID, "score")).select_by_value("right")
    wait(browser, lambda: number.text == "10 of 30 episodes")
    steps = Select(browser.find_element(By.ID, "step"))
    assert [one.text for one in steps.options][1] == "step 1 (2)"
    steps.select_by_value("4")
    wait(browser, lambda: number.text == "2 of 30 episodes")
    keys = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#list small")]
    assert [key.split()[0] for key in keys] == ["step-4/0", "step-4/3"]


def choose_mode(browser: Any, name: str) -> list[dict[str, Any]]:
    """What every token looks like in a mode."""
    browser.find_element(By.CSS_SELECTOR, f"input[value={name}]").click()
    return browser.execute_script(
        "return [...document.querySelectorAll('.segments .token')].map((one) => ({"
        "text: one.textContent, kind: one.className, title: one.title,"
        "heat: parseFloat(one.style.getPropertyValue('--heat')),"
        "colour: getComputedStyle(one).backgroundColor}))"
    )


def test_every_token_is_coloured_by_mask_ratio_and_advantage(browser: Any, folder: Path) -> None:
    trace = next(
        row
        for row in runs.read_rows(folder / "tokens.jsonl")
        if (row["step"], row["row"]) == (2, 0)
    )
    show(browser, folder / "report.html", "#q=step-2/0")
    masked = choose_mode(browser, "mask")
    placed = list(zip(trace["pieces"], trace["turn_ids"], strict=True))
    assert [token["text"] for token in masked] == [piece for piece, turn in placed if turn >= 0]
    # What was only read is text without any token; together it is the whole episode.
    read = "".join(piece for piece, turn in placed if turn < 0)
    shown = browser.find_elements(By.CSS_SELECTOR, ".segments .context")
    parts = "".join(one.get_attribute("textContent") for one in shown)
    assert parts.replace("\n", "") == read.replace("\n", "")
    assert all(token["colour"] != "rgba(0, 0, 0, 0)" for token in masked)
    for name in ("advantages", "log_ratios", "old_logprobs"):
        tokens = choose_mode(browser, name)
        assert len(tokens) == len(trace[name]) > 10
        for token, value in zip(tokens, trace[name], strict=True):
            assert ("down" in token["kind"]) == (value < 0) != ("up" in token["kind"])
        # The farther from 0, the more colour.
        pairs = sorted((abs(v), t["heat"]) for t, v in zip(tokens, trace[name], strict=True))
        assert [heat for _, heat in pairs] == sorted(heat for _, heat in pairs)
        assert name == "advantages" or pairs[-1][1] > pairs[0][1]
    assert tokens[0]["title"].startswith(f"token {trace['ids'][trace['turn_ids'].index(0)]} · ")


def test_hostile_text_is_shown_and_not_run(browser: Any, folder: Path) -> None:
    show(browser, folder / "report.html", "#q=step-1/2")
    assert HOSTILE.replace("\u2028", "") in text(browser, "#episode").replace("\u2028", "")
    assert browser.find_elements(By.CSS_SELECTOR, "#episode script, #episode img") == []
    assert not browser.execute_script("return window.ran")


def test_a_run_of_200_steps_stays_usable(browser: Any, tmp_path: Path) -> None:
    """200 steps of 6 episodes: 400 of them are in the page, 50 are drawn at a time."""
    big = run_folder.write(tmp_path / "big", steps=200, kept=4)
    config = run_folder.CONFIG.replace("token_transcripts: 6", "token_transcripts: 4")
    (big / "config.yaml").write_text(config)
    page = write_run_report(big)
    assert page.stat().st_size < 20e6
    show(browser, page)
    assert browser.find_element(By.ID, "number").text == "400 of 400 episodes"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#list li")) == 50
    reward = figures(browser)["Reward"]
    assert len(reward.find_elements(By.CSS_SELECTOR, "path.curve")) == 2, "raw and smoothed"
    assert reward.find_elements(By.CSS_SELECTOR, "circle") == []


def test_a_run_that_has_not_begun_says_so(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("run: {steps: 3}\n")
    show(browser, write_run_report(tmp_path))
    assert text(browser, "#reading") == "No step has ended yet."
    assert "No evaluation after training" in text(browser, "#summary")


def test_it_fits_a_small_screen(browser: Any, folder: Path) -> None:
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        show(browser, folder / "report.html", "#q=step-1/2")
        width = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert width[0] == 400 and width[1] <= 400, json.dumps(width)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
