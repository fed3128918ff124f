"""The page, in a real browser: Debian's Chromium without a screen."""

import json
import re
from itertools import zip_longest
from urllib.parse import urlencode

import pytest

from retrieval.index import build_index
from retrieval.retrievers import bm25s, rank_bm25
from retrieval.server import page
from retrieval.store import PASSAGES, write_store
from tests.retrieval.server.passages import CORPUS
from tests.retrieval.serving import serving

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium: requirements-dev.txt")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from tests.chromium import chromium, needs_browser, wait  # noqa: E402


@pytest.fixture(scope="module")
def two_indexes(tmp_path_factory):
    root = tmp_path_factory.mktemp("indexes")
    write_store(CORPUS.passages, root)
    # Without b, twins of other lengths rank differently: a comparison with something to compare.
    build_index(root / PASSAGES, root / "flat", "bm25s", bm25s.Config(b=0.0))
    build_index(root / PASSAGES, root / "okapi", "rank_bm25", rank_bm25.Config(b=1.0))
    with serving("--index", str(root / "flat"), "--index", str(root / "okapi")) as server:
        yield server


@pytest.fixture(scope="module")
def expected():
    flat = bm25s.build(bm25s.Config(b=0.0), CORPUS)
    okapi = rank_bm25.build(rank_bm25.Config(b=1.0), CORPUS)
    return {"left": flat, "right": okapi}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def opened(browser, two_indexes):
    """Open the page with these fields in its URL; every test must leave the console empty."""

    def open_page(**fields):
        browser.get(f"{two_indexes.url}/?{urlencode(fields)}" if fields else two_indexes.url)
        wait(
            browser, lambda: browser.execute_script("return document.documentElement.dataset.ready")
        )
        return browser

    yield open_page
    assert browser.get_log("browser") == []


def finished(browser, query):
    """Wait until the answers to the query are shown."""
    wait(browser, lambda: browser.title.startswith(query))
    columns = browser.find_element(By.ID, "columns")
    wait(browser, lambda: columns.get_attribute("aria-busy") == "false")


def shown(browser, side):
    """(rank, title, score, text, id, the note on the other side) of every card of a column."""
    return [
        tuple(
            card.find_element(By.CSS_SELECTOR, part).get_attribute("textContent")
            for part in (".rank", ".title", ".score", ".text", ".foot span:last-child", ".foot")
        )
        for card in browser.find_elements(By.CSS_SELECTOR, f"#column-{side} li")
    ]


def to_precision(browser, score):
    return browser.execute_script("return arguments[0].toPrecision(5)", score)


def check_columns(browser, expected, query, k):
    hits = {side: engine.search([query], k)[0] for side, engine in expected.items()}
    ranks = {side: {hit.passage.id: hit.rank for hit in found} for side, found in hits.items()}
    for side, other in (("left", "right"), ("right", "left")):
        cards = shown(browser, side)
        for card, hit in zip_longest(cards, hits[side]):
            passage = hit.passage
            assert card[:5] == (
                str(hit.rank),
                passage.title or "(no title)",
                to_precision(browser, hit.score),
                passage.text,
                passage.id,
            )
            rank = ranks[other].get(passage.id)
            note = f"same rank {other}" if rank == hit.rank else f"rank {rank} {other}"
            assert card[5] == ("" if rank is None else note) + passage.id
    common = ranks["left"].keys() & ranks["right"].keys()
    both = ranks["left"].keys() | ranks["right"].keys()
    alike = sum(ranks["left"][identifier] == ranks["right"][identifier] for identifier in common)
    status = browser.find_element(By.ID, "status").text
    assert (
        status == f"{len(common)} of {len(both)} passages found by both, {alike} at the same rank"
    )
    return common, both


@needs_browser
def test_a_typed_query_is_answered_by_both_indexes_side_by_side(opened, expected):
    browser = opened()
    assert browser.switch_to.active_element.get_attribute("id") == "query"
    browser.switch_to.active_element.send_keys("radium in Paris", Keys.ENTER)
    finished(browser, "radium in Paris")
    check_columns(browser, expected, "radium in Paris", 10)
    for side, index in (("left", "flat"), ("right", "okapi")):
        heading = browser.find_element(By.ID, f"column-{side}").text
        assert index in heading and "7 passages" in heading
        assert re.search(r"\d passages, [\d.]+ ms \([\d.]+ searching\)", heading)
    # The state is in the URL, so that a comparison can be sent to somebody.
    assert "q=radium+in+Paris&k=10&left=flat&right=okapi" in browser.current_url


@needs_browser
def test_fewer_passages_overlap_in_part(opened, expected):
    browser = opened(q="radium in Paris", k=3)
    common, both = check_columns(browser, expected, "radium in Paris", 3)
    assert 0 < len(common) < len(both)
    marked = {
        card.get_attribute("data-id") for card in browser.find_elements(By.CSS_SELECTOR, "li.both")
    }
    assert marked == common


