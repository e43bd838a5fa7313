"""The pictures of the theory and of the applications, drawn from what the accountant computes."""

import math
from collections.abc import Callable
from typing import Any

from examples._page import picture
from examples._rules_2016 import local_share, plain_flip, ratio_flip, share_of_flips, share_within
from research.notes.formulas.bounds import three_sigma_bit_flip

import hubbub as hb
from examples import clicks, home_pages, search_defaults, tiles
from hubbub.accountant import curve
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.mechanisms.noise import predicted_stderr
from hubbub.numeric.crowd import neighbours
from hubbub.numeric.divergences import hockey_stick
from hubbub.planner import central_stderr
from hubbub.report import Axis, Chart, Mark, Series, chart
from hubbub.report.charts import ticks
from hubbub.report.figures import Canvas
from hubbub.report.rows import row_axes
from hubbub.report.style import LIGHT, MARKERS

__all__ = ["pictures"]


def pictures() -> dict[str, Chart]:
    """Return all of them by name."""
    return {
        "two-orders": two_orders(),
        "error-by-crowd": error_by_crowd(),
        "error-by-copies": error_by_copies(),
        "application-shares": application_shares(),
        "application-home-pages": application_errors(home_pages, 10**6),
        "application-clicks": application_errors(clicks, clicks.PEOPLE),
    }


def two_orders() -> Chart:
    """δ(ε) of one pair in both orders, and the supremum over all crowds, at the noise of [002 eq 4.45]."""
    n, q = 1000, three_sigma_bit_flip(1000, math.log(2))
    alike, outlier = neighbours(n, 0, q)
    certified = curve(hb.Protocol(q), hb.Schema.bits(1), n)
    xs = [0.05 * i for i in range(1, 61)]
    rows: list[tuple[str, Callable[[float], float]]] = [
        ("person conforms", lambda x: hockey_stick(alike.pmf, outlier.pmf, x)),
        ("person is an outlier (the order of the notes)", lambda x: hockey_stick(outlier.pmf, alike.pmf, x)),
        ("all crowds, both orders", lambda x: math.exp(certified.upper(x))),
    ]
    styles: list[dict[str, Any]] = [
        {"colour": "one"},
        {"colour": "two", "stroke": "dashed"},
        {"colour": "quiet", "stroke": "dotted"},
    ]
    return chart(
        [
            Series(label=name, points=[(x, value(x)) for x in xs], **style)
            for (name, value), style in zip(rows, styles, strict=True)
        ],
        f"δ(ε) of one bit, {n:,} people, q = {q:.5f}",
        across=Axis("ε"),
        up=Axis("δ(ε)", 1e-7, 1.5, log=True),
        marks=[Mark("planned: ε = ln 2", math.log(2))],
    )


def error_by_crowd() -> Chart:
    """Standard error of a count of thirteen bits at (1, 10⁻⁶), by the size of the crowd."""
    schema, budget = hb.Schema.bits(13), hb.Budget(1.0, 1e-6)
    crowds = [10**3, 10**4, 10**5, 10**6, 10**7]

    def errors(**kind: Any) -> list[float]:
        protocols = [hb.calibrate(schema, n, budget, **kind).protocol for n in crowds]
        return [predicted_stderr(schema, one, n) / n for one, n in zip(protocols, crowds, strict=True)]

    central = central_stderr(schema, budget)
    rows = [
        ("nobody trusted", errors(trust="nobody")),
        ("whole records", errors()),
        ("16 copies", errors(k=16)),
        ("split bits", errors(release="bits")),
        ("a trusted server", [central / n for n in crowds]),
    ]
    return chart(
        [Series(label=name, points=[*zip(crowds, errors, strict=True)]) for name, errors in rows],
        "Standard error by the size of the crowd: 13 bits at (1, 10⁻⁶)",
        across=Axis("people", log=True),
        up=Axis("standard error of one count, as a share of the people", log=True),
    )


def error_by_copies() -> Chart:
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
    lines = [Series(label=name, points=[*zip(copies, errors, strict=True)], kind="both") for name, errors in rows[:-1]]
    limit = Series(label="1/√k", points=[*zip(copies, rows[-1][1], strict=True)], colour="quiet", stroke="thin dashed")
    return chart(
        [*lines, limit],
        "Standard error by the number of copies: a million people, certified at (ln 2, 10⁻⁶)",
        across=Axis("copies k", log=True, at=tuple(copies)),
        up=Axis("standard error, relative to k = 1", log=True, at=(0.25, 0.5, 1.0)),
    )


APPLICATIONS: tuple[tuple[Any, int, Callable[[int, int, float], float]], ...] = (
    (home_pages, 2, plain_flip),
    (search_defaults, 13, ratio_flip),
    (tiles, 20, ratio_flip),
    (clicks, 2, ratio_flip),
)
"""Each with its effective bits, and with the rule of the notes that its figures of 2016 come from."""


def application_shares() -> Chart:
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
    kinds = (
        ("without a shuffler", "one"),
        ("the rules of the notes: not safe", "two"),
        ("split bits, proven", "three"),
    )

    def draw(canvas: Canvas) -> None:
        axes, places = row_axes(canvas, [row[0] for row in rows], "smallest share of the people that is measured")
        axes.set_xscale("log")
        axes.hlines(places, [min(row[1:]) for row in rows], [max(row[1:]) for row in rows], color=LIGHT["line"])
        dots = [
            axes.plot([row[1 + j] for row in rows], places, MARKERS[colour], color=LIGHT[colour], ms=9, label=name)
            for j, (name, colour) in enumerate(kinds)
        ]
        at = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) if canvas.wide else (1e-4, 1e-2, 1.0)
        ticks(canvas, axes.xaxis, Axis("", 1.5e-5, 1.05, log=True, at=at, percent=True), 6)
        canvas.legend([dot for (dot,) in dots])

    return Chart("Smallest measured share: three standard errors are 5 % of it (clicks: 25 %), ε = 2", draw)


def application_errors(module: Any, people: int) -> Chart:
    """Return the relative errors by true share in one simulated collection, the same at every build."""
    return picture(module.run(people, SeededStreamNotForPeople(1)))
