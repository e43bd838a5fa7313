"""Take the pictures of the studio in the book and the README: ``python -m tools.pictures [FOLDER]``.

Take them on a quiet machine, so that every certificate is there, and look at each before you commit it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "images"
PROGRAM = "from hubbub.cli import main; main(['studio', '--no-open', '--port', '0'])"
EXPLORE = ("-c", PROGRAM)
LIVE = ("-m", "tools.demo_studio", "--no-open", "--port", "0")
PATIENCE = 120_000
"""Milliseconds for all certificates of a picture."""
BATCHES = 16
"""Batches on the picture of the page Live, one every five seconds."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: the state of the page, the element at its top, and the screen."""

    name: str
    state: str
    top: str
    width: int = 1360
    height: int = 1000
    scheme: str = "light"


PICTURES = (
    Picture("studio", "", "body"),
    Picture("studio-several", "kind=several&trust=shuffler-noise", "[aria-labelledby=h-sim]"),
    Picture("studio-attackers", "n=20000&d=4&compromised=10&drop=30", "[aria-labelledby=h-who]"),
    Picture("studio-phone", "", "#main", 390, 844, "dark"),
)


def take(browser: Browser, address: str, picture: Picture, folder: Path) -> None:
    """Open the page, wait until everything is certified, and save what the screen shows."""
    size = {"width": picture.width, "height": picture.height}
    context = browser.new_context(viewport=size, color_scheme=picture.scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{address}#{picture.state}")
    page.locator("main[aria-busy=false]").wait_for(timeout=PATIENCE)
    if "took too long" in page.inner_text("#status"):
        raise SystemExit(f"{picture.name}: not everything was certified in time; try again on a quiet machine")
    page.evaluate("place => document.querySelector(place).scrollIntoView()", picture.top)
    page.wait_for_timeout(500)
    page.screenshot(path=folder / f"{picture.name}.png")
    context.close()


def take_live(browser: Browser, address: str, folder: Path) -> None:
    """Wait until the demonstration has released enough batches, and save what the screen shows."""
    page = browser.new_page(viewport={"width": 1240, "height": 960}, color_scheme="light")
    page.goto(f"{address}live")
    page.locator("#headline", has_text=f"in {BATCHES} batches").wait_for(timeout=2 * PATIENCE)
    page.wait_for_timeout(500)
    page.screenshot(path=folder / "live.png")
    page.close()


@contextmanager
def studio(command: Sequence[str]) -> Iterator[str]:
    """Run a studio, and give its address."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = next(filter(None, (re.search(r"http://[^/]+/", line) for line in process.stdout)))
            yield found[0]
        finally:
            process.terminate()


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with studio(EXPLORE) as address:
            for picture in PICTURES:
                take(browser, address, picture, folder)
        with studio(LIVE) as address:
            take_live(browser, address, folder)


if __name__ == "__main__":
    main()
