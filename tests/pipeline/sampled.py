"""Estimates of one label, drawn again and again from a population: the repetitions are the labels of one estimate."""

import math

import numpy as np
from numpy.typing import NDArray

import hubbub as hb
from hubbub.mechanisms.noise import count_noise, fake_noise, known_total
from hubbub.numeric.binomial import clopper_pearson

Rng = np.random.Generator
BITS, HOT = hb.Schema.bits(3), hb.Schema.one_hot(5)
SETTINGS: dict[str, tuple[hb.Schema, hb.Protocol]] = {
    "few flips": (BITS, hb.Protocol(0.0005)),
    "flips": (BITS, hb.Protocol(0.1)),
    "copies": (BITS, hb.Protocol(0.2, k=3)),
    "category": (HOT, hb.Protocol(0.05, release="category")),
    "rarely another category": (HOT, hb.Protocol(0.0005, release="category")),
    "clear among few fakes": (BITS, hb.Protocol(0.0, m=20)),
    "flips among fakes": (BITS, hb.Protocol(0.01, m=300)),
    "clear among users' fakes": (HOT, hb.Protocol(0.0, m=hb.Fakes.poisson(0.02))),
    "clear among Laplace fakes": (HOT, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25))),
    "clear among few Laplace fakes": (HOT, hb.Protocol(0.0, m=hb.Fakes.laplace(0.5, 9))),
    "clear among many Laplace fakes": (HOT, hb.Protocol(0.0, m=hb.Fakes.laplace(40.0, 500))),
    "flips among Laplace fakes": (HOT, hb.Protocol(0.003, m=hb.Fakes.laplace(2.0, 25))),
    "few flips of one in two": (hb.Schema.one_hot(2), hb.Protocol(0.003)),
    "split bits of one in many": (hb.Schema.one_hot(60), hb.Protocol(0.003, release="bits")),
}


def draw(name: str, n: int, share: float, times: int, rng: Rng) -> tuple[hb.LabelView, NDArray[np.int64]]:
    """Draw n people with the label with probability ``share``, and messages from their exact distribution, repeatedly.

    Return the estimates and the true counts.
    """
    schema, protocol = SETTINGS[name]
    q, k = protocol.q, protocol.k
    truth = rng.binomial(n, share, times)
    if protocol.sends_category:
        noise, gain, base = count_noise(schema, protocol, n), 1 - schema.width * q, np.full(times, n * q)
        sent = rng.binomial(truth, 1 - (schema.width - 1) * q) + rng.binomial(n - truth, q)
    else:
        gain, others = k * (1 - 2 * q), np.zeros(times)
        sent = rng.binomial(k * truth, 1 - q) + rng.binomial(k * (n - truth), q)
        shown, fake = q + (1 - 2 * q) * schema.density, protocol.fixed_fakes
        if protocol.user_fakes:
            # Whole records reveal the number of fakes; the noise is that of its mean, as the estimates share one noise.
            fakes = rng.poisson(n * protocol.user_fakes.mean, times)
            known = fake_noise(schema, protocol, n, 0, user_fakes=round(n * protocol.user_fakes.mean))
            sent, base = sent + rng.binomial(fakes, shown), n * q * k + fakes * shown
        elif drawn := protocol.shuffler_fakes:
            numbers = rng.choice(drawn.pmf.size, (times, schema.width), p=drawn.pmf)
            own, rest = numbers[:, 0], numbers[:, 1:].sum(axis=1)
            sent = sent + rng.binomial(own, 1 - q) + rng.binomial(rest, q)
            others = rng.binomial(rest, 1 - q) + rng.binomial((schema.width - 1) * own + (schema.width - 2) * rest, q)
            known, base = fake_noise(schema, protocol, n, 0), np.zeros(times)
        else:
            sent, known = sent + rng.binomial(fake, shown, times), fake_noise(schema, protocol, n, fake)
            base = np.full(times, n * q * k + known.mean)
        noise = count_noise(schema, protocol, n, known)
    if known_total(schema, protocol):
        d = schema.width
        others = others + rng.binomial(k * (n - truth), 1 - q)
        others = others + rng.binomial(k * ((d - 1) * truth + (d - 2) * (n - truth)), q)
        values = (sent - (sent + others) / d) / gain + n / d
    else:
        values = (sent - base) / gain
    variance = noise.variance + noise.growth * np.clip(values, 0, n)
    found = hb.LabelView(
        labels=tuple(map(str, range(times))),
        values=values,
        stderr=np.sqrt(variance),
        n=n,
        one_choice=False,
        unbiased=values,
        noise=noise,
    )
    return found, truth


def lower_bound(held: NDArray[np.bool_]) -> float:
    """Return the 99.9 % lower confidence bound of a coverage."""
    return float(clopper_pearson(int(held.sum()), held.size, 0.001)[0])


def rate_within(found: NDArray[np.bool_], rate: float, tolerance: float) -> bool:
    """Return True if an observed rate is within a tolerance, and four standard errors, of the given one."""
    slack = 4 * math.sqrt(rate * (1 - rate) / found.size)
    return abs(float(found.mean()) - rate) <= tolerance + slack
