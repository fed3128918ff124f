"""report.html in a real browser, opened from the disk: Debian's Chromium without a screen."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from agents.page import Page
from agents.predictions import OUTCOMES, Prediction
from agents.report import main as report
from agents.report import write_report
from tests.agents import results_folder, runs

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium: requirements-dev.txt")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

from tests.chromium import chromium, needs_browser, wait  # noqa: E402

pytestmark = needs_browser
PREDICTIONS = results_folder.predictions()
MANY = 5_000
PER_PAGE = 50
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(results_folder.write(tmp_path_factory.mktemp("results"), PREDICTIONS))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same episodes again and again, their ids numbered."""
    folder = results_folder.write(tmp_path_factory.mktemp("large"), PREDICTIONS)
    rows = runs.read_rows(folder / "predictions.jsonl")
    many = [rows[number % len(rows)] | {"id": f"number-{number}"} for number in range(MANY)]
    runs.write_rows(folder / "predictions.jsonl", many)
    assert report([str(folder)]) == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.get("about:blank")  # the browser's own first page asks for much
        yield driver


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Open]:
    """Open a report at an address; a test must leave the console empty, and ask nobody."""

    def open_page(hash_: str = "", page: Path = file) -> Any:
        browser.get("about:blank")  # or a new hash alone would load nothing
        browser.get(f"{page.as_uri()}{hash_}")
        ready = "return document.documentElement.dataset.ready"
        wait(browser, lambda: browser.execute_script(ready))
        return browser

    browser.get_log("performance")
    yield open_page
    assert browser.get_log("browser") == []
    assert requests(browser) <= {"file", "about", "data"}
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def requests(browser: Any) -> set[str]:
    """The schemes of all addresses asked for since the last call."""
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert sent, "not even the page itself: the log is broken"
    return {params["request"]["url"].partition(":")[0] for params in sent}


def key(prediction: Prediction) -> str:
    return f"{prediction.dataset}/{prediction.id}"


def stem(prediction: Prediction) -> str:
    lines = [f"\n{letter}) {text}" for letter, text in (prediction.options or {}).items()]
    return prediction.question.replace("".join(lines), "")


def listed(browser: Any) -> list[str]:
    """The keys in the list."""
    addresses = browser.execute_script(
        "return [...document.querySelectorAll('#list a')].map((link) => link.hash)"
    )
    return [unquote(address.removeprefix("#q=").partition("&")[0]) for address in addresses]


def number(browser: Any) -> str:
    return browser.find_element(By.ID, "number").get_attribute("textContent")


def choices(browser: Any, name: str) -> dict[str, str]:
    options = Select(browser.find_element(By.ID, name)).options
    return {one.get_attribute("value"): one.get_attribute("textContent") for one in options}


def episode(browser: Any) -> str:
    return browser.find_element(By.ID, "episode").get_attribute("textContent")


def type_text(browser: Any, text: str) -> None:
    field = browser.find_element(By.ID, "text")
    field.clear()
    field.send_keys(text)


def read(prediction: Prediction) -> str:
    """What a reader of the episode would find a text in."""
    turns = [step["text"] + "\n" + step["observation"] for step in prediction.steps]
    ends = [*prediction.answers, prediction.prediction or ""]
    return "\n".join([prediction.question, *ends, *turns])


def verdict(prediction: Prediction) -> str:
    return "failed" if prediction.failed else "right" if prediction.score else "wrong"


def check(browser: Any, expected: list[Prediction]) -> None:
    """The list and the number, once they have followed the filters."""
    wait(browser, lambda: number(browser) == f"{len(expected)} of 80 questions")
    assert listed(browser) == [key(p) for p in expected[:PER_PAGE]]


def test_filters_change_the_list_and_the_counts(opened: Open) -> None:
    browser = opened()
    assert len(PREDICTIONS) == 80
    check(browser, list(PREDICTIONS))

    Select(browser.find_element(By.ID, "score")).select_by_value("wrong")
    wrong = [p for p in PREDICTIONS if verdict(p) == "wrong"]
    assert 0 < len(wrong) < 80
    check(browser, wrong)
    counts = Counter(p.outcome for p in wrong)
    assert choices(browser, "outcome") == {
        "": f"all ({len(wrong)})",
        **{name: f"{name.replace('_', ' ')} ({counts[name]})" for name in OUTCOMES},
    }
    # A filter's own counts are those of the others.
    verdicts = Counter(map(verdict, PREDICTIONS))
    for name in ("right", "wrong", "failed"):
        assert choices(browser, "score")[name] == f"{name} ({verdicts[name]})"

    Select(browser.find_element(By.ID, "outcome")).select_by_value("not_retrieved")
    check(browser, [p for p in wrong if p.outcome == "not_retrieved"])
    Select(browser.find_element(By.ID, "dataset")).select_by_value("formulary-2hop")
    left = [p for p in wrong if (p.outcome, p.dataset) == ("not_retrieved", "formulary-2hop")]
    check(browser, left)
    assert browser.current_url.endswith(
        "#score=wrong&outcome=not_retrieved&dataset=formulary-2hop"
    ), "a view can be sent to somebody"
    browser.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    check(browser, list(PREDICTIONS))


