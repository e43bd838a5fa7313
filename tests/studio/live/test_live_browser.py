"""The live page in headless Chromium, with stand-ins of the services that change while it is open."""

import re
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.sockets import served
from tests.studio.live.process import Process, following, started
from tests.studio.live.services import LABELS, NO_PEOPLE, TOKEN, Services, committed, drifting, withheld

from hubbub.service.provision import free_port
from hubbub.service.runtime.server import Listener

pytestmark = pytest.mark.browser
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
        self.page.locator(selector).filter(has_text=text).first.wait_for(timeout=15_000)

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
    with httpx.stream("GET", f"{address}api/live/events", timeout=10) as stream:
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
    tab.wait("#withheld li", f"Batch 13 was withheld (600 people):{NO_PEOPLE}")
    tab.wait("#withheld li", "buckets 14 to 15 are missing or incomplete (700 bundles discarded): expired")
    tab.wait("#last", "withheld")
    tab.wait("#rows tr.withheld", "withheld")
    assert tab.said == []
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
        assert first.stopped_within(2), "a stream that is open must not hold the studio up"
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
    tab.wait("#window", "the past is shown")
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
    tab.wait("#rows-words", "batches 252 to 276 of 301")
    page.locator("#younger").press("Enter")
    tab.wait("#rows-words", "batches 277 to 301 of 301")
    page.reload()
    tab.wait("#series-words", "batches 1 to 301")
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
    tab.page.locator("#headline").filter(has_text="in 10,000 batches").wait_for(timeout=120_000)
    tab.wait("#series-words", "batches 9,951 to 10,000")
    for size, words in (
        ("0", "batches 1 to 10,000: each point is the mean of up to"),
        ("1000", "batches 9,001 to 10,000"),
    ):
        tab.page.locator("#size").select_option(size)
        tab.wait("#series-words", words)
    tab.wait("#pooled-title", "All batches of round 1 together")
    tab.wait("#pooled-words", "6,000,000 people of 10,000 batches, with 95 % intervals")
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
        pages[-1].locator("#headline", has_text="in 12 batches").wait_for(timeout=15_000)
        pages[-1].evaluate(HIDE, False)
        pages.append(tab.context.new_page())
        pages[-1].goto(f"{studio.address()}live")
    pages[-1].locator("#headline", has_text="in 12 batches").wait_for(timeout=15_000)
    services.add(committed(13))
    pages[-1].locator("#headline", has_text="in 13 batches").wait_for(timeout=15_000)
    assert "in 12 batches" in pages[0].inner_text("#headline")
    pages[0].evaluate(HIDE, True)
    pages[0].locator("#headline", has_text="in 13 batches").wait_for(timeout=15_000)
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


@pytest.mark.slow
def test_the_demonstration_shows_drifting_people_and_stops(browser: Any) -> None:
    with started("-m", "tools.demo_studio", "--port", "0", "--no-open") as process:
        tab = Tab(browser, process.address(120))
        end, seen = time.monotonic() + 120, list[int]()
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
        assert process.stopped_within(2), "".join(process.printed)
        tab.close()
    assert "refused" not in "".join(process.printed)
    assert "token" not in "".join(process.printed).lower()
