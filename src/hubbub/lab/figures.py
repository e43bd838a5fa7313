"""Pictures for papers and slides, drawn by matplotlib (extra ``lab``): estimates, and the frontier of protocols."""

import importlib
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubbub.errors import InvalidInput, reject
from hubbub.estimates import Estimate
from hubbub.plans import Plan

INK, ACCENT, QUIET = "#222222", "#2a6f97", "#9aa5b1"
FORMS = ("svg", "png", "pdf")


def picture_form(path: str) -> str:
    """The form that the name of a picture says.

    >>> picture_form("frontier.svg")
    'svg'
    """
    form = Path(path).suffix.lower().lstrip(".")
    if form not in FORMS:
        reject("the name of a picture", "end in .svg, .png or .pdf", form or "no ending")
    return form


def _canvas(width: float, height: float) -> tuple[Any, Any]:
    """A figure with one pair of axes."""
    try:
        library = importlib.import_module("matplotlib")
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise InvalidInput("pictures must have the extra 'lab' of hubbub installed, got none") from None
    # Letters stay text, so that a picture can be searched and read aloud; no dates, so that it can be compared.
    library.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hubbub", "font.family": "sans-serif"})
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    return figure, axes


def _drawn(figure: Any, form: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=160, metadata={"Date": None} if form == "svg" else None)
    return file.getvalue()


def draw_estimate(
    estimate: Estimate, form: str, *, level: float = 0.95, top: int = 20, simultaneous: bool = False
) -> bytes:
    """Bars of the largest counts, with their intervals."""
    order = sorted(range(len(estimate.labels)), key=lambda i: -estimate.values[i])[:top][::-1]
    low, high = estimate.interval(level, simultaneous=simultaneous)
    figure, axes = _canvas(7, 1.1 + 0.28 * len(order))
    values = [float(estimate.values[i]) for i in order]
    axes.barh(range(len(order)), values, color=ACCENT, height=0.7)
    ends = [
        [max(0.0, value - float(low[i])) for i, value in zip(order, values, strict=True)],
        [max(0.0, float(high[i]) - value) for i, value in zip(order, values, strict=True)],
    ]
    axes.errorbar(values, range(len(order)), xerr=ends, fmt="none", ecolor=INK, capsize=3, linewidth=1.2)
    axes.set_yticks(range(len(order)), [estimate.labels[i] for i in order])
    axes.set_xlabel(f"people, with {level:.0%} intervals (of {estimate.n:,})", color=INK, fontsize=10)
    axes.axvline(0, color=INK, linewidth=0.8)
    return _drawn(figure, form)


def draw_frontier(
    plans: Sequence[Plan],
    names: Sequence[str],
    form: str,
    *,
    central: float,
    local: float | None = None,
    max_messages: float = math.inf,
) -> bytes:
    """Error against messages of a user, both logarithmic: every protocol a point, references and limits as lines."""
    figure, axes = _canvas(7.5, 5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    errors = [central, *(plan.stderr for plan in plans), *([local] if local else [])]
    low, high = math.log10(min(errors)) - 0.2, math.log10(max(errors)) + 0.2
    axes.set_ylim(10**low, 10**high)
    taken: list[float] = []
    for plan, name in sorted(zip(plans, names, strict=True), key=lambda pair: pair[0].stderr):
        best = plan is plans[0]
        axes.scatter(plan.payload_messages, plan.stderr, s=60 if best else 30, color=ACCENT if best else INK, zorder=3)
        # Labels of neighbours are pushed upwards, in points of a picture of about 300.
        height = (math.log10(plan.stderr) - low) / (high - low) * 300
        shift = max([4.0, *(other + 11 - height for other in taken[-1:])])
        taken.append(height + shift)
        axes.annotate(
            name, (plan.payload_messages, plan.stderr), xytext=(7, shift), textcoords="offset points", fontsize=8.5
        )
    axes.axhline(central, color=QUIET, linestyle="--", linewidth=1)
    axes.annotate(
        "central, a trusted server", (1, central), xycoords=("axes fraction", "data"), ha="right", va="bottom"
    )
    if local is not None:
        axes.axhline(local, color=QUIET, linestyle=":", linewidth=1)
        axes.annotate("local, nobody trusted", (1, local), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    if math.isfinite(max_messages):
        axes.axvline(max_messages, color="#b23a48", linewidth=1)
        axes.annotate("limit", (max_messages, 0.01), xycoords=("data", "axes fraction"), rotation=90, va="bottom")
    budget = plans[0].guarantee
    axes.set_title(f"n = {plans[0].n:,}, ε = {budget.epsilon:.4g}, δ ≤ {budget.delta:.2g}", fontsize=10, loc="left")
    axes.set_xlabel("messages of a user", color=INK)
    axes.set_ylabel("standard error of one count, people", color=INK)
    axes.margins(x=0.3)
    return _drawn(figure, form)
