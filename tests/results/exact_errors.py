"""Exact distributions of the error of one of d counts that add up to n, by characteristic functions.

They share nothing with the convolutions of the package: a message of a person who has the label, one of a person who
has another, and a fake each have a function of θ for (d − 1)·(bit of the label) − (bits of the others), whose powers
are multiplied.
"""

import math

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.mechanisms.noise import count_noise, fake_noise
from hubbub.numeric.population import CountNoise

Floats = NDArray[np.float64]


def noise_of(labels: int, protocol: hb.Protocol, n: int) -> CountNoise:
    """Return the error that the package states."""
    schema = hb.Schema.one_hot(labels)
    return count_noise(schema, protocol, n, fake_noise(schema, protocol, n, protocol.fixed_fakes))


def errors(labels: int, protocol: hb.Protocol, n: int, held: int) -> tuple[Floats, Floats]:
    """Return the errors of the count of a label that so many have, in people, and their probabilities."""
    d, q, k = labels, protocol.q, protocol.k
    p, gain = 1 - q, k * (1 - 2 * q)
    wide = math.sqrt(noise_of(d, protocol, n).variance) * d * gain
    size = 1 << math.ceil(math.log2(24 * wide + 120 * d))
    theta = 2 * np.pi * np.arange(size) / size
    up, down = np.exp(1j * (d - 1) * theta), np.exp(-1j * theta)
    has = (q + p * up) * (p + q * down) ** (d - 1)
    lacks = (p + q * up) * (q + p * down) * (p + q * down) ** (d - 2)
    fake, users, drawn = has / d + (1 - 1 / d) * lacks, protocol.user_fakes, protocol.shuffler_fakes
    factor = fake**protocol.fixed_fakes
    if drawn is not None:
        one, other = (has, lacks) if protocol.sends_records else (up, down)
        factor = np.polyval(drawn.pmf[::-1], one) * np.polyval(drawn.pmf[::-1], other) ** (d - 1)
    elif users is not None and users.distribution == "poisson":
        factor = np.exp(n * users.mean * (fake - 1))
    elif users is not None:
        factor = (1 - users.scale + users.scale * fake) ** (n * users.shift)
    found = np.fft.fft(has ** (k * held) * lacks ** (k * (n - held)) * factor).real / size
    mean = gain * (d * held - n)
    places = math.floor(mean) - size // 2 + np.arange(size)
    return np.asarray((places - mean) / (d * gain), np.float64), np.maximum(found[places % size], 0.0)