def test_the_address_brings_the_filters_back(opened: Open) -> None:
    browser = opened("#score=right&dataset=atlas-1hop&text=search")
    check(browser, [p for p in PREDICTIONS if p.score and p.dataset == "atlas-1hop"])
    assert Select(browser.find_element(By.ID, "score")).first_selected_option.text.startswith(
        "right"
    )
    opened("#score=nonsense&dataset=nowhere")
    check(browser, list(PREDICTIONS))


def test_search_finds_by_text_of_question_answer_and_transcript(opened: Open) -> None:
    browser = opened()
    one = next(p for p in PREDICTIONS if p.searches and p.score)
    passage = one.steps[0]["hits"][0]["title"]
    for text in (one.question[4:20], one.prediction, passage, one.steps[0]["content"]):
        assert text
        type_text(browser, text.upper())
        found = [p for p in PREDICTIONS if text.lower() in read(p).lower()]
        assert one in found and len(found) < 80
        check(browser, found)
    type_text(browser, "zzyzx")
    check(browser, [])
    assert browser.find_element(By.ID, "range").text == "none"


def test_a_transcript_opens_and_shows_every_turn(opened: Open) -> None:
    browser = opened()
    one = next(p for p in PREDICTIONS[:PER_PAGE] if p.searches == 2 and p.score)
    place = PREDICTIONS.index(one)
    links = browser.find_elements(By.CSS_SELECTOR, "#list a")
    links[place].click()
    wait(browser, lambda: stem(one) in episode(browser))
    assert browser.current_url.endswith(f"#q={key(one)}")
    current = browser.find_element(By.CSS_SELECTOR, "#list [aria-current]")
    assert stem(one) in current.get_attribute("textContent")
    turns = browser.find_elements(By.CSS_SELECTOR, "#episode .turn")
    assert len(turns) == one.turns == len(one.steps)
    for turn, step in zip(turns, one.steps, strict=True):
        said = turn.find_element(By.CSS_SELECTOR, ".said").text
        assert said == step["content"]
        thought = turn.find_element(By.CSS_SELECTOR, ".thought").get_attribute("textContent")
        assert f"<think>{thought}</think>" in step["text"].replace("<think> ", "<think>")
        passages = turn.find_elements(By.CSS_SELECTOR, ".passage")
        assert len(passages) == len(step["hits"])
        for rank, (shown, hit) in enumerate(zip(passages, step["hits"], strict=True), 1):
            assert shown.find_element(By.CSS_SELECTOR, ".title").text == hit["title"]
            assert ("gold" in shown.get_attribute("class").split()) == hit["gold"]
            text = shown.find_element(By.CSS_SELECTOR, ".text").get_attribute("textContent")
            assert f"Doc {rank}(Title: {hit['title']}) {text}" in step["observation"]
        written = turn.find_element(By.CSS_SELECTOR, "pre").get_attribute("textContent")
        assert written == step["text"]
    facts = browser.find_element(By.CSS_SELECTOR, "#episode dl").text
    for text in (*one.answers, f"{one.tokens} tokens", "2 searches", "answered", "em 1"):
        assert text in facts
    assert browser.find_element(By.CSS_SELECTOR, "#episode .badge").text == "right"


def test_a_question_with_options_marks_the_accepted_one(opened: Open) -> None:
    one = next(p for p in PREDICTIONS if p.options and p.outcome == "not_answered_from")
    browser = opened(f"#q={key(one)}")
    assert browser.find_element(By.CSS_SELECTOR, "#episode .question").text == stem(one)
    options = browser.find_elements(By.CSS_SELECTOR, "#episode .options li")
    assert one.options is not None
    assert [option.text for option in options] == [
        f"{letter}) {text}" + (" ✓" if letter == one.answers[0] else "")
        for letter, text in one.options.items()
    ]
    assert OUTCOMES["not_answered_from"] in episode(browser)


