"""The JavaScript client in Chromium, against real services: every vector, and every person counted exactly once."""

import contextlib
import random
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error
from tests.service.admissions import TICKET_KEY
from tests.service.live import LiveSystem, wait_until
from tools import demo_browser
from tools.page_server import PageServer, as_json

import hubbub as hb
from hubbub import vectors

CLIENT = Path(__file__).parents[2] / "clients" / "js"
HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "browser.md"
PAGE = "/client/test/browser/page.html"
PEOPLE = 60
MANY = 1000


def pages(system: LiveSystem, people: int) -> PageServer:
    """Return a server of the test page, with a contract, tickets for all people, and a relay to the shuffler."""
    contract = system.contract
    tickets = [TICKET_KEY.mint(contract.task, f"person {i}").hex() for i in range(people)]
    return PageServer(
        {"/client": CLIENT, "/vectors": Path(vectors.__file__).parent},
        {"/contract.json": system.paths[0].read_bytes, "/tickets.json": lambda: as_json(tickets)},
        {"/relay": system.url},
        connect=system.url,
    )


def open_page(context: Any, server: PageServer, problems: list[str]) -> Any:
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(server.origin + PAGE)
    page.wait_for_function("window.ready")
    return page


def test_all_vectors_agree(browser: Any) -> None:
    server = PageServer({"/client": CLIENT, "/vectors": Path(vectors.__file__).parent})
    problems: list[str] = []
    with server.running():
        page = open_page(browser.new_context(), server, problems)
        found = page.evaluate("vectors()")
        page.context.close()
    assert found["failed"] == []
    assert found["passed"] > 700
    # Documents that are refused are no reason for messages on the console.
    assert problems == []


def test_people_are_counted_once_through_a_relay(browser: Any, tmp_path: Path) -> None:
    system = LiveSystem(tmp_path, width=PEOPLE, min_batch_size=PEOPLE)
    problems: list[str] = []
    with system.running(), pages(system, PEOPLE).running() as server:
        system.keys()
        page = open_page(browser.new_context(), server, problems)
        assert page.evaluate(f"people(0, {PEOPLE - 1}, '/relay')") == {"stored": PEOPLE - 1}
        assert page.evaluate(f"people(0, {PEOPLE - 1}, '/relay')") == {"stored": PEOPLE - 1}
        assert page.evaluate(f"inServiceWorker({PEOPLE - 1}, '/relay')") == "stored"
        wait_until(lambda: sum(system.counted().values()) >= PEOPLE, "all reports to be counted")
        assert system.counted() == dict.fromkeys(range(PEOPLE), 1)
        page.context.close()
    assert problems == []


def test_pages_of_configured_origins_upload_directly(browser: Any, tmp_path: Path) -> None:
    system = LiveSystem(tmp_path, width=PEOPLE, min_batch_size=PEOPLE)
    with pages(system, PEOPLE).running() as server:
        system.change("shuffler", {"origins": [server.origin]})
        with system.running():
            system.keys()
            page = open_page(browser.new_context(), server, [])
            assert page.evaluate(f"people(0, 3, {system.url!r})") == {"stored": 3}
            assert sum(system.counts().values()) >= 3
            page.context.close()


def test_pages_of_other_origins_are_refused_by_default(browser: Any, tmp_path: Path) -> None:
    system = LiveSystem(tmp_path, width=PEOPLE, min_batch_size=PEOPLE)
    with system.running(), pages(system, PEOPLE).running() as server:
        system.keys()
        page = open_page(browser.new_context(), server, [])
        assert page.evaluate(f"people(0, 1, {system.url!r})") == {"NoResponse": 1}
        page.context.close()


def test_the_page_of_the_howto(browser: Any, tmp_path: Path) -> None:
    """The script of the howto, with the identities of this contract, under the policy of the howto."""
    code = re.search(r"```js page\n(.*?)```", HOWTO.read_text("utf-8"), re.DOTALL)
    assert code
    plan = hb.plan_from(hb.Schema.one_hot(["news", "sports", "none"]), 100, hb.Protocol(0.1), epsilon=3.0)
    system = LiveSystem(tmp_path / "services", plan=plan, min_batch_size=100)
    script = code[1]
    for place, identity in (("8a88e3…", system.contract.analyzer), ("b1c4d0…", system.contract.shuffler)):
        assert place in script
        script = script.replace(place, identity.hex())
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "survey.js").write_text(script, "utf-8")
    (tmp_path / "page" / "index.html").write_text('<!doctype html><script type="module" src="survey.js"></script>')
    with system.running(), pages(system, 1).running() as server:
        system.keys()
        server.folders = {"/hubbub": CLIENT, "/page": tmp_path / "page"}
        ticket = TICKET_KEY.mint(system.contract.task, "person 0").hex()
        server.documents["/ticket"] = ticket.encode
        page = browser.new_context().new_page()
        told: list[str] = []
        page.on("console", lambda message: told.append(message.text) if message.type == "log" else None)
        page.on("pageerror", lambda error: told.append(str(error)))
        for visit in range(1, 3):
            page.goto(f"{server.origin}/page/index.html")
            for _ in range(6000):
                if len(told) >= visit:
                    break
                page.wait_for_timeout(100)
            assert told == ["stored"] * visit
        assert server.statuses[201] == 1
        page.context.close()


