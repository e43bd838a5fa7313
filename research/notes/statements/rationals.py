"""Pairs of tiny crowds in exact rationals: what is seen of their messages, and how far apart their laws are."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from research.notes.statements.enumeration import crowd_distribution

Outcome = tuple[int, ...]
Exact = dict[Outcome, Fraction]
"""The probabilities of all outcomes."""


def crowd_outcomes(n: int, ones: int, q: Fraction) -> Exact:
    """The law of Bin(ones, p) + Bin(n − ones, q), by outcomes. [000 §6, 004 §3]

    >>> {s: str(chance) for s, chance in crowd_outcomes(2, 0, Fraction(1, 4)).items()}
    {(0,): '9/16', (1,): '3/8', (2,): '1/16'}
    """
    return {(s,): chance for s, chance in enumerate(crowd_distribution(n, ones, q))}


def shuffled(messages: Iterable[Sequence[Fraction]]) -> Exact:
    """The law of the histogram of independent messages, each given by its law. [000 eq 3.4]

    >>> from research.notes.statements.enumeration import transitions
    >>> one, zero = transitions(1)
    >>> {s: str(chance) for s, chance in shuffled([one, zero]).items()}
    {(2, 0): '3/16', (1, 1): '5/8', (0, 2): '3/16'}
    """
    state: Exact = {}
    for distribution in messages:
        if not state:
            state = {(0,) * len(distribution): Fraction(1)}
        after: Exact = {}
        for (s, chance), (place, weight) in itertools.product(state.items(), enumerate(distribution)):
            more = (*s[:place], s[place] + 1, *s[place + 1 :])
            after[more] = after.get(more, Fraction(0)) + chance * weight
        state = after
    return state


def stick(first: Mapping[Outcome, Fraction], second: Mapping[Outcome, Fraction], ratio: Fraction) -> Fraction:
    """δ = Σ (P − λQ)⁺, the hockey stick of ``first`` = P against ``second`` = Q, at λ = ``ratio``.

    >>> from research.notes.statements.enumeration import QUARTER
    >>> str(stick(crowd_outcomes(2, 0, QUARTER), crowd_outcomes(2, 1, QUARTER), Fraction(2)))
    '3/16'
    """
    gaps = (chance - ratio * second.get(s, Fraction(0)) for s, chance in first.items())
    return sum((gap for gap in gaps if gap > 0), Fraction(0))


def tail(first: Mapping[Outcome, Fraction], second: Mapping[Outcome, Fraction], ratio: Fraction) -> Fraction:
    """η = P[P(S)/Q(S) > λ], S ~ ``first`` = P. [003 eq 1.7]

    >>> from research.notes.statements.enumeration import QUARTER
    >>> str(tail(crowd_outcomes(2, 0, QUARTER), crowd_outcomes(2, 1, QUARTER), Fraction(2)))
    '9/16'
    """
    return sum((chance for s, chance in first.items() if chance > ratio * second.get(s, Fraction(0))), Fraction(0))


def subsets(outcomes: Iterable[Outcome]) -> Iterator[tuple[Outcome, ...]]:
    """All sets of outcomes but the empty one.

    >>> len(list(subsets([(0,), (1,), (2,)])))
    7
    """
    known = list(outcomes)
    return itertools.chain.from_iterable(itertools.combinations(known, size) for size in range(1, len(known) + 1))
