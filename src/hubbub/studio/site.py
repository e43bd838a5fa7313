"""The pages of the studio: files with one shared navigation, and what they load."""

import html
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

STATIC = Path(str(files("hubbub.studio"))) / "static"
NAVIGATION = "<!-- navigation -->"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its address, its title in the navigation, and its file among the static ones."""

    path: str
    title: str
    file: str


EXPLORE = Page("/", "Explore", "explore.html")
LIVE = Page("/live", "Live", "live.html")
PAGES: tuple[Page, ...] = (EXPLORE, LIVE)
"""The pages in the order of the navigation; a further one is added here, and its requests to the routes of ``app``."""


def rendered(page: Page, pages: tuple[Page, ...] = PAGES) -> str:
    """Return the HTML of a page, with links to all of them.

    >>> "aria-current" in rendered(EXPLORE)
    True
    """
    links = "".join(
        f'<a href="{html.escape(one.path)}"{" aria-current=" + repr("page") if one == page else ""}>'
        f"{html.escape(one.title)}</a>"
        for one in pages
    )
    return (STATIC / page.file).read_text(encoding="utf-8").replace(NAVIGATION, links)
