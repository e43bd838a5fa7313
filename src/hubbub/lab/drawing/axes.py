"""Axes: from values to places on the paper, linear or logarithmic, with round ticks, and how numbers are written."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows, its ends, and whether it is logarithmic; ends that are not given follow from the values."""

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    at: tuple[float, ...] = ()
    """Where the ticks are, if not at round values."""
    percent: bool = False

    def over(self, values: Sequence[float], start: float, end: float, apart: float) -> "Scale":
        """The scale that shows these values between two places of the paper, with ticks at least so far apart."""
        low, high = _around([x for x in values if math.isfinite(x) and (x > 0 or not self.log)], self.log)
        return Scale(
            low if self.low is None else self.low,
            high if self.high is None else self.high,
            self.log,
            start,
            end,
            max(2, int(abs(end - start) / apart)),
            self,
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` between two places of the paper, ``start`` and ``end``."""

    low: float
    high: float
    log: bool
    start: float
    end: float
    room: int
    """About how many ticks fit."""
    axis: Axis

    def place(self, value: float) -> float:
        """Where a value lies; not a number if the scale cannot show it.

        >>> scale = Axis("N", 1, 100, log=True).over([], 0.0, 600.0, 90)
        >>> scale.place(10), scale.place(0)
        (300.0, nan)
        """
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.nan
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def inside(self, value: float) -> float:
        """The place of a value, or the nearest end."""
        return self.place(min(max(value, self.low), self.high))

    def ticks(self) -> list[float]:
        """Round values between the ends.

        >>> Axis("N", 100, 1e6, log=True).over([], 0.0, 600.0, 90).ticks()
        [100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
        >>> Axis("q", 0, 0.5).over([], 0.0, 600.0, 90).ticks()
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
        """
        if self.axis.at:
            return list(self.axis.at)
        if not self.log:
            return _evenly(self.low, self.high, self.room)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        tens = self._between(10.0**power for power in powers)
        if len(tens) >= 3:
            every = -(-len(tens) // self.room)
            return [x for x in tens if round(math.log10(x)) % every == 0]
        finer = self._between(digit * 10.0**power for power in powers for digit in (1, 2, 5))
        return finer if len(finer) >= 2 else _evenly(self.low, self.high, self.room)

    def _between(self, values: Iterable[float]) -> list[float]:
        return [x for x in values if self.low * 0.999 <= x <= self.high * 1.001]

    def labels(self) -> list[tuple[float, str]]:
        """The place of every tick, and what is written there: all in powers of ten if some are too long otherwise.

        >>> [words for _, words in Axis("N", 100, 1e6, log=True).over([], 0.0, 600.0, 90).labels()]
        ['100', '10³', '10⁴', '10⁵', '10⁶']
        >>> [words for _, words in Axis("", 0.9, 1, percent=True).over([], 0.0, 200.0, 90).labels()]
        ['90 %', '95 %', '100 %']
        """
        ticks = self.ticks()
        sizes = [abs(tick) for tick in ticks if tick] or [1.0]
        powers = max(sizes) >= 1e5 or (min(sizes) if self.log else max(sizes)) < 1e-3
        if self.axis.percent:
            return [(self.place(tick), f"{number(100 * tick)} %") for tick in ticks]
        return [(self.place(tick), number(tick, powers=powers)) for tick in ticks]


def number(value: float, *, powers: bool = False, signed: bool = False) -> str:
    """A number as people write it; with ``powers``, short beyond hundreds and hundredths.

    >>> [number(x) for x in (0.0, 0.25, -0.2, 20_000.0)], [number(x, powers=True) for x in (1e6, 2e-7, 100.0, 1000.0)]
    (['0', '0.25', '−0.2', '20,000'], ['10⁶', '2·10⁻⁷', '100', '10³'])
    >>> number(20, signed=True)
    '+20'
    """
    sign = "−" if value < 0 else "+" if signed and value else ""
    value = abs(value)
    if not powers or value == 0 or 0.1 <= value < 1e3:
        return f"{sign}{value:,.10g}"
    power = math.floor(math.log10(value) + 1e-9)
    digits = round(value / 10.0**power, 6)
    return sign + ("" if digits == 1 else f"{digits:g}·") + "10" + str(power).translate(RAISED)


def _around(values: Sequence[float], log: bool) -> tuple[float, float]:
    """The ends of a scale that shows these values: some room around them, but none below 0 for what starts there."""
    low, high = (min(values), max(values)) if values else (1.0, 2.0)
    if log:
        a, b = math.log10(low), math.log10(high)
        margin = max(0.04 * (b - a), 0.1 - (b - a) / 2)
        return 10.0 ** (a - margin), 10.0 ** (b + margin)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        return low - 0.5 * abs(low or 1), high + 0.5 * abs(high or 1)
    margin = 0.03 * (high - low)
    return low if low == 0 else low - margin, high + margin


def _evenly(low: float, high: float, room: int) -> list[float]:
    rough = (high - low) / room
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * (1 - 1e-9))
    return [round(step * i, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
