"""Blankets lie below the exact distributions of all messages, in spite of rounding."""

import math
import random
from fractions import Fraction

from hubbub.accountant.theorems.records.blankets import uniform_blanket


def test_the_weights_of_the_uniform_blanket_are_never_too_large() -> None:
    chance = random.Random(1)
    for width in (1, 3, 8, 20, 40):
        q = chance.uniform(0.01, 0.49)
        for a, weight in enumerate(uniform_blanket(width, q, 0.1)[1].tolist()):
            assert Fraction(weight) <= math.comb(width, a) * Fraction(q) ** width, (width, q, a)
