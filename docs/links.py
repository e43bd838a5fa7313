"""Check the internal links of a built site: page and anchor of each must exist."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

__all__ = ["broken_links"]


class Anchors(HTMLParser):
    """The ids and links of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids and targets."""
        values = dict(attrs)
        if name := values.get("id"):
            self.ids.add(name)
        if tag == "a" and (target := values.get("href")):
            self.links.add(target)


def broken_links(site: Path) -> list[str]:
    """Return the internal links whose page or anchor does not exist."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        pages[file] = parser = Anchors()
        parser.feed(file.read_text(encoding="utf-8"))
    found = []
    for file, parser in pages.items():
        for link in sorted(parser.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path, anchor = urldefrag(unquote(link))
            target = (file.parent / path.split("?")[0]).resolve() if path else file
            page = pages.get(target)
            if not target.is_file() or (anchor and page is not None and anchor not in page.ids):
                found.append(f"{file.relative_to(site)}: {link}")
    return found
