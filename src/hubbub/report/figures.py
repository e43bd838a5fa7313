"""A chart that can be drawn in two widths, put into a page, or saved as a file."""

import hashlib
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hubbub.errors import reject
from hubbub.io.files import write_text
from hubbub.report import style

LETTER = 7.4  # average width of a letter in pixels, rounded up
HEADING = 34.0  # height of the title of a saved chart, in pixels
NAMESPACE = "http://www.w3.org/2000/svg"
_ROLES = {value: name for name, value in style.LIGHT.items()}
_TIP = "tip-"  # prefix of the ids of groups that have a tooltip
_ID = "hubbub-chart-id-"  # placeholder for the prefix of all ids


@dataclass(slots=True, eq=False)
class Canvas:
    """An empty figure of one of the two widths, and the matplotlib module that draws on it."""

    mpl: Any
    figure: Any
    width: float
    tips: list[str] = field(default_factory=list)
    height: float = 0.0  # in pixels; set by axes() and increased by legend()

    @property
    def wide(self) -> bool:
        """True if the chart has the larger of the two widths."""
        return self.width == style.WIDE

    def axes(self, height: float) -> Any:
        """Add a pair of axes to a figure that is ``height`` pixels tall."""
        self.height = height
        return self.figure.add_subplot()

    def fit(self, text: str, beside: float = 0.0) -> str:
        """Wrap a text to the width of the figure minus ``beside`` pixels."""
        return textwrap.fill(text, int((self.width - beside) / LETTER))

    def tip(self, artist: Any, text: str) -> None:
        """Attach a tooltip to an artist."""
        artist.set_gid(f"{_TIP}{len(self.tips)}")
        self.tips.append(text)

    def sample(self, label: str, **look: Any) -> Any:
        """Return a legend entry."""
        return self.mpl.lines.Line2D([], [], label=label, **look)

    def legend(self, handles: Sequence[Any], title: str = "") -> None:
        """Add a legend above the axes, in as many columns as fit, and increase the height of the figure by it."""
        if not handles:
            return
        longest = max(len(handle.get_label()) for handle in handles)
        columns = max(1, min(len(handles), int(self.width / (LETTER * longest + 52))))
        rows = -(-len(handles) // columns) + bool(title)
        for handle in handles:
            handle.set_label(self.fit(handle.get_label(), 52))
            rows += handle.get_label().count("\n")
        self.height += 20 * rows + 6
        position = {"loc": "outside upper left", "alignment": "left"}
        legend = self.figure.legend(handles=handles, ncols=columns, title=title or None, **position)
        legend.get_title().set_color(style.LIGHT["muted"])


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A chart with an accessible name, drawn on demand."""

    title: str
    draw: Callable[[Canvas], None]

    def html(self, prefix: str = "") -> str:
        """Return the chart as two inline SVGs, of which the stylesheet of the page shows the one that fits.

        ``prefix`` starts every id; the default is derived from the content.
        """
        parts = []
        for kind, width in (("wide", style.WIDE), ("narrow", style.NARROW)):
            root = self._tree(width, f"{_ID}{kind[0]}")
            root.attrib |= {"class": kind, "role": "img", "aria-label": self.title}
            parts.append(ElementTree.tostring(root, encoding="unicode"))
        text = "".join(parts)
        prefix = prefix or f"c{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        return f'<div class="chart">{text.replace(_ID, prefix)}</div>'

    def standalone(self, *, wide: bool = True) -> str:
        """Return the chart as the text of an SVG file that follows the reader's colour scheme."""
        root = self._tree(style.WIDE if wide else style.NARROW, "c")
        title, css = (ElementTree.Element(name) for name in ("title", "style"))
        title.text, css.text = self.title, f"{style.variables('svg')}svg {{ font-family: system-ui, sans-serif }}"
        background = ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
        background.set("style", "fill: var(--card)")
        root[:0] = [title, css, background]
        root.attrib |= {"role": "img", "xmlns": NAMESPACE}
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def save(self, path: str) -> None:
        """Write the chart with its title, on white, to a file whose name ends in ``.svg``, ``.png`` or ``.pdf``."""
        form = Path(path).suffix.lower().lstrip(".")
        if form not in ("svg", "png", "pdf"):
            reject("the name of a picture", "end in .svg, .png or .pdf", path)
        write_text(path, self._drawn(style.WIDE, form, titled=True)[0])

    def _repr_html_(self) -> str:
        return f"<style>{style.variables('.hubbub')}{SCREEN}</style><div class='hubbub'>{self.html()}</div>"

    def _drawn(self, width: float, form: str, *, titled: bool = False) -> tuple[bytes, list[str]]:
        with style.applied() as mpl, warnings.catch_warnings():
            if form == "svg":  # the reader's font has the glyphs
                warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            figure = mpl.figure.Figure(layout="constrained")
            canvas = Canvas(mpl, figure, width)
            self.draw(canvas)
            if titled:  # draw again, below the title
                figure = mpl.figure.Figure(layout="constrained")
                figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
                above, below = figure.subfigures(2, 1, height_ratios=(HEADING, canvas.height))
                above.text(0.01, 0.3, self.title, size=15, weight="bold")
                canvas = Canvas(mpl, below, width)
                self.draw(canvas)
            figure.set_size_inches(width / 72, (canvas.height + HEADING * titled) / 72)
            file = io.BytesIO()
            dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
            background = "auto" if titled else "none"
            figure.savefig(file, format=form, dpi=180 if form == "png" else 72, metadata=dates, facecolor=background)
        return file.getvalue(), canvas.tips

    def _tree(self, width: float, prefix: str) -> ElementTree.Element:
        """Return the SVG without matplotlib's metadata, global style and ids, in the colours of the page."""
        data, tips = self._drawn(width, "svg")
        text = data.decode()
        root = ElementTree.fromstring(text)
        box = root.get("viewBox", "")
        names = dict.fromkeys(re.findall(r'="(?:url\()?#([^")]+)', text))
        used = {name: f"{prefix}{i}" for i, name in enumerate(names)}
        for parent in [*root.iter()]:
            for child in [*parent]:
                if child.tag.endswith(("metadata", "style")) or child.get("style") == "fill: none":
                    parent.remove(child)
        for element in root.iter():
            element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
            element.text = element.text.strip() if element.text and element.tag == "g" else element.text
            element.tail = None
            _clean(element, used, tips)
        root.attrib = {"viewBox": box}
        return root


def _clean(element: ElementTree.Element, used: dict[str, str], tips: Sequence[str]) -> None:
    """Rename the referenced ids, drop the others, shorten numbers, and replace colours by variables."""
    for name, value in [*element.attrib.items()]:
        if name.startswith("{"):
            del element.attrib[name]
        match name.rpartition("}")[2]:
            case "id":
                del element.attrib[name]
                if value in used:
                    element.set("id", used[value])
                if value.startswith(_TIP):
                    title = ElementTree.Element("title")
                    title.text = tips[int(value.removeprefix(_TIP))]
                    element.insert(0, title)
            case "href":
                element.set("href", f"#{used[value[1:]]}")
            case "clip-path":
                element.set(name, f"url(#{used[value[5:-1]]})")
            case "d":
                numbers = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}", value)
                element.set(name, " ".join(numbers.split()))
            case "style":
                _repaint(element, value)


def _repaint(element: ElementTree.Element, css: str) -> None:
    """Replace colours of the palette by CSS variables, and keep them as attributes for viewers without variables."""
    kept = []
    for part in css.split(";"):
        name, _, value = (word.strip() for word in part.partition(":"))
        if value in _ROLES:
            element.set(name, value)
            value = f"var(--{_ROLES[value]})"
        if name != "font-family":  # the page sets it
            kept.append(f"{name}: {value}")
    element.set("style", "; ".join(kept))


SCREEN = """
.chart { container-type: inline-size } .chart svg { display: block; width: 100%; height: auto; font-family: inherit }
.chart svg * { stroke-linejoin: round } .chart svg.wide { display: none }
.chart svg.narrow { max-width: 30rem; margin: 0 auto }
@container (min-width: 640px) { .chart svg.wide { display: block } .chart svg.narrow { display: none } }
"""
"""CSS that shows the variant of a chart that fits."""
