"""The family of protocols: flip bits, send copies, add fakes; release records, single bits, categories or strings."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import check_choice, check_flip, check_items, check_type, check_whole, reject
from hubbub.model.fakes import MAX_SHIFT, DistributionName, Fakes
from hubbub.model.releases import PAYLOAD_FORMATS, PayloadFormat, Release

__all__ = ["GRID", "MAX_COPIES", "MAX_FAKES", "MAX_SHIFT", "DistributionName", "Fakes", "Noise", "Protocol"]

GRID = 2**48
"""Flip probabilities are integer multiples of 1/GRID, so that sampler, wire and accountant share one exact number."""
MAX_COPIES = 10**6
MAX_FAKES = 10**12


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
    a flipped record is a separate message; one ``"category"`` by d-ary randomized response, the standard baseline,
    where q is the probability of each wrong category; or ``"strings"`` with the number of people who hold each, less a
    number drawn from ``m``, where the difference is positive. A survey has a noise for every attribute: :meth:`survey`.

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
        if self.sends_strings and not (self.clear and self.shuffler_fakes):
            reject("q and m", "be 0 and a distribution that the shuffler draws from, for strings that nobody listed")

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
        if release not in ("bits", "category"):
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
    def sends_strings(self) -> bool:
        """True if the message is a string that nobody listed, which the shuffler counts."""
        return self.release == "strings"

    @property
    def sends_rows(self) -> bool:
        """True if a message is a row of bytes rather than an index."""
        return not self.payload_format.is_index

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
