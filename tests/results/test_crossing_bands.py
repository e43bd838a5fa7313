"""Quantiles of tiny collections, where noise exceeds the counts and the ends of a band may cross."""

import numpy as np

import hubbub as hb


def test_quantiles_have_ordered_intervals_whatever_the_noise() -> None:
    schema = hb.Schema.survey({"load": hb.Scale(0, 8, buckets=4), "dark mode": hb.Flag()})
    plan = hb.plan_from(schema, 3, hb.Protocol.survey([hb.Noise(m=hb.Fakes.laplace(9.0, 120))] * 2), epsilon=9.0)
    generator = np.random.default_rng(1)
    falling = 0
    for _ in range(200):
        counts = generator.integers(60, 180, schema.width)
        counts.setflags(write=False)
        tally = hb.Tally(
            plan=plan.id, n=3, fakes=0, messages=int(counts.sum()), batches=1, smallest_batch=3, counts=counts
        )
        found = hb.estimate(tally, plan)["load"]
        assert isinstance(found, hb.ScaleView)
        low, high = found.band(0.6827)
        assert (low <= high).all()
        falling += bool((np.diff(found.cdf()[1]) < 0).any())
        for p in (0.0, 0.05, 0.5, 0.95, 1.0):
            first, last = found.quantile(p).interval()
            assert 0 <= first <= last <= 8
            assert found.quantile(p).stderr >= 0
    assert falling > 100, "the noise must exceed the counts"
