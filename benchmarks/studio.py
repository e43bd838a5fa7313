"""The studio in a browser: from a key on a slider to curves, to a verdict, to all certificates; and its first load.

``python -m benchmarks.studio --json`` prints ``curves_p95_ms``, ``verdict_p95_ms``, ``certified_p95_s`` and
``first_load_kb``, ``drag_p95_ms`` from the last of several keys to its verdict while certificates of the others are
still under way, and the figures of the live page (``benchmarks.studio_live``). It needs Chromium. Run it on a machine
that does nothing else: two workers and a browser share it.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
from typing import Any

from benchmarks import studio_live

PROGRAM = "from hubbub.cli import main; main(['studio', '--no-open', '--port', '0'])"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
STATES = ("", "kind=few&d=20&k=3", "kind=any&d=6", "kind=several", "kind=number")
"""Kinds of questions, each with the same steps."""
KEYS, PAUSE = 5, 250
"""Keys of one drag, and the milliseconds between them."""
LOADED = """performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
    .filter(one => !one.name.includes("/api/")).map(one => one.transferSize)"""


def percentile(values: list[float], share: float) -> float:
    """Return a percentile of some values: the one that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(page: Any, address: str, steps: int) -> tuple[float, dict[str, list[float]]]:
    """Return the kilobytes of the first load, and milliseconds since a key by what appeared on the page."""
    found: dict[str, list[float]] = {"curves": [], "verdict": [], "certified": [], "drag": []}
    page.goto(address)
    page.locator("main[aria-busy=false]").wait_for(timeout=120_000)
    loaded = sum(page.evaluate(LOADED)) / 1000
    for state in STATES:
        page.goto("about:blank")
        page.goto(f"{address}#{state}")
        page.locator("main[aria-busy=false]").wait_for(timeout=120_000)
        page.evaluate("window.studio.timings.length = 0")
        for step in range(steps):
            page.locator("#eps" if step % 2 else "#n").focus()
            page.keyboard.press("ArrowRight")
            page.locator("main[aria-busy=false]").wait_for(timeout=120_000)
        for one in page.evaluate("window.studio.timings"):
            found[one["what"]].append(one["ms"])
        for _ in range(max(1, steps // 4)):
            page.evaluate("window.studio.timings.length = 0")
            page.locator("#n").focus()
            for _ in range(KEYS):
                page.keyboard.press("ArrowLeft")
                page.wait_for_timeout(PAUSE)
            page.locator("main[aria-busy=false]").wait_for(timeout=120_000)
            verdicts = [one["ms"] for one in page.evaluate("window.studio.timings") if one["what"] == "verdict"]
            found["drag"].append(verdicts[-1])
    return loaded, found


def run(steps: int) -> dict[str, Any]:
    """Start a studio and a browser, and measure."""
    from playwright.sync_api import sync_playwright

    studio = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert studio.stdout is not None
        said = re.search(r"http://\S+/", studio.stdout.readline())
        assert said is not None
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_context(viewport={"width": 1360, "height": 900}).new_page()
            loaded, found = measure(page, said[0], steps)
            browser.close()
    finally:
        studio.send_signal(signal.SIGTERM)
        studio.wait(10)
    figures: dict[str, Any] = {"steps": steps * len(STATES), "first_load_kb": round(loaded, 1)}
    for what, scale, unit in (("curves", 1, "ms"), ("verdict", 1, "ms"), ("drag", 1, "ms"), ("certified", 1000, "s")):
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            figures[f"{what}_{name}_{unit}"] = round(percentile(found[what], share) / scale, 2)
        figures[f"{what}_seen"] = len(found[what])
    return figures


def main() -> None:
    """Print the figures as text, or as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=20, help="keys for each kind of question")
    given = parser.parse_args()
    figures = run(given.steps) | studio_live.measure()
    print(json.dumps(figures) if given.json else "\n".join(f"{key}: {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
