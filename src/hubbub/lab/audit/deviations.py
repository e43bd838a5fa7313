"""Diagnoses of wrong frequencies: which bits, values or states are flipped too often or too rarely, and wrong fakes.

Cells (a value and a bit) are explained by the simplest grouping that fits: one rate for all, one for set and one for
unset bits, one per bit, one per value, or one per bit and state. A grouping fits if no cell differs from the rest of
its group. P-values are exact without fakes and conservative with them; those of all groups are adjusted by Holm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hubbub.lab.audit.faults import INTERVAL, Diagnosis, Harm, rate_text
from hubbub.lab.audit.flips import fake_moments, observed_flips
from hubbub.lab.audit.model import Floats, MessageModel
from hubbub.lab.audit.probes import Sample
from hubbub.lab.audit.statistics import bennett_p, binomial_p, holm, hypergeometric_p, poisson_p, worst
from hubbub.model.protocol import GRID
from hubbub.numeric.binomial import clopper_pearson

SHOWN = 3  # most groups that a text lists
GROUPINGS = ("all", "state", "bit", "value", "bit and state", "cell")
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The flips of every bit at every value; a row per value."""

    model: MessageModel
    values: list[str]
    ones: NDArray[np.bool_]
    flips: Floats  # without the expected contribution of fakes
    trials: Floats
    variance: Floats | None  # of the counts, if users' fakes are among the messages

    @property
    def planned(self) -> Floats:
        """The planned flip probability of each cell."""
        return np.where(self.ones, self.model.flip(was_set=True), self.model.flip(was_set=False))

    def groups(self, grouping: str) -> tuple[Numbers, list[str]]:
        """Return the number of the group of each cell, and the names of the groups."""
        width, bits = self.ones.shape[1], [self.model.bit_name(j) for j in range(self.ones.shape[1])]
        bit = np.broadcast_to(np.arange(width), self.ones.shape)
        value = np.broadcast_to(np.arange(len(self.values))[:, None], self.ones.shape)
        state = self.ones.astype(np.int64)
        if grouping == "all":
            return np.zeros_like(state), ["every bit"]
        if grouping == "state":
            return state, ["unset bits (0 → 1)", "set bits (1 → 0)"]
        if grouping == "bit":
            return bit, bits
        if grouping == "value":
            return value, [f"every bit of the value: {name}" for name in self.values]
        if grouping == "bit and state":
            return 2 * bit + state, [f"{name} {text}" for name in bits for text in ("if unset", "if set")]
        cells = [f"{name} of the value: {value}" for value in self.values for name in bits]
        return value * width + bit, cells

    def sums(self, group: Numbers, count: int) -> tuple[Floats, Floats, Floats]:
        """Return the flips, the trials and the planned flips of each group."""
        flat = group.reshape(-1)
        parts = (self.flips, self.trials, self.planned * self.trials)
        flips, trials, planned = (np.bincount(flat, part.reshape(-1), count).astype(np.float64) for part in parts)
        return flips, trials, planned

    def fits(self, group: Numbers, count: int, level: float) -> bool:
        """Return True if no cell differs from the rest of its group."""
        flips, trials, _ = (part[group] for part in self.sums(group, count))
        if self.variance is None:
            p = hypergeometric_p(self.flips[None], self.trials[None], flips[None], trials[None])
        else:
            expected = self.trials * flips / np.maximum(trials, 1)
            p = bennett_p(self.flips - expected, 2 * self.variance)
        return worst(p)[1] > level


def cells(samples: Sequence[Sample], model: MessageModel) -> Cells:
    """Return the flips of all samples."""
    ones, flips, trials = observed_flips(samples, model)
    size = np.broadcast_to(trials.astype(np.float64)[:, None], flips.shape)
    variance = None
    if model.has_user_fakes:
        variance = np.broadcast_to(fake_moments(samples, model)[1][:, None], flips.shape)
    return Cells(model, [one.probe.name for one in samples], ones, flips, size, variance)


