"""Strict reading of a plan: its JSON, its id, and the claim that it makes.

Reads the text without the library's own classes, so that an error there cannot hide one here. Numbers are IEEE
doubles, as RFC 8785 demands, and are taken at their exact values; only the honest fraction is taken in decimal. Fields
that are no part of the privacy claim must be well-formed, too: a text is either a plan for every reader, or for none.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NoReturn

from . import questions
from .fields import WireError, epsilon, keys, real, truth, whole

FORMAT = "hubbub plan 3"
GRID = 2**48
MAX_USERS, MAX_COPIES, MAX_FAKES = 10**10, 10**6, 10**12
KINDS = ("bits", "one_hot", "at_most", "survey", "strings")
RELEASES = ("records", "bits", "category", "strings")
MAX_STRING = 4096
USERS_FAKES, SHUFFLERS_FAKES = ("binomial", "poisson"), ("laplace", "gaussian")
PLAN = {
    "format", "id", "schema", "n", "honest_fraction", "protocol", "guarantee", "stderr", "rounds", "total", "curve",
    "odds",
}  # fmt: skip
MAX_ROUNDS, MAX_POINTS = 10**6, 64
GUARANTEE = {"epsilon", "delta", "lower_bound", "solved", "basis", "method", "n", "assumptions"}
ASSUMPTIONS = {"honest", "shuffler", "fakes", "view", "collusion_epsilon", "count_epsilon"}
VIEWS = {
    "records": "whole records", "bits": "the number of messages for each bit", "category": "categories",
    "strings": "strings that many people hold, each with a noisy number of them",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fakes:
    """The distribution of a random number of fakes."""

    name: str
    scale: Fraction
    shift: int

    @property
    def by_shuffler(self) -> bool:
        """True if the shuffler draws these fakes."""
        return self.name in SHUFFLERS_FAKES


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of all bits of a record, or of one attribute of a survey."""

    flip: Fraction
    fakes: int | Fakes

    @property
    def by_shuffler(self) -> bool:
        """True if the shuffler draws fakes."""
        return isinstance(self.fakes, Fakes) and self.fakes.by_shuffler


@dataclass(frozen=True, slots=True)
class Answers:
    """Attributes of a survey that are alike: their number of categories, their noise, and their number."""

    size: int
    noise: Noise
    times: int


@dataclass(frozen=True, slots=True)
class Odds:
    """The success rates of a guess between two answers: from one round, from all, and the same under collusion."""

    round: Fraction
    total: Fraction
    local: Fraction
    local_total: Fraction


