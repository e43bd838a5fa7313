"""Figures that set what the notes claim beside what is so, every point computed when the figure is drawn."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.accountant import calibrate, quadrature
from hubbub.accountant.theorems import attacks, bit, records
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.numeric.divergences import gaussian_signal
from hubbub.report import COLOURS, Axis, Chart, Mark, Series, chart
from research.notes.formulas.bounds import (
    local_flip,
    simple_three_sigma_flip,
    three_sigma_bit_flip,
    three_sigma_copies_flip,
    three_sigma_flip,
)
from research.notes.formulas.estimation import count_stderr
from research.notes.formulas.tails import ratio_density
from research.notes.readings import PRINTED

LN2 = math.log(2)
CROWDS = tuple(int(n) for n in np.round(np.geomspace(100, 10**6, 17), -1))


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, the name of its file, and what it shows."""

    name: str
    title: str
    caption: str
    picture: Chart


def _delta(kind: tuple[int, int, int], q: float, n: int, epsilon: float) -> float:
    """δ(ε) if all others hold one record, from above."""
    return math.exp(quadrature.positive_mean(*attacks.background(kind, q, epsilon), n, tolerance=0.01).upper)


def _named(label: str, stroke: str) -> Series:
    """What a stroke means, whatever its colour."""
    return Series(label=label, points=(), colour="quiet", stroke=stroke)


def _densities(name: str, epsilon: float, bar: str, span: tuple[float, float]) -> Figure:
    lines = []
    x = np.linspace(*span, 420)
    rows = [(n, q) for e, n, q, _ in PRINTED if e == epsilon]
    for (n, q), colour in zip(rows, COLOURS, strict=False):
        outlier = ratio_density(n, 5, q, x)
        lines.append(Series(label=f"N = {n:,}, q = {q:.4f}", points=[*zip(x, outlier, strict=True)], colour=colour))
    for (n, q), colour in zip(rows, COLOURS, strict=False):
        # R is the likelihood ratio of the pair: without the outlier its density is that with it, divided by R.
        bare = ratio_density(n, 5, q, x) / x
        points = [*zip(x, bare, strict=True)]
        lines.append(Series(label="", points=points, colour=colour, stroke="thin dashed"))
    lines.append(_named("the same without the outlier", "thin dashed"))
    marks = [Mark(f"R = {bar}", math.exp(epsilon)), Mark(f"R = 1/{bar}", math.exp(-epsilon))]
    picture = chart(
        lines,
        f"Densities of R(S) at λ = {bar}",
        across=Axis("privacy ratio R(S), records of five bits", *span),
        up=Axis("density", 2e-3, 6.0, log=True),
        marks=marks,
    )
    slip = " The curve of N = 5000 is the widest, because its q is a slip: 0.1963 is meant." if bar == "2" else ""
    return Figure(
        name,
        f"The densities of [003 §3.3] at λ = {bar}",
        "Solid: the law of R(S) when the outlier is there, as the notes draw it; what lies right of λ is η. Dashed: "
        f"the law without the outlier, whose part left of 1/λ is the order that the notes never look at.{slip}",
        picture,
    )


def densities_two() -> Figure:
    """The exact law of R(S) at the printed q, λ = 2."""
    return _densities("densities-2", LN2, "2", (0.15, 2.8))


def densities_e2() -> Figure:
    """The exact law of R(S) at the printed q, λ = e²."""
    return _densities("densities-e2", 2.0, "e²", (0.05, 9.5))


def precision_by_noise() -> Figure:
    """σ/√N = √(pq)/(p−q), and where the protocols of §4 stand."""
    q = np.linspace(0.005, 0.485, 200)
    n = 5000
    stands = [
        ("the notes as printed", 0.1778, "two"),
        ("the notes' rule", simple_three_sigma_flip(n, 5, LN2), "three"),
        ("certified, δ = 10⁻³", calibrate(Schema.bits(5), n, Budget(LN2, 1e-3)).protocol.q, "four"),
        ("without a shuffler", local_flip(5, LN2), "five"),
    ]
    curve = Series(label="√(pq)/(p−q)", points=[(float(x), count_stderr(1, float(x))) for x in q], colour="quiet")
    dots = [
        Series(
            label=f"{label}: q = {x:.4f}, {count_stderr(1, x):.3g} √N",
            points=[(x, count_stderr(1, x))],
            colour=colour,
            kind="both",
        )
        for label, x, colour in stands
    ]
    picture = chart(
        [curve, *dots],
        "Precision against noise",
        across=Axis("lie probability q", 0.0, 0.5),
        up=Axis("σ of a count, in √N", 0.05, 20.0, log=True),
    )
    return Figure(
        "precision-noise",
        "The graph of [003 §4], and where one stands on it",
        "Records of five bits, λ = 2, N = 5000. The notes claim 7.5 √N without a shuffler and 0.6 √N with it. The rule "
        "guarantees nothing; what is proven for all collections needs a little more noise.",
        picture,
    )


