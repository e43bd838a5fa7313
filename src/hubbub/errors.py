"""The exceptions of hubbub, and the checks that raise them with uniform wording.

    HubbubError
    ├── InvalidInput         an argument outside its domain; also a ValueError
    │   ├── InvalidRecord    a record that the schema does not allow, with its number
    │   ├── TooLarge         a valid request that would exceed the memory limit
    │   ├── PlanMismatch     objects of two different plans used together
    │   └── WireError        bytes or JSON that violate their format
    │       └── SealError    a rejected bundle or slot, with a machine-readable reason
    ├── Infeasible           no parameters meet the request
    ├── BatchTooSmall        fewer people or fakes than the plan's guarantee needs
    ├── FalseClaim           a plan that claims more privacy or precision than it has
    ├── BudgetExceeded       a charge beyond the budget of a ledger
    ├── AlreadyCharged       a collection that the ledger has charged before
    ├── LedgerDamaged        a ledger file that was changed, truncated or rewound
    ├── EntropyFailure       a randomness source that returned too few bytes
    ├── MissingExtra         an optional dependency that is not installed
    ├── ProgramFailure       an audited program that crashed, hung or wrote invalid output
    ├── StoreFailure         a database that cannot be read, written or used by this version
    │   └── StoreUnreachable  the connection to the database cannot be made, or broke
    ├── WorkerFailure        worker processes, or tasks of an engine, that failed repeatedly over the same work
    ├── Problem              a request that a service rejects, answered with a problem document
    ├── AnalyzerUnreachable  an analyzer that the shuffler cannot reach or understand
    ├── CommandFailure       a service that refused a command or a query, or did not answer it
    │   └── CommandRefused   a running service that refused a command, with its reason
    └── NoResponse           an upload without a response: it may have been stored or not

Messages read ``q must be in [0, 1/2), got 0.7``. They name parameters and never contain people's data. Each ``check_*``
function returns the value in its canonical type, so constructors and public functions check and convert in one line.
"""

import importlib
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

MEMORY_LIMIT = 4 * 2**30
"""Largest allocation of a single call, in bytes."""


class HubbubError(Exception):
    """Base class of all errors that hubbub raises deliberately."""


class InvalidInput(HubbubError, ValueError):
    """An argument lies outside its domain."""


class InvalidRecord(InvalidInput):
    """A record that the schema does not allow; ``record`` is its number, counted from 1.

    ``kind`` is ``"missing"`` (no value), ``"unknown"`` (a label that is not in the schema) or ``"invalid"``.

    >>> print(InvalidRecord(1700, "has a label that is not in the schema", "colour"))
    record 1,700 (column 'colour') has a label that is not in the schema
    """

    def __init__(self, record: int, problem: str, column: str | None = None, kind: str = "invalid") -> None:
        super().__init__(record, problem, column, kind)
        self.record, self.problem, self.column, self.kind = record, problem, column, kind

    def __str__(self) -> str:
        place = "" if self.column is None else f" (column {self.column!r})"
        return f"record {self.record:,}{place} {self.problem}"


class TooLarge(InvalidInput):
    """The arguments are valid, but the result would exceed the memory limit."""


class PlanMismatch(InvalidInput):
    """Objects of two different plans are used together."""


class WireError(InvalidInput):
    """Bytes or JSON violate their format."""


class SealError(WireError):
    """A rejected bundle or slot; ``reason`` is machine-readable, ``index`` is the bundle's position, from 0.

    >>> print(SealError("malformed", 3))
    bundle 4 of the upload is rejected: malformed
    """

    def __init__(self, reason: str, index: int | None = None) -> None:
        super().__init__(reason, index)
        self.reason = reason
        self.index = index

    def __str__(self) -> str:
        what = "the bundle or slot" if self.index is None else f"bundle {self.index + 1} of the upload"
        return f"{what} is rejected: {self.reason}"


class Infeasible(HubbubError):
    """No parameters of the protocol meet the request."""


class BatchTooSmall(HubbubError):
    """A batch has fewer contributors, or fewer fakes, than the guarantee of its plan needs."""


class FalseClaim(HubbubError):
    """A plan claims more privacy, or more precision, than its parameters give."""


class BudgetExceeded(HubbubError):
    """A charge would bring the total of a ledger above its budget; nothing was charged."""


class AlreadyCharged(HubbubError):
    """The ledger has charged this collection before; nothing was charged."""


class LedgerDamaged(HubbubError):
    """A ledger file was changed, truncated or rewound, so that charges may be missing."""


class EntropyFailure(HubbubError):
    """A randomness source returned fewer bytes than requested."""


class MissingExtra(HubbubError):
    """An optional dependency is not installed.

    >>> print(MissingExtra("plot", "Plotting"))
    Plotting needs the extra 'plot': pip install 'hubbub[plot]'
    """

    def __init__(self, extra: str, feature: str, *, package: str = "", library: str = "") -> None:
        other = f"a library of the operating system: {library}" if library else f"a package: pip install {package}"
        needed = f"the extra '{extra}': pip install 'hubbub[{extra}]'" if extra else other
        super().__init__(f"{feature} needs {needed}")


