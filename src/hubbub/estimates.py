"""Estimated counts with error bars, and the noise that fakes add to them."""

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hubbub.errors import NON_NEGATIVE, OPEN_UNIT, POSITIVE, check_real, check_type, check_whole, reject
from hubbub.numeric.binomial import binomial
from hubbub.numeric.distributions import Distribution
from hubbub.numeric.estimation import (
    category_variance,
    count_among_fakes,
    nearest_counts,
    shown_by_drawn,
    shown_by_users,
)
from hubbub.numeric.vectors import check_vector
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema, check_label_names

if TYPE_CHECKING:
    from hubbub.pages import Chart

Array = NDArray[np.float64]
LEVEL = 0.95
"""Confidence level of ``detectable`` and of the detection limit."""
EXACT_DRAWS = 64
"""Largest number of draws whose sum is computed exactly; the sum of more is close enough to normal."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The number of fakes with a given bit set: mean, variance, and the distribution of its non-normal part."""

    mean: float
    variance: float
    distribution: Distribution | None = None
    rest: float = 0.0
    """Variance of the other part, which is close to normal."""


def fake_noise(
    schema: Schema,
    protocol: Protocol,
    n: int,
    fakes: int,
    *,
    batches: int = 1,
    user_fakes: int | None = None,
    moments: bool = False,
) -> Noise:
    """Return the noise that fakes add to one count of n users.

    There are ``fakes`` of them in total, or each user draws their number, or the shuffler does in each of ``batches``.

    A uniform legal fake has a given bit set with probability v = q + (p − q)·density after it is flipped. Whole records
    reveal the number M of fakes that users drew, ``user_fakes``: all messages but k·n. In predictions, M is replaced by
    its mean, which gives the mean of the variance. Single bits hide M, so its variance is added. Fakes of the shuffler:
    :func:`hubbub.numeric.estimation.shown_by_drawn`. With ``moments``, the distribution of the sum, which may take
    seconds, is left out.

    >>> fake_noise(Schema.one_hot(4), Protocol(0.0, m=400), 1000, 400)
    Noise(mean=100.0, variance=75.0, distribution=None, rest=0.0)
    """
    q = protocol.q
    fake = q + (1 - 2 * q) * schema.density
    if users := protocol.user_fakes:
        if protocol.sends_records:
            return Noise(*shown_by_users(n * users.mean if user_fakes is None else user_fakes, 0.0, fake))
        return Noise(*shown_by_users(n * users.mean, n * users.variance, fake))
    drawn = protocol.shuffler_fakes
    if drawn is None:
        return Noise(*shown_by_users(fakes, 0.0, fake))
    mean, variance = batches * drawn.mean, batches * drawn.variance
    if protocol.sends_records:
        with_bit = schema.records_with_bit
        total = shown_by_drawn(mean, variance, q, with_bit, schema.size - with_bit)
        rest = shown_by_drawn(mean, variance, q, 0, schema.size - with_bit)[1]
        return Noise(*total, None if moments else _sum(drawn, q, with_bit * batches), rest)
    return Noise(mean, variance, None if moments else _sum(drawn, 0.0, batches))


