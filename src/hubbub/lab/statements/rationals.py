"""Tiny crowds in exact rationals: every outcome listed, nothing rounded."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

__all__ = ["Exact", "crowd_law", "crowd_values", "flips", "product", "shuffled", "stick", "subsets", "tail"]

Outcome = tuple[int, ...]
Exact = dict[Outcome, Fraction]
"""The probabilities of all outcomes."""


def product(*factors: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of a product of polynomials: the law of a sum of independent numbers.

    >>> [str(x) for x in product([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 2)])]
    ['1/4', '1/2', '1/4']
    """
    result = [Fraction(1)]
    for factor in factors:
        longer = [Fraction(0)] * (len(result) + len(factor) - 1)
        for (i, a), (j, b) in itertools.product(enumerate(result), enumerate(factor)):
            longer[i + j] += a * b
        result = longer
    return result


def crowd_law(n: int, ones: int, q: Fraction) -> Exact:
    """The law of Bin(ones, p) + Bin(n − ones, q). [000 §6, 004 §3]

    >>> [str(1024 * x) for x in crowd_law(5, 2, Fraction(1, 4)).values()]
    ['27', '189', '414', '298', '87', '9']
    """
    return {(s,): chance for s, chance in enumerate(crowd_values(n, ones, q))}


def crowd_values(n: int, ones: int, q: Fraction) -> list[Fraction]:
    """The same as a list.

    >>> [str(x) for x in crowd_values(2, 0, Fraction(1, 4))]
    ['9/16', '3/8', '1/16']
    """
    return product(*[[q, 1 - q]] * ones, *[[1 - q, q]] * (n - ones))


def flips(width: int, q: Fraction) -> list[list[Fraction]]:
    """The laws of all flipped vectors, 11…1 first and 00…0 last: p^(L−h) q^h at distance h. [000 eq 2.2]

    >>> [str(16 * x) for x in flips(2, Fraction(1, 4))[0]]
    ['9', '3', '3', '1']
    """
    size = 2**width
    return [
        [(1 - q) ** (width - (i ^ j).bit_count()) * q ** (i ^ j).bit_count() for j in range(size)] for i in range(size)
    ]


def shuffled(messages: Iterable[Sequence[Fraction]]) -> Exact:
    """The law of the histogram of independent messages, each given by its law. [000 eq 3.4]

    >>> one, zero = flips(1, Fraction(1, 4))
    >>> {s: str(chance) for s, chance in shuffled([one, zero]).items()}
    {(2, 0): '3/16', (1, 1): '5/8', (0, 2): '3/16'}
    """
    state: Exact = {}
    for law in messages:
        if not state:
            state = {(0,) * len(law): Fraction(1)}
        after: Exact = {}
        for (s, chance), (place, weight) in itertools.product(state.items(), enumerate(law)):
            more = (*s[:place], s[place] + 1, *s[place + 1 :])
            after[more] = after.get(more, Fraction(0)) + chance * weight
        state = after
    return state


def stick(first: Mapping[Outcome, Fraction], second: Mapping[Outcome, Fraction], ratio: Fraction) -> Fraction:
    """δ = Σ (P − λQ)⁺, the hockey stick of ``first`` = P against ``second`` = Q, at λ = ``ratio``.

    >>> str(stick(crowd_law(2, 0, Fraction(1, 4)), crowd_law(2, 1, Fraction(1, 4)), Fraction(2)))
    '3/16'
    """
    gaps = (chance - ratio * second.get(s, Fraction(0)) for s, chance in first.items())
    return sum((gap for gap in gaps if gap > 0), Fraction(0))


def tail(first: Mapping[Outcome, Fraction], second: Mapping[Outcome, Fraction], ratio: Fraction) -> Fraction:
    """η = P[P(S)/Q(S) > λ], S ~ ``first`` = P. [003 eq 1.7]

    >>> str(tail(crowd_law(2, 0, Fraction(1, 4)), crowd_law(2, 1, Fraction(1, 4)), Fraction(2)))
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
