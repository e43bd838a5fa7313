"""The family of protocols: flip bits, send copies, add fakes, and release whole records, single bits or categories.

Devices use this module too, so it loads numpy only for tables of probabilities.
"""

import math
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Literal, Self

from hubbub.canonical import Fields, Json, legal
from hubbub.errors import Interval, WireError, check_choice, check_flip, check_memory, check_real, check_whole, reject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GRID = 2**48
"""Flip probabilities are integer multiples of 1/GRID, so that sampler, wire and accountant share one exact number."""
MAX_COPIES = 10**6
MAX_FAKES = 10**12
MAX_SHIFT = 2**40
Release = Literal["records", "bits", "category"]
DistributionName = Literal["binomial", "poisson", "laplace", "gaussian"]
_SCALES: dict[DistributionName, Interval] = {
    "binomial": Interval(0.0, 1.0, open_low=True),
    "poisson": Interval(0.0, 2.0**30, open_low=True),
    "laplace": Interval(2.0**-10, 2.0**30),
    "gaussian": Interval(2.0**-10, 2.0**30),
}


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """The encoding of one message of a release: a packed record, or the index of a bit or category."""

    code: int
    """Identifies the release on the wire."""
    is_index: bool

    def size(self, width: int) -> int:
        """Return the bytes of a payload, fixed so that its length reveals nothing.

        >>> PAYLOAD_FORMATS["records"].size(12), PAYLOAD_FORMATS["bits"].size(300)
        (2, 2)
        """
        if not self.is_index:
            return -(-width // 8)
        return 1 if width <= 2**8 else 2 if width <= 2**16 else 4

    def check(self, payload: bytes, width: int) -> bytes:
        """Return the payload if it is one that a client can send: the right size, zero padding, an index below width.

        >>> PAYLOAD_FORMATS["bits"].check(bytes([3]), 3)
        Traceback (most recent call last):
        hubbub.errors.WireError: the payload must be an index below 3
        """
        if len(payload) != self.size(width):
            raise WireError(f"the length of the payload must be {self.size(width)}, got {len(payload)}")
        if int.from_bytes(payload, "little") >= self.limit(width):
            raise WireError(
                f"the payload must be an index below {width}"
                if self.is_index
                else "the payload must have zero padding bits"
            )
        return payload

    def limit(self, width: int) -> int:
        """Return the exclusive upper bound of a payload read as a little-endian integer."""
        return width if self.is_index else 1 << width


PAYLOAD_FORMATS: dict[Release, PayloadFormat] = {
    "records": PayloadFormat(code=1, is_index=False),
    "bits": PayloadFormat(code=2, is_index=True),
    "category": PayloadFormat(code=3, is_index=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """The distribution of a random number of fakes.

    Drawn by each user, as records uniform over the legal ones: :meth:`binomial`, :meth:`poisson`. Drawn by the
    shuffler, independently for every category (or every bit, if bits are released): :meth:`laplace`, :meth:`gaussian`.
    The latter two are *conditioned* on being at least 0 by rejection; clamping would put more mass on 0.

    >>> fakes = Fakes.laplace(2.0, shift=25)
    >>> round(fakes.mean, 4), round(fakes.variance**0.5, 3)
    (25.0, 2.799)
    """

    distribution: DistributionName
    scale: float
    """Rate of a Poisson, probability of a binomial, scale parameter of a Laplace or Gaussian distribution."""
    shift: int
    """Trials of a binomial distribution; centre of a Laplace or Gaussian distribution."""

    def __post_init__(self) -> None:
        check_choice("distribution", self.distribution, tuple(_SCALES))
        object.__setattr__(self, "scale", check_real("scale", self.scale, _SCALES[self.distribution]))
        trials = 1 if self.distribution == "binomial" else 0
        object.__setattr__(self, "shift", check_whole("shift", self.shift, trials, MAX_SHIFT))

    @classmethod
    def binomial(cls, trials: int, probability: float) -> Self:
        """Each user adds Binomial(trials, probability) fakes."""
        check_real("probability", probability, _SCALES["binomial"])
        return cls(distribution="binomial", scale=probability, shift=check_whole("trials", trials, 1, MAX_SHIFT))

    @classmethod
    def poisson(cls, rate: float) -> Self:
        """Each user adds Poisson(rate) fakes."""
        return cls(distribution="poisson", scale=check_real("rate", rate, _SCALES["poisson"]), shift=0)

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
        """The party that draws the fakes."""
        return "users" if self.distribution in ("binomial", "poisson") else "shuffler"

    @property
    def pmf(self) -> "NDArray[np.float64]":
        """P(0), P(1), … of the shuffler's distribution up to mass 10⁻²⁹, correct to a relative 10⁻¹².

        >>> float(Fakes.laplace(2.0, shift=25).pmf[0]) < 1e-6
        True
        """
        import numpy as np  # noqa: PLC0415 (devices run without numpy)

        if self.by == "users":
            reject("distribution", "be 'laplace' or 'gaussian' for a table of its probabilities", self.distribution)
        reach = math.ceil(70 * self.scale) if self.distribution == "laplace" else math.ceil(12 * self.scale) + 1
        check_memory("the distribution of the fakes", 32 * (self.shift + reach))
        distance = np.abs(np.arange(-self.shift, reach + 1)) / self.scale
        weights = np.exp(-distance if self.distribution == "laplace" else -0.5 * distance * distance)
        probabilities: NDArray[np.float64] = weights / weights.sum()
        probabilities.setflags(write=False)
        return probabilities

    @property
    def mean(self) -> float:
        """Expected number of fakes per user or per category: what the estimator subtracts.

        >>> Fakes.gaussian(3.0, shift=40).mean, Fakes.binomial(4, 0.25).mean
        (40.0, 1.0)
        """
        if self.by == "users":
            return self.scale * (self.shift if self.distribution == "binomial" else 1)
        return self.shift + self._moment(1, self.shift)

    @property
    def variance(self) -> float:
        """Variance of the number of fakes per user or per category.

        >>> round(Fakes.gaussian(3.0, shift=40).variance, 9), Fakes.poisson(0.5).variance
        (9.0, 0.5)
        """
        if self.by == "users":
            return self.mean * (1 - self.scale if self.distribution == "binomial" else 1)
        return self._moment(2, self.mean)

    def _moment(self, power: int, centre: float) -> float:
        import numpy as np  # noqa: PLC0415 (devices run without numpy)

        pmf = self.pmf
        return float((np.arange(pmf.size) - centre) ** power @ pmf)

    @classmethod
    def from_document(cls, value: Json, what: str) -> Self:
        """Read the distribution of the fakes from a JSON object."""
        read = Fields(value, what, "distribution", "scale", "shift")
        with legal(what):
            name = check_choice("distribution", read.text("distribution"), tuple(_SCALES))
            return cls(distribution=_DISTRIBUTIONS[name], scale=read.real("scale"), shift=read.whole("shift"))


@dataclass(frozen=True, slots=True)
class Protocol:
    """Flip every bit with probability ``q``, send ``k`` copies, add ``m`` fakes; release records, bits or a category.

    ``q`` is rounded *up* to the grid of 2⁻⁴⁸. ``m`` is the total number of uniform fakes, or the distribution of a
    random number. ``release`` is what the shuffler passes on: whole ``"records"``; ``"bits"``, where every set bit of
    a flipped record is a separate message; or one ``"category"`` by d-ary randomized response, the standard baseline,
    where q is the probability of each wrong category.

    >>> Protocol(0.1).flip_numerator == 28147497671066, Protocol(0.1).q >= 0.1
    (True, True)
    """

    q: float
    k: int = 1
    m: int | Fakes = 0
    release: Release = "records"

    def __post_init__(self) -> None:
        q = math.ceil(check_flip(self.q, zero=True) * GRID) / GRID
        object.__setattr__(self, "q", check_flip(q, zero=True))
        object.__setattr__(self, "k", check_whole("k", self.k, 1, MAX_COPIES))
        fakes: object = self.m
        if not isinstance(fakes, Fakes):
            if not isinstance(fakes, Integral):
                reject("m", "be a number of fakes, or a distribution such as Fakes.poisson(0.5)", fakes)
            object.__setattr__(self, "m", check_whole("m", fakes, 0, MAX_FAKES))
        check_choice("release", self.release, tuple(PAYLOAD_FORMATS))
        if self.clear and self.m == 0:
            reject("q", "be in (0, 1/2) if no fakes are added", 0.0)
        if self.clear and self.k > 1:
            reject("k", "be 1 if records are sent in the clear", self.k)
        if self.shuffler_fakes and self.k > 1:
            # One user would change k messages of a category, but the shuffler's fakes hide only one.
            reject("k", "be 1 if the shuffler draws the fakes", self.k)
        if self.sends_category and (self.k > 1 or self.m != 0):
            reject("k and m", "be 1 and 0 for a category, which is sent once and without fakes", (self.k, self.m))

    @property
    def clear(self) -> bool:
        """True if records are not flipped, so that only fakes hide them."""
        return self.q == 0

    @property
    def flip_numerator(self) -> int:
        """The flip probability in units of 1/GRID."""
        return round(self.q * GRID)

    @property
    def sends_records(self) -> bool:
        """True if a message is a whole record."""
        return self.release == "records"

    @property
    def sends_bits(self) -> bool:
        """True if every set bit is a separate message."""
        return self.release == "bits"

    @property
    def sends_category(self) -> bool:
        """True if the message is a category chosen by randomized response."""
        return self.release == "category"

    @property
    def fixed_fakes(self) -> int:
        """Total number of fakes if it is fixed, otherwise 0."""
        return self.m if isinstance(self.m, int) else 0

    @property
    def user_fakes(self) -> Fakes | None:
        """Distribution of the fakes that each user draws, if any."""
        return self.m if isinstance(self.m, Fakes) and self.m.by == "users" else None

    @property
    def shuffler_fakes(self) -> Fakes | None:
        """Distribution of the fakes that the shuffler draws, if any."""
        return self.m if isinstance(self.m, Fakes) and self.m.by == "shuffler" else None

    @property
    def payload_format(self) -> PayloadFormat:
        """The encoding of one message."""
        return PAYLOAD_FORMATS[self.release]

    def to_document(self) -> dict[str, Json]:
        """Return the protocol as a JSON object."""
        fakes: Json = asdict(self.m) if isinstance(self.m, Fakes) else self.m
        return {"flip": self.flip_numerator, "k": self.k, "m": fakes, "release": self.release}

    @classmethod
    def from_document(cls, value: Json, what: str = "the protocol") -> Self:
        """Read a protocol from a JSON object."""
        read = Fields(value, what, "flip", "k", "m", "release")
        with legal(what):
            release = check_choice("release", read.text("release"), tuple(PAYLOAD_FORMATS))
            flip = check_whole("flip", read.whole("flip"), 0, GRID // 2 - 1)
            m = (
                read.whole("m")
                if isinstance(read["m"], int)
                else Fakes.from_document(read["m"], f"the fakes of {what}")
            )
            return cls(flip / GRID, read.whole("k"), m, _RELEASES[release])


_RELEASES: dict[str, Release] = {name: name for name in PAYLOAD_FORMATS}
_DISTRIBUTIONS: dict[str, DistributionName] = {name: name for name in _SCALES}


def check_fakes(protocol: Protocol, number: object) -> int:
    """Return the number of fakes that a caller adds: a part of the total that the protocol fixes."""
    count = check_whole("fakes", number)
    if not protocol.fixed_fakes and (count or isinstance(protocol.m, Fakes)):
        reject("fakes", "be omitted, because this plan does not fix the total number of fakes", count)
    return check_whole("fakes", count, 0, protocol.fixed_fakes)