NO_ODDS = Odds(*[Fraction(1)] * 4)
"""Rates that claim nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Everything in a plan that its privacy guarantee depends on; ``None`` stands for an infinite ε."""

    id: str
    kind: str
    width: int
    max_set: int
    n: int
    honest_fraction: Fraction
    flip: Fraction
    copies: int
    fakes: int | Fakes
    release: str
    epsilon: Fraction | None
    delta: Fraction
    honest: int
    shuffler: bool
    may_use_shufflers_fakes: bool
    collusion_epsilon: Fraction | None
    count_epsilon: Fraction | None
    rounds: int
    total_epsilon: Fraction | None
    total_delta: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    """Points (ε, δ) claimed for one round, with ε rising and δ falling."""
    answers: tuple[Answers, ...] = ()
    """The attributes of a survey of several ones; ``flip`` is then their smallest, and ``fakes`` is 0."""
    free: bool = True
    """True if two legal records are known to differ in all attributes."""
    odds: Odds = NO_ODDS

    @property
    def distance(self) -> int:
        """Largest Hamming distance of two legal records."""
        return 2 if self.kind == "strings" else min(2 * self.max_set, self.width)

    @property
    def records(self) -> int:
        """Number of legal records."""
        if self.kind == "one_hot":
            return self.width
        if self.max_set == self.width:
            return 1 << self.width
        return sum(math.comb(self.width, i) for i in range(self.max_set + 1))

    @property
    def users(self) -> int:
        """Honest users that a proof may count on: those claimed."""
        return self.honest

    @property
    def fixed_fakes(self) -> int:
        """Fakes of a fixed total that honest users certainly send: all of them if all users are honest.

        If the plan expects dishonest users, every device sends at least the total over n, rounded down; otherwise the
        shares of single users are not fixed.
        """
        if not isinstance(self.fakes, int):
            return 0
        if self.users == self.n:
            return self.fakes
        return self.users * (self.fakes // self.n) if self.honest_fraction < 1 else 0


def read(text: str | bytes) -> Claim:
    """Return the claim of a plan; raise :class:`WireError` with the reason if the text is no plan."""
    if not isinstance(text, str | bytes):
        raise WireError("the plan must be JSON, as str or bytes")
    value = _parse(text)
    keys(value, PLAN, "the plan")
    if value["format"] != FORMAT:
        raise WireError(f"the format of the plan must be {FORMAT!r}")
    body = {key: part for key, part in value.items() if key != "id"}
    try:
        digest = hashlib.sha256(canonical(body).encode()).hexdigest()
    except UnicodeEncodeError:
        raise WireError("text in the plan must not contain lone surrogates") from None
    if value["id"] != digest:
        raise WireError("the id of the plan must be the digest of its content")
    schema, protocol, guarantee = value["schema"], value["protocol"], value["guarantee"]
    kind, sizes, max_set = _schema(schema)
    width = sum(sizes)
    n = whole(value, "n", 1, MAX_USERS)
    noise, copies, release = _protocol(protocol, len(sizes), survey=schema["kind"] == "survey")
    answers = tuple(Answers(size, one, times) for (size, one), times in Counter(zip(sizes, noise, strict=True)).items())
    keys(guarantee, GUARANTEE, "the guarantee")
    held, share = guarantee["assumptions"], _share(value)
    _relay(held, release, schema["kind"])
    _unused(value, guarantee)
    if whole(guarantee, "n", 1, MAX_USERS) != n:
        raise WireError(f"the guarantee must be for n = {n:,}")
    keys(value["total"], {"epsilon", "delta"}, "the total")
    total = epsilon(value["total"], "epsilon")
    honest, most = whole(held, "honest", 1, n), max(1, math.floor(n * share))
    if honest > most:
        raise WireError(f"the honest users must be at most {most:,}, which the honest fraction provides")
    if release == "category" and (
        kind not in ("one_hot", "survey") or any(one.noise.flip * one.size >= 1 for one in answers)
    ):
        raise WireError("a category must be released with one-hot records and a flip probability below 1/width")
    if held["view"] != VIEWS[release]:
        raise WireError(f"the view must be {VIEWS[release]!r} for this release")
    return Claim(
        id=digest,
        kind=kind,
        width=width,
        max_set=max_set,
        n=n,
        honest_fraction=share,
        flip=min(one.flip for one in noise),
        copies=copies,
        fakes=noise[0].fakes if len(noise) == 1 else 0,
        release=release,
        epsilon=epsilon(guarantee, "epsilon"),
        delta=real(guarantee, "delta", 0, 1),
        honest=honest,
        shuffler=truth(held, "shuffler"),
        may_use_shufflers_fakes=truth(held, "fakes"),
        collusion_epsilon=epsilon(held, "collusion_epsilon"),
        count_epsilon=epsilon(held, "count_epsilon"),
        rounds=whole(value, "rounds", 1, MAX_ROUNDS),
        total_epsilon=total,
        total_delta=real(value["total"], "delta", 0, 1),
        curve=_curve(value["curve"]),
        odds=_odds(value["odds"]),
        answers=answers if len(noise) > 1 else (),
        free=questions.free(schema),
    )


def _relay(held: Any, release: str, kind: str) -> None:
    """Check that strings, and they alone, are released as such, and that their assumptions include a relay."""
    if (release == "strings") != (kind == "strings"):
        raise WireError("strings must be released as such, and nothing else must be")
    keys(held, ASSUMPTIONS | ({"relay"} if release == "strings" else set()), "the assumptions")
    if release == "strings" and not truth(held, "relay"):
        raise WireError("strings must be relayed, because the shuffler sees which of them are equal")


def _curve(value: Any) -> tuple[tuple[Fraction, Fraction], ...]:
    """Read the points of the curve."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_POINTS:
        raise WireError(f"the curve must be a list of 1 to {MAX_POINTS} points")
    points = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise WireError("a point of the curve must be a pair of numbers")
        point = dict(zip(("epsilon", "delta"), pair, strict=True))
        points.append((real(point, "epsilon", 0, None), real(point, "delta", 0, 1)))
    if any(a[0] >= b[0] or a[1] < b[1] for a, b in pairwise(points)):
        raise WireError("along the curve, epsilon must rise and delta must not")
    return tuple(points)


def _odds(value: Any) -> Odds:
    """Read the success rates."""
    names = ("round", "total", "local", "local_total")
    keys(value, set(names), "the odds")
    found = [real(value, name, 0, 1) for name in names]
    if min(found) < Fraction(1, 2):
        raise WireError("the odds must be at least 1/2")
    return Odds(*found)


def _unused(value: dict[str, Any], guarantee: dict[str, Any]) -> None:
    """Check the form of the fields that are no part of the privacy claim."""
    if real(value, "stderr", 0, 10**300) == 0:
        raise WireError("'stderr' must be above 0")
    epsilon(guarantee, "lower_bound")
    if guarantee["solved"] not in ("epsilon", "delta") or guarantee["basis"] not in ("exact", "proven"):
        raise WireError("'solved' must be epsilon or delta, and 'basis' exact or proven")
    if not isinstance(guarantee["method"], str):
        raise WireError("'method' must be a string")


def _schema(value: Any) -> tuple[str, list[int], int]:
    """Return the kind, the number of categories of each attribute (or all bits), and the largest number of set bits.

    A survey of a single attribute is one-hot.
    """
    if isinstance(value, dict) and value.get("kind") == "survey":
        sizes = questions.sizes(value)
        return ("one_hot" if len(sizes) == 1 else "survey"), sizes, len(sizes)
    if isinstance(value, dict) and value.get("kind") == "strings":
        keys(value, {"kind", "max_bytes", "cut"}, "the schema")
        whole(value, "max_bytes", 1, MAX_STRING)
        truth(value, "cut")
        return "strings", [1], 1
    keys(value, {"kind", "labels", "max_set"}, "the schema")
    kind, labels = value["kind"], value["labels"]
    if kind not in KINDS:
        raise WireError(f"the kind of the schema must be one of {', '.join(KINDS)}")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise WireError("the labels must be a list of strings")
    width = len(labels)
    if len(set(labels)) != width or width < 1 + (kind == "one_hot"):
        raise WireError("the labels must be distinct, and at least two for one-hot records")
    max_set = whole(value, "max_set", 1, width)
    if max_set != {"bits": width, "one_hot": 1, "at_most": max_set}[kind]:
        raise WireError("max_set must fit the kind of the schema")
    return kind, [width], max_set


def _protocol(value: Any, attributes: int, *, survey: bool) -> tuple[Sequence[Noise], int, str]:
    keys(value, {"noise", "k", "release"}, "the protocol")
    copies, release, listed = whole(value, "k", 1, MAX_COPIES), value["release"], value["noise"]
    if release not in RELEASES:
        raise WireError(f"the release must be one of {', '.join(RELEASES)}")
    if not isinstance(listed, list) or len(listed) != attributes:
        raise WireError(f"the noise must be a list of {attributes:,}, one for each attribute")
    noise = [_noise(one) for one in listed]
    if survey:
        if copies > 1 or release not in ("bits", "category"):
            raise WireError("a survey must be sent once, as bits or categories")
        for one in noise:
            if (isinstance(one.fakes, int) and one.fakes) or (one.flip > 0 and one.fakes != 0):
                raise WireError("an attribute of a survey must be flipped, or be among a random number of fakes")
    for one in noise:
        if release == "strings" and (one.flip > 0 or not one.by_shuffler):
            raise WireError("strings must be in the clear, and the shuffler must draw what it subtracts")
        if one.flip == 0 and (one.fakes == 0 or copies > 1):
            raise WireError("clear records must be sent once, among fakes")
        if (one.by_shuffler and copies > 1) or (release == "category" and (copies > 1 or one.fakes != 0)):
            raise WireError(
                "copies must not be combined with the shuffler's fakes, nor copies or fakes with a category"
            )
    return noise, copies, release


def _noise(value: Any) -> Noise:
    keys(value, {"flip", "m"}, "the noise")
    flip, fakes = whole(value, "flip", 0, GRID // 2 - 1), value["m"]
    if not isinstance(fakes, dict):
        return Noise(Fraction(flip, GRID), whole(value, "m", 0, MAX_FAKES))
    keys(fakes, {"distribution", "scale", "shift"}, "the fakes")
    name, shift = fakes["distribution"], whole(fakes, "shift", 0, 2**40)
    if name not in USERS_FAKES + SHUFFLERS_FAKES:
        raise WireError("the distribution of the fakes must be binomial, poisson, laplace or gaussian")
    scale = real(fakes, "scale", 0, 1 if name == "binomial" else 2**30)
    if scale == 0 or (name in SHUFFLERS_FAKES and scale < Fraction(1, 1024)) or (name == "binomial" and shift < 1):
        raise WireError("the scale and the shift of the fakes must be in range")
    return Noise(Fraction(flip, GRID), Fakes(name, scale, shift))


def canonical(value: Any) -> str:
    """Return the canonical JSON of a parsed value: RFC 8785, with ASCII keys.

    >>> canonical({"b": [1e-6, 2.0, 1e21, True], "a": "é"})
    '{"a":"é","b":[0.000001,2,1e+21,true]}'
    """
    match value:
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{canonical(value[key])}" for key in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(float(value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """Format a double as ECMAScript's Number::toString does: shortest digits, exponents from 1e21 and below 1e-6."""
    if value == 0:
        return "0"
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits, point = "".join(map(str, figures)), len(figures) + exponent
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{point - 1:+d}"
    return "-" * sign + text


def _parse(text: str | bytes) -> Any:
    def refuse(_: str) -> NoReturn:
        raise WireError("the plan must not have a number that is infinite, NaN or out of range")

    def number(digits: str) -> float:
        return float(digits) if math.isfinite(float(digits)) else refuse(digits)

    def integer(digits: str) -> int:
        return int(digits) if len(digits) < 20 else refuse(digits)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise WireError("the plan must not have a duplicate key")
        return dict(pairs)

    try:
        source = text.decode() if isinstance(text, bytes) else text
        return json.loads(
            source, object_pairs_hook=unique, parse_constant=refuse, parse_float=number, parse_int=integer
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise WireError("the plan must be JSON in UTF-8") from None


def _share(value: dict[str, Any]) -> Fraction:
    share = real(value, "honest_fraction", 0, 1)
    if share == 0:
        raise WireError("'honest_fraction' must be above 0")
    return Fraction(repr(float(share)))
