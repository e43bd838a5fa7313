"""Everything that can go wrong, as one tree, in one wording.

    HubbubError
    ├── InvalidInput      an argument outside its domain; also a ValueError
    │   ├── TooLarge      legal, but would need an absurd amount of memory
    │   ├── PlanMismatch  made under one plan, used under another
    │   └── WireError     bytes or JSON that are not in the one canonical form
    │       └── SealError a bundle or slot that is refused, with a reason for machines
    ├── Infeasible        no parameters reach what was asked; says what would be feasible
    ├── BatchTooSmall     fewer people than the plan's guarantee needs; nothing is released
    ├── FalseClaim        a plan claims more privacy than its parameters give
    ├── EntropyFailure    a source of randomness gave less than was asked of it
    └── ProgramFailure    a program under audit crashed, hung, or wrote what nobody can read

Messages read ``q must be in [0, 1/2), got 0.7``; they name parameters and never contain data.
The ``check_*`` functions are the only places that build such messages for scalars, and they return the value
in its canonical type, so that a constructor or a public verb checks and converts in one line.
"""

import math
from numbers import Integral, Real
from typing import NoReturn

MEMORY_LIMIT = 4 * 2**30
"""Bytes that one call may allocate before it is refused as a mistake in the arguments."""


class HubbubError(Exception):
    """The root of all errors that hubbub raises on purpose."""


class InvalidInput(HubbubError, ValueError):
    """An argument lies outside its domain."""


class TooLarge(InvalidInput):
    """The arguments are legal, but the result would not fit into memory."""


class PlanMismatch(InvalidInput):
    """Something that was made under one plan is used under another."""


class WireError(InvalidInput):
    """Bytes or JSON are not in the one canonical form that the format allows."""


class SealError(WireError):
    """A bundle or a slot is refused; ``reason`` says why in one word, ``index`` which of several.

    >>> print(SealError("malformed", 3))
    bundle 3 of the upload is refused: malformed
    """

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason, index)
        self.reason = reason
        self.index = index

    def __str__(self) -> str:
        what = "the bundle or slot" if self.index is None else f"bundle {self.index} of the upload"
        return f"{what} is refused: {self.reason}"


class Infeasible(HubbubError):
    """No parameters of this protocol reach what was asked."""


class BatchTooSmall(HubbubError):
    """A batch has fewer contributors, or fewer fakes, than the guarantee of its plan needs."""


class FalseClaim(HubbubError):
    """A plan claims more privacy, or more precision, than its parameters give."""


class EntropyFailure(HubbubError):
    """A source of randomness gave less, or something else, than was asked of it."""


class ProgramFailure(HubbubError):
    """A program under audit crashed, hung, or wrote what nobody can read."""


def reject(name: str, must: str, got: object) -> NoReturn:
    """Raise the one worded error.

    >>> reject("q", "be in [0, 1/2)", 0.7)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: q must be in [0, 1/2), got 0.7
    """
    raise InvalidInput(f"{name} must {must}, got {got!r}")


def check_real(
    name: str,
    value: object,
    low: float,
    high: float,
    must: str,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a float of the interval from ``low`` to ``high``, or raise with the words ``must``.

    >>> check_real("level", 0.95, 0, 1, "be in (0, 1)", open_low=True, open_high=True)
    0.95
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        reject(name, must, value)
    number = float(value)
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (above and below):
        reject(name, must, number)
    return number


def check_flip(q: object, *, zero: bool = False) -> float:
    """Return the lie probability as a float of (0, 1/2), or of [0, 1/2) where the clear record is meant.

    >>> check_flip(0.7)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: q must be in (0, 1/2), got 0.7
    """
    must = "be in [0, 1/2)" if zero else "be in (0, 1/2)"
    return check_real("q", q, 0.0, 0.5, must, open_low=not zero, open_high=True)


def check_epsilon(epsilon: object) -> float:
    """Return ε as a finite float ≥ 0.

    >>> check_epsilon(float("nan"))
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: epsilon must be finite and at least 0, got nan
    """
    return check_real("epsilon", epsilon, 0.0, math.inf, "be finite and at least 0", open_high=True)


def check_delta(delta: object) -> float:
    """Return δ as a float of (0, 1).

    >>> check_delta(1)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: delta must be in (0, 1), got 1.0
    """
    return check_real("delta", delta, 0.0, 1.0, "be in (0, 1)", open_low=True, open_high=True)


def check_whole(name: str, value: object, least: int = 0, most: int | None = None) -> int:
    """Return ``value`` as an int of [least, most]; floats are refused, numpy integers are welcome.

    >>> check_whole("n", 0, 1)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: n must be a whole number of at least 1, got 0
    """
    must = f"be a whole number of at least {least}" if most is None else f"be a whole number in [{least}, {most}]"
    if isinstance(value, bool) or not isinstance(value, Integral):
        reject(name, must, value)
    number = int(value)
    if number < least or (most is not None and number > most):
        reject(name, must, number)
    return number


def check_memory(what: str, size: int) -> None:
    """Refuse to allocate more than ``MEMORY_LIMIT`` bytes in one call.

    >>> check_memory("the transition matrix of 20 bits", 8 * 4**20)
    Traceback (most recent call last):
    hubbub.errors.TooLarge: the transition matrix of 20 bits would need 8192.0 GiB; the limit is 4.0 GiB
    """
    if size > MEMORY_LIMIT:
        raise TooLarge(f"{what} would need {size / 2**30:.1f} GiB; the limit is {MEMORY_LIMIT / 2**30:.1f} GiB")