class ProgramFailure(HubbubError):
    """An audited program crashed, hung or wrote invalid output."""


class Problem(HubbubError):
    """A request that a service rejects; ``name`` is machine-readable, ``index`` is a bundle's position, from 0.

    The HTTP status and title of each name are in :mod:`hubbub.service.runtime.http`.

    >>> print(Problem("busy", "the queue is full", retry_after=2))
    busy: the queue is full
    """

    def __init__(
        self, name: str, detail: str = "", *, retry_after: int | None = None, index: int | None = None
    ) -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name
        self.detail = detail
        self.retry_after = retry_after
        self.index = index


class AnalyzerUnreachable(HubbubError):
    """The analyzer could not be reached or sent an invalid response; it may have processed the request."""


class StoreFailure(HubbubError):
    """A service's database cannot be read, written or used by this version; the transaction was rolled back."""


class StoreUnreachable(StoreFailure):
    """The connection to a service's database could not be made or broke; a later attempt may succeed."""


class WorkerFailure(HubbubError):
    """Worker processes, or the tasks of an engine, failed repeatedly over the same piece of work."""


class CommandFailure(HubbubError):
    """A service refused an administrative command or a query for results, or did not answer it."""


class CommandRefused(CommandFailure):
    """A running service refused an administrative command; the message is its reason."""


class NoResponse(HubbubError):
    """An upload got no response: it may have been stored or not."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of real numbers together with its wording, so that checks and messages cannot disagree.

    >>> str(Interval(0, 1, open_high=True)), str(Interval(0, math.inf)), 0.5 in Interval(0, 0.5, open_high=True)
    ('in [0, 1)', 'at least 0', False)
    """

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        if math.isinf(self.high):
            bound = f"above {_number(self.low)}" if self.open_low else f"at least {_number(self.low)}"
            return f"finite and {bound}" if self.open_high else bound
        ends = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"in {ends[0]}{_number(self.low)}, {_number(self.high)}{ends[1]}"

    @property
    def noun(self) -> str:
        """The kind of number that lies in the range.

        >>> NON_NEGATIVE.noun, OPEN_UNIT.noun
        ('a finite number of at least 0', 'a number in (0, 1)')
        """
        if not math.isinf(self.high):
            return f"a number {self}"
        bound = f"above {_number(self.low)}" if self.open_low else f"of at least {_number(self.low)}"
        return f"a {'finite ' if self.open_high else ''}number {bound}"


PROBABILITY = Interval(0.0, 1.0)
OPEN_UNIT = Interval(0.0, 1.0, open_low=True, open_high=True)
"""Strictly between 0 and 1, as for δ and for confidence levels."""
SHARE = Interval(0.0, 1.0, open_low=True)
"""A part of a whole that is not empty, such as the fraction of honest users."""
NON_NEGATIVE = Interval(0.0, math.inf, open_high=True)
POSITIVE = Interval(0.0, math.inf, open_low=True, open_high=True)
FLIP_PROBABILITY = Interval(0.0, 0.5, open_low=True, open_high=True)
CLEAR_OR_FLIPPED = Interval(0.0, 0.5, open_high=True)
"""Flip probabilities, including 0 for records sent in the clear."""


def _number(value: float) -> str:
    exponent = math.log2(value) if value > 0 else 0.0
    if value == 0.5:
        return "1/2"
    if abs(exponent) >= 10 and exponent == int(exponent):
        return f"2^{int(exponent)}"
    return f"{value:,.12g}"


_OMITTED = object()
_READABLE = (bool, int, float, str)
_LONGEST = 80
"""Characters of the longest value that a message shows."""
_ORIGINS = {
    "Batch": "hubbub.io.reports.read_reports returns one",
    "Budget": "for example Budget(1.0, 1e-6)",
    "Collection": "create one with Collection.from_values",
    "Guarantee": "hubbub.account returns one",
    "Plan": "hubbub.plan and hubbub.load_plan return one",
    "Protocol": "for example Protocol(0.1)",
    "Reports": "hubbub.randomize returns them",
    "Schema": "create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    "Result": "hubbub.estimate returns one",
    "Tally": "hubbub.tally returns one",
}
"""The functions that create objects of the public types."""


def reject(name: str, must: str, got: object = _OMITTED) -> NoReturn:
    """Raise :class:`InvalidInput`; leave out ``got`` where the value is data or says nothing.

    >>> reject("q", "be in [0, 1/2)", 0.7)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: q must be in [0, 1/2), got 0.7
    """
    raise InvalidInput(f"{name} must {must}" + ("" if got is _OMITTED else _shown(got)))


