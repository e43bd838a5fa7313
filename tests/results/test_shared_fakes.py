"""Labels that share one draw of the number of users' fakes: every one of them is covered and tested as promised.

Fakes that set many bits move all labels of a collection together if nobody sees how many there are. A few simulated
collections say little about the rate of an error then, however many labels they have; these rates are exact sums.
"""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.detection import outcome, plus, spread
from scipy.stats import binom, poisson

import hubbub as hb

_ANY = hb.plan_from(hb.Schema.bits(1), 1, hb.Protocol(0.25), delta=1e-6)
N = 2000
PROTOCOLS = {
    "few hidden fakes": hb.Protocol(0.001, m=hb.Fakes.poisson(0.004), release="bits"),
    "hidden fakes": hb.Protocol(0.001, m=hb.Fakes.poisson(0.1), release="bits"),
    "many hidden fakes": hb.Protocol(0.01, m=hb.Fakes.poisson(1.0), release="bits"),
    "known fakes": hb.Protocol(0.0, m=hb.Fakes.poisson(0.1)),
}
FAKES = {"known fakes": 190}
"""A number of fakes that the messages reveal, somewhat below the expected one."""


def plan_of(name: str) -> hb.Plan:
    return replace(_ANY, schema=hb.Schema.bits(8), protocol=PROTOCOLS[name])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_label_is_covered(name: str) -> None:
    for held in (0, 1, 5, 40, 1000, 1990, 2000):
        assert outcome(plan_of(name), N, held, FAKES.get(name, 0), simultaneous=False)[1] <= 0.052, held


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("share", [0.0, 0.002, 0.05, 0.5])
def test_false_positives_of_every_label_are_as_rare_as_promised(name: str, share: float) -> None:
    plan = plan_of(name)
    q, users = plan.protocol.q, plan.protocol.user_fakes
    assert users is not None
    fakes = FAKES.get(name, 0)
    shown = poisson(N * users.scale / 2) if plan.protocol.sends_bits else binom(fakes, 0.5)
    low, pmf = plus(spread(binom(N, q + (1 - 2 * q) * share)), spread(shown))
    kept = pmf > 1e-9
    sent, chance = (low + np.arange(pmf.size))[kept], pmf[kept]
    if sent.size > 150:  # of many numbers of messages some are tried, each for all up to the next
        step = -(-sent.size // 150)
        starts = np.arange(0, sent.size, step)
        sent, chance = sent[np.minimum(starts + step // 2, sent.size - 1)], np.add.reduceat(chance, starts)
    counts = np.zeros(8, np.int64)
    counts.setflags(write=False)
    tally = hb.Tally(
        plan=plan.id, n=N, fakes=0, messages=N + fakes if fakes else 0, batches=1, smallest_batch=N, counts=counts
    )
    empty = hb.estimate(tally, plan).question
    values = empty.values[0] + sent / empty.noise.gain
    x, y = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(values, values, indexing="ij"))
    errors = np.full(x.size, empty.stderr[0])
    names = tuple(map(str, range(x.size)))
    a, b = (
        hb.LabelView(labels=names, values=each, stderr=errors, n=N, one_choice=False, unbiased=each, noise=empty.noise)
        for each in (x, y)
    )
    found = hb.compare(a, b, correction="none")
    rate = float(np.multiply.outer(chance, chance).ravel() @ found.significant)
    assert rate <= 0.055
