"""The structure of a page: balanced tags, unique ids, resolvable references, and no external resource."""

import re
from html.parser import HTMLParser


class Structure(HTMLParser):
    """Tags, ids and references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = re.findall(r"url\(([^)]*)\)", text)
        self.counts: dict[str, int] = {}
        self.named: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: str(value) for name, value in attrs}
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.references += [found[name] for name in ("href", "src", "xlink:href", "action") if name in found]
        if "id" in found:
            self.ids.append(found["id"])
        if found.get("role") == "img":
            self.named.append(found["aria-label"])
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str, charts: int) -> Structure:
    """Assert that a page is well formed, loads nothing, and has this number of charts, each in two widths."""
    page = Structure(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {name for name in page.references if not name.startswith("#")} == set()
    assert {name[1:] for name in page.references} <= set(page.ids)
    assert not re.search(r"<script|@import|https?://", text)
    assert "prefers-color-scheme: dark" in text
    assert page.counts.get("figure", 0) == charts
    assert page.counts.get("svg", 0) == len(page.named) == 2 * charts
    assert all(page.named)
    assert "nan" not in re.sub(r">[^<]*<", "", text)
    return page
