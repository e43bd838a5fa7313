"""The live page in headless Chromium, with stand-ins of the services that change while it is open."""

import functools
import json
import re
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.sockets import served
from tests.studio.conftest import LIMIT
from tests.studio.live.process import Process, following, started
from tests.studio.live.services import LABELS, NO_PEOPLE, TOKEN, Services, committed, drifting, withheld

from hubbub.service.provision import free_port
from hubbub.service.runtime.server import Listener

pytestmark = pytest.mark.browser
PATIENCE = 1000 * LIMIT
TEXT = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode, range = document.createRange(), element = node.parentElement;
        range.selectNodeContents(node);
        if (!node.textContent.trim() || !range.getClientRects().length || element.localName === "style") continue;
        const scale = element.closest("svg") ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
        found.push([scale * parseFloat(getComputedStyle(element).fontSize), node.textContent.trim()]);
    }
    return found;
}"""
CLIPPED = """() => ({
    page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    cut: [...document.querySelectorAll(".chart svg")].flatMap(e => {
        const box = e.getBoundingClientRect();
        return [...e.querySelectorAll("text")].filter(t => {
            const r = t.getBoundingClientRect();
            return r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1;
        }).map(t => t.textContent);
    }),
})"""


class Tab:
    """A page that remembers what was said and asked."""

    def __init__(self, browser: Any, address: str, *, width: int = 1360, scheme: str = "light", **options: Any) -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.bodies: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("response", self._keep)
        self.responses: list[Any] = []
        self.page.goto(f"{address}live")

    def _keep(self, response: Any) -> None:
        self.responses.append(response)

    def drawn(self) -> int:
        return int(self.page.locator("main").get_attribute("data-drawn"))

    def wait(self, selector: str, text: str | re.Pattern[str]) -> None:
        """Wait until an element has a text."""
        self.page.locator(selector).filter(has_text=text).first.wait_for(timeout=PATIENCE)

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def services() -> Services:
    return Services([committed(one) for one in range(1, 13)])


@pytest.fixture
def url(services: Services) -> Iterator[str]:
    with served(Listener("results", services.app, "127.0.0.1:0")) as address:
        yield address


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def studio(url: str, token_file: Path) -> Iterator[Process]:
    with following(url, token_file) as process:
        yield process


def percent(share: float) -> str:
    return f"{100 * share:.{2 if share < 0.1 else 1}f} %"


@pytest.mark.essential
def test_batches_appear_in_order_in_every_tab_and_the_token_in_none(
    browser: Any, studio: Process, services: Services
) -> None:
    address = studio.address()
    tabs = [Tab(browser, address) for _ in range(2)]
    for tab in tabs:
        tab.wait("#headline", "in 12 batches")
    # 15 is counted before 14: it is shown in its place.
    for bucket in (13, 15, 14):
        services.add(committed(bucket))
        for tab in tabs:
            tab.wait("#headline", f"in {min(len(services.results), 15)} batches")
    for tab in tabs:
        newest = percent(drifting(15)[0])
        tab.wait("#series figure:first-child figcaption", f"{LABELS[0]}{newest}")
        # The headline comes with the event, the table with the answer to a request.
        tab.wait("#rows tr:nth-child(2)", re.compile("^14"))
        shown = tab.page.locator("#rows tr td:first-child").all_text_contents()
        assert shown == [str(one) for one in range(15, 0, -1)]
        assert tab.said == []
        assert all(one.url.startswith(address) for one in tab.responses)
        read = [one.text() for one in tab.responses if "/events" not in one.url and one.ok]
        assert read
        assert TOKEN not in "".join(read) + tab.page.content() + "".join(str(one.headers) for one in tab.responses)
        tab.close()
    with httpx.stream("GET", f"{address}api/live/events", timeout=LIMIT) as stream:
        event = next(one for one in stream.iter_lines() if one.startswith("data: "))
    assert '"batches": 15' in event
    assert TOKEN not in event
    assert TOKEN not in "".join(studio.printed)
    command = Path(f"/proc/{studio.process.pid}/cmdline").read_bytes()
    assert TOKEN.encode() not in command


def test_a_withheld_batch_and_a_gap_show_their_reasons(browser: Any, studio: Process, services: Services) -> None:
    tab = Tab(browser, studio.address())
    tab.wait("#headline", "in 12 batches")
    assert tab.page.locator("#missing").is_hidden()
    services.gaps = [{"first": 14, "last": 15, "bundles": 700, "reason": "expired"}]
    services.add(withheld(13))
    tab.wait("#withheld li", f"Batch 13 was withheld (600 people): {NO_PEOPLE}")
    tab.wait("#withheld li", "buckets 14 to 15 are missing or incomplete (700 bundles discarded): expired")
    tab.wait("#last", "withheld")
    tab.wait("#rows tr.withheld", "withheld")
    assert tab.said == []
    tab.close()


def test_people_of_rounds_are_not_added_in_the_headline(browser: Any, studio: Process, services: Services) -> None:
    tab = Tab(browser, studio.address())
    tab.wait("#headline", "7,200 people in 12 batches.")
    services.add(committed(13, round=2), committed(14, round=3))
    tab.wait(
        "#headline",
        "8,400 responses in 14 batches over 3 rounds. A person may have responded once in every round.",
    )
    tab.wait("#pooled-words", "600 people in 1 batch, with 95 % intervals. Rounds are not added")
    tab.close()


def test_health_alerts_and_problems_are_shown_and_the_last_state_stays(
    browser: Any, studio: Process, services: Services
) -> None:
    tab = Tab(browser, studio.address())
    tab.wait("#health", "healthy")
    tab.wait("#waiting", "at least 300")
    services.figures = {"disk_free": 0.1, "incidents_keys_changed": 1.0}
    tab.wait("#health", "2 alerts")
    tab.wait("#alerts li", "The analyzer changed a known key. (run book: HubbubKeysChanged)")
    services.down = True
    tab.wait("#problems li", "cannot store anything at this time")
    tab.wait("#services li", "analyzer: not ready")
    assert "in 12 batches" in tab.page.locator("#headline").inner_text()
    services.down, services.figures = False, {"disk_free": 0.5}
    services.add(committed(13))
    tab.wait("#headline", "in 13 batches")
    tab.wait("#health", "healthy")
    assert tab.page.locator("#problems li").count() == 0
    assert tab.said == []
    tab.close()


def test_a_page_survives_a_restart_of_the_studio(browser: Any, url: str, token_file: Path, services: Services) -> None:
    port = free_port()
    with following(url, token_file, port) as first:
        tab = Tab(browser, first.address())
        tab.wait("#headline", "in 12 batches")
        assert first.stopped(), "a stream that is open must not hold the studio up"
        tab.wait("#offline", "The studio does not answer")
        assert "in 12 batches" in tab.page.locator("#headline").inner_text()
    services.add(committed(13))
    with following(url, token_file, port) as second:
        second.address()
        tab.wait("#headline", "in 13 batches")
        tab.page.locator("#offline").wait_for(state="hidden")
        tab.close()


def test_the_keyboard_chooses_the_window(browser: Any, studio: Process, services: Services) -> None:
    services.add(*(committed(one) for one in range(13, 301)))
    tab = Tab(browser, studio.address())
    tab.wait("#headline", "in 300 batches")
    tab.wait("#series-words", "batches 251 to 300: each point is one batch")
    page = tab.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#size").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    tab.wait("#series-words", "batches 201 to 250")
    tab.wait("#window", "past batches are shown")
    assert "end=250" in page.url
    services.add(committed(301))
    tab.wait("#headline", "in 301 batches")
    tab.wait("#series-words", "batches 201 to 250")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    tab.wait("#series-words", "batches 251 to 300")
    page.locator("#newest").press("Enter")
    tab.wait("#series-words", "batches 252 to 301")
    page.locator("#size").focus()
    page.keyboard.press("End")
    tab.wait("#series-words", "batches 1 to 301: each point is the mean of up to 2 batches")
    page.locator("#older").press("Enter")
    tab.wait("#rows-words", "batches 252 to 276: 25 of 301")
    page.locator("#younger").press("Enter")
    tab.wait("#rows-words", "batches 277 to 301: 25 of 301")
    page.reload()
    tab.wait("#series-words", "batches 1 to 301")
    assert tab.said == []
    tab.close()


def test_pages_and_windows_pass_over_gaps_in_both_directions(browser: Any, studio: Process, services: Services) -> None:
    # 12 batches, a gap of 88 buckets, 60 batches, a gap of 840, 30 batches.
    services.add(*(committed(one) for one in (*range(101, 161), *range(1001, 1031))))
    tab = Tab(browser, studio.address())
    page = tab.page
    tab.wait("#rows-words", "batches 1,006 to 1,030: 25 of 102")
    for words in ("141 to 1,005", "116 to 140", "3 to 115", "1 to 113"):
        page.locator("#older").press("Enter")
        tab.wait("#rows-words", f"batches {words}: 25 of 102")
    assert page.locator("#older").is_disabled()
    services.add(committed(1031))
    tab.wait("#headline", "in 103 batches")
    tab.wait("#rows-words", "batches 1 to 113: 25 of 103")
    for words in ("114 to 138", "139 to 1,003", "1,004 to 1,028", "1,007 to 1,031"):
        page.locator("#younger").press("Enter")
        tab.wait("#rows-words", f"batches {words}: 25 of 103")
    assert page.locator("#younger").is_disabled()
    services.add(committed(1032))
    tab.wait("#rows-words", "batches 1,008 to 1,032: 25 of 104")
    # 50 batches are shown, not 50 numbers.
    tab.wait("#series-words", "batches 143 to 1,032: each point is one batch")
    for words in ("5 to 142", "1 to 138"):
        page.locator("#earlier").press("Enter")
        tab.wait("#series-words", f"batches {words}:")
    assert page.locator("#earlier").is_disabled()
    for words in ("139 to 1,028", "143 to 1,032"):
        page.locator("#later").press("Enter")
        tab.wait("#series-words", f"batches {words}")
    assert page.locator("#later").is_disabled()
    assert "end=" not in page.url
    assert tab.said == []
    tab.close()


AXIS = """() => {
    const chart = document.querySelector("#series svg"), box = chart.getBoundingClientRect();
    const curve = chart.querySelector("path.curve, .curve path").getBoundingClientRect();
    const lines = [...chart.querySelectorAll(".lost line, line.lost")];
    const lost = lines.map(one => one.getBoundingClientRect().left - box.left);
    return {width: box.width, curve: curve.width, lost};
}"""


def test_a_past_window_has_its_own_withheld_batches_and_is_not_stretched(
    browser: Any, studio: Process, services: Services
) -> None:
    services.add(*(withheld(one) if one in {20, 40} or one > 130 else committed(one) for one in range(13, 161)))
    tab = Tab(browser, studio.address())
    tab.wait("#series-words", "batches 111 to 130: each point")
    tab.wait("#missing-title", "the last 20 of 32 withheld")
    for words in ("61 to 110", "11 to 60"):
        tab.page.locator("#earlier").press("Enter")
        tab.wait("#series-words", f"batches {words}")
    tab.wait("#series-words", "Dashed lines are withheld batches")
    found = tab.page.evaluate(AXIS)
    assert len(found["lost"]) == 2
    assert found["curve"] > 0.6 * found["width"], "the window fills its chart"
    tab.page.locator("#later").press("Enter")
    tab.wait("#series-words", "batches 61 to 110")
    assert "Dashed" not in tab.page.inner_text("#series-words")
    assert tab.page.evaluate(AXIS)["lost"] == []
    tab.page.locator("#newest").press("Enter")
    services.add(*(withheld(one) for one in range(161, 201)))
    tab.wait("#series-words", "All batches of this window were withheld.")
    assert tab.said == []
    tab.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(1360, "light", marks=pytest.mark.essential),
        (1360, "dark"),
        (390, "light"),
        pytest.param(390, "dark", marks=pytest.mark.essential),
    ],
)
def test_the_page_is_accessible(browser: Any, studio: Process, services: Services, scheme: str, width: int) -> None:
    services.add(withheld(13))
    services.figures = {"disk_free": 0.1}
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    tab = Tab(browser, studio.address(), width=width, scheme=scheme, bypass_csp=True)
    tab.wait("#series-words", "Dashed lines are withheld batches")
    assert tab.page.evaluate(CLIPPED) == {"page": 0, "cut": []}
    smallest, text = min(tab.page.evaluate(TEXT))
    assert smallest >= 12, text
    tab.page.evaluate(axe)
    found = tab.page.evaluate("axe.run()")["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == []
    assert tab.said == []
    tab.close()


def test_ten_thousand_batches_are_shown_as_few_points(browser: Any, studio: Process, services: Services) -> None:
    services.add(*(committed(one) for one in range(13, 10_001)))
    tab = Tab(browser, studio.address())
    tab.page.locator("#headline").filter(has_text="in 10,000 batches").wait_for(timeout=PATIENCE)
    tab.wait("#series-words", "batches 9,951 to 10,000")
    for size, words in (
        ("0", "batches 1 to 10,000: each point is the mean of up to"),
        ("1000", "batches 9,001 to 10,000"),
    ):
        tab.page.locator("#size").select_option(size)
        tab.wait("#series-words", words)
    tab.wait("#pooled-title", "All batches of round 1 together")
    tab.wait("#pooled-words", "6,000,000 people in 10,000 batches, with 95 % intervals")
    assert tab.page.locator("#series svg").count() == len(LABELS)
    assert tab.page.locator("#series svg *").count() < 1500
    services.add(committed(10_001))
    tab.wait("#headline", "in 10,001 batches")
    tab.wait("#series-words", "batches 9,002 to 10,001")
    assert tab.said == []
    tab.close()


def test_without_a_collection_the_page_explains_itself(browser: Any) -> None:
    with started("-c", "from hubbub.cli import main; main()", "studio", "--port", "0", "--no-open") as process:
        tab = Tab(browser, process.address())
        tab.wait("#headline", "No collection is connected.")
        tab.wait("#idle", "hubbub studio --live here")
        assert tab.said == []
        tab.close()


HIDE = """seen => {
    Object.defineProperty(document, "visibilityState", {value: seen ? "visible" : "hidden", configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_tabs_that_nobody_sees_leave_their_connection_to_others(
    browser: Any, studio: Process, services: Services
) -> None:
    """A browser has six connections to a host, and each stream takes one."""
    tab = Tab(browser, studio.address())
    pages = [tab.page]
    for _ in range(6):
        pages[-1].locator("#headline", has_text="in 12 batches").wait_for(timeout=PATIENCE)
        pages[-1].evaluate(HIDE, False)
        pages.append(tab.context.new_page())
        pages[-1].goto(f"{studio.address()}live")
    pages[-1].locator("#headline", has_text="in 12 batches").wait_for(timeout=PATIENCE)
    services.add(committed(13))
    pages[-1].locator("#headline", has_text="in 13 batches").wait_for(timeout=PATIENCE)
    assert "in 12 batches" in pages[0].inner_text("#headline")
    pages[0].evaluate(HIDE, True)
    pages[0].locator("#headline", has_text="in 13 batches").wait_for(timeout=PATIENCE)
    assert pages[0].locator("#offline").is_hidden()
    assert tab.said == []
    tab.close()


def test_labels_of_an_analyzer_are_text_of_any_length(
    browser: Any, url: str, token_file: Path, services: Services
) -> None:
    labels = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "x" * 500, "\u202eevil", " "]
    services.results.clear()
    services.add(*(committed(one, labels=labels) for one in range(1, 4)), withheld(4) | {"reason": labels[0]})
    with following(url, token_file) as process:
        for width in (1360, 390):
            tab = Tab(browser, process.address(), width=width)
            tab.page.on("dialog", lambda dialog, tab=tab: tab.said.append(dialog.message))
            tab.wait("#series figcaption", labels[0])
            tab.wait("#pooled", "<img")
            tab.wait("#withheld", labels[0])
            assert tab.page.locator("main img, main script").count() == 0
            assert tab.page.evaluate(CLIPPED)["page"] == 0
            assert tab.said == []
            tab.close()


def test_buttons_that_cannot_be_used_keep_the_focus(browser: Any, studio: Process, services: Services) -> None:
    services.add(*(committed(one) for one in range(13, 61)))
    tab = Tab(browser, studio.address())
    tab.wait("#rows-words", "batches 36 to 60")
    for button, words in (
        ("older", "11 to 35"),
        ("older", "1 to 25"),
        ("younger", "26 to 50"),
        ("younger", "36 to 60"),
    ):
        tab.page.locator(f"#{button}").focus()
        tab.page.keyboard.press("Enter")
        tab.wait("#rows-words", f"batches {words}:")
        tab.page.wait_for_timeout(100)
        assert tab.page.evaluate("document.activeElement.id") == button
    drawn = tab.drawn()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_timeout(300)
    assert tab.drawn() == drawn, "nothing is asked for beyond the newest page"
    for button, words in (("earlier", "1 to 50"), ("newest", "11 to 60")):
        tab.page.locator(f"#{button}").press("Enter")
        tab.wait("#series-words", f"batches {words}")
        tab.page.wait_for_timeout(100)
        assert tab.page.evaluate("document.activeElement.id") == button
    tab.close()


SLOW = """() => {
    const fetched = window.fetch;
    window.fetch = async (...given) => {
        await new Promise(done => setTimeout(done, window.delay ?? 0));
        return fetched(...given);
    };
}"""


def test_slow_answers_are_drawn_while_batches_go_on_arriving(browser: Any, studio: Process, services: Services) -> None:
    tab = Tab(browser, studio.address())
    tab.wait("#series-words", "batches 1 to 12")
    tab.page.evaluate(SLOW)
    tab.page.evaluate("window.delay = 2500")
    before, last = tab.drawn(), 28
    for bucket in range(13, last + 1):
        services.add(committed(bucket))
        tab.page.wait_for_timeout(500)
    while tab.drawn() == before:  # a busy machine draws later, but while batches go on arriving
        last += 1
        assert last < 1000
        services.add(committed(last))
        tab.page.wait_for_timeout(500)
    tab.page.evaluate("window.delay = 0")
    tab.wait("#series-words", f"batches {max(1, last - 49)} to {last}")
    assert tab.said == []
    tab.close()


FAIL = """() => {
    const fetched = window.fetch;
    window.fetch = (...given) => { window.fetch = fetched; return Promise.reject(new TypeError("Failed to fetch")); };
}"""


def test_a_request_that_fails_once_is_repeated(browser: Any, studio: Process, services: Services) -> None:
    services.add(*(committed(one) for one in range(13, 101)))
    tab = Tab(browser, studio.address())
    tab.wait("#series-words", "batches 51 to 100")
    tab.page.wait_for_timeout(600)
    tab.page.evaluate(FAIL)
    tab.page.locator("#earlier").press("Enter")
    tab.wait("#offline", "The studio does not answer")
    tab.wait("#series-words", "batches 1 to 50")
    tab.page.locator("#offline").wait_for(state="hidden")
    assert tab.said == []
    tab.close()


def fulfilled(answer: dict[str, Any], route: Any, request: Any) -> None:
    del request
    route.fulfill(**answer)


def streamed(*events: tuple[str, Any]) -> str:
    """Return a stream of events that ends, after which the page waits for a minute."""
    return "retry: 60000\n\n" + "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)


def test_a_studio_that_has_just_started_takes_no_choice_and_claims_nothing(
    browser: Any, studio: Process, services: Services
) -> None:
    services.results.clear()
    services.add(*(committed(one, questions=["a"] * 2 + ["b"] * 3, units=["people"] * 5) for one in range(1, 4)))
    address = studio.address()
    context = browser.new_context(timezone_id="Pacific/Auckland")
    page = context.new_page()
    page.goto(f"{address}live")
    page.locator("#headline", has_text="in 3 batches").wait_for(timeout=PATIENCE)
    full = httpx.get(f"{address}api/live/overview").json()
    page.close()
    empty: dict[str, Any] = {**full, "tasks": [], "as_of": None}
    unread = {**full, "tasks": [{**full["tasks"][0], "questions": [], "batches": 0, "newest": None}]}
    for events, question in (
        ((("overview", empty),), None),
        ((("overview", unread), ("overview", full), ("alive", 1_900_000_000)), "b"),
    ):
        page = context.new_page()
        answer = {"body": streamed(*events), "headers": {"content-type": "text/event-stream"}}
        page.route("**/api/live/events", functools.partial(fulfilled, answer))
        page.goto(f"{address}live#question=b")
        if question is None:
            page.locator("#headline", has_text="The collection is being read…").wait_for(timeout=PATIENCE)
            continue
        page.locator("#series figcaption", has_text=LABELS[4]).wait_for(timeout=PATIENCE)
        assert page.locator("#question").input_value() == question
        assert "question=b" in page.url
        assert page.inner_text("#clock") == "as of 2030-03-17 17:46:40 UTC"
        assert "released 2030-03-17 17:47:00 UTC" in page.inner_text("#last-words")
    context.close()


def test_the_chosen_collection_and_an_end_to_come_survive_a_reload(
    browser: Any, url: str, token_file: Path, services: Services
) -> None:
    services.tasks = [*services.tasks, "cd" * 16]
    with following(url, token_file) as process:
        tab = Tab(browser, process.address())
        tab.wait("#headline", "in 12 batches")
        tab.page.locator("#task").select_option("cd" * 16)
        tab.page.wait_for_url(re.compile("#task=cd"))
        tab.page.reload()
        tab.wait("#series-words", "batches 1 to 12")
        assert tab.page.locator("#task").input_value() == "cd" * 16
        # A window whose end is still to come follows the newest batch, and does not stop there.
        tab.page.goto(f"{process.address()}live#end=14")
        tab.page.reload()
        tab.wait("#series-words", "batches 1 to 12")
        services.add(*(committed(one) for one in range(13, 17)))
        tab.wait("#series-words", "batches 1 to 16")
        assert tab.said == []
        tab.close()


def test_what_is_spent_is_never_more_than_the_total_that_is_shown(
    browser: Any, studio: Process, services: Services
) -> None:
    whole = {"rounds": 3, "epsilon": 2.503, "delta": 1.0004e-6}
    services.add(committed(13, spent=whole, total=whole))
    tab = Tab(browser, studio.address())
    tab.wait("#spent", "ε = 2.51")
    tab.wait("#spent-words", "of 2.51 at δ = 1.01e-6: 3 of 3 rounds")
    tab.close()


def test_alerts_name_the_service_and_services_without_an_address_are_listed(
    browser: Any, url: str, token_file: Path, services: Services
) -> None:
    services.figures = {"disk_free": 0.01}
    given = ["--port", "0", "--no-open", "--live", url, "--token-file", str(token_file), f"--shuffler-operations={url}"]
    with started("-c", "from hubbub.cli import main; main()", "studio", *given) as process:
        tab = Tab(browser, process.address())
        tab.wait("#alerts li", "Alert from the shuffler: The disk is almost full. (run book: HubbubDiskFull)")
        tab.wait("#services li", "analyzer: no operations address is known")
        services.figures = {"disk_free": 0.5}
        tab.wait("#health", "partly known")
        tab.close()


def test_large_and_missing_figures_are_shown_within_their_charts(
    browser: Any, studio: Process, services: Services
) -> None:
    services.results.clear()
    for bucket in range(1, 5):
        result = committed(bucket, questions=["q"] * 5, units=["people"] * 2 + ["bytes"] * 3)
        table = result["table"]
        for name in ("value", "stderr", "low", "high"):
            known = table[name][0] * (bucket < 4)
            table[name] = [known or None, None, -2e9 * bucket, 3e-6 * bucket, None]
        table["low"] = [None if one is None else one * 0.9 for one in table["low"]]
        services.add(result)
    tab = Tab(browser, studio.address())
    tab.wait("#series-words", "batches 1 to 4")
    assert tab.page.evaluate(CLIPPED) == {"page": 0, "cut": []}
    captions = tab.page.locator("#series figcaption").all_inner_texts()
    assert [one.split("\n")[-1] for one in captions][:2] == ["? ± ?", "? ± ?"]
    text = tab.page.inner_text("body")
    assert not re.search(r"NaN|undefined|null|Infinity", text + tab.page.content())
    assert tab.said == []
    tab.close()


def test_what_has_not_changed_stays_on_the_page(browser: Any, studio: Process, services: Services) -> None:
    tab = Tab(browser, studio.address())
    tab.wait("#series-words", "batches 1 to 12")
    tab.wait("#waiting", "at least 300")
    places = ("#headline b", "#services li", "#series figure", "#rows tr", "#pooled svg")
    tab.page.evaluate("places => places.forEach(one => document.querySelector(one).dataset.old = 'yes')", list(places))
    tab.page.wait_for_timeout(500)
    drawn = tab.drawn()
    services.open = 500
    tab.wait("#waiting", "at least 500")
    tab.page.wait_for_function(f"Number(document.querySelector('main').dataset.drawn) > {drawn}")
    assert [tab.page.locator(one).first.get_attribute("data-old") for one in places] == ["yes"] * len(places)
    tab.close()


@pytest.mark.slow
def test_the_demonstration_shows_drifting_people_and_stops(browser: Any) -> None:
    with started("-m", "tools.demo_studio", "--port", "0", "--no-open") as process:
        tab = Tab(browser, process.address())
        end, seen = time.monotonic() + LIMIT, list[int]()
        while len(seen) < 5 and time.monotonic() < end:
            shown = tab.page.locator("#rows tr td:first-child").all_text_contents()
            if shown and [int(shown[0])] != seen[-1:]:
                assert [int(one) for one in shown] == sorted(map(int, shown), reverse=True)
                seen.append(int(shown[0]))
            tab.page.wait_for_timeout(200)
        assert seen == list(range(seen[0], seen[0] + 5)), "no batch is skipped: each is shown before the next tick"
        tab.wait("#health", "healthy")
        tab.wait("#spent-words", "of 30 rounds")
        assert tab.said == []
        assert process.stopped(), "".join(process.printed)
        tab.close()
    assert "refused" not in "".join(process.printed)
    assert "token" not in "".join(process.printed).lower()
