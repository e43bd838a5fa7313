"""The bounds on δ that the checker can evaluate, by protocol; each states the honest parties that it needs.

Where several theorems apply, each is tried: one that meets the claim suffices. Adding independent messages, whether
other users' or fakes, never raises δ (data processing), so that every theorem may leave some of them out.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import isqrt

from . import blanket, columns, fakes, surveys
from .bounds import LARGEST_EPSILON, MAX_LIST, Bound, fakes_sent
from .crowds import Bits, TooMuchWork, Watch, silent, supremum
from .document import Claim, Fakes
from .fixed import Masses, binomial, ceil_div, exp_bounds
from .losses import Loss


def theorems(claim: Claim, watch: Watch = silent) -> list[Callable[[], Iterator[Bound]]]:
    """Return the theorems that bound δ at the claimed ε, for claims with 0 < δ < 1 and a finite ε.

    Each yields bounds, or raises :class:`TooMuchWork`.
    """
    assert claim.epsilon is not None
    if claim.answers:
        return surveys.theorems(claim, watch)
    task = _Task(claim, min(claim.epsilon, Fraction(LARGEST_EPSILON)), watch)
    found: list[Callable[[], Iterator[Bound]]] = []
    if claim.flip > 0:
        found.append(task.local)
    if not claim.shuffler:
        return found
    by_shuffler = isinstance(claim.fakes, Fakes) and claim.fakes.by_shuffler
    if by_shuffler and claim.may_use_shufflers_fakes:
        found.append(task.shufflers_fakes)
    if claim.release == "category":
        found.append(task.category)
    elif claim.flip == 0:
        found += [] if by_shuffler else [task.users_fakes]
    else:
        found.append(task.positions if claim.release == "bits" or claim.width == 1 else task.records)
        if claim.fakes and not by_shuffler and claim.copies == 1:
            found.append(task.users_fakes)
    return found


class _Task:
    """One claim, with e^ε in fixed point at the precision that each theorem needs."""

    def __init__(self, claim: Claim, epsilon: Fraction, watch: Watch = silent) -> None:
        self.claim, self.epsilon, self.watch = claim, epsilon, watch
        self.digits = int(1 / claim.delta).bit_length()

    def exp(self, bits: int) -> tuple[int, int]:
        """Return bounds of e^ε·2^bits."""
        return exp_bounds(self.epsilon, bits)

    def local(self) -> Iterator[Bound]:
        """One user's messages alone: Bin(kh, p) against Bin(kh, q), or p − e^ε·q for a category."""
        claim, bits = self.claim, 96 + 2 * self.digits
        q, (low, high) = claim.flip, self.exp(bits)
        scale, method = 1 << bits, "the likelihood ratio of one user's messages"
        if claim.release == "category":
            p = 1 - (claim.width - 1) * q
            upper, lower = max(Fraction(0), p - q * Fraction(low, scale)), p - q * Fraction(high, scale)
        else:
            size = claim.copies * claim.distance
            if size > MAX_LIST:
                raise TooMuchWork
            p_row, q_row = binomial(size, 1 - q, bits), binomial(size, q, bits)
            first = min(p_row.first, q_row.first)
            end = max(p_row.first + len(p_row.low), q_row.first + len(q_row.low))
            one, two = _padded(p_row, first, end), _padded(q_row, first, end)
            curve = columns.Curve(one, two, max(p_row.slack, q_row.slack), size // 2 - first, bits)
            upper = Fraction(curve.values([(low, high)])[0], scale)
            lower = Fraction(curve.attained(high), scale)
        yield Bound(upper, method, 1, shuffler=False, lower=Fraction(0) if claim.shuffler else lower)

    def category(self) -> Iterator[Bound]:
        """Randomized response: a single bit for two categories, the uniform blanket for more."""
        claim = self.claim
        if claim.width == 2:
            yield self._single(Bits(claim.flip, 1, claim.users - 1, 1, self._bits()), Fraction(0))
            return
        bits = 80 + self.digits
        x = Fraction(self.exp(bits)[0], 1 << bits)
        upper = blanket.positive_mean(blanket.category(claim.width, claim.flip, x), claim.users, claim.delta, bits)
        yield Bound(upper, "the uniform privacy blanket", claim.users)

    def shufflers_fakes(self) -> Iterator[Bound]:
        """The exact composition of the counts that one user changes, or the envelope of both directions."""
        claim, h, drawn = self.claim, self.claim.distance, self.claim.fakes
        assert isinstance(drawn, Fakes)
        clear_bits = claim.release == "bits" and claim.flip == 0
        # What is subtracted from the counts of strings is the mirror image of what is added to those of records.
        if claim.release in ("records", "strings") or (clear_bits and claim.kind == "one_hot"):
            changes = [(1, 1)]
        elif clear_bits:
            most = claim.max_set
            changes = [(most, most)] if 2 * most <= claim.width else [(f, h - f) for f in range(h - most, most + 1)]
        else:
            changes = [(f, h - f) for f in range(h + 1)]
        count = max(map(sum, changes))
        bits = 112 + self.digits + count.bit_length()
        negligible = max(1, (int(claim.delta * 2**bits) >> 48) // count)
        fall, rise, u = fakes.steps(drawn.name, drawn.scale, drawn.shift, bits)
        factor = fakes.coarseness(drawn.name, drawn.scale, count)

        def evaluate(loss: Loss) -> int:
            def point(i: int) -> int:
                return exp_bounds(u * factor * i, bits)[1]

            return loss.delta(self.exp(bits)[0], point)

        one, two = (fakes.thin(loss, factor, u, bits) if factor > 1 else loss for loss in (fall, rise))
        name = f"the {drawn.name} distribution of the shuffler's fakes"
        if len(changes) > 1:
            both = fakes.either(fall, rise)
            both = fakes.thin(both, factor, u, bits) if factor > 1 else both
            upper = evaluate(both.power(count, negligible))
            yield Bound(Fraction(upper, 1 << bits), f"{name}, {count} counts in either direction", 1, fakes=True)
        if len(changes) <= 17:
            worst = slack = 0
            for falls, rises in changes:
                parts = [part.power(times, negligible) for part, times in ((one, falls), (two, rises)) if times]
                loss = parts[0] if len(parts) == 1 else parts[0].compose(parts[1], negligible)
                worst = max(worst, evaluate(loss))
                slack = max(slack, sum(loss.masses) + loss.infinite - (1 << bits) + 4 * count * negligible + 2**20)
            # In a small batch the strings of two people may be too rare to hide everything that is subtracted.
            large = claim.release != "strings" or claim.n > 2 * (drawn.shift + 100 * drawn.scale)
            tight = claim.flip == 0 and factor == 1 and large
            lower = Fraction(worst - slack, 1 << bits) if tight else Fraction(0)
            yield Bound(Fraction(worst, 1 << bits), f"{name}, {count} counts", 1, fakes=True, lower=lower)

    def users_fakes(self) -> Iterator[Bound]:
        """Clear records among the fakes that honest users send; flips of all of them only add privacy."""
        claim = self.claim
        bits, drawn = 96 + self.digits, self._drawn()
        low, high = self.exp(bits)
        if claim.release == "bits" and claim.kind == "bits" and drawn is None:
            wide = bits + claim.width.bit_length()
            goal = int(claim.delta * 2**wide)
            if isqrt(claim.fixed_fakes) > MAX_LIST // 40:
                raise TooMuchWork
            upper = columns.fakes_delta(claim.fixed_fakes, claim.width, wide, self.exp(wide)[0], goal)
            yield Bound(Fraction(upper, 1 << wide), "the fakes' bits, composed over all positions", claim.users)
            return
        if claim.max_set * claim.width.bit_length() > 4096:
            return  # no number of fakes covers that many records
        numbers = self._numbers(drawn, Fraction(2, claim.records), bits)
        upper_units = fakes.mean_gain(numbers, Fraction(low, 1 << bits))[1]
        tight = claim.flip == 0 and (claim.release == "records" or claim.kind == "one_hot")
        lower = fakes.mean_gain(numbers, Fraction(high, 1 << bits))[0] if tight else 0
        yield Bound(
            Fraction(upper_units, 1 << bits),
            "the exact distribution of the uniform fakes",
            claim.users,
            lower=Fraction(lower, 1 << bits),
        )

    def _drawn(self) -> Fakes | None:
        """Return the distribution of the fakes that users draw, if any."""
        drawn = self.claim.fakes
        return drawn if isinstance(drawn, Fakes) and not drawn.by_shuffler else None

    def _numbers(self, drawn: Fakes | None, share: Fraction, bits: int) -> Masses:
        """Return the distribution of the honest users' fakes, each counted with probability ``share``."""
        if drawn is not None:
            return fakes_sent(drawn, self.claim.users, share, bits)
        if isqrt(int(self.claim.fixed_fakes * share)) > MAX_LIST // 40:
            raise TooMuchWork
        return binomial(self.claim.fixed_fakes, share, bits)

    def positions(self) -> Iterator[Bound]:
        """Single or split bits among flipped fakes.

        The bits of a fake that is uniform over all bit vectors are fair and independent. Other fakes count as further
        messages, whatever they hold.
        """
        claim, drawn = self.claim, self._drawn()
        fakes_sent, missed = claim.fixed_fakes, Fraction(0)
        if drawn:
            fakes_sent, missed = self._likely_fakes(drawn)
        if claim.copies > 64:
            raise TooMuchWork
        fair, singles = (fakes_sent, 0) if claim.max_set == claim.width else (0, fakes_sent)
        unit = 1 if singles else claim.copies
        others = (claim.users - 1) * claim.copies // unit + singles
        if claim.distance == 1:
            yield self._single(Bits(claim.flip, claim.copies, others, unit, self._bits(), fair), missed)
            return
        bits = 80 + self.digits + claim.distance.bit_length()
        problem = Bits(claim.flip, claim.copies, others, unit, bits, fair)
        if problem.variance > columns.MAX_SPREAD**2:
            raise TooMuchWork
        goal = int((claim.delta - missed) * 2**bits)
        upper = columns.positions_delta(problem, claim.distance, self.exp(bits)[0], goal, self.watch)
        yield Bound(
            Fraction(upper, 1 << bits) + missed,
            f"composition of all single-bit crowds over {claim.distance} positions",
            claim.users,
        )

    def _single(self, problem: Bits, missed: Fraction) -> Bound:
        low, high = self.exp(problem.bits)
        scale = 1 << problem.bits
        goal = int((self.claim.delta - missed) * scale)
        lower, upper = supremum(problem, Fraction(low, scale), Fraction(high, scale), goal)
        exact = self.claim.fakes == problem.fair  # every fake is honest, and the crowd of the lower bound is legal
        return Bound(
            Fraction(upper, scale) + missed,
            "all crowds of single bits",
            self.claim.users,
            lower=Fraction(lower, scale) if exact else Fraction(0),
        )

    def _bits(self) -> int:
        return 96 + 3 * self.digits // 2

    def _likely_fakes(self, drawn: Fakes) -> tuple[int, Fraction]:
        """Return a number of fakes that is reached except with a small probability, and that probability."""
        bits = 96 + self.digits
        numbers = self._numbers(drawn, Fraction(1), bits)
        missed, limit = numbers.slack, int(self.claim.delta * 2**bits) >> 10
        number = numbers.first
        for mass in numbers.low:
            if missed + mass + numbers.slack > limit:
                break
            missed += mass + numbers.slack
            number += 1
        return number, Fraction(missed, 1 << bits)

    def records(self) -> Iterator[Bound]:
        """Whole records: privacy blankets of one message, and group privacy over copies.

        Replace one user's copies one at a time: δ(ε) ≤ Σ_{i<k} e^(iε/k)·δ₁(ε/k), with δ₁ for one message among all.
        """
        claim = self.claim
        bits, k = 80 + self.digits, claim.copies
        low, high = exp_bounds(self.epsilon / k, bits)
        x, y = Fraction(low, 1 << bits), Fraction(ceil_div(high, 1 << bits - 64), 1 << 64)
        factor = sum(y**i for i in range(k)) if k <= 64 else Fraction(0)
        if not factor:
            return
        messages, goal = k * claim.users + claim.fixed_fakes, claim.delta / factor
        options = []
        if claim.width <= 16 and 2 * claim.max_set >= claim.width:
            options.append((blanket.uniform(claim.width, claim.flip, x), messages, "the uniform privacy blanket"))
            if claim.kind == "bits" and claim.fixed_fakes:
                atoms = blanket.fakes(claim.width, claim.flip, x)
                options.append((atoms, claim.fixed_fakes + 1, "the distribution of the flipped fakes"))
        if claim.kind != "bits" and claim.max_set <= 4:
            atoms = blanket.product(claim.max_set, claim.flip, x)
            options.append((atoms, messages, "the privacy blanket of the zero record"))
        if claim.kind == "one_hot" and claim.width <= 16:
            options.append((blanket.largest(claim.width, claim.flip, x), messages, "the largest privacy blanket"))
        for atoms, count, method in options:
            try:
                upper = blanket.positive_mean(atoms, count, goal, bits)
            except blanket.Spread:
                continue
            yield Bound(upper * factor, method + (f", {k} copies" if k > 1 else ""), claim.users)


def _padded(row: Masses, first: int, end: int) -> list[int]:
    return [0] * (row.first - first) + list(row.low) + [0] * (end - row.first - len(row.low))
