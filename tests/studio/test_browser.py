"""The page Explore in Chromium: controls, keyboard, links, copies, screen sizes, accessibility, a restart."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.cli.conftest import call
from tests.report.test_browser import TEXT, WIDTHS
from tests.studio.conftest import LIMIT, Running

import hubbub as hb
from hubbub.studio.guard import PLOT_STYLE
from hubbub.studio.site import STATIC

pytestmark = pytest.mark.browser

VIEWS = [(1360, "light"), (1360, "dark"), (390, "light"), (390, "dark")]
PATIENCE = 1000 * LIMIT
QUICK = "#n=2000&d=3&trust=shuffler-noise"
ESSENTIAL = {(QUICK, 1360, "light"), (QUICK, 390, "dark")}
"""Views that are looked at in `make test`; the others in `make test-browser`."""
STYLES = """() => [...Plot.plot({className: "plot", marks: [Plot.dot([[1, 2]])]}).querySelectorAll("style")]
    .map(one => one.textContent)"""


class Visit:
    """An open page, with everything that it said and asked for."""

    def __init__(self, browser: Any, studio: Running, width: int = 1360, scheme: str = "light", **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        self.studio, self.said, self.asked = studio, list[str](), list[str]()
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, state: str = QUICK, *, late: bool = False) -> Any:
        self.page.goto(f"{self.studio.address}{state}")
        self.settle(late=late)
        return self.page

    def settle(self, *, late: bool = False) -> None:
        """Wait for all certificates, and for what follows from the chosen one."""
        self.page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
        assert "protocols are certified" in self.page.inner_text("#status")
        assert late or "took too long" not in self.page.inner_text("#status")
        self.page.locator("#ladder svg").wait_for(timeout=PATIENCE)
        self.page.locator("#sim svg").first.wait_for(timeout=PATIENCE)

    def check(self) -> None:
        """Nothing was logged, and nothing asked for elsewhere."""
        assert self.said == []
        assert all(url.startswith((self.studio.address, "blob:")) for url in self.asked)


@pytest.fixture
def visit(browser: Any, studio: Running) -> Iterator[Visit]:
    made = Visit(browser, studio)
    yield made
    made.context.close()


def press(page: Any, control: str, key: str, times: int = 1) -> None:
    page.locator(control).focus()
    for _ in range(times):
        page.keyboard.press(key)


LOOKS = [
    pytest.param(state, *view, marks=[pytest.mark.essential] if (state, *view) in ESSENTIAL else [])
    for state in (QUICK, f"{QUICK}&kind=several", f"{QUICK}&kind=number&measure=spread")
    for view in VIEWS
]


@pytest.mark.parametrize(("state", "width", "scheme"), LOOKS)
def test_it_looks_right(state: str, width: int, scheme: str, browser: Any, studio: Running) -> None:
    visit = Visit(browser, studio, width, scheme, bypass_csp=True)
    page = visit.open(state)
    if "several" in state:
        page.select_option("#shape", "own")
        visit.settle()
    visit.check()
    seen = page.evaluate(WIDTHS)
    assert seen["page"] == 0
    assert seen["cut"] == []
    smallest, text = min(page.evaluate(TEXT))
    assert smallest >= 12, text
    page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == []
    visit.context.close()


def test_everything_is_readable_on_paper_and_on_phones(browser: Any, studio: Running) -> None:
    """Paper is white and cannot be scrolled, whatever the screen; no text is longer than a phone is wide."""
    visit = Visit(browser, studio, 718, "dark")
    page = visit.open(f"{QUICK}&compromised=20&drop=30")
    page.emulate_media(media="print")
    seen = page.evaluate(WIDTHS)
    assert (seen["page"], seen["cut"], seen["scrolling"], seen["ground"]) == (0, [], 0, "rgb(255, 255, 255)")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(32, 36, 43)"
    table = page.locator("#table").bounding_box()
    assert table["x"] + table["width"] <= 718
    for control in ("#controls", "#peek", "#copy", "#link"):
        assert page.locator(control).is_hidden()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("[name=trust][value=shuffling]").check()
    page.locator("#ladder[aria-label*='as planned']").wait_for(timeout=PATIENCE)
    assert page.evaluate(WIDTHS)["cut"] == []
    visit.context.close()


def test_errors_of_a_mean_are_drawn_in_its_own_unit(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=number")
    assert page.inner_text("#c-margin").startswith("±\u00a00.")
    assert "people" not in page.inner_text("#c-margin")
    for chart in ("#by-epsilon", "#by-people"):
        assert "± error of the mean" in page.locator(chart).inner_text()
    page.select_option("#measure", "spread")
    visit.settle()
    assert "± people" in page.locator("#by-epsilon").inner_text()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0.000381001", "0.000382"),
        ("0.00999001", "0.01"),
        ("1.000000001", "1"),
        ("1.00101", "1.01"),
        ("0.00000012301", "1.24e-7"),
        ("57.41", "57.5"),
    ],
)
def test_certified_losses_are_never_rounded_down(value: str, shown: str, visit: Visit) -> None:
    visit.page.goto(f"{visit.studio.address}live")
    found = visit.page.evaluate(f"import('/static/common.js').then(one => one.atMost({value}))")
    assert found == shown
    assert float(found) >= float(value) * (1 - 1e-6)


@pytest.mark.essential
def test_plot_writes_one_known_style(browser: Any) -> None:
    page = browser.new_page()
    for name in ("d3.min.js", "plot.umd.min.js"):
        page.add_script_tag(path=str(STATIC / "vendor" / name))
    texts = page.evaluate(STYLES)
    page.close()
    digests = [f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}" for text in texts]
    assert digests == [PLOT_STYLE]


def test_first_load(visit: Visit) -> None:
    page = visit.open("")
    loaded = page.evaluate(
        """performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
        .filter(one => !one.name.includes("/api/")).map(one => one.transferSize)"""
    )
    assert 100_000 < sum(loaded) < 250_000
    visit.check()


def test_sliders_by_keyboard(visit: Visit) -> None:
    page = visit.open()
    before = page.inner_text("#verdict")
    for control, entry in (("#eps", "eps="), ("#n", "n="), ("#d", "d="), ("#rounds", "rounds=")):
        press(page, control, "ArrowRight", 2)
        visit.settle()
        assert entry in page.url.partition("#")[2]
        assert page.inner_text("#verdict") != before
        before = page.inner_text("#verdict")
    assert "eps=1.2&" in page.url
    press(page, "#delta", "ArrowRight")
    press(page, "#compromised", "ArrowRight")
    visit.settle()
    assert page.inner_text("#compromised-out") == "5 %"
    assert page.inner_text("#delta-out") == "1 in 10,000,000"
    visit.check()


@pytest.mark.essential
def test_a_slider_moves_by_keyboard(visit: Visit) -> None:
    """Every key is another value, another verdict and another address."""
    page = visit.page
    page.goto(f"{visit.studio.address}{QUICK}")
    certified = page.locator("#verdict", has_text="in 95 of 100")
    certified.wait_for(timeout=PATIENCE)
    said = [page.inner_text("#verdict")]
    for epsilon in ("1.1", "1.2"):
        press(page, "#eps", "ArrowRight")
        page.locator("#verdict", has_text="being certified").or_(certified).wait_for(timeout=PATIENCE)
        page.locator(f"#eps[aria-valuetext='{epsilon}']").wait_for(timeout=PATIENCE)
        page.wait_for_function(
            "said => document.getElementById('verdict').textContent.includes('95 of 100') &&"
            " !said.includes(document.getElementById('verdict').innerText)",
            arg=said,
            timeout=PATIENCE,
        )
        said.append(page.inner_text("#verdict"))
        assert f"eps={epsilon}" in page.url
    visit.check()


def test_numbers_can_be_typed(visit: Visit) -> None:
    page = visit.open()
    page.fill("#n-text", "12,345")
    page.keyboard.press("Enter")
    visit.settle()
    assert "12,345 people" in page.inner_text("#verdict")
    page.fill("#eps-text", "nonsense")
    page.keyboard.press("Tab")
    assert page.input_value("#eps-text") == "1"
    visit.check()


def test_everything_is_reached_by_tab(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several")
    wanted = page.evaluate(
        """[...document.querySelectorAll("a[href], button, select, input, textarea, [tabindex='0']")]
        .filter(one => !one.disabled && one.tabIndex >= 0 && one.offsetParent && one.type !== "radio")
        .map(one => one.id || one.ariaLabel || one.textContent)"""
    )
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(len(wanted) + 15):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(one => one.id || one.ariaLabel || one.textContent)(document.activeElement)"))
    assert len(wanted) > 25
    assert set(wanted) - {"skip"} <= reached


def test_another_protocol(visit: Visit) -> None:
    page = visit.open()
    page.locator("input[name=family][value=split]").check()
    page.locator("#take", has_text="--choose split").wait_for(timeout=PATIENCE)
    assert "split bits" in page.inner_text("#c-margin-text")
    assert "family=split" in page.url
    page.locator("[name=trust][value=nobody]").check()
    visit.settle()
    assert page.locator("input[name=family][value=split]").is_disabled()
    assert "rests on nobody else" in page.inner_text("#verdict")
    visit.check()


def test_links(visit: Visit, browser: Any, studio: Running) -> None:
    page = visit.open(f"{QUICK}&kind=few&k=2&rounds=2&compromised=10&family=split&drop=30")
    said = page.inner_text("#verdict"), page.inner_text("#drop-text"), page.inner_text("#take")
    other = Visit(browser, studio)
    again = other.open(page.url.removeprefix(studio.address))
    assert (again.inner_text("#verdict"), again.inner_text("#drop-text"), again.inner_text("#take")) == said
    other.context.close()
    page.evaluate("location.hash = 'n=3000&d=nonsense&kind=odd&eps=1e9&questions=[&unknown=1&trust=%22'")
    page.locator("#verdict", has_text="3,000 people give one of 12").wait_for(timeout=PATIENCE)
    assert page.input_value("#eps-text") == "20"
    visit.check()


@pytest.mark.parametrize("state", [QUICK, f"{QUICK}&kind=several&trust=nobody", "#n=2000&d=4&clear=1"])
def test_copies_make_the_same_plan(
    state: str, visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, studio: Running
) -> None:
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=studio.address.rstrip("/"))
    page = visit.open(state)
    monkeypatch.chdir(tmp_path)
    texts = {}
    page.locator("#tab-command").focus()
    for form in ("command", "python", "plan"):
        page.locator("#copy").click()
        page.locator("#copy", has_text="Copied").wait_for()
        texts[form] = page.evaluate("navigator.clipboard.readText()")
        page.locator("#copy", has_text=re.compile("^Copy$")).wait_for()
        page.locator("[role=tab][aria-selected=true]").focus()
        page.keyboard.press("ArrowRight")
    shown = hb.load_plan(texts["plan"])
    *head, line = texts["command"].splitlines()
    if head:
        Path("survey.toml").write_text("\n".join(head[1:-1]), encoding="utf-8")
    assert call(*shlex.split(line)[1:]).exit_code == 0
    assert hb.load_plan(Path("plan.json").read_text(encoding="utf-8")).id == shown.id
    names: dict[str, Any] = {}
    exec(texts["python"], names)
    assert names["plan"].id == shown.id
    with page.expect_download() as saved:
        page.locator("#save").click()
    assert json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))["id"] == shown.id
    with page.expect_download() as saved:
        page.locator("#report").click()
    report = Path(saved.value.path()).read_text(encoding="utf-8")
    assert shown.id in report
    assert saved.value.suggested_filename == "report.html"
    visit.check()


def test_pasted_people(visit: Visit) -> None:
    page = visit.open()
    page.select_option("#shape", "own")
    page.locator("#sim text", has_text="coffee").first.wait_for(timeout=PATIENCE)
    assert "one of 4 answers" in page.inner_text("#verdict")
    page.fill("#own", "red, 1\ngreen, 3\n")
    page.keyboard.press("Tab")
    page.locator("#sim text", has_text="green").first.wait_for(timeout=PATIENCE)
    assert "red" not in page.url
    page.select_option("#kind", "several")
    visit.settle()
    page.select_option("#shape", "own")
    page.fill("#own", "colour,dark mode,load time\nred,yes,100\nviolet,no,3000\n")
    page.keyboard.press("Tab")
    page.locator("#sim-problem", has_text="record 2").wait_for(timeout=PATIENCE)
    assert "violet" not in page.inner_text("#sim-problem")
    page.fill("#own", "colour,dark mode,load time\nred,yes,100\nblue,no,3000\n")
    page.keyboard.press("Tab")
    page.locator("#sim-problem").wait_for(state="hidden", timeout=PATIENCE)
    visit.check()


def test_solving(visit: Visit) -> None:
    page = visit.open()
    page.fill("#goal", "20")
    page.locator("#solve").click()
    page.locator("#goal-text", has_text="is enough").wait_for(timeout=PATIENCE)
    visit.settle()
    page.locator("#c-margin", has_text="±").wait_for(timeout=PATIENCE)
    assert 17 < float(page.inner_text("#c-margin").split()[1]) <= 20
    visit.check()


def test_questions_can_be_edited(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several")
    page.locator("#add").click()
    page.locator("#verdict", has_text="answer 4 questions").wait_for(timeout=PATIENCE)
    visit.settle()
    assert page.locator("#c-margin-text dt").count() == 4
    page.get_by_label("Question 4: remove").click()
    page.get_by_label("Question 1: answers, separated by commas").fill("yes")
    page.keyboard.press("Tab")
    page.locator("#problem", has_text="number of labels").wait_for(timeout=PATIENCE)
    page.get_by_label("Question 1: answers, separated by commas").fill("yes, no, maybe")
    page.keyboard.press("Tab")
    page.locator("#verdict", has_text="in 95 of 100").wait_for(timeout=PATIENCE)


@pytest.mark.essential
def test_estimates_never_look_certified(visit: Visit) -> None:
    """While certificates are on their way, figures say that they are estimates, and nothing can be taken along."""
    page = visit.page
    for path in ("preliminary", "certify"):
        page.route(f"**/api/{path}", lambda route: None)
    page.goto(f"{visit.studio.address}{QUICK}")
    page.locator("#verdict", has_text="being certified").wait_for(timeout=PATIENCE)
    assert page.inner_text("#c-margin").startswith("≈")
    assert page.inner_text("#c-guess") == "–"
    assert page.locator("#by-epsilon path[fill]").count() == 0
    assert page.locator("#copy").is_disabled()
    assert page.locator("#save").is_disabled()
    assert page.locator("#report").is_disabled()
    assert "±" not in page.inner_text("#table tbody")
    assert all(one.is_disabled() for one in page.locator("input[name=family]").all())


def test_a_preliminary_plan_is_shown_and_cannot_be_taken(visit: Visit) -> None:
    page, held = visit.page, [True]
    page.route("**/api/certify", lambda route: None if held else route.continue_())
    page.goto(f"{visit.studio.address}#n=2000&d=3")
    page.locator("#verdict", has_text="in 95 of 100").wait_for(timeout=PATIENCE)
    assert "being certified" in page.inner_text("#c-margin-text")
    assert "being certified" in page.inner_text("#take")
    assert page.locator("input[name=family][value=split]").is_disabled()
    assert all(page.locator(f"#{one}").is_disabled() for one in ("copy", "save", "report"))
    held.clear()
    page.fill("#n-text", "2001")
    page.keyboard.press("Enter")
    visit.settle()
    assert "being certified" not in page.inner_text("#c-margin-text")
    assert page.locator("#copy").is_enabled()
    visit.check()


def test_strings_that_nobody_listed(visit: Visit) -> None:
    page = visit.open("#kind=strings&trust=shuffler-noise&delta=8")
    assert "A text of 41 people is shown in 95 of 100" in page.inner_text("#verdict").replace("\u00a0", " ")
    assert page.inner_text("#c-trust") == "shuffler and relay"
    assert "but not whose" in page.inner_text("#c-trust-text")
    assert "--strings 64 " in page.inner_text("#take")
    assert "texts are shown" in page.inner_text("#sim")
    page.select_option("#bytes", "256")
    visit.settle()
    assert "at most 256 bytes" in page.inner_text("#verdict")
    assert "bytes=256" in page.url
    page.locator("[name=trust][value=shuffling]").check()
    page.locator("#verdict", has_text="need a shuffler that blurs their counts").wait_for(timeout=PATIENCE)
    assert page.locator("#copy").is_disabled()
    visit.check()


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.essential), 3])
def test_two_tabs(steps: int, browser: Any, studio: Running) -> None:
    first, second = Visit(browser, studio), Visit(browser, studio)
    for step in range(steps):
        first.page.goto(f"{studio.address}#n={2000 + step}&d={steps + 2}&trust=shuffler-noise")
        second.page.goto(f"{studio.address}#n={5000 + step}&d={steps + 2}&kind=any&trust=shuffler-noise")
        first.settle()
        second.settle()
        for visit in (first, second):
            assert "being certified" not in visit.page.inner_text("#table")
            visit.check()
    first.context.close()
    second.context.close()


def test_a_restart_under_an_open_page(browser: Any) -> None:
    running = Running()
    visit = Visit(browser, running)
    page = visit.open()
    running.stop()
    press(page, "#eps", "ArrowRight")
    page.locator("#offline").wait_for(timeout=PATIENCE)
    again = Running(running.port)
    try:
        page.locator("#offline").wait_for(state="hidden", timeout=PATIENCE)
        visit.settle()
        assert "being certified" not in page.inner_text("#verdict")
        page.locator("#again").click()
        visit.settle()
    finally:
        again.stop()
        visit.context.close()


def test_certificates_are_not_shown_with_numbers_of_another_state(visit: Visit) -> None:
    """While the studio is silent, no drawing may put the certified figures of before beside the new choice."""
    page = visit.open()
    before = page.inner_text("#verdict")
    page.route("**/api/outline", lambda route: None)
    page.fill("#n-text", "777")
    page.keyboard.press("Enter")
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_timeout(500)
    assert page.inner_text("#verdict") == before


def test_a_late_certificate_is_mentioned_if_it_may_be_better(visit: Visit) -> None:
    page = visit.page

    def late(route: Any) -> None:
        lines = [json.loads(line) for line in route.fetch().text().splitlines()]
        kept = [
            one if one["family"].startswith("local") else {"family": one["family"], "state": "late"} for one in lines
        ]
        route.fulfill(body="".join(f"{json.dumps(one)}\n" for one in kept))

    page.route("**/api/preliminary", lambda route: route.fulfill(body="{}"))
    page.route("**/api/certify", late)
    visit.open(late=True)
    assert "may be more precise are not certified yet" in page.inner_text("#verdict")
    page.locator("[name=trust][value=nobody]").check()
    visit.settle(late=True)
    assert "may be more precise" not in page.inner_text("#verdict")


def test_what_is_said_aloud_waits_for_late_certificates(visit: Visit) -> None:
    page = visit.page

    def late(route: Any) -> None:
        asked = json.loads(route.request.post_data)
        if asked["patient"]:
            route.continue_()
        else:
            lines = [json.dumps({"family": family, "state": "late"}) for family in asked["families"]]
            route.fulfill(body="".join(f"{line}\n" for line in lines))

    page.route("**/api/preliminary", lambda route: route.fulfill(body="{}"))
    page.route("**/api/certify", late)
    visit.open()
    assert "in 95 of 100 collections" in page.text_content("#said")
    assert page.text_content("#said") == page.text_content("#verdict")


def test_a_state_that_replaces_one_with_late_certificates_settles(visit: Visit) -> None:
    """The page still waits for late certificates of before when a control moves: the new state must not wait, too."""
    page = visit.page

    def late(route: Any) -> None:
        body = route.request.post_data_json
        if not body["patient"]:
            route.fulfill(body="".join(f'{{"family": "{one}", "state": "late"}}\n' for one in body["families"]))

    page.route("**/api/preliminary", lambda route: route.fulfill(body="{}"))
    page.route("**/api/certify", late)
    page.goto(f"{visit.studio.address}{QUICK}")
    page.locator("#table", has_text="this takes longer").wait_for(timeout=PATIENCE)
    page.unroute("**/api/certify")
    page.locator("[name=trust][value=nobody]").check()
    visit.settle()


def test_a_chosen_protocol_that_is_not_certified_is_not_replaced_silently(visit: Visit) -> None:
    page = visit.page

    def late(route: Any) -> None:
        lines = [json.loads(line) for line in route.fetch().text().splitlines()]
        kept = [{"family": "split", "state": "late"} if one["family"] == "split" else one for one in lines]
        route.fulfill(body="".join(f"{json.dumps(one)}\n" for one in kept))

    page.route("**/api/preliminary", lambda route: route.fulfill(body="{}"))
    page.route("**/api/certify", late)
    visit.open(f"{QUICK}&family=split", late=True)
    assert "You chose “split bits”, which is not certified" in page.inner_text("#verdict")
    page.unroute("**/api/certify")
    page.evaluate("dispatchEvent(new Event('hashchange'))")
    visit.settle()
    assert "which is not certified" not in page.inner_text("#verdict")
    assert page.locator("input[name=family][value=split]").is_checked()


@pytest.mark.parametrize(
    "state",
    [
        "toString=1&__proto__=2&constructor=3&hasOwnProperty=4",
        'kind=several&questions=[{"name":{"toString":1,"valueOf":1},"kind":"choice","labels":[{"toString":1}]}]',
        'kind=several&questions=[{"name":[[]],"kind":"scale","low":{},"high":{"valueOf":1},"buckets":{"valueOf":1}},null]',
        "n=&d=-1&k=1e99&delta=NaN&rounds=Infinity&low=5&high=5&drop=0x10",
        "kind=several&questions=" + "[" * 5000,
    ],
)
def test_no_address_breaks_the_page(state: str, visit: Visit) -> None:
    page = visit.page
    page.goto(f"{visit.studio.address}#{state}")
    page.locator("#verdict", has_text="people").wait_for(timeout=PATIENCE)
    assert not page.evaluate("Object.keys(studio.state).some(key => key in {})")
    visit.check()


def test_names_and_labels_are_text_and_nothing_else(visit: Visit) -> None:
    page = visit.page
    bad = "<img src=x onerror=alert(1)>"
    questions = [{"name": bad, "kind": "choice", "labels": [f"{bad}a", "</script><script>alert(2)</script>"]}]
    page.on("dialog", lambda dialog: visit.said.append(dialog.message))
    page.goto(
        f"{visit.studio.address}#n=2000&kind=several&trust=shuffler-noise&questions={quote(json.dumps(questions))}"
    )
    page.locator("#verdict", has_text="in 95 of 100").wait_for(timeout=PATIENCE)
    page.locator("#sim svg").first.wait_for(timeout=PATIENCE)
    assert bad in page.inner_text("#c-margin-text")
    assert page.locator("main img, main script").count() == 0
    with page.expect_download() as saved:
        page.locator("#report").click()
    report = Path(saved.value.path()).read_text(encoding="utf-8")
    assert "<img src=x" not in report
    assert "<script>alert" not in report
    visit.check()


def test_pasted_lines_with_long_names_and_without_numbers(visit: Visit) -> None:
    page = visit.open()
    page.select_option("#shape", "own")
    same = "the same beginning of both"
    page.fill("#own", f"{same} one, 3\n{same} two, 1\nyes, of course, 50 %\nno number here\n")
    page.keyboard.press("Tab")
    page.locator("#sim-problem", has_text="line 4").wait_for(timeout=PATIENCE)
    visit.settle()
    assert "one of 3 answers" in page.inner_text("#verdict")
    assert page.locator("#sim .chart").first.locator("text", has_text="…").count() == 2


def test_pasted_numbers_may_have_commas_between_thousands(visit: Visit) -> None:
    page = visit.open()
    page.select_option("#shape", "own")
    read = ["coffee, 1,000,000", "yes, of course, 2,000", "5,400", "", "tea;1,100"]
    unread = ["between 1,000 and 2,000,500", "tea, 0,5", "tea, -1,500", "tea, $1,500", "water, Infinity"]
    page.fill("#own", "\n".join([*read, *unread, f"a,{50_000 * ' '},x"]))
    with page.expect_request("**/api/simulate") as sent:
        page.keyboard.press("Tab")
    counts = [1_000_000, 2_000, 400, 1_100]
    assert sent.value.post_data_json["shares"] == [one / sum(counts) for one in counts]
    page.locator("#sim-problem", has_text="lines 6, 7, 8, 9, 10, 11").wait_for(timeout=PATIENCE)
    assert page.locator("#sim .chart").first.locator("text", has_text="of course").count() == 1
    page.set_viewport_size({"width": 1000, "height": 800})
    page.wait_for_timeout(300)
    assert "lines 6" in page.inner_text("#sim-problem")
    page.fill("#own", "nothing\nto read")
    page.keyboard.press("Tab")
    page.locator("#sim-problem", has_text="No line could be read").wait_for(timeout=PATIENCE)


def test_a_comma_is_no_decimal_point(visit: Visit) -> None:
    """0,5 must not become 5: a tenth of the protection."""
    page = visit.open()
    page.fill("#eps-text", "0,5")
    page.keyboard.press("Enter")
    assert page.input_value("#eps-text") == "1"
    assert "0.5" in page.evaluate("document.getElementById('eps-text').validationMessage")
    page.fill("#eps-text", "0.5")
    page.keyboard.press("Enter")
    visit.settle()
    assert page.evaluate("document.getElementById('eps-text').validationMessage") == ""
    assert "eps=0.5" in page.url
    page.fill("#goal", "2,5")
    page.locator("#solve").click()
    page.locator("#goal-text", has_text="2.5").wait_for(timeout=PATIENCE)
    page.fill("#n-text", "12,000")
    page.keyboard.press("Enter")
    visit.settle()
    assert "n=12000" in page.url


def test_margins_below_a_tenth_of_a_person_are_not_told(visit: Visit) -> None:
    page = visit.open("#eps=8&trust=shuffler-noise&n=20&d=3")
    assert page.inner_text("#c-margin") == "± 0.1 people"
    assert not re.search(r"\de-", page.inner_text("#verdict") + page.inner_text("#c-margin-text"))


def test_texts_that_too_few_can_hold(visit: Visit) -> None:
    page = visit.open("#kind=strings&trust=shuffler-noise&n=10")
    assert "Nothing can be learnt: a text is shown only if about 31 people" in page.inner_text("#verdict")
    visit.check()


def test_labels_with_commas_and_quotes_survive_an_edit(visit: Visit) -> None:
    questions = [{"name": "size", "kind": "choice", "labels": ["small, red", '5" pipe', "large"]}]
    page = visit.open(f"{QUICK}&kind=several&questions={quote(json.dumps(questions))}")
    field = page.get_by_label("Question 1: answers, separated by commas")
    assert field.input_value() == '"small, red", "5"" pipe", large'
    with page.expect_request("**/api/outline") as sent:
        field.fill(f'{field.input_value()}, "open, end')
        page.keyboard.press("Tab")
    asked = sent.value.post_data_json["questions"][0]["labels"]
    assert asked == ["small, red", '5" pipe', "large", '"open', "end"]
    visit.settle()


def test_bounds_with_commas(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several")
    page.get_by_label("Question 3: highest").fill("12,000")
    page.keyboard.press("Tab")
    visit.settle()
    assert page.get_by_label("Question 3: highest").input_value() == "12000"
    page.get_by_label("Question 3: highest").fill("nonsense")
    page.keyboard.press("Tab")
    assert page.get_by_label("Question 3: highest").input_value() == "12000"


def test_what_was_chosen_last_is_what_the_attacks_are_about(visit: Visit) -> None:
    """An answer that arrives late belongs to another choice, also if the present one is shown already."""
    page = visit.open()
    ladder, own = page.get_attribute("#ladder", "aria-label"), page.locator("[name=family]:checked").input_value()
    assert own == "clear-shuffler-fakes"
    page.evaluate(
        """own => { for (const family of ["local-flip", own]) {
        const one = document.querySelector(`[name=family][value="${family}"]`);
        one.checked = true;
        one.dispatchEvent(new Event("change")); } }""",
        own,
    )
    page.wait_for_timeout(1500)
    assert page.get_attribute("#ladder", "aria-label") == ladder
    page.evaluate("""() => { for (const value of [30, 0]) {
        document.getElementById("drop").value = value;
        document.getElementById("drop").dispatchEvent(new Event("input")); } }""")
    page.wait_for_timeout(1500)
    assert "are left" not in page.inner_text("#drop-text")
    visit.check()


def test_bounds_are_shown_as_they_were_typed(visit: Visit) -> None:
    page = visit.open("#kind=number&low=1945&high=2025&n=2000&trust=shuffler-noise")
    assert "a number from 1,945 to 2,025." in page.inner_text("#verdict")


def test_figures_of_another_state_look_so_and_cannot_be_copied(visit: Visit) -> None:
    page = visit.open()
    page.route("**/api/**", lambda route: route.abort())
    press(page, "#eps", "ArrowLeft")
    page.locator("#offline").wait_for()
    assert page.is_disabled("#copy")
    assert "stale" in page.get_attribute("#main", "class")
    page.unroute("**/api/**")
    page.locator("#offline").wait_for(state="hidden")
    visit.settle()
    assert page.is_enabled("#copy")
    assert "stale" not in page.get_attribute("#main", "class")
