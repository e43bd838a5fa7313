"""What the analyzer says: counts with error bars, and the noise that fakes add to them."""

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hubbub.errors import OPEN_UNIT, check_real, reject
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.estimation import (
    category_variance,
    count_among_fakes,
    nearest_counts,
    shown_by_drawn,
    shown_by_users,
)
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

if TYPE_CHECKING:
    from hubbub.pages import Chart

Array = NDArray[np.float64]
LEVEL = 0.95
"""The level of ``detectable`` and of the detection limit."""
KINDS = 64
"""Up to so many drawn numbers are added up exactly; more of them are as good as normal."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How often fakes show one given bit: mean and variance, and the law of that part which is far from normal."""

    mean: float
    variance: float
    distribution: Distribution | None = None
    rest: float = 0.0
    """The variance of the other part, which is near normal."""


def fake_noise(
    schema: Schema, protocol: Protocol, n: int, fakes: int, *, batches: int = 1, seen: int | None = None
) -> Noise:
    """What fakes add to one count of n users: ``fakes`` in total, or drawn by users, or in ``batches`` by a shuffler.

    A uniform legal fake shows a bit with probability v = q + (p − q)·density after its flip. Among whole records the
    number M of fakes that users drew can be ``seen``, as all messages but k·n, and the noise is that of M given fakes;
    without it, and so in the prediction, M is replaced by its mean, which gives the mean of that variance. Split bits
    hide M, and its own variance counts. Fakes of the shuffler: :func:`hubbub.numeric.estimation.shown_by_drawn`.

    >>> fake_noise(Schema.one_hot(4), Protocol(0.0, m=400), 1000, 400)
    Noise(mean=100.0, variance=75.0, law=None, rest=0.0)
    """
    m, q = protocol.m, protocol.q
    fake = q + (1 - 2 * q) * schema.density
    if not isinstance(m, Fakes):
        return Noise(*shown_by_users(fakes, 0.0, fake))
    if m.by == "users":
        if protocol.sends_records:
            return Noise(*shown_by_users(n * m.mean if seen is None else seen, 0.0, fake))
        return Noise(*shown_by_users(n * m.mean, n * m.variance, fake))
    mean, variance = batches * m.mean, batches * m.variance
    if protocol.sends_records:
        kinds = schema.records_with_bit
        drawn = shown_by_drawn(mean, variance, q, kinds, schema.size - kinds)
        rest = shown_by_drawn(mean, variance, q, 0, schema.size - kinds)[1]
        return Noise(*drawn, _sum(m, q, kinds * batches), rest)
    return Noise(mean, variance, _sum(m, 0.0, batches))


@functools.lru_cache(64)
def _sum(fakes: Fakes, q: float, times: int) -> Distribution | None:
    """The law of ``times`` drawn numbers together, of which each unit is lost with probability q."""
    if not 0 < times <= KINDS or times * (fakes.shift + 100 * fakes.scale) > 10**5:
        return None
    numbers = fakes.pmf
    first = int(np.searchsorted(numbers.cumsum(), 1e-18))
    if q > 0:
        thinned = np.zeros(numbers.size)
        for number in range(first, numbers.size):
            kept = binomial(number, 1 - q)
            thinned[kept.low : kept.high + 1] += numbers[number] * kept.pmf
        first = int(np.searchsorted(thinned.cumsum(), 1e-18))
        numbers = thinned
    distribution = part = Distribution(first, numbers[first:])
    for _ in range(times - 1):
        distribution = distribution.plus(part)
    return distribution


