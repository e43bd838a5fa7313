"""Check every page of the built book in a browser: ``make docs-check``.

Each page is opened twice: light and wide, dark and narrow like a phone. It must contact no other host, load all its
resources, write nothing to the console, typeset all formulas without errors, show all pictures, and fit the width of
the window. All internal links must resolve, and the search must work. Screenshots of some pages go to ``build/site``.
"""

import functools
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, sync_playwright

from docs.links import broken_links

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
VIEWS = {"light": (1280, 900), "dark": (390, 844)}
SCREENSHOTS = (
    "index",
    "tutorial",
    "howto/choose",
    "howto/defend",
    "services",
    "study",
    "audit",
    "applications",
    "attacks",
    "sealing",
    "guarantees",
    "theory/setting",
    "theory/privacy",
    "theory/blanket",
    "theory/fakes",
    "theory/joint",
    "threats",
    "errata",
    "benchmarks",
    "commands",
    "wire",
    "symbols",
    "api/index",
    "api/numeric",
    "api/lab",
    "api/service",
)
TYPESET = (
    "async () => { if (window.MathJax?.startup) await window.MathJax.startup.promise; await document.fonts.ready; }"
)
STATE = """() => ({
    formulas: document.querySelectorAll(".math").length,
    typeset: document.querySelectorAll(".math mjx-container").length,
    wrong: document.querySelectorAll("mjx-merror, [data-mjx-error]").length,
    broken: [...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.currentSrc),
    cut: [...document.querySelectorAll(".math-wrapper")].filter(f => f.scrollWidth > f.clientWidth + 1)
        .map(f => f.textContent.trim().slice(0, 60)),
    wide: document.documentElement.scrollWidth - window.innerWidth,
})"""


class Quiet(SimpleHTTPRequestHandler):
    """A file server that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(site: Path) -> Iterator[str]:
    """Serve the site on the loopback interface and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Visit:
    """Everything unexpected that a page did while it was open."""

    home: str
    said: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Record requests, failures and messages that should not occur."""
        page.on("request", self._asked)
        page.on("response", self._answered)
        page.on("requestfailed", lambda request: self.said.append(f"failed: {request.url} {request.failure}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("console", self._console)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.said.append(f"asked another host: {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.said.append(f"{response.status}: {response.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"console: {message.text}")

    def state(self, page: Page) -> None:
        """Wait for formulas and fonts, then inspect the page."""
        page.evaluate(TYPESET)
        seen = page.evaluate(STATE)
        if seen["typeset"] != seen["formulas"] or seen["wrong"]:
            self.said.append(f"{seen['formulas']} formulas, {seen['typeset']} typeset, {seen['wrong']} wrong")
        self.said += [f"no picture: {source}" for source in seen["broken"]]
        if page.viewport_size and page.viewport_size["width"] >= 1000:  # on a phone, long formulas scroll
            self.said += [f"a formula is too long: {text}" for text in seen["cut"]]
        if seen["wide"] > 0:
            self.said.append(f"wider than the window by {seen['wide']} pixels")


def visit(context: BrowserContext, home: str, name: str, shot: Path | None = None) -> tuple[list[str], int]:
    """Open one page; return its faults and its number of formulas."""
    page = context.new_page()
    seen = Visit(home)
    seen.watch(page)
    page.goto(f"{home}/{name}", wait_until="load")
    seen.state(page)
    formulas = page.locator(".math").count()
    if shot is not None:
        shot.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=shot, full_page=True)
    page.close()
    return seen.said, formulas


def searched(browser: Browser, home: str) -> list[str]:
    """Return the faults of the search, which must work from a plain file server."""
    page = browser.new_page()
    seen = Visit(home)
    seen.watch(page)
    page.goto(f"{home}/search.html?q=ledger", wait_until="load")
    page.wait_for_selector("#search-results li", timeout=20_000)
    page.close()
    return seen.said


def check(site: Path, shots: Path) -> list[str]:
    """Return all faults of the site."""
    faults = [f"broken link in {one}" for one in broken_links(site)]
    names = sorted(str(file.relative_to(site)) for file in site.rglob("*.html"))
    with serving(site) as home, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        for scheme, (width, height) in VIEWS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, locale="en", offline=False
            )
            total = 0
            for name in names:
                if scheme == "dark" and name.startswith("_modules/"):
                    continue
                wanted = name.removesuffix(".html") in SCREENSHOTS
                shot = shots / f"{name.removesuffix('.html').replace('/', '-')}-{scheme}.png" if wanted else None
                said, formulas = visit(context, home, name, shot)
                total += formulas
                faults += [f"{name} ({scheme}): {one}" for one in said]
            print(f"{scheme}: {len(names)} pages, {total} formulas", file=sys.stderr)
            context.close()
        faults += [f"search: {one}" for one in searched(browser, home)]
        browser.close()
    with sync_playwright() as play:  # and from files, without a server
        browser = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        said, formulas = visit(browser.new_context(), site.resolve().as_uri(), "theory/blanket.html")
        faults += [f"as a file: {one}" for one in said] + ([] if formulas else ["as a file: no formulas"])
        browser.close()
    return faults


def chromium() -> str:
    """Return the path of an installed browser; none is ever downloaded."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    found = found or shutil.which("google-chrome")
    if not found:
        sys.exit("docs-check needs chromium: apt-get install -y --no-install-recommends chromium, or set CHROMIUM")
    return found


if __name__ == "__main__":
    wrong = check(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*wrong, sep="\n")
    sys.exit(f"{len(wrong)} faults" if wrong else 0)
