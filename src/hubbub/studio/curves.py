"""The quick curves of the page: outlines along ε and along the number of people, each computed once."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hubbub.planner import central_margin, central_stderr, outline
from hubbub.planner.asymptotics import discrete_laplace
from hubbub.planner.margins import laplace_factor
from hubbub.planner.precision import LEVEL, normal_quantile
from hubbub.studio.inquiry import Inquiry

POINTS = 25
"""Points of each curve."""


def _spread(low: float, high: float) -> tuple[float, ...]:
    """Return points between two ends, on a logarithmic scale, of three digits."""
    ratio = (high / low) ** (1 / (POINTS - 1))
    return tuple(float(f"{low * ratio**place:.3g}") for place in range(POINTS))


EPSILONS = _spread(0.05, 10.0)
PEOPLE = tuple(int(one) for one in _spread(100, 1e7))


LAPLACE = ("clear-shuffler-fakes", "strings")
"""Families in which one Laplace variable is the whole error of a count, where that is more precise than a Gaussian."""


def about(inquiry: Inquiry, error: float, *, laplace: bool = True) -> float:
    """Return the approximate margin of an expected error: for a Laplace variable, more than that of a normal error.

    The margins of plans are exact: those of whole numbers are whole, and rise and fall in steps around this line.
    """
    schema = inquiry.schema
    if laplace and not schema.named:
        changes = 2 if schema.text is not None else schema.distance
        if math.isclose(error, discrete_laplace(changes * inquiry.rounds / inquiry.epsilon), rel_tol=1e-9):
            return laplace_factor() * error
    return normal_quantile(LEVEL) * error


def _central(inquiry: Inquiry) -> float:
    """Return the approximate margin of a trusted server."""
    return about(inquiry, central_stderr(inquiry.schema, inquiry.budget, inquiry.rounds))


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the charts: the inquiry without its own value identifies a curve."""

    name: str
    free: Callable[[Inquiry], Inquiry]
    keywords: dict[str, tuple[float, ...]]

    def key(self, inquiry: Inquiry) -> tuple[str, Inquiry]:
        """Return what the curves along this axis depend on."""
        return self.name, self.free(replace(inquiry, trust="nobody", clear=False))

    def outline(self, inquiry: Inquiry) -> dict[str, Any]:
        """Return the margin of each family along the axis."""
        made: dict[str, Any] = self.keywords
        found = outline(inquiry.schema, inquiry.n, inquiry.budget, **inquiry.limits, **made)
        return {
            one.key: [
                *(
                    [x, about(replace(inquiry, epsilon=x), error, laplace=one.key in LAPLACE)]
                    for x, error in one.by_epsilon
                ),
                *([x, about(inquiry, error, laplace=one.key in LAPLACE)] for x, error in one.by_people),
            ]
            for one in found
        }


AXES = (
    Axis("epsilon", lambda one: replace(one, epsilon=1.0), {"epsilons": EPSILONS}),
    Axis("people", lambda one: replace(one, n=1000), {"people": PEOPLE}),
)


def merged(inquiry: Inquiry, by_epsilon: dict[str, Any], by_people: dict[str, Any]) -> dict[str, Any]:
    """Return both curves of every family with its margin at the inquiry itself: nothing in it is certified."""
    here = outline(inquiry.schema, inquiry.n, inquiry.budget, **inquiry.limits)
    # A survey would have a layout of its own on a trusted server.
    central = not inquiry.schema.named
    at_epsilons = [[x, _central(replace(inquiry, epsilon=x))] for x in EPSILONS] if central else []
    return {
        "families": [
            {
                "family": one.key,
                "name": one.name,
                "trust": one.trust,
                "clear": one.clear,
                "allowed": inquiry.allows(one.trust, clear=one.clear),
                "about": about(inquiry, one.error, laplace=one.key in LAPLACE) if one.error is not None else None,
                "by_epsilon": by_epsilon.get(one.key, []),
                "by_people": by_people.get(one.key, []),
            }
            for one in here
        ],
        "central": {
            "here": central_margin(inquiry.schema, inquiry.budget, inquiry.rounds) if central else None,
            "by_epsilon": at_epsilons,
        },
    }
