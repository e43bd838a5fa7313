"""The family of protocols: flip every bit, send copies, add fakes, release whole records or single bits."""

import math
from dataclasses import dataclass
from typing import Literal, Self

from hubbub.errors import check_lie, check_real, check_whole, reject

__all__ = ["GRID", "Fakes", "Protocol"]

GRID = 2**48
"""Lie probabilities are whole multiples of 1/GRID, so that sampler, wire and accountant use one exact number."""

Release = Literal["records", "bits", "category"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """The law of a random number of fakes, where it is not one fixed number.

    Drawn by each user, for records uniform over the legal ones: :meth:`binomial`, :meth:`poisson`. Drawn by the
    shuffler, for every category (or, if bits are released, every bit) by itself: :meth:`laplace`, :meth:`gaussian`.
    """

    law: Literal["binomial", "poisson", "laplace", "gaussian"]
    scale: float
    """Rate of a Poisson, probability of a binomial, scale parameter of a Laplace or Gaussian law."""
    shift: int
    """Trials of a binomial law; mean, before it is cut off at zero, of a Laplace or Gaussian law."""

    @classmethod
    def binomial(cls, trials: int, probability: float) -> Self:
        """Each user adds Binomial(trials, probability) many fakes."""
        must = "be in (0, 1]"
        chance = check_real("probability", probability, 0.0, 1.0, must, open_low=True)
        return cls(law="binomial", scale=chance, shift=check_whole("trials", trials, 1))

    @classmethod
    def poisson(cls, rate: float) -> Self:
        """Each user adds Poisson(rate) many fakes."""
        return cls(law="poisson", scale=_positive("rate", rate), shift=0)

    @classmethod
    def laplace(cls, scale: float, shift: int) -> Self:
        """The shuffler adds max(0, shift + discrete Laplace(scale)) fakes to every category."""
        return cls(law="laplace", scale=_positive("scale", scale), shift=check_whole("shift", shift))

    @classmethod
    def gaussian(cls, scale: float, shift: int) -> Self:
        """The shuffler adds max(0, shift + discrete Gaussian(scale)) fakes to every category."""
        return cls(law="gaussian", scale=_positive("scale", scale), shift=check_whole("shift", shift))

    @property
    def by(self) -> Literal["users", "shuffler"]:
        """Who draws them."""
        return "users" if self.law in ("binomial", "poisson") else "shuffler"


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
        q = math.ceil(check_lie(self.q, zero=True) * GRID) / GRID
        object.__setattr__(self, "q", check_lie(q, zero=True))
        object.__setattr__(self, "k", check_whole("k", self.k, 1))
        if not isinstance(self.m, Fakes):
            object.__setattr__(self, "m", check_whole("m", self.m))
        if self.release not in ("records", "bits", "category"):
            reject("release", "be 'records', 'bits' or 'category'", self.release)
        if self.q == 0 and self.m == 0:
            reject("q", "be in (0, 1/2) where no fakes are added", 0.0)
        if self.q == 0 and self.k > 1:
            reject("k", "be 1 where records are sent in the clear", self.k)
        if self.release == "category" and (self.k > 1 or self.m != 0):
            reject("k and m", "be 1 and 0 for a category, which is sent once and without fakes", (self.k, self.m))


def _positive(name: str, value: object) -> float:
    return check_real(name, value, 0.0, math.inf, "be positive and finite", open_low=True, open_high=True)
