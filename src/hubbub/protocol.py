"""The family of protocols, and the plan that all parties agree on.

A protocol flips every bit, sends copies, adds fakes, and releases whole records or single bits. A device reads plans
too, so that this module does without numpy until a table of probabilities is asked for.
"""

import hashlib
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from hubbub.canonical import Json, as_limit, as_real, as_text, as_truth, as_whole, canonical, fields, parse, spell
from hubbub.errors import InvalidInput, WireError, check_flip, check_memory, check_real, check_whole, reject
from hubbub.privacy import Assumptions, Basis, Guarantee
from hubbub.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GRID = 2**48
"""Lie probabilities are whole multiples of 1/GRID, so that sampler, wire and accountant use one exact number."""

HEADER = 20
"""Bytes of a message on the wire before its payload: mark, version, kind, and 16 bytes of the plan's id."""

FORMAT = "hubbub plan 1"

Release = Literal["records", "bits", "category"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """The law of a random number of fakes, where it is not one fixed number.

    Drawn by each user, for records uniform over the legal ones: :meth:`binomial`, :meth:`poisson`. Drawn by the
    shuffler, for every category (or, if bits are released, every bit) by itself: :meth:`laplace`, :meth:`gaussian`.
    Those two are *conditioned* on being at least 0: sampled by rejection, not by clamping, which would put more mass
    on 0.

    >>> fakes = Fakes.laplace(2.0, shift=25)
    >>> round(fakes.mean, 4), round(fakes.variance**0.5, 3)
    (25.0, 2.799)
    """

    distribution: Literal["binomial", "poisson", "laplace", "gaussian"]
    scale: float
    """Rate of a Poisson, probability of a binomial, scale parameter of a Laplace or Gaussian law."""
    shift: int
    """Trials of a binomial law; centre of a Laplace or Gaussian law."""

    def __post_init__(self) -> None:
        if self.distribution not in ("binomial", "poisson", "laplace", "gaussian"):
            reject("distribution", "be 'binomial', 'poisson', 'laplace' or 'gaussian'", self.distribution)
        domain = {
            "binomial": (0.0, 1.0, "be in (0, 1]"),
            "poisson": (0.0, 2.0**30, "be in (0, 2³⁰]"),
            "laplace": (2.0**-10, 2.0**30, "be in [2⁻¹⁰, 2³⁰]"),
            "gaussian": (2.0**-10, 2.0**30, "be in [2⁻¹⁰, 2³⁰]"),
        }[self.distribution]
        object.__setattr__(self, "scale", check_real("scale", self.scale, *domain, open_low=self.by == "users"))
        least = 1 if self.distribution == "binomial" else 0
        object.__setattr__(self, "shift", check_whole("shift", self.shift, least, 2**40))

    @classmethod
    def binomial(cls, trials: int, probability: float) -> Self:
        """Each user adds Binomial(trials, probability) many fakes."""
        return cls(distribution="binomial", scale=probability, shift=trials)

    @classmethod
    def poisson(cls, rate: float) -> Self:
        """Each user adds Poisson(rate) many fakes."""
        return cls(distribution="poisson", scale=rate, shift=0)

    @classmethod
    def laplace(cls, scale: float, shift: int) -> Self:
        """The shuffler adds k fakes to every category, P(k) ∝ e^(−|k − shift|/scale) for k ≥ 0."""
        return cls(distribution="laplace", scale=scale, shift=shift)

    @classmethod
    def gaussian(cls, scale: float, shift: int) -> Self:
        """The shuffler adds k fakes to every category, P(k) ∝ e^(−(k − shift)²/(2·scale²)) for k ≥ 0."""
        return cls(distribution="gaussian", scale=scale, shift=shift)

    @property
    def by(self) -> Literal["users", "shuffler"]:
        """Who draws them."""
        return "users" if self.distribution in ("binomial", "poisson") else "shuffler"

    @property
    def pmf(self) -> "NDArray[np.float64]":
        """P(0), P(1), … of the shuffler's law up to mass 10⁻²⁹; correct to a relative 10⁻¹².

        >>> float(Fakes.laplace(2.0, shift=25).pmf[0]) < 1e-6
        True
        """
        import numpy as np  # noqa: PLC0415 (devices have none)

        if self.by == "users":
            reject("distribution", "be 'laplace' or 'gaussian' for a table of its probabilities", self.distribution)
        reach = math.ceil(70 * self.scale) if self.distribution == "laplace" else math.ceil(12 * self.scale) + 1
        check_memory("the law of the fakes", 32 * (self.shift + reach))
        distance = np.abs(np.arange(-self.shift, reach + 1)) / self.scale
        weights = np.exp(-distance if self.distribution == "laplace" else -0.5 * distance * distance)
        distribution: NDArray[np.float64] = weights / weights.sum()
        distribution.setflags(write=False)
        return distribution

    @property
    def mean(self) -> float:
        """The expected number, of one user or for one category: what the estimator subtracts.

        >>> Fakes.gaussian(3.0, shift=40).mean, Fakes.binomial(4, 0.25).mean
        (40.0, 1.0)
        """
        if self.by == "users":
            return self.scale * (self.shift if self.distribution == "binomial" else 1)
        return self.shift + self._moment(1, self.shift)

    @property
    def variance(self) -> float:
        """The variance of that number.

        >>> round(Fakes.gaussian(3.0, shift=40).variance, 9), Fakes.poisson(0.5).variance
        (9.0, 0.5)
        """
        if self.by == "users":
            return self.mean * (1 - self.scale if self.distribution == "binomial" else 1)
        return self._moment(2, self.mean)

    def _moment(self, power: int, centre: float) -> float:
        import numpy as np  # noqa: PLC0415 (devices have none)

        pmf = self.pmf
        return float((np.arange(pmf.size) - centre) ** power @ pmf)


@dataclass(frozen=True, slots=True)
class Protocol:
    """Flip every bit with lie probability ``q``, send ``k`` copies, add ``m`` fakes; release records or bits.

    ``q`` is rounded *up* to the grid of 2⁻⁴⁸. ``m`` is a number of uniform fakes in total, or the law of a random one.
    ``release`` says what the shuffler passes on: whole ``"records"``; ``"bits"``, where every set bit of a flipped
    record is a message of its own; or, as the baseline everyone knows, one ``"category"`` by d-ary randomized response,
    where q is the probability of each particular wrong category.

    >>> Protocol(0.1).q * 2**48 == 28147497671066, Protocol(0.1).q >= 0.1
    (True, True)
    """

    q: float
    k: int = 1
    m: int | Fakes = 0
    release: Release = "records"

    def __post_init__(self) -> None:
        q = math.ceil(check_flip(self.q, zero=True) * GRID) / GRID
        object.__setattr__(self, "q", check_flip(q, zero=True))
        object.__setattr__(self, "k", check_whole("k", self.k, 1))
        if not isinstance(self.m, Fakes):
            object.__setattr__(self, "m", check_whole("m", self.m))
        if self.release not in ("records", "bits", "category"):
            reject("release", "be 'records', 'bits' or 'category'", self.release)
        if self.q == 0 and self.m == 0:
            reject("q", "be in (0, 1/2) where no fakes are added", 0.0)
        if self.q == 0 and self.k > 1:
            reject("k", "be 1 where records are sent in the clear", self.k)
        if isinstance(self.m, Fakes) and self.m.by == "shuffler" and self.k > 1:
            # One user would change k messages of a category, and the law of the fakes hides only one.
            reject("k", "be 1 where the shuffler draws the fakes", self.k)
        if self.release == "category" and (self.k > 1 or self.m != 0):
            reject("k and m", "be 1 and 0 for a category, which is sent once and without fakes", (self.k, self.m))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all parties agree on: who is asked what, how it is randomized, and which guarantee that gives.

    Made by ``plan`` and ``plan_from``. Its ``id``, the SHA-256 of its canonical JSON, stands in every message.
    :meth:`from_json` checks the form and the id only, which is all that a device can do; whoever relies on the claimed
    guarantee loads by ``planner.load_plan``, which recomputes it.
    """

    schema: Schema
    n: int
    """The smallest batch that may be released, in users."""
    protocol: Protocol
    guarantee: Guarantee
    stderr: float
    """Predicted standard error of one count of a batch of n; the largest over all data where it depends on them."""
    honest_fraction: float = 1.0
    """The share of the users whom the guarantee needs to follow the protocol."""
    id: str = field(init=False, compare=False)
    """64 hexadecimal digits."""

    def __post_init__(self) -> None:
        for name, kind in (("schema", Schema), ("protocol", Protocol), ("guarantee", Guarantee)):
            if not isinstance(getattr(self, name), kind):
                reject(name, f"be a {kind.__name__}", type(getattr(self, name)).__name__)
        object.__setattr__(self, "n", check_whole("n", self.n, 1, 10**10))
        stderr = check_real("stderr", self.stderr, 0.0, math.inf, "be positive and finite", open_low=True)
        object.__setattr__(self, "stderr", check_real("stderr", stderr, 0.0, 1e300, "be positive and finite"))
        share = check_real("honest_fraction", self.honest_fraction, 0.0, 1.0, "be in (0, 1]", open_low=True)
        object.__setattr__(self, "honest_fraction", share)
        if self.guarantee.n != self.n:
            reject("the guarantee", f"be one for n = {self.n}", self.guarantee.n)
        self._check_protocol()
        object.__setattr__(self, "id", hashlib.sha256(canonical(self._document())).hexdigest())

    def _check_protocol(self) -> None:
        protocol, width = self.protocol, self.schema.width
        if protocol.release == "category":
            if self.schema.kind != "one_hot":
                reject("schema", "be one-hot where a category is released", self.schema)
            if protocol.q * width >= 1:
                reject("q", f"be below 1/{width} where one of {width} categories is released", protocol.q)

    @property
    def payload(self) -> int:
        """Bytes of the fixed-size payload of one message: a packed record, or the number of a bit or category."""
        width = self.schema.width
        if self.protocol.release == "records":
            return -(-width // 8)
        return 1 if width <= 2**8 else 2 if width <= 2**16 else 4

    @property
    def messages(self) -> float:
        """Expected messages of a user, fakes included: of one with the most bits set, where it depends on that."""
        protocol, schema = self.protocol, self.schema
        q, split = protocol.q, protocol.release == "bits"
        own = protocol.k * (schema.max_set * (1 - 2 * q) + schema.width * q if split else 1)
        if isinstance(protocol.m, Fakes):
            share = protocol.m.mean if protocol.m.by == "users" else 0.0
        else:
            share = protocol.m / self.n
        return own + share * (schema.width * (q + (1 - 2 * q) * schema.density) if split else 1)

    @property
    def upload(self) -> float:
        """Expected bytes of a user's messages on the wire, before encryption."""
        return self.messages * (HEADER + self.payload)

    def to_json(self) -> str:
        """The canonical JSON, id included."""
        return canonical({**self._document(), "id": self.id}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a plan, refusing any other form, any illegal value, and an id that is not the digest of the rest.

        The claimed guarantee is taken as it stands; see ``planner.load_plan``.
        """
        read = fields(
            parse(text, "a plan"),
            "a plan",
            {
                "format": as_text,
                "id": as_text,
                "schema": _read_schema,
                "n": as_whole,
                "honest_fraction": as_real,
                "protocol": _read_protocol,
                "guarantee": _read_guarantee,
                "stderr": as_real,
            },
        )
        if read.pop("format") != FORMAT:
            raise WireError(f"a plan must be of the format {FORMAT!r}, got another")
        claimed = read.pop("id")
        try:
            plan = cls(**read)  # type: ignore[arg-type]
        except InvalidInput as error:
            raise WireError(f"a plan must have legal values: {error}") from None
        if claimed != plan.id:
            raise WireError("a plan must have the digest of its content as its id, got another")
        return plan

    def _document(self) -> dict[str, Json]:
        schema, protocol, guarantee = self.schema, self.protocol, self.guarantee
        assumptions = {key: spell(value) for key, value in asdict(guarantee.assumptions).items()}
        return {
            "format": FORMAT,
            "schema": {"kind": schema.kind, "labels": list(schema.labels), "max_set": schema.max_set},
            "n": self.n,
            "honest_fraction": self.honest_fraction,
            "protocol": {
                "flip": round(protocol.q * GRID),
                "k": protocol.k,
                "m": protocol.m if isinstance(protocol.m, int) else asdict(protocol.m),
                "release": protocol.release,
            },
            "guarantee": {
                "epsilon": spell(guarantee.epsilon),
                "delta": guarantee.delta,
                "lower": spell(guarantee.lower_bound),
                "solved": guarantee.solved,
                "basis": guarantee.basis.value,
                "method": guarantee.method,
                "n": guarantee.n,
                "assumptions": assumptions,
            },
            "stderr": self.stderr,
        }

    def __repr__(self) -> str:
        return f"Plan({self.id[:8]}…: {self.schema}, n={self.n:,}, {self.protocol}, stderr={self.stderr:.4g})"


def _labels(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(as_text, value))


def _read_schema(value: Json) -> Schema:
    read = fields(value, "the schema of a plan", {"kind": as_text, "labels": _labels, "max_set": as_whole})
    kind, labels, max_set = read["kind"], read["labels"], read["max_set"]
    assert isinstance(labels, tuple)
    assert isinstance(max_set, int)
    try:
        if kind == "bits" and max_set == len(labels):
            return Schema.bits(labels)
        if kind == "one_hot" and max_set == 1:
            return Schema.one_hot(labels)
        if kind == "at_most":
            return Schema.at_most(max_set, labels)
    except InvalidInput as error:
        raise WireError(f"the schema of a plan must be legal: {error}") from None
    raise WireError("the schema of a plan must be of kind bits, one_hot or at_most with its max_set, got another")


def _read_fakes(value: Json) -> int | Fakes:
    if isinstance(value, int):
        return as_whole(value)
    read = fields(value, "the fakes of a plan", {"distribution": as_text, "scale": as_real, "shift": as_whole})
    return Fakes(**read)  # type: ignore[arg-type]


def _read_protocol(value: Json) -> Protocol:
    try:
        read = fields(
            value, "the protocol of a plan", {"flip": as_whole, "k": as_whole, "m": _read_fakes, "release": as_text}
        )
        return Protocol(read.pop("flip") / GRID, **read)  # type: ignore[arg-type, operator]
    except WireError:
        raise
    except InvalidInput as error:
        raise WireError(f"the protocol of a plan must be legal: {error}") from None


def _read_guarantee(value: Json) -> Guarantee:
    def assumptions(inner: Json) -> Assumptions:
        kinds = {"honest": as_whole, "shuffler": as_truth, "view": as_text, "collusion": as_limit, "count": as_limit}
        return Assumptions(**fields(inner, "the trust of a plan", kinds))  # type: ignore[arg-type]

    read = fields(
        value,
        "the guarantee of a plan",
        {
            "epsilon": as_limit,
            "delta": as_real,
            "lower": as_limit,
            "solved": as_text,
            "basis": as_text,
            "method": as_text,
            "n": as_whole,
            "assumptions": assumptions,
        },
    )
    if read["solved"] not in ("epsilon", "delta") or read["basis"] not in [basis.value for basis in Basis]:
        raise WireError("the guarantee of a plan must name what was solved for and a basis, got something else")
    try:
        return Guarantee(**{**read, "basis": Basis(read["basis"])})  # type: ignore[arg-type]
    except InvalidInput as error:
        raise WireError(f"the guarantee of a plan must be legal: {error}") from None
