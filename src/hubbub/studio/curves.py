"""The quick curves of the page: outlines along ε and along the number of people, each computed once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hubbub.pages.explanation import MARGIN
from hubbub.planner import central_stderr, outline
from hubbub.studio.inquiry import Inquiry

POINTS = 25
"""Points of each curve."""


def _spread(low: float, high: float) -> tuple[float, ...]:
    """Return points between two ends, on a logarithmic scale, of three digits."""
    ratio = (high / low) ** (1 / (POINTS - 1))
    return tuple(float(f"{low * ratio**place:.3g}") for place in range(POINTS))


EPSILONS = _spread(0.05, 10.0)
PEOPLE = tuple(int(one) for one in _spread(100, 1e7))


def _central(inquiry: Inquiry) -> float | None:
    """Return the error of a trusted server; a survey would have a layout of its own."""
    if inquiry.schema.questions is not None:
        return None
    return MARGIN * central_stderr(inquiry.schema, inquiry.budget, inquiry.rounds)


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
        return {one.key: _scaled(one.by_epsilon or one.by_people) for one in found}


def _scaled(points: tuple[tuple[float, float], ...]) -> list[list[float]]:
    return [[x, MARGIN * error] for x, error in points]


AXES = (
    Axis("epsilon", lambda one: replace(one, epsilon=1.0), {"epsilons": EPSILONS}),
    Axis("people", lambda one: replace(one, n=1000), {"people": PEOPLE}),
)


def merged(inquiry: Inquiry, by_epsilon: dict[str, Any], by_people: dict[str, Any]) -> dict[str, Any]:
    """Return both curves of every family with its margin at the inquiry itself: nothing in it is certified."""
    here = outline(inquiry.schema, inquiry.n, inquiry.budget, **inquiry.limits)
    central = _central(inquiry)
    at_epsilons = [[x, _central(replace(inquiry, epsilon=min(x, 20.0)))] for x in EPSILONS] if central else []
    return {
        "families": [
            {
                "family": one.key,
                "name": one.name,
                "trust": one.trust,
                "clear": one.clear,
                "allowed": inquiry.allows(one.trust, clear=one.clear),
                "about": MARGIN * one.error if one.error is not None else None,
                "by_epsilon": by_epsilon.get(one.key, []),
                "by_people": by_people.get(one.key, []),
            }
            for one in here
        ],
        "central": {"here": central, "by_epsilon": at_epsilons},
    }