def test_the_link_to_one_question_opens_it(opened: Open) -> None:
    one = PREDICTIONS[61]  # on the second page of the list
    browser = opened(f"#q={key(one)}")
    assert stem(one) in episode(browser)
    assert key(one) in listed(browser)
    assert browser.find_element(By.ID, "range").text == "51\u201380 of 80"
    # Another address in the same window, as from a bookmark; and back.
    other = PREDICTIONS[3]
    browser.execute_script("location.hash = arguments[0]", f"q={key(other)}")
    wait(browser, lambda: stem(other) in episode(browser))
    browser.back()
    wait(browser, lambda: stem(one) in episode(browser))
    opened("#q=atlas-1hop/none")
    assert "no question atlas-1hop/none" in episode(browser)


def test_a_question_asked_twice_has_two_links(opened: Open, tmp_path: Path) -> None:
    first, second = PREDICTIONS[0], replace(PREDICTIONS[0], prediction="something else")
    page = write_report(results_folder.write(tmp_path, [first, second]))
    browser = opened(f"#q={key(first)}~2", page)
    assert "something else" in episode(browser)
    assert listed(browser) == [key(first), f"{key(first)}~2"]


def test_keys_walk_through_the_filtered_list(opened: Open) -> None:
    browser = opened("#dataset=atlas-2hop")
    rows = [p for p in PREDICTIONS if p.dataset == "atlas-2hop"]

    def press(letter: str, expected: Prediction) -> None:
        webdriver.ActionChains(browser).send_keys(letter).perform()
        wait(browser, lambda: stem(expected) in episode(browser))
        assert browser.current_url.endswith(f"#q={key(expected)}&dataset=atlas-2hop")

    for letter, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0)):
        press(letter, rows[place])
    webdriver.ActionChains(browser).send_keys("/").perform()
    assert browser.switch_to.active_element.get_attribute("id") == "text"
    # In a field they are letters.
    webdriver.ActionChains(browser).send_keys("jk", Keys.TAB).perform()
    wait(browser, lambda: browser.current_url.endswith("&text=jk"))
    assert stem(rows[0]) in episode(browser)


def test_markup_in_model_text_is_shown_and_not_run(opened: Open) -> None:
    one = next(p for p in PREDICTIONS if p.prediction == results_folder.HOSTILE)
    browser = opened(f"#q={key(one)}&text=<script>")
    said = browser.find_elements(By.CSS_SELECTOR, "#episode .said")[-1]
    assert said.get_attribute("textContent") == results_folder.HOSTILE
    assert said.find_elements(By.CSS_SELECTOR, "mark")
    assert browser.find_elements(By.CSS_SELECTOR, "main script, main img, main b b") == []
    assert browser.execute_script("return window.ran") is None
    assert browser.execute_script("return document.scripts.length") == 1


def test_should_markup_slip_through_it_does_not_run(opened: Open) -> None:
    """The second line of defence: the page's policy."""
    browser = opened()
    browser.execute_script(
        "document.getElementById('episode').innerHTML = '<b onclick=\"window.ran = 1\">x</b>';"
        "document.querySelector('#episode b').click();"
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s);"
    )
    logged: list[str] = []

    def both() -> bool:
        logged.extend(line["message"] for line in browser.get_log("browser"))
        return len(logged) == 2

    wait(browser, both)
    assert all("Content Security Policy" in message for message in logged)
    assert browser.execute_script("return window.ran") is None


def test_plots_show_the_numbers_of_the_summary(opened: Open, file: Path) -> None:
    browser = opened()
    summary = json.loads((file.parent / "summary.json").read_text())
    table = browser.find_element(By.CSS_SELECTOR, "#summary table").text
    for metric in ("accuracy", "em"):
        value = summary[metric]
        assert f"{value['mean']:.3f}" in table
        assert f"[{value['low']:.3f}, {value['high']:.3f}]" in table
    scores, outcomes, searches, _ = browser.find_elements(By.CSS_SELECTOR, "#plots figure")
    assert len(scores.find_elements(By.CSS_SELECTOR, ".whisker")) == 2 + 4
    rows = table_of(searches)
    for row in rows:
        chosen = [p.score for p in PREDICTIONS if p.searches == int(row[0]) and not p.failed]
        share, n = sum(chosen) / len(chosen), len(chosen)
        # Wilson (1927): the shares p with |share - p| = z sqrt(p (1 - p) / n).
        low, high = (float(x) for x in row[2].strip("[]").split(", "))
        for end in {low, high} - {0.0, 1.0}:
            z = abs(share - end) / math.sqrt(end * (1 - end) / n)
            assert z == pytest.approx(1.96, abs=0.02)
        assert (row[1], row[3]) == (f"{share:.3f}", str(n))
    assert sum(int(row[3]) for row in rows) == sum(not p.failed for p in PREDICTIONS)
    # A part of a bar is a link to its episodes.
    name = "formulary-1hop: 2 abstained"
    outcomes.find_element(By.CSS_SELECTOR, f"a[aria-label='{name}'] rect").click()
    wanted = ("formulary-1hop", "abstained")
    check(browser, [p for p in PREDICTIONS if (p.dataset, p.outcome) == wanted])


