"""Reports in headless Chromium: on a wide light screen, on a phone in dark mode, and in print."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import call
from tests.report.structure import check_page

import hubbub as hb
from hubbub.io.documents import write_plan

VIEWS: dict[str, dict[str, Any]] = {
    "light": {"width": 1280, "height": 900, "scheme": "light", "media": "screen"},
    "phone": {"width": 390, "height": 844, "scheme": "dark", "media": "screen"},
    "print": {"width": 794, "height": 1123, "scheme": "dark", "media": "print"},
}
COMMANDS = {
    "demo": ("demo", "--people", "20000", "--seed", "7"),
    "study": ("study", "--one-hot", "4", "-n", "2000", "--epsilon", "1", "--repetitions", "10"),
    "attacks": ("attacks", "--trials", "100", "--seed", "7"),
    "report": ("report", "plan.json", "estimate.json", "--question", "Which colours do you like?"),
    "audit": ("audit", "--plan", "plan.json", "--runs", "200"),
}
CHARTS = {"demo": 3, "study": 5, "attacks": 7, "report": 1, "audit": 3}
TEXT = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode, range = document.createRange(), element = node.parentElement;
        range.selectNodeContents(node);
        if (!node.textContent.trim() || !range.getClientRects().length || element.localName === "title") continue;
        const scale = element.closest("svg") ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
        found.push([scale * parseFloat(getComputedStyle(element).fontSize), node.textContent.trim()]);
    }
    return found;
}"""
WIDTHS = """() => ({
    page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    scrolling: [...document.querySelectorAll("body *")].filter(e => e.scrollWidth > e.clientWidth + 1
        && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)).length,
    cut: [...document.querySelectorAll(".chart svg")].filter(e => e.getBoundingClientRect().width).flatMap(e => {
        const box = e.getBoundingClientRect();
        return [...e.querySelectorAll("text")].filter(t => {
            const r = t.getBoundingClientRect();
            return r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1;
        }).map(t => t.textContent);
    }),
    charts: [...document.querySelectorAll(".chart")].map(
        e => [...e.querySelectorAll("svg")].filter(s => getComputedStyle(s).display !== "none").length),
    ground: getComputedStyle(document.body).backgroundColor,
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all reports."""
    place = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        plan = hb.plan_from(hb.Schema.bits(["red", "green"]), 1000, hb.Protocol(0.2), delta=1e-6)
        write_plan(plan, "plan.json")
        people = hb.Collection.from_values([["red"]] * 400 + [[]] * 600, plan.schema)
        estimate = hb.estimate(hb.tally(hb.shuffle(hb.randomize(people, plan))), plan)
        Path("estimate.json").write_text(estimate.to_json(), encoding="utf-8")
        for name, command in COMMANDS.items():
            result = call(*command, "-o", f"{name}.html")
            assert result.exit_code == 0, result.output
    return place


@pytest.mark.browser
@pytest.mark.parametrize("name", COMMANDS)
def test_reports_look_right(name: str, folder: Path, browser: Any) -> None:
    file = folder / f"{name}.html"
    check_page(file.read_text(encoding="utf-8"), CHARTS[name])
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    grounds = {}
    for view, given in VIEWS.items():
        size = {"width": given["width"], "height": given["height"]}
        context = browser.new_context(viewport=size, color_scheme=given["scheme"], bypass_csp=True)
        page, said, asked = context.new_page(), list[str](), list[str]()
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.emulate_media(media=given["media"], color_scheme=given["scheme"])
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert said == [], view
        assert asked == [file.as_uri()], view
        seen = page.evaluate(WIDTHS)
        assert (seen["page"], seen["scrolling"]) == (0, 0), view
        assert seen["cut"] == [], view
        assert seen["charts"] == [1] * CHARTS[name], view
        size_of_smallest, text = min(page.evaluate(TEXT))
        assert size_of_smallest >= 12, (view, text)
        grounds[view] = seen["ground"]
        page.evaluate(axe)
        found = page.evaluate("axe.run()")["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == [], view
        context.close()
    assert grounds["phone"] != grounds["light"]