def flip_rates(samples: Sequence[Sample], model: MessageModel, level: float, *, independent: bool) -> list[Diagnosis]:
    """Diagnose wrong flip probabilities; ``independent`` is False if bits are flipped together."""
    protocol = model.plan.protocol
    if protocol.clear:
        return []
    if protocol.sends_category:
        return _category(samples, model, level)
    table = cells(samples, model)
    # Bits that are flipped together are not pooled: a sum over them varies more than independent flips do.
    for grouping in GROUPINGS if independent else GROUPINGS[2:]:
        group, names = table.groups(grouping)
        if grouping == "cell" or table.fits(group, len(names), level):
            break
    flips, trials, planned = table.sums(group, len(names))
    known = trials > 0
    if table.variance is None:
        # Within a group all cells have the same planned probability.
        p = binomial_p(flips, trials, planned / np.maximum(trials, 1))
    else:
        spread, most = _spread(table, samples, group, len(names))
        p = bennett_p(flips - planned, spread, most)
    adjusted = holm(np.where(known, p, 1.0))
    bad = np.flatnonzero(known & (adjusted <= level))
    if not bad.size:
        return []
    copies = _wrong_copies(samples, model, level)
    if copies:
        return copies
    rows = [_rate(names[i], flips[i], int(trials[i]), planned[i] / trials[i], float(adjusted[i]), model) for i in bad]
    if grouping == "state":
        other = [_describe(names[i], flips[i], int(trials[i]), planned[i] / trials[i]) for i in (0, 1) if i not in bad]
        text = "flips depend on the true value: " + "; ".join([*(one.text for one in rows), *other])
        return [Diagnosis("biased flips", text, min(one.p for one in rows), _worse(rows))]
    return _joined(rows, bad.size)


def _spread(table: Cells, samples: Sequence[Sample], group: Numbers, count: int) -> tuple[Floats, Floats]:
    """Return the variance of each group's flips with fakes, and the most that one message adds to them."""
    _, variance, covariance = fake_moments(samples, table.model)
    total, most = np.zeros(count), np.ones(count)
    for row, var, cov in zip(group, variance, covariance, strict=True):
        size = np.bincount(row, minlength=count)
        total += size * var + size * (size - 1) * abs(cov)
        most = np.maximum(most, size)
    return total, most


def _describe(name: str, flips: float, trials: int, planned: float) -> str:
    return f"{name}: {rate_text(flips, trials, planned)}"


def _rate(name: str, flips: float, trials: int, planned: float, p: float, model: MessageModel) -> Diagnosis:
    """Return the diagnosis of a group that is flipped too often or too rarely."""
    verb = "are" if name.startswith(("set bits", "unset bits")) else "is"
    numbers = rate_text(flips, trials, planned)
    if round(flips) <= 0:
        return Diagnosis("flip probability", f"{name} {'were' if verb == 'are' else 'was'} never flipped: {numbers}", p)
    if flips < trials * planned:
        return Diagnosis("flip probability", f"{name} {verb} flipped less often than planned: {numbers}", p)
    high = float(clopper_pearson(min(round(flips), trials), trials, INTERVAL / 2)[1])
    if high > 1 - model.message_flip:
        text = f"{name} {verb} flipped so often that the opposite of the truth is shown: {numbers}"
        return Diagnosis("flip probability", text, p)
    text = f"{name} {verb} flipped more often than planned: {numbers}"
    return Diagnosis("flip probability", text, p, "estimates")


def _worse(rows: Sequence[Diagnosis]) -> Harm:
    return "privacy" if any(one.harm == "privacy" for one in rows) else "estimates"


def _joined(rows: list[Diagnosis], count: int) -> list[Diagnosis]:
    """Return the first diagnoses, those of privacy first, and the number of the others."""
    rows = sorted(rows, key=lambda one: (one.harm != "privacy", one.p))
    if count <= SHOWN:
        return rows
    last = rows[SHOWN - 1]
    more = f"; and {count - SHOWN:,} more like these"
    return [*rows[: SHOWN - 1], Diagnosis(last.kind, last.text + more, last.p, _worse(rows[SHOWN - 1 :]))]


