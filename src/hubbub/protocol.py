"""The family of protocols: flip bits, send copies, add fakes, and release whole records, single bits or categories.

Devices use this module too, so it loads numpy only for tables of probabilities.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Literal, Self

from hubbub.canonical import Fields, Json, legal
from hubbub.errors import (
    Interval,
    check_choice,
    check_flip,
    check_items,
    check_memory,
    check_real,
    check_type,
    check_whole,
    reject,
)
from hubbub.releases import PAYLOAD_FORMATS, PayloadFormat, Release

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GRID = 2**48
"""Flip probabilities are integer multiples of 1/GRID, so that sampler, wire and accountant share one exact number."""
MAX_COPIES = 10**6
MAX_FAKES = 10**12
MAX_SHIFT = 2**40
DistributionName = Literal["binomial", "poisson", "laplace", "gaussian"]
_SCALES: dict[DistributionName, Interval] = {
    "binomial": Interval(0.0, 1.0, open_low=True),
    "poisson": Interval(0.0, 2.0**30, open_low=True),
    "laplace": Interval(2.0**-10, 2.0**30),
    "gaussian": Interval(2.0**-10, 2.0**30),
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
class Noise:
    """The noise of one attribute: every bit is flipped with probability ``q``, and ``m`` fakes are added.

    ``q`` is rounded *up* to the grid of 2⁻⁴⁸. ``m`` is the total number of uniform fakes, or the distribution of a
    random number.

    >>> Noise(0.1).flip_numerator == 28147497671066, Noise(0.1).q >= 0.1, Noise(m=Fakes.laplace(2.0, 25)).clear
    (True, True, True)
    """

    q: float = 0.0
    m: int | Fakes = 0
    flip_numerator: int = field(init=False, compare=False, repr=False)
    """The flip probability in units of 1/GRID."""
    user_fakes: Fakes | None = field(init=False, compare=False, repr=False)
    """Distribution of the fakes that each user draws, if any."""

    def __post_init__(self) -> None:
        q = math.ceil(check_flip(self.q, zero=True) * GRID) / GRID
        object.__setattr__(self, "q", check_flip(q, zero=True))
        fakes: object = self.m
        if not isinstance(fakes, Fakes):
            if not isinstance(fakes, Integral):
                reject("m", "be a number of fakes, or a distribution such as Fakes.poisson(0.5)", fakes)
            object.__setattr__(self, "m", check_whole("m", fakes, 0, MAX_FAKES))
        if self.clear and self.m == 0:
            reject("q", "be in (0, 1/2) if no fakes are added", 0.0)
        # Devices need these for every attribute of every record.
        object.__setattr__(self, "flip_numerator", round(self.q * GRID))
        drawn = isinstance(self.m, Fakes) and self.m.by == "users"
        object.__setattr__(self, "user_fakes", self.m if drawn else None)

    @property
    def clear(self) -> bool:
        """True if answers are not flipped, so that only fakes hide them."""
        return self.q == 0

    @property
    def fixed_fakes(self) -> int:
        """Total number of fakes if it is fixed, otherwise 0."""
        return self.m if isinstance(self.m, int) else 0

    @property
    def shuffler_fakes(self) -> Fakes | None:
        """Distribution of the fakes that the shuffler draws, if any."""
        return self.m if isinstance(self.m, Fakes) and self.m.by == "shuffler" else None

    def to_document(self) -> dict[str, Json]:
        """Return the noise as a JSON object."""
        fakes: Json = asdict(self.m) if isinstance(self.m, Fakes) else self.m
        return {"flip": self.flip_numerator, "m": fakes}

    @classmethod
    def from_document(cls, value: Json, what: str) -> Self:
        """Read the noise from a JSON object."""
        read = Fields(value, what, "flip", "m")
        with legal(what):
            flip = check_whole("flip", read.whole("flip"), 0, GRID // 2 - 1)
            m = (
                read.whole("m")
                if isinstance(read["m"], int)
                else Fakes.from_document(read["m"], f"the fakes of {what}")
            )
            return cls(flip / GRID, m)


@dataclass(frozen=True, slots=True, init=False)
class Protocol:
    """Flip every bit with probability ``q``, send ``k`` copies, add ``m`` fakes; release records, bits or a category.

    ``q`` is rounded *up* to the grid of 2⁻⁴⁸. ``m`` is the total number of uniform fakes, or the distribution of a
    random number. ``release`` is what the shuffler passes on: whole ``"records"``; ``"bits"``, where every set bit of
    a flipped record is a separate message; or one ``"category"`` by d-ary randomized response, the standard baseline,
    where q is the probability of each wrong category. A survey has a noise for every attribute: :meth:`survey`.

    >>> Protocol(0.1).flip_numerator == 28147497671066, Protocol(0.1).q >= 0.1
    (True, True)
    """

    noise: tuple[Noise, ...]
    """The noise of each attribute of a survey; otherwise one for all bits."""
    k: int
    release: Release

    def __init__(self, q: float, k: int = 1, m: int | Fakes = 0, release: Release = "records") -> None:
        self._set((Noise(q, m),), k, release)
        if self.clear and self.k > 1:
            reject("k", "be 1 if records are sent in the clear", self.k)
        if self.shuffler_fakes and self.k > 1:
            # One user would change k messages of a category, but the shuffler's fakes hide only one.
            reject("k", "be 1 if the shuffler draws the fakes", self.k)
        if self.sends_category and (self.k > 1 or self.m != 0):
            reject("k and m", "be 1 and 0 for a category, which is sent once and without fakes", (self.k, self.m))

    @classmethod
    def survey(cls, noise: Iterable[Noise], release: Release = "bits") -> Self:
        """Return the protocol of a survey: every attribute has its own noise, and its messages are not linked.

        ``"bits"`` sends the category of every attribute, in the clear among fakes or as flipped bits; ``"category"``
        sends it by randomized response, so that everybody sends exactly one message for each attribute.

        >>> Protocol.survey([Noise(m=Fakes.laplace(4.0, 54)), Noise(m=Fakes.laplace(4.0, 54))]).release
        'bits'
        """
        check_choice("release", release, tuple(PAYLOAD_FORMATS))
        each = tuple(check_items("noise", noise, "be a list of the noise of each attribute"))
        check_whole("the number of attributes", len(each), 1)
        for one in each:
            check_type("noise", one, Noise)
            if one.fixed_fakes:
                reject("m", "be the distribution of a random number of fakes in a survey", one.m)
            if not one.clear and one.m != 0:
                reject("m", "be 0 for an attribute of a survey that is flipped")
            if release == "category" and one.clear:
                reject("q", "be in (0, 1/2) for a category, which is sent once and without fakes", one.q)
        if release == "records":
            reject("release", "be 'bits' or 'category' for a survey, whose answers are not linked", release)
        made = cls.__new__(cls)
        made._set(each, 1, release)
        return made

    def _set(self, noise: tuple[Noise, ...], k: int, release: Release) -> None:
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "k", check_whole("k", k, 1, MAX_COPIES))
        object.__setattr__(self, "release", check_choice("release", release, tuple(PAYLOAD_FORMATS)))

    def changed(
        self,
        *,
        q: float | None = None,
        k: int | None = None,
        m: int | Fakes | None = None,
        release: Release | None = None,
    ) -> "Protocol":
        """Return the protocol with other parameters; not for surveys.

        >>> Protocol(0.1, 2).changed(q=0.25)
        Protocol(q=0.25, k=2, m=0, release='records')
        """
        return Protocol(
            self.q if q is None else q,
            self.k if k is None else k,
            self.m if m is None else m,
            self.release if release is None else release,
        )

    @property
    def only(self) -> Noise:
        """The noise of a protocol that is not for a survey of several attributes."""
        if len(self.noise) > 1:
            reject("the protocol", f"not be that of a survey of {len(self.noise):,} attributes")
        return self.noise[0]

    @property
    def q(self) -> float:
        """The flip probability."""
        return self.only.q

    @property
    def m(self) -> int | Fakes:
        """The fakes."""
        return self.only.m

    @property
    def clear(self) -> bool:
        """True if a record, or an answer of a survey, is not flipped, so that only fakes hide it."""
        return any(one.clear for one in self.noise)

    @property
    def flip_numerator(self) -> int:
        """The flip probability in units of 1/GRID."""
        return self.only.flip_numerator

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
        """Total number of fakes if it is fixed, otherwise 0; surveys fix none."""
        return self.noise[0].fixed_fakes

    @property
    def user_fakes(self) -> Fakes | None:
        """Distribution of the fakes that each user draws, if any."""
        return self.only.user_fakes

    @property
    def shuffler_fakes(self) -> Fakes | None:
        """Distribution of the fakes that the shuffler draws, if any."""
        return self.only.shuffler_fakes

    @property
    def has_shuffler_fakes(self) -> bool:
        """True if the shuffler adds fakes, to one attribute of a survey at least."""
        return any(one.shuffler_fakes for one in self.noise)

    @property
    def own_messages(self) -> int:
        """Messages that every user sends for a record, without fakes, unless flipped bits make their number random."""
        return self.k * len(self.noise)

    @property
    def payload_format(self) -> PayloadFormat:
        """The encoding of one message."""
        return PAYLOAD_FORMATS[self.release]

    def to_document(self) -> dict[str, Json]:
        """Return the protocol as a JSON object."""
        return {"noise": [one.to_document() for one in self.noise], "k": self.k, "release": self.release}

    @classmethod
    def from_document(cls, value: Json, what: str = "the protocol") -> Self:
        """Read a protocol from a JSON object."""
        read = Fields(value, what, "noise", "k", "release")
        with legal(what):
            release = _RELEASES[check_choice("release", read.text("release"), tuple(PAYLOAD_FORMATS))]
            noise = [Noise.from_document(one, f"the noise of {what}") for one in read.items("noise")]
            if len(noise) == 1:
                return cls(noise[0].q, read.whole("k"), noise[0].m, release)
            check_whole("k", read.whole("k"), 1, 1)
            return cls.survey(noise, release)

    def __repr__(self) -> str:
        if len(self.noise) > 1:
            return f"Protocol.survey({len(self.noise)} attributes, release={self.release!r})"
        return f"Protocol(q={self.q!r}, k={self.k!r}, m={self.m!r}, release={self.release!r})"


_RELEASES: dict[str, Release] = {name: name for name in PAYLOAD_FORMATS}
_DISTRIBUTIONS: dict[str, DistributionName] = {name: name for name in _SCALES}