def _shown(got: object) -> str:
    """Return the value if it is short and has a readable form, its type if not; a huge integer has no decimal form."""
    parts = got if isinstance(got, tuple) else (got,)
    if any(isinstance(part, int) and part.bit_length() > 128 for part in parts):
        return ", got a number of more than 128 bits"
    if all(part is None or isinstance(part, _READABLE) for part in parts):
        # The strings and floats of numpy have other forms.
        plain = [next((kind(part) for kind in (float, str) if isinstance(part, kind)), part) for part in parts]
        text = repr(tuple(plain) if isinstance(got, tuple) else plain[0])
        return f", got {text}" if len(text) <= _LONGEST else ""
    return "" if isinstance(got, tuple) else f", not {kind_of(got)}"


def kind_of(value: object) -> str:
    """Return the name of a value's type, for error messages.

    >>> kind_of("red"), kind_of(None)
    ('str', 'None')
    """
    return "None" if value is None else type(value).__name__


def check_type(name: str, value: object, kind: type[T]) -> T:
    """Return ``value`` if it is an instance of ``kind``.

    >>> check_type("plan", [], dict)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: plan must be of type dict, not list
    """
    if not isinstance(value, kind):
        if kind is bool:
            reject(name, "be True or False", value)
        origin = _ORIGINS.get(kind.__name__)
        reject(name, f"be of type {kind.__name__}, not {kind_of(value)}" + (f"; {origin}" if origin else ""))
    return value


def check_items(name: str, value: Iterable[T], must: str) -> Iterator[T]:
    """Return an iterator over a list of things that are not characters.

    >>> check_items("labels", 7, "be a list of labels")
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: labels must be a list of labels, not int
    """
    if not isinstance(value, str | bytes):
        with suppress(TypeError):
            return iter(value)
    reject(name, f"{must}, not {kind_of(value)}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the given strings.

    >>> check_choice("solved", "n", ("epsilon", "delta"))
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: solved must be 'epsilon' or 'delta', got 'n'
    """
    if not isinstance(value, str) or value not in choices:
        words = [repr(choice) for choice in choices]
        reject(name, f"be {', '.join(words[:-1])} or {words[-1]}", value)
    return value


def check_real(name: str, value: object, interval: Interval) -> float:
    """Return ``value`` as a float of the interval.

    >>> check_real("level", 0.95, OPEN_UNIT)
    0.95
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        reject(name, f"be {interval.noun}", value)
    try:
        number = float(value)
    except OverflowError:
        reject(name, f"be {interval}", value)
    if number not in interval:
        reject(name, f"be {interval}", number)
    return number


def check_flip(q: object, *, zero: bool = False) -> float:
    """Return the flip probability as a float of (0, 1/2), or of [0, 1/2) if ``zero`` allows clear records."""
    return check_real("q", q, CLEAR_OR_FLIPPED if zero else FLIP_PROBABILITY)


def check_epsilon(epsilon: object) -> float:
    """Return ε as a finite float of at least 0."""
    return check_real("epsilon", epsilon, NON_NEGATIVE)


def check_delta(delta: object) -> float:
    """Return δ as a float of (0, 1)."""
    return check_real("delta", delta, OPEN_UNIT)


def check_whole(name: str, value: object, low: int = 0, high: int | None = None) -> int:
    """Return ``value`` as an int of [low, high]; accepts numpy integers, rejects floats.

    >>> check_whole("n", 0, 1)
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: n must be a whole number of at least 1, got 0
    """
    if type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool)):
        value = number = int(value)
        if low <= number and (high is None or number <= high):
            return number
    if low == high:
        reject(name, f"be {low:,}", value)
    reject(name, f"be a whole number {f'of at least {low:,}' if high is None else f'in [{low:,}, {high:,}]'}", value)


def check_memory(what: str, size: int) -> None:
    """Raise :class:`TooLarge` if ``size`` bytes exceed ``MEMORY_LIMIT``.

    >>> check_memory("the transition matrix of 20 bits", 8 * 4**20)
    Traceback (most recent call last):
    hubbub.errors.TooLarge: the transition matrix of 20 bits needs 8192.0 GiB; the limit is 4.0 GiB
    """
    if size > MEMORY_LIMIT:
        raise TooLarge(f"{what} needs {size / 2**30:.1f} GiB; the limit is {MEMORY_LIMIT / 2**30:.1f} GiB")


def load_extra(module: str, extra: str, feature: str) -> Any:
    """Import a module of an extra, or raise an error that says how to install it.

    Without an extra, the package is one that hubbub does not install itself.

    >>> load_extra("nonesuch", "plot", "Plotting")
    Traceback (most recent call last):
    hubbub.errors.MissingExtra: Plotting needs the extra 'plot': pip install 'hubbub[plot]'
    >>> load_extra("nonesuch", "", "A data frame of nonesuch")
    Traceback (most recent call last):
    hubbub.errors.MissingExtra: A data frame of nonesuch needs a package: pip install nonesuch
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(extra, feature, package=module.partition(".")[0]) from None
