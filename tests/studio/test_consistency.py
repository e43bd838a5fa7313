"""The page Explore in Chromium: what it shows together belongs together, and every sentence is true."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.conftest import QUESTIONS, Running
from tests.studio.test_browser import PATIENCE, QUICK, Visit

import hubbub as hb

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser: Any, studio: Running) -> Iterator[Visit]:
    made = Visit(browser, studio)
    yield made
    made.context.close()


def words(page: Any, *places: str) -> str:
    return "\n".join(page.inner_text(f"#{place}") for place in places).replace("\u00a0", " ")


def lower_half(page: Any) -> str:
    """Return what follows from a plan: simulations, ladder, dropouts, assumptions."""
    return words(page, "sim", "sim-problem", "ladder", "drop-text", "sentences").strip()


def test_what_is_taken_along_is_what_is_shown(visit: Visit) -> None:
    """A choice that waits for its answer changes neither what is shown nor what is downloaded."""
    page = visit.open(f"{QUICK}&family=split")
    page.route("**/api/outline", lambda route: None)
    page.locator("[name=trust][value=shuffling]").check()
    assert "split bits" in words(page, "c-margin-text")
    page.locator("#tab-python").click()
    assert 'family="split"' in words(page, "take")
    with page.expect_download() as saved:
        page.locator("#save").click()
    taken = hb.load_plan(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert hb.planner.family_key(taken) == "split"


def test_a_late_certificate_is_waited_for_once(visit: Visit) -> None:
    """Nothing is simulated under a preliminary plan, which the studio does not keep: the page waits."""
    page = visit.page

    def late(route: Any) -> None:
        body = route.request.post_data_json
        if body["patient"]:
            page.wait_for_timeout(2500)
            route.continue_()
        else:
            route.fulfill(body="".join(f'{{"family": "{one}", "state": "late"}}\n' for one in body["families"]))

    page.route("**/api/certify", late)
    page.goto(f"{visit.studio.address}#n=2000&d=3")
    page.locator("#verdict", has_text="in 95 of 100").wait_for(timeout=PATIENCE)
    page.locator("#again").click()
    visit.settle()
    assert sum("/api/outline" in url for url in visit.asked) == 1
    visit.check()


@pytest.mark.parametrize("kind", ["names", "labels"])
def test_a_question_that_cannot_be_asked(kind: str, visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several&drop=30")
    assert lower_half(page)
    field = "name" if kind == "names" else "answers, separated by commas"
    page.get_by_label(f"Question {2 if kind == 'names' else 1}: {field}").fill("colour")
    page.keyboard.press("Tab")
    page.locator("#problem").wait_for(timeout=PATIENCE)
    page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
    assert "needs a correction" in words(page, "verdict")
    assert words(page, "status") == ""
    assert lower_half(page) == ""
    assert page.locator("#copy").is_disabled()
    visit.check()


def test_nothing_of_another_state_stays(visit: Visit) -> None:
    page = visit.open()
    assert lower_half(page)
    page.route("**/api/simulate", lambda route: None)
    page.fill("#n-text", "2500")
    page.keyboard.press("Enter")
    page.locator("#verdict", has_text="2,500 people").wait_for(timeout=PATIENCE)
    assert lower_half(page) == ""
    page.unroute("**/api/simulate")
    page.goto(f"{visit.studio.address}#kind=strings&trust=nobody&n=2000")
    page.locator("#verdict", has_text="need a shuffler").wait_for(timeout=PATIENCE)
    page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
    assert lower_half(page) == ""
    visit.check()


def test_a_resized_page_draws_no_simulation_of_another_question(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several")
    page.route("**/api/simulate", lambda route: None)
    page.select_option("#kind", "one")
    page.locator("#verdict", has_text="one of 3 answers").wait_for(timeout=PATIENCE)
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_timeout(400)
    assert "NaN" not in page.inner_text("main")


def test_what_cannot_be_computed_is_told(visit: Visit) -> None:
    page = visit.page
    page.route("**/api/attack", lambda route: route.fulfill(json={"late": True}))
    page.route("**/api/simulate", lambda route: route.fulfill(json={"error": "internal error: Nonesuch"}))
    page.goto(f"{visit.studio.address}{QUICK}")
    page.locator("#sim-problem", has_text="Nonesuch").wait_for(timeout=PATIENCE)
    assert "too long" in words(page, "drop-text")
    page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
    page.route("**/api/report", lambda route: route.fulfill(json={"late": True}))
    page.locator("#report").click()
    page.locator("#take-problem", has_text="not made").wait_for(timeout=PATIENCE)
    page.unroute("**/api/attack")
    page.unroute("**/api/simulate")
    page.locator("#again").click()
    visit.settle()
    assert words(page, "sim-problem") == ""


def test_a_warning_about_pasted_people_does_not_outlive_them(visit: Visit) -> None:
    page = visit.open()
    page.select_option("#shape", "own")
    page.fill("#own", "tea, 1\ncoffee, 2\nno number\n")
    page.keyboard.press("Tab")
    page.locator("#sim-problem", has_text="line 3").wait_for(timeout=PATIENCE)
    page.goto(f"{visit.studio.address}#kind=strings&trust=nobody&n=2000")
    page.locator("#verdict", has_text="need a shuffler").wait_for(timeout=PATIENCE)
    page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
    assert lower_half(page) == ""


def test_a_simulation_that_is_refused_leaves_no_other_one(visit: Visit) -> None:
    page = visit.open()
    page.route("**/api/simulate", lambda route: route.fulfill(status=422, json={"error": "shares must be numbers"}))
    page.locator("#again").click()
    page.locator("#sim-problem", has_text="must be numbers").wait_for(timeout=PATIENCE)
    assert page.locator("#sim-problem").is_visible()
    assert words(page, "sim") == ""


def test_the_keyboard_stays_in_the_editor_of_questions(visit: Visit) -> None:
    page = visit.open(f"{QUICK}&kind=several")
    focused = "document.activeElement.getAttribute('aria-label')"
    page.get_by_label("Question 1: name").focus()
    page.keyboard.press("End")
    page.keyboard.type("s")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Question 1: remove"
    page.get_by_label("Question 1: answers, separated by commas").focus()
    page.keyboard.press("End")
    page.keyboard.type(", grey")
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "Question 1: answers, separated by commas"
    page.get_by_label("Question 2: kind").focus()
    for kind in ("number", "scale"):
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused) == "Question 2: kind"
        assert page.get_by_label("Question 2: kind").input_value() == kind
    visit.settle()
    assert page.get_by_label("Question 1: name").input_value() == "colours"
    assert "colours" in words(page, "c-margin-text")
    asked = page.evaluate("studio.state.questions")
    assert asked[0]["labels"] == ["red", "green", "blue", "grey"]
    assert asked[1]["kind"] == "scale"


def test_the_search_for_epsilon_speaks_of_the_state_shown(visit: Visit) -> None:
    page = visit.open()
    page.fill("#goal", "20")
    page.locator("#solve").click()
    page.locator("#goal-text", has_text="is enough").wait_for(timeout=PATIENCE)
    visit.settle()
    assert "is enough" in words(page, "goal-text")
    page.locator("[name=trust][value=nobody]").check()
    assert words(page, "goal-text") == ""
    visit.settle()


def test_an_epsilon_beyond_the_page_is_told_and_not_chosen(visit: Visit) -> None:
    page = visit.open("#n=1000000000&d=3&trust=nobody", late=True)
    page.fill("#goal", "0.5")
    page.locator("#solve").click()
    page.locator("#goal-text", has_text="protects nobody").wait_for(timeout=PATIENCE)
    assert page.evaluate("studio.state.eps") == 1


def test_an_answer_to_a_search_of_before_changes_nothing(visit: Visit) -> None:
    page, held = visit.open(), list[Any]()
    page.route("**/api/solve", lambda route: held.extend([route]))
    page.fill("#goal", "20")
    page.locator("#solve").click()
    page.wait_for_timeout(200)
    page.fill("#n-text", "3000")
    page.keyboard.press("Enter")
    held[0].continue_()
    visit.settle()
    assert page.evaluate("studio.state.eps") == 1
    assert words(page, "goal-text") == ""


def test_pasted_answers_are_no_part_of_a_link(visit: Visit) -> None:
    page = visit.open("#shape=own&d=30&n=2000&trust=shuffler-noise")
    assert "one of 30 answers" in words(page, "verdict")
    page.select_option("#shape", "own")
    visit.settle()
    assert "one of 4 answers" in words(page, "verdict")
    assert "shape" not in page.url
    page.reload()
    visit.settle()
    assert "one of 4 answers" in words(page, "verdict")


def test_clear_answers(visit: Visit) -> None:
    """It depends on seals whether the shuffler sees them, so that nothing says that it does."""
    page = visit.open("#n=2000&d=3&clear=1&compromised=20&family=clear-user-fakes")
    text = words(page, "verdict", "c-trust-text", "table", "ladder")
    assert "users who add fakes" in words(page, "verdict")
    for known in ("Whoever sees the results", "whoever sees the results", "if it sees no results"):
        text = text.replace(known, "")
    assert "sees" not in text


def test_strings_speak_of_the_relay(visit: Visit) -> None:
    page = visit.open("#kind=strings&trust=shuffler-noise&delta=8")
    ladder = page.get_attribute("#ladder", "aria-label")
    assert "relay, shuffler and analyzer together 100 %" in ladder
    assert "the shuffler alone" not in ladder
    assert "and a relay" in words(page, "verdict")
    assert "fakes" not in words(page, "verdict")
    assert "with the relay" in words(page, "table")


def test_a_single_person_who_drops_out(visit: Visit) -> None:
    page = visit.open("#n=10&d=2&trust=shuffler-noise&drop=5")
    assert "9 are left: fewer than the batch needs" in words(page, "drop-text")


def test_rare_failures_are_not_called_rarer(visit: Visit) -> None:
    page = visit.open("#eps=4&trust=shuffler-noise")
    page.locator("#tab-plan").click()
    plan = hb.load_plan(page.inner_text("#take"))
    told = words(page, "c-guess-text").split("δ = 1 in ")[1].rstrip(".").replace(",", "")
    assert float(told) <= 1 / plan.total.delta < 1.01 * float(told)


def test_a_hopeless_survey(visit: Visit) -> None:
    page = visit.open("#kind=several&n=100&eps=0.05&trust=nobody")
    assert "Nothing can be learnt" in words(page, "verdict")
    assert "as large as the crowd" in words(page, "remarks")


def test_weak_guarantees_are_remarked_upon(visit: Visit) -> None:
    page = visit.open("#n=20000&d=3&eps=8&delta=3&trust=shuffler-noise")
    assert "protects little" in words(page, "remarks")
    assert "1/n" in words(page, "remarks")
    page.fill("#eps-text", "1")
    page.keyboard.press("Enter")
    visit.settle()
    assert "protects little" not in words(page, "remarks")


def test_names_beyond_the_basic_plane(visit: Visit) -> None:
    questions = [{**QUESTIONS[1], "name": "mood 😀"}] if isinstance(QUESTIONS[1], dict) else []
    page = visit.open(f"#n=2000&kind=several&trust=shuffler-noise&questions={quote(json.dumps(questions))}")
    page.locator("#tab-python").click()
    names: dict[str, Any] = {}
    exec(page.inner_text("#take"), names)
    page.locator("#tab-plan").click()
    assert names["plan"].id == hb.load_plan(page.inner_text("#take")).id
