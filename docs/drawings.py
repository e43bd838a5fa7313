"""The pictures of the theory and of the applications, drawn from what the accountant computes."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from examples._page import picture
from examples._rules_2016 import local_share, plain_flip, ratio_flip, share_of_flips, share_within
from matplotlib.figure import Figure
from research.notes.formulas.bounds import three_sigma_bit_flip

import hubbub as hb
from examples import clicks, home_pages, search_defaults, tiles
from hubbub.accountant import curve
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.estimates import predicted_stderr
from hubbub.lab.drawing.paper import standalone
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick
from hubbub.planner import central_stderr

__all__ = ["pictures"]

INK, COLOURS = "#222222", ("#b23a48", "#2a6f97", "#c98a1b", "#3c8d5a", "#6b4e9b")


def pictures() -> dict[str, str]:
    """All of them, by name."""
    return {
        "two-orders": two_orders(),
        "error-by-crowd": error_by_crowd(),
        "error-by-copies": error_by_copies(),
        "application-shares": application_shares(),
        "application-home-pages": application_errors(home_pages, 10**6),
        "application-clicks": application_errors(clicks, clicks.PEOPLE),
    }


def _axes(title: str, across: str, up: str) -> tuple[Figure, Any]:
    # Letters stay text, so that a picture can be searched and read aloud; no dates, so that it can be compared.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hubbub", "font.family": "sans-serif"})
    figure = Figure(figsize=(7.2, 3.9), layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.set_yscale("log")
    return figure, axes


def _drawn(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _named(axes: Any, rows: Sequence[tuple[str, Sequence[float]]], xs: Sequence[float]) -> None:
    """Lines, each with its name at its right end; names of lines that end together are set apart."""
    ends: list[float] = []
    for (name, ys), colour in zip(rows, COLOURS, strict=False):
        close = any(abs(math.log(ys[-1] / end)) < 0.2 for end in ends)
        ends.append(ys[-1])
        axes.plot(xs, ys, color=colour, linewidth=1.8, linestyle="--" if close else "-")
        axes.annotate(
            name,
            (xs[-1], ys[-1]),
            xytext=(5, -11 if close else 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
        )
    axes.margins(x=0.02)


def two_orders() -> str:
    """δ(ε) of one pair in both orders, and the supremum over all crowds, at the noise of [002 eq 4.45]."""
    n, q = 1000, three_sigma_bit_flip(1000, math.log(2))
    alike, outlier = neighbours(n, 0, q)
    certified = curve(hb.Protocol(q), hb.Schema.bits(1), n)
    xs = [0.05 * i for i in range(1, 61)]
    rows: list[tuple[str, Callable[[float], float]]] = [
        ("all crowds, both orders", lambda x: math.exp(certified.upper(x))),
        ("person conforms", lambda x: hockey_stick(alike.pmf, outlier.pmf, x)),
        ("person is an outlier\n(the order of the notes)", lambda x: hockey_stick(outlier.pmf, alike.pmf, x)),
    ]
    figure, axes = _axes(f"one bit, {n:,} people, q = {q:.5f}", "ε", "δ(ε)")
    styles: list[dict[str, Any]] = [
        {"linewidth": 4, "alpha": 0.35},
        {"linewidth": 1.8},
        {"linewidth": 1.8, "linestyle": "--"},
    ]
    for (name, value), colour, style in zip(rows, COLOURS, styles, strict=False):
        axes.plot(xs, [value(x) for x in xs], color=colour, label=name, **style)
    axes.axvline(math.log(2), color="#9aa5b1", linewidth=1)
    axes.annotate("planned: ε = ln 2", (math.log(2), 1), xytext=(5, -8), textcoords="offset points", fontsize=9)
    axes.set_ylim(1e-7, 1.5)
    axes.legend(frameon=False, fontsize=9)
    return _drawn(figure)


def error_by_crowd() -> str:
    """Standard error of a count of thirteen bits at (1, 10⁻⁶), by the size of the crowd."""
    schema, budget = hb.Schema.bits(13), hb.Budget(1.0, 1e-6)
    crowds = [10**3, 10**4, 10**5, 10**6, 10**7]

    def errors(**kind: Any) -> list[float]:
        protocols = [hb.calibrate(schema, n, budget, **kind).protocol for n in crowds]
        return [predicted_stderr(schema, one, n) / n for one, n in zip(protocols, crowds, strict=True)]

    central = central_stderr(schema, budget)
    rows = [
        ("nobody trusted", errors(shuffler=False)),
        ("whole records", errors()),
        ("16 copies", errors(k=16)),
        ("split bits", errors(release="bits")),
        ("a trusted server", [central / n for n in crowds]),
    ]
    figure, axes = _axes("13 bits at (1, 10⁻⁶)", "people", "standard error of one count, as a share of the people")
    axes.set_xscale("log")
    _named(axes, rows, crowds)
    return _drawn(figure)


def error_by_copies() -> str:
    """Standard error of a count at (ln 2, 10⁻⁶), by the number of copies, relative to one copy."""
    budget, copies = hb.Budget(math.log(2), 1e-6), [1, 2, 4, 8, 16]
    rows = []
    for name, schema, n in (
        ("1 bit", hb.Schema.bits(1), 10**6),
        ("5 bits", hb.Schema.bits(5), 10**6),
        ("13 bits", hb.Schema.bits(13), 10**6),
    ):
        errors = [predicted_stderr(schema, hb.calibrate(schema, n, budget, k=k).protocol, n) for k in copies]
        rows.append((name, [error / errors[0] for error in errors]))
    rows.append(("1/√k", [1 / math.sqrt(k) for k in copies]))
    figure, axes = _axes("a million people, certified at (ln 2, 10⁻⁶)", "copies k", "standard error, relative to k = 1")
    axes.set_xscale("log", base=2)
    axes.set_xticks(copies, [str(k) for k in copies])
    axes.set_yticks([0.25, 0.5, 1.0], ["¼", "½", "1"])
    axes.minorticks_off()
    _named(axes, rows, copies)
    return _drawn(figure)


APPLICATIONS: tuple[tuple[Any, int, Callable[[int, int, float], float]], ...] = (
    (home_pages, 2, plain_flip),
    (search_defaults, 13, ratio_flip),
    (tiles, 20, ratio_flip),
    (clicks, 2, ratio_flip),
)
"""Each with its effective bits, and with the rule of the notes that its figures of 2016 come from."""


def application_shares() -> str:
    """The smallest share that is measured: without a shuffler, by the rules of 2016, and with a proof."""
    rows = []
    for module, effective, rule in APPLICATIONS:
        asked = module.study(module.PEOPLE)
        n, epsilon, error = asked.n, asked.budget.epsilon, asked.error
        rows.append(
            (
                asked.title,
                local_share(n, effective, epsilon, error),
                share_of_flips(n, rule(n, effective, epsilon), error),
                share_within(asked.chosen().stderr, n, error),
            )
        )
    figure, axes = _axes("three standard errors are 5 % of it (clicks: 25 %), ε = 2", "", "")
    axes.set_yscale("linear")
    axes.set_xscale("log")
    axes.set_xlabel("smallest share of the people that is measured", color=INK)
    places = range(len(rows), 0, -1)
    axes.hlines(places, [min(row[1:]) for row in rows], [max(row[1:]) for row in rows], color="#d5dae0", zorder=0)
    for j, (name, colour) in enumerate(
        zip(("without a shuffler", "the rules of the notes: not safe", "split bits, proven"), COLOURS[1:], strict=False)
    ):
        axes.scatter([row[1 + j] for row in rows], places, color=colour, s=42, label=name, marker="oXD"[j])
    axes.set_yticks(list(places), [row[0] for row in rows])
    axes.set_ylim(0.5, len(rows) + 0.5)
    axes.set_xticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1], ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    axes.set_xlim(1.5e-5, 1)
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=3)
    return _drawn(figure)


def application_errors(module: Any, people: int) -> str:
    """Relative errors by true share in one simulated collection, the same at every build."""
    return standalone(picture(module.run(people, SeededStreamNotForPeople(1))))