def table_of(figure: Any) -> list[list[str]]:
    return [
        [cell.get_attribute("textContent") for cell in row.find_elements(By.XPATH, "*")]
        for row in figure.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]


def test_thousands_of_episodes_load_and_filter(opened: Open, large: Path) -> None:
    browser = opened(page=large)
    assert number(browser) == "5,000 of 5,000 questions"
    assert len(listed(browser)) == PER_PAGE
    assert browser.find_elements(By.CSS_SELECTOR, "#episode .turn") == []
    browser.find_element(By.ID, "later").click()
    assert browser.find_element(By.ID, "range").text == "51\u2013100 of 5,000"
    type_text(browser, "number-4999")
    wait(browser, lambda: number(browser) == "1 of 5,000 questions")
    (found,) = listed(browser)
    assert found.endswith("/number-4999")
    type_text(browser, "weather in spring")
    kind = sum("weather in spring" in p.steps[0]["text"] for p in PREDICTIONS)
    assert 5_000 % 80 == 40
    half = sum("weather in spring" in p.steps[0]["text"] for p in PREDICTIONS[:40])
    wait(browser, lambda: number(browser) == f"{62 * kind + half} of 5,000 questions")


@pytest.mark.parametrize("rows", [[], [p for p in PREDICTIONS if p.failed][:3]])
def test_without_a_scored_episode_there_is_still_a_report(
    opened: Open, tmp_path: Path, rows: list[Prediction]
) -> None:
    browser = opened(page=write_report(results_folder.write(tmp_path, rows)))
    assert number(browser) == f"{len(rows)} of {len(rows)} questions"
    assert listed(browser) == [key(p) for p in rows]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#plots svg")) == 4


def test_packed_data_are_unpacked(opened: Open, file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.html"
    data = results_folder.data_of(file.read_text(encoding="utf-8"))
    page = Page("evaluation", "Evaluation")
    packed.write_text(page.render(data, most_plain=1000), encoding="utf-8")
    assert packed.stat().st_size < file.stat().st_size / 2
    one = next(p for p in PREDICTIONS if p.prediction == results_folder.HOSTILE)
    browser = opened(f"#q={key(one)}", packed)
    check(browser, list(PREDICTIONS))
    assert results_folder.HOSTILE in episode(browser)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_follows_the_theme(opened: Open, theme: str) -> None:
    browser = opened()
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        ground, ink = browser.execute_script(
            "const style = getComputedStyle(document.body);"
            "return [style.backgroundColor, style.color].map("
            "(colour) => colour.match(/\\d+/g).slice(0, 3).map(Number))"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert (sum(ground) < sum(ink)) == (theme == "dark")
    assert abs(sum(ground) - sum(ink)) > 3 * 128


def test_it_fits_a_small_screen(opened: Open) -> None:
    one = next(p for p in PREDICTIONS if p.prediction == results_folder.HOSTILE)
    browser = opened()
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(f"#q={key(one)}")
        width = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert width[0] == 400 and width[1] <= 400
        browse, shown = (browser.find_element(By.ID, name).rect for name in ("list", "episode"))
        assert shown["y"] >= browse["y"] + browse["height"], "one below the other"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_field_has_a_label_and_every_table_its_headers(opened: Open) -> None:
    browser = opened()
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select')]"
        ".filter((field) => !field.labels.length).length"
    )
    assert unnamed == 0
    bare = browser.execute_script("return document.querySelectorAll('th:not([scope])').length")
    assert bare == 0
    headings = browser.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => one.tagName)"
    )
    assert headings[0] == "H1" and headings.count("H1") == 1