def _wrong_copies(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose split bits whose counts are those of another number of copies."""
    protocol = model.plan.protocol
    if model.linked or model.has_user_fakes:
        return []
    seen = sum(float(one.counts.sum()) for one in samples)
    each = sum(one.values * float(model.shown(one.probe.ones).sum()) for one in samples)
    copies = round(seen / each) if each else 0
    if copies in (0, protocol.k):
        return []
    shown = np.array([one.counts.sum(axis=0) for one in samples], np.float64)
    sizes = np.array([copies * one.values for one in samples], np.float64)[:, None]
    chances = np.array([model.shown(one.probe.ones) for one in samples])
    if worst(binomial_p(shown, sizes, chances))[1] <= level:
        return []
    text = f"each record is sent in {copies} {'copy' if copies == 1 else 'copies'} instead of {protocol.k}: "
    # Under the plan, this total is the sum of independent bits.
    mean = protocol.k * each
    p = float(bennett_p(seen - mean, mean))
    return [Diagnosis("number of copies", f"{text}{int(seen):,} messages, expected {mean:,.0f}", p)]


def _category(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose how often categories are flipped, and to which others."""
    width, planned = model.plan.schema.width, model.message_flip
    own = np.array([one.probe.ones[0] for one in samples])
    counts = np.array([one.counts.sum(axis=0) for one in samples], np.float64)
    trials = np.array([one.values for one in samples], np.float64)
    flips = trials - counts[np.arange(len(own)), own]
    level, found = level / 2, []
    alike = hypergeometric_p(
        flips[None], trials[None], np.full((1, len(own)), flips.sum()), np.full((1, len(own)), trials.sum())
    )
    if worst(alike)[1] > level:
        names, sums, sizes = ["every category"], flips.sum(keepdims=True), trials.sum(keepdims=True)
    else:
        names, sums, sizes = [model.bit_name(j) for j in own], flips, trials
    p = holm(binomial_p(sums, sizes, planned))
    bad = np.flatnonzero(p <= level)
    rows = [_rate(names[i], sums[i], int(sizes[i]), planned, float(p[i]), model) for i in bad]
    rows = [_within(one, sums[i] / sizes[i], width) for one, i in zip(rows, bad, strict=True)]
    found += _joined(rows, bad.size) if rows else []
    if width > 2:
        others = np.arange(width)[None, :] != own[:, None]
        p = np.where(others, binomial_p(counts, flips[:, None], 1 / (width - 1)), 1.0)
        (i, j), smallest = worst(p)
        if smallest <= level and flips[i]:
            text = f"a flipped {model.bit_name(own[i])} is not shown as every other category equally often: as "
            text += f"{model.bit_name(j)} {rate_text(counts[i, j], int(flips[i]), 1 / (width - 1))}"
            found.append(Diagnosis("categories after a flip", text, smallest))
    return found


def _within(one: Diagnosis, rate: float, width: int) -> Diagnosis:
    """More flips of a category are only noise up to the uniform distribution."""
    too_many = rate > planned_limit(width)
    return Diagnosis(one.kind, one.text, one.p, "privacy" if too_many else one.harm)


def planned_limit(width: int) -> float:
    """Return the flip probability at which all categories are equally likely.

    >>> planned_limit(4)
    0.75
    """
    return 1 - 1 / width


def fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose the number and the distribution of users' fakes."""
    return [*_number_of_fakes(samples, model, level / 2), *_bits_of_fakes(samples, model, level / 2)]


def _number_of_fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    m = model.plan.protocol.user_fakes
    if m is None or not model.linked:
        return []
    sizes = np.array([one.values for one in samples])
    drawn = np.array([one.fakes.sum() for one in samples])
    names = ["users", *(f"users with the value: {one.probe.name}" for one in samples)]
    totals, people = np.concatenate([[drawn.sum()], drawn]), np.concatenate([[sizes.sum()], sizes])
    if m.distribution == "binomial":
        p = binomial_p(totals, people * m.shift, math.ceil(Fraction(m.scale) * GRID) / GRID)
    else:
        p = poisson_p(totals, people * m.mean)
    adjusted = holm(p)
    i = 0 if adjusted[0] <= level else int(np.argmin(adjusted))
    if adjusted[i] > level:
        return []
    fewer = totals[i] < people[i] * m.mean
    text = (
        f"{names[i]} add {'fewer' if fewer else 'more'} fakes than planned: expected {m.mean:.4g} per user, observed "
    )
    text += f"{totals[i] / people[i]:.4g} ({int(totals[i]):,} of {int(people[i]):,} users)"
    # A number of fakes that depends on the value reveals it, in whichever direction.
    return [Diagnosis("number of fakes", text, float(adjusted[i]), "privacy" if fewer or i else "estimates")]


def _bits_of_fakes(samples: Sequence[Sample], model: MessageModel, level: float) -> list[Diagnosis]:
    """Diagnose bits that fakes show too often or too rarely: by the same amount for set and for unset bits."""
    drawn = sum(int(one.fakes.sum()) for one in samples)
    if not model.has_user_fakes or not drawn:
        return []
    table = cells(samples, model)
    off = table.flips - table.planned * table.trials
    shown = np.where(table.ones, -off, off)
    variance = np.asarray(table.variance).sum(axis=0)
    total, contrast = shown.sum(axis=0), off.sum(axis=0)
    adjusted = holm(bennett_p(total, variance))
    bad = np.flatnonzero((adjusted <= level) & (model.plan.protocol.clear | (np.abs(total) > np.abs(contrast))))
    if not bad.size:
        return []
    i = int(bad[np.argmin(adjusted[bad])])
    seen, v = float(np.clip((drawn * model.fake_bit + total[i]) / drawn, 0, 1)), model.fake_bit
    often = "too rarely" if total[i] < 0 else "too often"
    rest = f", and {bad.size - 1:,} others deviate" if bad.size > 1 else ""
    text = f"fakes are not uniform over the legal records: they show {model.bit_name(i)} {often}{rest}: expected "
    text += f"{100 * v:.4g} % of {drawn:,} fakes, observed about {100 * seen:.4g} %"
    return [Diagnosis("distribution of fakes", text, float(adjusted[i]))]