def predicted_stderr(schema: Schema, protocol: Protocol, n: int) -> float:
    """σ of one count of a collection of n; for a category the largest over all data.

    >>> round(predicted_stderr(Schema.bits(1), Protocol(0.1), 1000), 6)
    11.858541
    """
    if protocol.sends_category:
        if not schema.exclusive or protocol.q * schema.width >= 1:
            reject("the release of a category", "have a one-hot schema of d labels and q < 1/d", schema)
        return math.sqrt(float(category_variance([0, n], n, protocol.q, schema.width).max()))
    noise = fake_noise(schema, protocol, n, protocol.fixed_fakes)
    return count_among_fakes(0, n, protocol.q, k=protocol.k, mean=noise.mean, variance=noise.variance)[1]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Estimate:
    """How many people have each label: unbiased values, their standard errors, and what follows from them."""

    labels: tuple[str, ...]
    values: Array
    stderr: Array
    n: int
    one_choice: bool
    """Whether everybody has exactly one label, so that the counts add up to n."""
    unbiased: Array
    """The values before :meth:`consistent`; intervals are built around these."""
    distribution: Distribution | None = None
    """The law of an error in units of messages, where a normal one would not do: few discrete draws of a shuffler."""
    centre: float = 0.0
    """The mean of that law."""
    gain: float = 1.0
    """Messages by which a count grows with one more person, k(p − q)."""
    remark: str = "unbiased"

    def interval(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Lower and upper ends that cover each true count with probability ``level``; or all of them at once.

        value ± (zσ + ½/(k(p − q))) with the normal quantile z and half a message, as counts are whole; or the quantile
        of the exact law of a shuffler's fakes. For all d labels at once each is covered with probability level^(1/d),
        which suffices whatever the correlations of normal errors are (Šidák 1967). After :meth:`consistent` the ends
        are cut off at 0 and n, which keeps the coverage.
        """
        level = check_real("level", level, OPEN_UNIT)
        miss = -math.expm1(math.log(level) / len(self.labels)) if simultaneous else 1 - level
        reach = self._reach(miss)
        low, high = self.unbiased - reach, self.unbiased + reach
        if self.values is not self.unbiased:
            low, high = np.clip(low, 0, self.n), np.clip(high, 0, self.n)
        return low, high

    @property
    def detectable(self) -> NDArray[np.bool_]:
        """Which labels are distinguishable from zero; if none is there, no one is flagged with probability 95 %."""
        return np.asarray(self.unbiased > self._critical())

    @property
    def detection_limit(self) -> Array:
        """The least true count of each label that is flagged with probability 95 %: Currie's (1968), for all labels."""
        return np.asarray(self._critical() + float(ndtri(LEVEL)) * self.stderr)

    def consistent(self) -> Self:
        """The nearest possible counts: at least 0, at most n and, where everybody has one label, adding up to n.

        The projection on a convex set that contains the truth never raises the total squared error, and lowers it
        most where many labels are rare; in return single values are biased, small ones upwards. Standard errors and
        intervals remain those of the unbiased values.
        """
        value = nearest_counts(self.unbiased, self.n) if self.one_choice else np.clip(self.unbiased, 0, self.n)
        value.setflags(write=False)
        remark = (
            "projected on possible counts: total squared error at most that of the unbiased values, which it biases"
        )
        return replace(self, values=value, remark=remark)

    def plot(self, *, level: float = LEVEL, top: int = 20, simultaneous: bool = False) -> "Chart":
        """Return a chart of the largest counts with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.pages import estimate_chart  # noqa: PLC0415 (the one upward import: charts are loaded if needed)

        return estimate_chart(self, level=level, top=top, simultaneous=simultaneous)

    def _repr_html_(self) -> str:
        from hubbub.pages import estimate_table  # noqa: PLC0415

        return estimate_table(self)

    def _critical(self) -> Array:
        miss = -math.expm1(math.log(LEVEL) / len(self.labels))
        if self.distribution is None:
            return np.asarray(-float(ndtri(miss)) * self.stderr)
        above = self.distribution.pmf[::-1].cumsum()
        return np.full(
            len(self.labels), (self.distribution.high - np.searchsorted(above, miss) - self.centre) / self.gain
        )

    def _reach(self, miss: float) -> Array:
        if self.distribution is None:
            return np.asarray(-float(ndtri(miss / 2)) * self.stderr + 0.5 / self.gain)
        distance = np.abs(np.arange(self.distribution.low, self.distribution.high + 1) - self.centre)
        order = np.argsort(distance)[::-1]
        beyond = np.searchsorted(self.distribution.pmf[order].cumsum(), miss, side="right")
        # Without flips the lattice is that of the law, and only rounding must not exclude a point; with them it is not.
        slack = 1e-6 if self.gain == 1 else 0.5
        return np.full(len(self.labels), (distance[order][min(beyond, order.size - 1)] + slack) / self.gain)

    def __repr__(self) -> str:
        return f"Estimate({len(self.labels)} labels, n={self.n:,}, stderr {self.stderr.max():.4g}, {self.remark})"


def smooth(distribution: Distribution, variance: float) -> Distribution | None:
    """The law of a whole number plus a rounded normal error of the given variance.

    >>> round(smooth(Distribution(0, np.ones(1)), 4.0).cdf(0), 3)
    0.599
    """
    if variance == 0:
        return distribution
    sigma = math.sqrt(variance)
    reach = math.ceil(9 * sigma) + 1
    if reach * distribution.pmf.size > 10**8:
        return None
    edges: NDArray[Any] = ndtr((np.arange(-reach, reach + 2) - 0.5) / sigma)
    return distribution.plus(Distribution(-reach, np.diff(edges)))
