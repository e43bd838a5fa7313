"""The style of every chart: one colour-blind-safe palette, its CSS variables, and the settings of matplotlib."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from hubbub.errors import load_extra

WIDE, NARROW = 680.0, 340.0  # widths of the two variants of a chart in CSS pixels; a page shows the one that fits
TEXT = 13.0  # size of all text in a chart, in CSS pixels

_PALETTE = {
    "paper": ("#f6f7f9", "#13161b"),
    "card": ("#ffffff", "#1b1f26"),
    "ink": ("#1d222a", "#e7eaee"),
    "muted": ("#57606c", "#a5aeba"),
    "line": ("#dde1e6", "#363d48"),
    "one": ("#0a5ad4", "#4a9fe8"),
    "two": ("#d15a00", "#ee7138"),
    "three": ("#00a07a", "#2ce08a"),
    "four": ("#c865bb", "#ffa9dd"),
    "five": ("#7c3106", "#fdec55"),
    "quiet": ("#424a56", "#7f8793"),
}
LIGHT, DARK = ({role: pair[place] for role, pair in _PALETTE.items()} for place in (0, 1))
"""Colours by role; the colours of a palette are distinct, so that charts can be repainted."""

COLOURS = ("one", "two", "three", "four", "five", "quiet")
"""Roles of data colours, in the order in which series use them."""
MARKERS = {"one": "o", "two": "s", "three": "^", "four": "D", "five": "v", "quiet": "o"}
"""Marker of each role, so that no chart relies on colour alone."""

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # text remains searchable, accessible, and in the font of the page
    "svg.hashsalt": "hubbub",
    "text.parse_math": False,  # labels may contain dollar signs
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), TEXT),
    "figure.facecolor": LIGHT["card"],
    "text.color": LIGHT["ink"],
    "axes.facecolor": "none",
    **{f"{part}color": LIGHT["muted"] for part in ("axes.edge", "axes.label", "axes.title", "xtick.", "ytick.")},
    "axes.titlelocation": "left",
    "axes.titlepad": 9.0,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    "axes.xmargin": 0.03,
    "axes.ymargin": 0.05,
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.8,
    **{f"{axis}tick.major.{part}": size for axis in "xy" for part, size in (("size", 0.0), ("pad", 6.0))},
    "legend.frameon": False,
    "legend.handlelength": 1.7,
    "legend.borderaxespad": 0.2,
    "legend.labelspacing": 0.4,
    "lines.linewidth": 2.2,
    "lines.markeredgewidth": 0.0,
    "lines.solid_capstyle": "round",
}
_LOCK = threading.RLock()


def variables(root: str = ":root") -> str:
    """Return the palette as CSS variables that follow the reader's colour scheme; printed pages are always light."""
    light, dark = ("; ".join(f"--{name}: {value}" for name, value in part.items()) for part in (LIGHT, DARK))
    return f"{root} {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ {root} {{ {dark} }} }}\n"


def load_matplotlib() -> Any:
    """Import matplotlib, or raise an error that names the extra."""
    for part in ("backends.backend_svg", "figure", "lines", "patches", "ticker"):
        load_extra(f"matplotlib.{part}", "plot", "Plotting")
    return load_extra("matplotlib", "plot", "Plotting")


@contextlib.contextmanager
def applied() -> Iterator[Any]:
    """Yield matplotlib with the settings of this style, for one thread at a time, and restore them afterwards."""
    mpl = load_matplotlib()
    defaults = {
        name: value for name, value in mpl.rcParamsDefault.items() if name not in ("backend", "backend_fallback")
    }
    with _LOCK, mpl.rc_context({**defaults, **_SETTINGS}):
        yield mpl