def test_a_full_disk_and_two_tabs(browser: Any, tmp_path: Path) -> None:
    """An answer that cannot be stored is not sent; tabs that answer at the same time are counted once."""
    system = LiveSystem(tmp_path, width=PEOPLE, min_batch_size=PEOPLE)
    with system.running(), pages(system, PEOPLE).running() as server:
        system.keys()
        context = browser.new_context()
        tabs = [open_page(context, server, []) for _ in range(2)]
        storage = context.new_cdp_session(tabs[0])
        storage.send("Storage.overrideQuotaForOrigin", {"origin": server.origin, "quotaSize": 1})
        assert tabs[0].evaluate("people(0, 1, '/relay')") == {"HubbubError": 1}
        assert server.statuses[201] == 0
        storage.send("Storage.overrideQuotaForOrigin", {"origin": server.origin})
        for tab in tabs:
            tab.evaluate("void (window.result = people(0, 5, '/relay'))")
        assert [tab.evaluate("window.result") for tab in tabs] == [{"stored": 5}] * 2
        assert system.counts()["accepted"] == 5
        context.close()


def test_the_demonstration(browser: Any, tmp_path: Path) -> None:
    """An answer in the page, the bits that leave, and the released batch."""
    problems: list[str] = []
    with demo_browser.running(tmp_path) as demo:
        page = browser.new_context().new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(demo.address)
        page.get_by_label("news").check()
        page.get_by_role("button", name="Answer").click()
        page.get_by_text("stored by the shuffler").wait_for()
        rows = page.locator("#bits tbody tr").all_inner_texts()
        assert [row.split("\t")[1] for row in rows] == ["0", "1", "0", "0", "0"]
        assert "Sealed: " in page.locator("#bundle").inner_text()
        page.locator("#results").wait_for(timeout=600_000)
        assert page.locator("#results tbody tr").count() == 5
        page.reload()
        page.get_by_text("stored by the shuffler").wait_for()
        assert page.get_by_role("button", name="Answer").is_disabled()
        page.context.close()
    assert problems == []


def test_the_time_of_an_answer(browser: Any, tmp_path: Path) -> None:
    """Randomizing, sealing and packing: 2 ms on a quiet machine; the limit is that of a busy one."""
    system = LiveSystem(tmp_path, width=PEOPLE, min_batch_size=PEOPLE)
    with system.running(), pages(system, 1).running() as server:
        system.keys()
        page = open_page(browser.new_context(), server, [])
        found = page.evaluate("timing(300)")
        page.context.close()
    print(found)
    assert found["median"] < 20


def send_in_chaos(browser: Any, system: LiveSystem, server: PageServer, people: int, seed: int) -> dict[str, int]:
    """Let people answer while tabs are killed, the network fails and keys are rotated; return what happened."""
    choice = random.Random(seed)
    happened = {"crashed": 0, "offline": 0, "rotated": 0, "tabs": 0}
    context = browser.new_context()
    step = people // 4
    for turn in range(12):
        tabs = []
        for part in range(4):
            page = open_page(context, server, [])
            happened["tabs"] += 1
            first, last = part * step, people if part == 3 else (part + 1) * step
            # Some tabs work on the same people at the same time.
            if turn % 3 == 2:
                first = max(0, first - step // 2)
            page.evaluate(f"() => {{ window.work = people({first}, {last}, '/relay'); }}")
            tabs.append(page)
        page.wait_for_timeout(choice.randrange(300, 2500))
        if turn % 2:
            context.set_offline(True)
            happened["offline"] += 1
            page.wait_for_timeout(choice.randrange(100, 900))
            context.set_offline(False)
        if turn % 3 == 0:
            system.command(choice.choice(["shuffler", "analyzer"]), "rotate")
            happened["rotated"] += 1
            page.wait_for_timeout(1200)
        for one in tabs:
            if choice.random() < 0.7:
                # The process of the tab dies; the others are closed.
                with contextlib.suppress(Error):
                    one.goto("chrome://crash", timeout=5000)
                happened["crashed"] += 1
            one.close()
    for _ in range(100):
        page = open_page(context, server, [])
        if page.evaluate(f"people(0, {people}, '/relay')") == {"stored": people}:
            break
        page.close()
    context.close()
    return happened


def check_chaos(browser: Any, tmp_path: Path, people: int, seed: int) -> None:
    entries: Any = {"shuffler": {"key_grace": 1.0}, "analyzer": {"key_grace": 1.0}}
    batch = people // 10
    system = LiveSystem(tmp_path, width=people + batch, min_batch_size=batch, entries=entries)
    with system.running(), pages(system, people + batch).running() as server:
        system.keys()
        happened = send_in_chaos(browser, system, server, people, seed)
        # The last batch needs more people. The first of them seals an answer whose keys are gone when it is sent.
        page = open_page(browser.new_context(), server, [])
        page.route("**/bundles", lambda route: route.abort())
        assert page.evaluate(f"people({people}, {people + 1}, '/relay')") == {"NoResponse": 1}
        page.unroute("**/bundles")
        system.command("shuffler", "rotate")
        page.wait_for_timeout(2500)
        for _ in range(100):  # keys that are gone a second after their rotation: a busy machine needs another try
            sent = page.evaluate(f"people({people}, {people + batch}, '/relay')")
            if sent == {"stored": batch}:
                break
        assert sent == {"stored": batch}
        page.context.close()
        wait_until(system.drained, "all batches to be delivered")
        counted = system.counted()
        assert {value: count for value, count in counted.items() if value < people} == dict.fromkeys(range(people), 1)
        assert max(counted.values()) == 1
        # Bundles were refused because of outdated keys, and sealed again.
        assert server.statuses[409] > 0
        print(happened, dict(server.statuses), "counted", sum(counted.values()))


def test_people_are_counted_once_in_chaos(browser: Any, tmp_path: Path) -> None:
    check_chaos(browser, tmp_path, 100, 1)


@pytest.mark.slow
def test_a_thousand_people_are_counted_once_in_chaos(browser: Any, tmp_path: Path) -> None:
    check_chaos(browser, tmp_path, MANY, 2)
