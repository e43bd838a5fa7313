"""Intervals of counts: their ends are where the value is as far away as stated."""

import math

import numpy as np

from hubbub.numeric.intervals import _at_distance
from hubbub.numeric.population import CountNoise


def test_ends_solve_their_equation_with_and_without_people() -> None:
    noise = CountNoise(variance=9.0, growth=0.5)
    values = np.linspace(-30, 60, 91)
    for z in (-3.0, -1.0, 1.0, 3.0):
        for value, found in zip(values.tolist(), _at_distance(values, noise, z).tolist(), strict=True):
            distance = z * math.sqrt(9.0 + 0.5 * max(found, 0.0))
            assert abs(found - value - distance) < 1e-9 or (found == 0.0 and z * (value + distance) >= 0), (z, value)
