"""Times in which the live page of the studio redraws 10,000 batches: ``python -m benchmarks.studio_live [--json]``.

Stand-ins of both services hold 10,000 batches of five answers; Chromium shows the page. Times include the request, the
answer, the drawing, and the poll of the browser by which its end is noticed.

- ``live_p95_ms``, ``live_median_ms``: from the click on a window (earlier, later, all batches, the last 50, 200 and
  1,000) until the charts of that window are drawn;
- ``live_new_batch_p95_ms``: from the moment at which the studio has read a new batch until the page shows it;
- ``live_load_s``: from the start of the page until all 10,000 batches have been read by a studio that is just starting;
- ``live_first_s``: until its first drawing.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.sockets import served
from tests.studio.live.process import following
from tests.studio.live.services import TOKEN, Services, committed

from hubbub.service.runtime.server import Listener

BATCHES, STEPS, ARRIVALS = 10_000, 60, 15
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@contextlib.contextmanager
def opened(address: str) -> Iterator[Any]:
    """Open the live page in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1360, "height": 900})
            page.goto(f"{address}live")
            yield page
        finally:
            browser.close()


def measure(batches: int = BATCHES, steps: int = STEPS, arrivals: int = ARRIVALS) -> dict[str, float]:
    """Return the figures of a page that shows this many batches."""
    services = Services([committed(one) for one in range(1, batches + 1)])
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Listener("results", services.app, "127.0.0.1:0")) as url,
    ):
        token = Path(folder) / "token"
        token.write_text(TOKEN)
        with following(url, token) as studio:
            address, begun = studio.address(), time.perf_counter()
            with opened(address) as page:
                page.locator('main:not([data-drawn="0"])').wait_for()
                first = time.perf_counter() - begun
                page.locator("#headline").filter(has_text=f"in {batches:,} batches").wait_for(timeout=300_000)
                loaded = time.perf_counter() - begun
                page.wait_for_timeout(1000)
                clicks = [_window(page, step) for step in range(steps)]
                page.locator("#newest").evaluate("one => one.click()")
                page.locator("#size").select_option("50")
                page.wait_for_timeout(500)
                shown = [_arrival(page, services, batches + 1 + one) for one in range(arrivals)]
    return {
        "live_batches": float(batches),
        "live_p95_ms": float(np.quantile(clicks, 0.95)),
        "live_median_ms": statistics.median(clicks),
        "live_new_batch_p95_ms": float(np.quantile(shown, 0.95)),
        "live_first_s": first,
        "live_load_s": loaded,
    }


def _window(page: Any, step: int) -> float:
    """Return the milliseconds from a choice of a window until it is drawn."""
    kind = ("all", "1000", "earlier", "earlier", "200", "earlier", "later", "50", "earlier", "later")[step % 10]
    before = int(page.locator("main").get_attribute("data-drawn"))
    begun = time.perf_counter()
    if kind in ("earlier", "later"):
        page.locator(f"#{kind}").click()
    else:
        page.locator("#size").select_option({"all": "0"}.get(kind, kind))
    page.locator(f'main[data-drawn="{before + 1}"]').wait_for()
    return 1000 * (time.perf_counter() - begun)


def _arrival(page: Any, services: Services, bucket: int) -> float:
    """Return the milliseconds from the reading of a new batch until the page shows it."""
    services.requests.clear()
    services.add(committed(bucket))
    while not any("/results?" in one for one in services.requests):
        page.wait_for_timeout(1)
    begun = time.perf_counter()
    page.locator("#series-words").filter(has_text=f"to {bucket:,}:").wait_for()
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    figures = measure()
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:.4g}")


if __name__ == "__main__":
    main()
