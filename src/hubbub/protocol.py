"""The family of protocols: flip every bit, send copies, add fakes, release whole records or single bits."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_lie, check_memory, check_real, check_whole, reject

__all__ = ["GRID", "Fakes", "Protocol"]

GRID = 2**48
"""Lie probabilities are whole multiples of 1/GRID, so that sampler, wire and accountant use one exact number."""

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

    law: Literal["binomial", "poisson", "laplace", "gaussian"]
    scale: float
    """Rate of a Poisson, probability of a binomial, scale parameter of a Laplace or Gaussian law."""
    shift: int
    """Trials of a binomial law; centre of a Laplace or Gaussian law."""

    def __post_init__(self) -> None:
        if self.law not in ("binomial", "poisson", "laplace", "gaussian"):
            reject("law", "be 'binomial', 'poisson', 'laplace' or 'gaussian'", self.law)
        domain = {
            "binomial": (0.0, 1.0, "be in (0, 1]"),
            "poisson": (0.0, 2.0**30, "be in (0, 2³⁰]"),
            "laplace": (2.0**-10, 2.0**30, "be in [2⁻¹⁰, 2³⁰]"),
            "gaussian": (2.0**-10, 2.0**30, "be in [2⁻¹⁰, 2³⁰]"),
        }[self.law]
        object.__setattr__(self, "scale", check_real("scale", self.scale, *domain, open_low=self.by == "users"))
        least = 1 if self.law == "binomial" else 0
        object.__setattr__(self, "shift", check_whole("shift", self.shift, least, 2**40))

    @classmethod
    def binomial(cls, trials: int, probability: float) -> Self:
        """Each user adds Binomial(trials, probability) many fakes."""
        return cls(law="binomial", scale=probability, shift=trials)

    @classmethod
    def poisson(cls, rate: float) -> Self:
        """Each user adds Poisson(rate) many fakes."""
        return cls(law="poisson", scale=rate, shift=0)

    @classmethod
    def laplace(cls, scale: float, shift: int) -> Self:
        """The shuffler adds k fakes to every category, P(k) ∝ e^(−|k − shift|/scale) for k ≥ 0."""
        return cls(law="laplace", scale=scale, shift=shift)

    @classmethod
    def gaussian(cls, scale: float, shift: int) -> Self:
        """The shuffler adds k fakes to every category, P(k) ∝ e^(−(k − shift)²/(2·scale²)) for k ≥ 0."""
        return cls(law="gaussian", scale=scale, shift=shift)

    @property
    def by(self) -> Literal["users", "shuffler"]:
        """Who draws them."""
        return "users" if self.law in ("binomial", "poisson") else "shuffler"

    @property
    def pmf(self) -> NDArray[np.float64]:
        """P(0), P(1), … of the shuffler's law up to mass 10⁻²⁹; correct to a relative 10⁻¹².

        >>> float(Fakes.laplace(2.0, shift=25).pmf[0]) < 1e-6
        True
        """
        if self.by == "users":
            reject("law", "be 'laplace' or 'gaussian' for a table of its probabilities", self.law)
        reach = math.ceil(70 * self.scale) if self.law == "laplace" else math.ceil(12 * self.scale) + 1
        check_memory("the law of the fakes", 32 * (self.shift + reach))
        distance = np.abs(np.arange(-self.shift, reach + 1)) / self.scale
        weights = np.exp(-distance if self.law == "laplace" else -0.5 * distance * distance)
        law: NDArray[np.float64] = weights / weights.sum()
        law.setflags(write=False)
        return law

    @property
    def mean(self) -> float:
        """The expected number, of one user or for one category: what the estimator subtracts.

        >>> Fakes.gaussian(3.0, shift=40).mean, Fakes.binomial(4, 0.25).mean
        (40.0, 1.0)
        """
        if self.by == "users":
            return self.scale * (self.shift if self.law == "binomial" else 1)
        return self.shift + float(np.arange(-self.shift, self.pmf.size - self.shift) @ self.pmf)

    @property
    def variance(self) -> float:
        """The variance of that number.

        >>> round(Fakes.gaussian(3.0, shift=40).variance, 9), Fakes.poisson(0.5).variance
        (9.0, 0.5)
        """
        if self.by == "users":
            return self.mean * (1 - self.scale if self.law == "binomial" else 1)
        return float((np.arange(self.pmf.size) - self.mean) ** 2 @ self.pmf)


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