def precision_by_crowd() -> Figure:
    """σ/√N against N: local, the notes' rule, and what is certified."""
    crowds = [int(n) for n in np.geomspace(1000, 10**7, 9)]
    budget = Budget(LN2, 1e-3)

    def noise(rule: Callable[[int], float], many: Sequence[int] = crowds) -> list[tuple[float, float]]:
        return [(n, count_stderr(1, rule(n))) for n in many]

    lines = [
        Series(label="without a shuffler", points=noise(lambda n: local_flip(5, LN2)), colour="five"),
        Series(
            label="certified, whole records",
            points=noise(lambda n: calibrate(Schema.bits(5), n, budget).protocol.q),
            colour="four",
            kind="both",
        ),
        Series(
            label="the notes' rule (3.15)", points=noise(lambda n: simple_three_sigma_flip(n, 5, LN2)), colour="three"
        ),
        Series(
            label="certified, split bits",
            points=noise(lambda n: calibrate(Schema.bits(5), n, budget, release="bits").protocol.q, crowds[::4]),
            colour="one",
            kind="both",
        ),
    ]
    picture = chart(
        lines,
        "Precision against the crowd",
        across=Axis("people N", 1000, 10**7, log=True),
        up=Axis("σ of a count, in √N", 1e-3, 20, log=True),
    )
    return Figure(
        "precision-crowd",
        "What the crowd buys",
        "Five bits, λ = 2, certified at δ = 10⁻³ for all collections and both orders. The gain over local noise is "
        "real, close to what the notes claim for whole records, and far beyond it if every bit travels alone.",
        picture,
    )


COPIES = (1, 2, 4, 8, 16, 32, 64)


def copies_of_a_bit() -> Figure:
    """σ against k for single bits: the claim, (5.24), exact calibration and the Gaussian limit."""
    n, budget = 1000, Budget(LN2, 1e-6)
    exact = [(k, count_stderr(n, calibrate(Schema.bits(1), n, budget, k=k).protocol.q, k=k)) for k in COPIES]
    formula = [(k, count_stderr(n, three_sigma_copies_flip(n, LN2, k), k=k)) for k in COPIES]
    limit = 1 / gaussian_signal(LN2, 1e-6)
    lines = [
        Series(
            label="claimed: σ(1)/√k",
            points=[(k, exact[0][1] / math.sqrt(k)) for k in COPIES],
            colour="two",
            stroke="dashed",
        ),
        Series(label="exactly calibrated, (ln 2, 10⁻⁶)", points=exact, colour="one", kind="both"),
        Series(label="formula (5.24), no guarantee", points=formula, colour="three", kind="both"),
    ]
    picture = chart(
        lines,
        "k copies of single bits",
        across=Axis("copies k", 1, 64, log=True, at=COPIES),
        up=Axis("σ of a count, people", 0.0, 8.0),
        marks=[Mark(f"Gaussian limit {limit:.2f}", limit, up=True)],
    )
    return Figure(
        "copies-bit",
        "k-randomization of single bits [002 §5]",
        "N = 1000. At equal guarantee, copies lower the error towards that of the Gaussian mechanism and not further; "
        "with the notes' own formula it even grows, from 3 to 3/ln 2 = 4.33, while its δ improves.",
        picture,
    )


def copies_of_records() -> Figure:
    """σ against k for records of L ≥ 2 bits, certified."""
    many = COPIES[:5]
    lines = []
    for (width, n), colour in zip(((2, 1000), (5, 10**4), (10, 10**5)), COLOURS, strict=False):
        found = [
            (k, count_stderr(1, calibrate(Schema.bits(width), n, Budget(LN2, 1e-3), k=k).protocol.q, k=k)) for k in many
        ]
        size = "10" + "".join("⁰¹²³⁴⁵"[int(d)] for d in str(round(math.log10(n))))
        lines.append(Series(label=f"L = {width}, N = {size}", points=found, colour=colour, kind="both"))
        claim = [(k, found[0][1] / math.sqrt(k)) for k in many]
        lines.append(Series(label="", points=claim, colour=colour, stroke="thin dashed"))
    lines.append(_named("claimed: σ(1)/√k", "thin dashed"))
    picture = chart(
        lines,
        "k copies of records",
        across=Axis("copies k", 1, 16, log=True, at=many),
        up=Axis("σ of a count, in √N", 0.1, 1.5, log=True),
    )
    return Figure(
        "copies-records",
        "k-randomization of longer records",
        "Certified for all collections at (ln 2, 10⁻³). Copies at higher q blur the pattern of a record, so that the "
        "gain is real, grows with L, and stays below √k.",
        picture,
    )