@needs_browser
def test_markup_in_passages_and_queries_is_shown_and_not_run(opened):
    query = "<img src=x onerror=\"document.title='pwned'\"> radium <script>pwned</script>"
    browser = opened(q=query, k=7)
    card = browser.find_element(By.CSS_SELECTOR, "#column-left li[data-id='x1']")
    assert card.find_element(By.CSS_SELECTOR, ".title").text == "<b>x</b>"
    text = card.find_element(By.CSS_SELECTOR, ".text").text
    assert text == "<script>document.title='pwned'</script> & radium &amp; more"
    assert "pwned" not in browser.title.replace(query, "")
    assert browser.find_elements(By.CSS_SELECTOR, "main script, main img, main b b") == []
    assert browser.find_element(By.ID, "query").get_attribute("value") == query


@needs_browser
def test_should_markup_slip_through_its_scripts_do_not_run(opened):
    """The second line of defence: the policy that the page is sent with."""
    browser = opened()
    browser.execute_script(
        "document.getElementById('status').innerHTML = '<img src=x: onerror=\"window.ran = 1\">';"
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s);"
    )
    logged = wait(browser, lambda: browser.get_log("browser"))
    assert "Content Security Policy" in logged[0]["message"]
    assert browser.execute_script("return window.ran") is None
    assert "Content-Security-Policy" in page.HEADERS and "unsafe" not in str(page.HEADERS)
    browser.get_log("browser")


@needs_browser
def test_everything_can_be_done_from_the_keyboard(opened):
    browser = opened(q="radium", k=7)

    def press(key):
        webdriver.ActionChains(browser).send_keys(key).perform()
        active = browser.switch_to.active_element
        column = active.find_elements(By.XPATH, "ancestor::section")
        return active, column[0].get_attribute("id") if column else None

    card, column = press(Keys.ARROW_DOWN)  # from the query, which has the focus, to the first card
    assert (column, card.find_element(By.CSS_SELECTOR, ".rank").text) == ("column-left", "1")
    first = card.get_attribute("data-id")
    twins = browser.find_elements(By.CSS_SELECTOR, "#column-right li.twin")
    assert [twin.get_attribute("data-id") for twin in twins] == [first]
    card, column = press(Keys.ARROW_RIGHT)  # to the same passage
    assert (column, card.get_attribute("data-id")) == ("column-right", first)
    press(Keys.ENTER)
    assert card.get_attribute("aria-expanded") == "true"
    press(Keys.ENTER)
    assert card.get_attribute("aria-expanded") == "false"
    card, column = press(Keys.ARROW_LEFT)
    assert (column, card.get_attribute("data-id")) == ("column-left", first)
    card, _ = press(Keys.ARROW_DOWN)
    assert card.find_element(By.CSS_SELECTOR, ".rank").text == "2"
    query, _ = press("/")
    assert query.get_attribute("id") == "query"
    press("heron")  # the old query was selected, and is replaced
    assert query.get_attribute("value") == "heron"
    press(Keys.ENTER)
    finished(browser, "heron")
    assert [card[4] for card in shown(browser, "left")] == ["h1"]


@needs_browser
def test_nothing_found_one_side_only_and_an_error(opened):
    browser = opened(q="zzyzx", right="")
    assert browser.find_element(By.CSS_SELECTOR, "#column-left .empty").text == "Nothing found."
    assert browser.find_elements(By.ID, "column-right") == []
    browser.execute_script("document.getElementById('k').max = 9999")
    browser.execute_script(
        "const real = fetch; window.asked = 0;"
        "window.fetch = (...args) => { window.asked += 1; return real(...args); };"
    )
    number = browser.find_element(By.ID, "k")
    number.clear()
    number.send_keys("2000", Keys.ENTER)
    alarm = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "[role=alert]"))
    assert alarm[0].text == "k is 2000: ask for 1 to 1000 passages"
    assert browser.execute_script("return window.asked") == 1, "a change and Enter are one search"
    (line,) = browser.get_log("browser")  # the browser itself notes the 400
    assert "400 (Bad Request)" in line["message"]


@needs_browser
def test_dark_and_light(opened):
    browser = opened()

    def theme():
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 128

    before = theme()
    browser.find_element(By.ID, "theme").click()
    assert theme() != before
    opened()
    assert theme() != before, "it is remembered"
    browser.find_element(By.ID, "theme").click()
    assert theme() == before


@needs_browser
def test_it_fits_a_small_screen(opened):
    browser = opened(q="radium", k=7)
    width = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert width[1] <= width[0]
    browser.set_window_size(500, 900)
    try:
        left, right = (
            browser.find_element(By.ID, f"column-{side}").rect for side in ("left", "right")
        )
        assert right["y"] >= left["y"] + left["height"], "one below the other"
        width = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert width[1] <= width[0]
    finally:
        browser.set_window_size(1280, 900)


def test_the_page_asks_nobody_else():
    """No address but its own server's in it, and a policy that allows no other."""
    assert re.findall(r"(?:https?:)?//[a-z]", page.HTML) == []
    policy = dict(
        part.split(" ", 1) for part in page.HEADERS["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert policy["script-src"].startswith("'sha256-")


def test_it_is_sent_as_html_unless_json_is_asked_for(two_indexes):
    for path in ("/", "/?q=radium", "/search?q=radium"):
        status, headers, text = two_indexes.ask("GET", path)
        assert (status, text) == (200, page.HTML)
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["content-security-policy"] == page.HEADERS["Content-Security-Policy"]
    assert json.dumps(two_indexes.ask("GET", "/?q=radium&format=json")[2])
