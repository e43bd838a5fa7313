"""Take the pictures of the page Explore in the book and the README: ``python -m tools.pictures [FOLDER]``.

Take them on a quiet machine, so that every certificate is there, and look at each before you commit it.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "images"
PROGRAM = "from hubbub.cli import main; main(['studio', '--no-open', '--port', '0'])"
PATIENCE = 120_000
"""Milliseconds for all certificates of a picture."""


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


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as studio:
        assert studio.stdout is not None
        found = re.search(r"http://\S+/", studio.stdout.readline())
        try:
            assert found is not None
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for picture in PICTURES:
                    take(browser, found[0], picture, folder)
        finally:
            studio.terminate()


if __name__ == "__main__":
    main()
