"""What the recomputation of the notes leaves open, and what is known about it."""

import itertools
import math
from fractions import Fraction

from hubbub.accountant import account
from hubbub.accountant.theorems import attacks, records
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.numeric.crowd import probability_ratios
from research.notes.formulas.crowd import crowd_mean
from research.notes.formulas.estimation import count_stderr
from research.notes.statements.catalogue import Evidence, Note, Status
from research.notes.statements.enumeration import transitions
from research.notes.statements.rationals import crowd_outcomes, shuffled, stick

LN2 = math.log(2)

note = Note("open")


@note.states(
    "open-1",
    "Which collection is the worst for records of L ≥ 2 bits in a large crowd? [003 conj. 1]",
    Status.UNDETERMINED,
)
def _worst_collection() -> Evidence:
    """Not known. From above the privacy blanket holds for every collection, from below every crowd that holds one
    record is computed exactly; for single bits branch and bound closes the gap. L = 5: they are an order of magnitude
    apart."""
    found = account(Protocol(0.2446), Schema.bits(5), 1000, epsilon=LN2)
    single = account(Protocol(0.0475573), Schema.bits(1), 1000, epsilon=LN2)
    return Evidence(
        0 < found.lower_bound < found.delta and single.delta / single.lower_bound < 1.01,
        f"L = 5, N = 1000, q = .2446, λ = 2: {found.lower_bound:.2e} ≤ δ ≤ {found.delta:.2e}; "
        f"L = 1: {single.lower_bound:.4e} ≤ δ ≤ {single.delta:.4e}",
    )


@note.states(
    "open-2",
    "Is the homogeneous pair, in both orders, within a fixed factor of the worst δ? [003 conj. 1]",
    Status.UNDETERMINED,
)
def _fixed_factor() -> Evidence:
    """No proof. The largest factor known is 1.44 (L = 3, n = 3); for single bits with n ≤ 8 at the λ tried here it
    stays below 1.27, in exact rationals."""
    largest, where = 0.0, ""
    for n, q in itertools.product(range(2, 9), (Fraction(1, 10), Fraction(1, 4), Fraction(2, 5))):
        distributions = [crowd_outcomes(n, ones, q) for ones in range(n + 1)]
        for ratio in (Fraction(21, 20), Fraction(6, 5), Fraction(3, 2), Fraction(2)):
            both = [max(stick(a, b, ratio), stick(b, a, ratio)) for a, b in itertools.pairwise(distributions)]
            if both[0] and max(both) / both[0] > largest:
                largest, where = float(max(both) / both[0]), f"n = {n}, q = {q}, λ = {ratio}"
    rows = transitions(2, Fraction(1, 4))
    crowds = [
        [shuffled([*(rows[o] for o in others), row]) for row in rows]
        for others in itertools.combinations_with_replacement(range(4), 3)
    ]
    two = 0.0
    for ratio in (Fraction(2), Fraction(3), Fraction(4)):
        worst = [
            max(stick(a, b, ratio) for a, b in itertools.permutations(distributions, 2)) for distributions in crowds
        ]
        homogeneous = crowds[-1][0], crowds[-1][3]
        two = max(two, float(max(worst) / max(stick(*homogeneous, ratio), stick(*homogeneous[::-1], ratio))))
    return Evidence(
        1 < largest < 1.27 and 1 < two < 1.44,
        f"L = 1: ×{largest:.3f} ({where}); L = 2, n = 4, λ ≤ 4: ×{two:.3f}",
    )


@note.states(
    "open-3",
    "Does [000 Prop 6.1] hold with +1 for d > σ₀+1, and with +2 for all d > 0?",
    Status.UNDETERMINED,
)
def _smaller_shift() -> Evidence:
    """No proof, and no violation: all r, d in steps of 0.29 and n up to 60 here. With +0 it is false."""
    counts = {}
    for shift, start in ((1, 1.0), (2, 0.0), (0, 1.0)):
        checked = failed = 0
        for n, q in itertools.product((3, 5, 12, 30, 60), (0.02, 0.1, 0.3, 0.45)):
            low = (math.sqrt(n * q * (1 - q)) + 1 if start else 0.0) + 1e-3
            zero = probability_ratios(n, 0, q)
            for r in range(1, n + 1):
                ratios, mean = probability_ratios(n, r, q), crowd_mean(n, r, q)
                for j in range(24):
                    d = low + 0.29 * j
                    here, there = max(math.ceil(mean - d), 0), max(math.ceil(n * q - d - shift), 0)
                    checked += 1
                    failed += bool(ratios[here] > zero[there] * (1 + 1e-10))
        counts[shift] = checked, failed
    return Evidence(
        counts[1][1] == counts[2][1] == 0 < counts[0][1],
        f"violations: +1 {counts[1][1]}, +2 {counts[2][1]}, +0 {counts[0][1]:,} of {counts[0][0]:,}",
    )


@note.states(
    "open-4",
    "What is the exact δ of k copies of records of L ≥ 2 bits over all collections? [002 §5]",
    Status.UNDETERMINED,
)
def _copies() -> Evidence:
    """Certified from above by the blanket and group privacy over the copies, from below by counting one kind of
    message; the exact value lies between. The gain over one copy is certified for long records."""
    schema, n, k, q = Schema.bits(5), 10_000, 4, 0.22
    upper, lower = (math.exp(f(schema, q, n, 1.0, k)) for f in (records.copies, attacks.copies_attack))
    return Evidence(
        0 < lower < upper < 1,
        f"L = 5, N = 10⁴, k = 4, q = .22, ε = 1: {lower:.1e} ≤ δ ≤ {upper:.1e}, σ = {count_stderr(n, q, k=k):.1f}",
    )


STATEMENTS = tuple(note.statements)
