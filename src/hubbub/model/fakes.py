"""``Fakes``: the distribution of a random number of fakes, or of what a shuffler subtracts from a count.

Devices use this module too, so it loads numpy only for tables of probabilities.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Self

from hubbub.documents import Document, Whole
from hubbub.errors import Interval, check_choice, check_memory, check_real, check_whole, reject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SHIFT = 2**40
DistributionName = Literal["binomial", "poisson", "laplace", "gaussian"]
_SCALES: dict[DistributionName, Interval] = {
    "binomial": Interval(0.0, 1.0, open_low=True),
    "poisson": Interval(0.0, 2.0**30, open_low=True),
    "laplace": Interval(2.0**-10, 2.0**30),
    "gaussian": Interval(2.0**-10, 2.0**30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes(Document):
    """The distribution of a random number of fakes.

    Drawn by each user, as records uniform over the legal ones: :meth:`binomial`, :meth:`poisson`. Drawn by the
    shuffler, independently for every category (or every bit, if bits are released): :meth:`laplace`, :meth:`gaussian`.
    The latter two are *conditioned* on being at least 0 by rejection; clamping would put more mass on 0.

    >>> fakes = Fakes.laplace(2.0, shift=25)
    >>> round(fakes.mean, 4), round(fakes.variance**0.5, 3)
    (25.0, 2.799)
    """

    distribution: DistributionName
    scale: Annotated[float, Interval(0.0, 2.0**30, open_low=True)]
    """Rate of a Poisson, probability of a binomial, scale parameter of a Laplace or Gaussian distribution."""
    shift: Annotated[int, Whole(0, MAX_SHIFT)]
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

        from hubbub.numeric import portable  # noqa: PLC0415

        if self.by == "users":
            reject("distribution", "be 'laplace' or 'gaussian' for a table of its probabilities", self.distribution)
        reach = math.ceil(70 * self.scale) if self.distribution == "laplace" else math.ceil(12 * self.scale) + 1
        check_memory("the distribution of the fakes", 32 * (self.shift + reach))
        distance = np.abs(np.arange(-self.shift, reach + 1)) / self.scale
        weights = portable.exp(-distance if self.distribution == "laplace" else -0.5 * distance * distance)
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

        from hubbub.numeric import portable  # noqa: PLC0415

        pmf = self.pmf
        return float(portable.dot(np.prod([np.arange(pmf.size) - centre] * power, axis=0), pmf))