@functools.lru_cache(64)
def _sum(fakes: Fakes, q: float, times: int) -> Distribution | None:
    """Return the distribution of the sum of ``times`` draws, each unit of which is lost with probability q."""
    if not 0 < times <= EXACT_DRAWS or times * (fakes.shift + 100 * fakes.scale) > 10**5:
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
    """Return σ of one count of n people; for categories, its maximum over all data.

    >>> round(predicted_stderr(Schema.bits(1), Protocol(0.1), 1000), 6)
    11.858541
    """
    if protocol.sends_category:
        if not schema.exclusive or protocol.q * schema.width >= 1:
            reject(
                "a category",
                f"be released with a one-hot schema of d labels and q < 1/d, got {schema} and q = {protocol.q:g}",
            )
        return math.sqrt(float(category_variance([0, n], n, protocol.q, schema.width).max()))
    noise = fake_noise(schema, protocol, n, protocol.fixed_fakes, moments=True)
    return count_among_fakes(0, n, protocol.q, k=protocol.k, mean=noise.mean, variance=noise.variance)[1]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Estimate:
    """Estimated number of people with each label: unbiased values, standard errors, intervals and detection limits."""

    labels: tuple[str, ...]
    values: Array
    stderr: Array
    n: int
    one_choice: bool
    """True if every person has exactly one label, so that the counts add up to n."""
    unbiased: Array
    """Values before :meth:`consistent`, around which intervals are built."""
    distribution: Distribution | None = None
    """Distribution of an error in messages if it is not close to normal: few discrete draws by the shuffler."""
    centre: float = 0.0
    """Mean of that distribution."""
    gain: float = 1.0
    """Expected increase of a count of messages for one more person, k(p − q)."""
    remark: str = "unbiased"

    def __post_init__(self) -> None:
        check_label_names("labels", self.labels)
        for name in ("values", "stderr", "unbiased"):
            check_vector(name, getattr(self, name), np.float64, len(self.labels))
        check_whole("n", self.n)
        check_type("one_choice", self.one_choice, bool)
        if self.distribution is not None:
            check_type("distribution", self.distribution, Distribution)
        check_real("centre", self.centre, NON_NEGATIVE)
        check_real("gain", self.gain, POSITIVE)
        check_type("remark", self.remark, str)

    def interval(self, level: float = LEVEL, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Return the ends of intervals that cover each true count, or all at once, with probability ``level``.

        value ± (zσ + ½/(k(p − q))) with the normal quantile z and half a message, because counts are whole numbers; or
        the quantile of the exact distribution of the shuffler's fakes. To cover all d labels at once, each is covered
        with probability level^(1/d), which suffices for all correlations of normal errors (Šidák 1967). After
        :meth:`consistent`, the ends are clipped to [0, n], which keeps the coverage.
        """
        level = check_real("level", level, OPEN_UNIT)
        check_type("simultaneous", simultaneous, bool)
        miss = -math.expm1(math.log(level) / len(self.labels)) if simultaneous else 1 - level
        reach = self._reach(miss)
        low, high = self.unbiased - reach, self.unbiased + reach
        if self.values is not self.unbiased:
            low, high = np.clip(low, 0, self.n), np.clip(high, 0, self.n)
        return low, high

    @property
    def detectable(self) -> NDArray[np.bool_]:
        """True for labels distinguishable from 0; if all counts are 0, none is flagged with probability 95 %."""
        return np.asarray(self.unbiased > self._critical())

    @property
    def detection_limit(self) -> Array:
        """Smallest true count of each label that is flagged with probability 95 % (Currie 1968), for all labels."""
        return np.asarray(self._critical() + float(ndtri(LEVEL)) * self.stderr)

    def consistent(self) -> Self:
        """Return the nearest possible counts: in [0, n] and, if every person has exactly one label, adding up to n.

        Projecting onto a convex set that contains the truth never increases the total squared error, and decreases it
        most if many labels are rare. In return, single values are biased, small ones upwards. Standard errors and
        intervals remain those of the unbiased values.
        """
        value = nearest_counts(self.unbiased, self.n) if self.one_choice else np.clip(self.unbiased, 0, self.n)
        value.setflags(write=False)
        return replace(self, values=value, remark="projected onto possible counts, which biases single values")

    def plot(self, *, level: float = LEVEL, top: int = 20, simultaneous: bool = False) -> "Chart":
        """Return a chart of the largest counts with their intervals; ``.save(path)`` writes SVG, PNG or PDF."""
        from hubbub.pages import estimate_chart  # noqa: PLC0415 (the one upward import: charts are loaded if needed)

        check_whole("top", top, 1)
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
        # Without flips, errors lie on the lattice of the distribution, and only rounding must not exclude a point.
        slack = 1e-6 if self.gain == 1 else 0.5
        return np.full(len(self.labels), (distance[order][min(beyond, order.size - 1)] + slack) / self.gain)

    def __repr__(self) -> str:
        return f"Estimate({len(self.labels)} labels, n={self.n:,}, stderr {self.stderr.max():.4g}, {self.remark})"


def smooth(distribution: Distribution, variance: float) -> Distribution | None:
    """Return the distribution of a whole number plus a rounded normal error of the given variance.

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