def _one_hot(name: str, epsilon: float, bar: str) -> Figure:
    def curve(rule: Callable[[int, float], float]) -> list[tuple[float, float]]:
        return [(n, rule(n, simple_three_sigma_flip(n, 2, epsilon))) for n in CROWDS]

    three = Schema.one_hot(3)
    lines = [
        Series(label="the notes' pair", points=curve(lambda n, q: _delta((2, 0, 0), q, n, epsilon)), colour="three"),
        Series(
            label="the same, reversed",
            points=curve(lambda n, q: _delta((0, 2, 0), q, n, epsilon)),
            colour="three",
            stroke="dashed",
        ),
        Series(
            label="others at a third category",
            points=curve(lambda n, q: _delta((1, 1, 1), q, n, epsilon)),
            colour="two",
        ),
        Series(
            label="proven for all",
            points=curve(lambda n, q: math.exp(records.blanket(three, q, n, epsilon))),
            colour="one",
            stroke="dotted",
        ),
    ]
    picture = chart(
        lines,
        f"One-hot records at λ = {bar}",
        across=Axis("people N", 100, 10**6, log=True),
        up=Axis("δ at the notes' q", 1e-4, 1.0, log=True),
    )
    return Figure(
        name,
        f"One of three categories with the noise of two bits [003 §5], λ = {bar}",
        "q by (3.15) with L = 2. The claim holds for the notes' own collection, in the notes' own order. If everybody "
        "else is at a third category, δ is orders of magnitude larger, in both orders alike.",
        picture,
    )


def one_hot_two() -> Figure:
    """δ of the note's crowd and of a third category against N, λ = 2."""
    return _one_hot("one-hot-2", LN2, "2")


def one_hot_e2() -> Figure:
    """δ of the note's crowd and of a third category against N, λ = e²."""
    return _one_hot("one-hot-e2", 2.0, "e²")


def _three_sigma(name: str, width: int) -> Figure:
    lines = []
    for (epsilon, bar), colour in zip(((LN2, "2"), (1.0, "e"), (2.0, "e²")), COLOURS, strict=False):
        forward, reverse = [], []
        for n in CROWDS:
            if width == 1:
                q = three_sigma_bit_flip(n, epsilon)
                logs = bit.log_delta([0, n - 1], [n - 1, 0], q, epsilon)
                deltas = [math.exp(float(x)) for x in logs]
            else:
                q = three_sigma_flip(n, width, epsilon)
                deltas = [_delta(kind, q, n, epsilon) for kind in ((width, 0, 0), (0, width, 0))]
            forward.append((n, deltas[0]))
            reverse.append((n, deltas[1]))
        lines.append(Series(label=f"λ = {bar}", points=forward, colour=colour))
        lines.append(Series(label="", points=reverse, colour=colour, stroke="dashed"))
    lines.append(_named("reversed", "dashed"))
    picture = chart(
        lines,
        f"The three-sigma rule, L = {width}",
        across=Axis("people N", 100, 10**6, log=True),
        up=Axis("δ reached", 1e-6, 1.0, log=True),
    )
    rule = "(4.45) of [002]" if width == 1 else "(3.12) of [003]"
    told = (
        "The order that the notes look at hides the failure of the other: at λ = e² nothing is protected."
        if width == 1
        else "For longer records the notes' order is the worse one in small crowds, and at λ = 2 and e the other in "
        "large ones; which collection is the worst is not known."
    )
    return Figure(
        name,
        f"What mean + 3σ reaches, {'single bits' if width == 1 else f'records of {width} bits'}",
        f"q by {rule}, homogeneous pair. Solid: outlier against homogeneous; dashed: the other order. {told}",
        picture,
    )


def three_sigma_bits() -> Figure:
    """δ reached by (4.45) over N and λ, both orders."""
    return _three_sigma("three-sigma-1", 1)


def three_sigma_records() -> Figure:
    """δ reached by (3.12) over N and λ, both orders."""
    return _three_sigma("three-sigma-5", 5)


DRAWN: tuple[Callable[[], Figure], ...] = (
    densities_two,
    densities_e2,
    precision_by_noise,
    precision_by_crowd,
    copies_of_a_bit,
    copies_of_records,
    one_hot_two,
    one_hot_e2,
    three_sigma_bits,
    three_sigma_records,
)
"""All figures, in the order of the page."""


def figures() -> Iterator[Figure]:
    """Draw all of them, one after the other."""
    return (draw() for draw in DRAWN)
