"""What the server does: ``tally`` counts, ``estimate`` removes the noise, ``joint`` does it for whole tables."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant import account
from hubbub.bits.counting import bit_counts
from hubbub.errors import check_whole, reject
from hubbub.estimates import Estimate, fake_noise, smooth
from hubbub.numeric.estimation import category_estimate, category_variance, count_among_fakes
from hubbub.plans import Plan
from hubbub.privacy import Guarantee
from hubbub.protocol import Fakes
from hubbub.reports import Reports, Tally, check_plan
from hubbub.tables import Joint, fake_patterns

_ROWS = 1 << 20
_LABELS = 20
"""Labels of one joint table; more would need hours of data as well as memory."""


def tally(reports: Reports) -> Tally:
    """Count how often each bit, or category, is set; tallies of parts add up to that of the whole.

    >>> from hubbub.records import Collection
    >>> from hubbub.client import randomize
    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(2**-40), delta=1e-6)
    >>> tally(randomize(Collection.from_values(["red", "red"], own.schema), own)).counts.tolist()
    [2, 0]
    """
    if not isinstance(reports, Reports):
        reject("reports", "be Reports", type(reports).__name__)
    width, messages = reports.plan.schema.width, reports.messages
    if reports.plan.protocol.sends_records:
        counts = bit_counts(messages, width)
    else:
        counts = np.zeros(width, np.int64)
        for start in range(0, len(messages), _ROWS):
            counts += np.bincount(messages[start : start + _ROWS], minlength=width)
    counts.setflags(write=False)
    return Tally(
        plan=reports.plan.id,
        n=reports.n,
        fakes=reports.fakes,
        messages=len(messages),
        # Of a batch in several blocks only the first declares the people.
        batches=int(reports.batch > 0 and reports.n > 0),
        smallest_batch=reports.batch,
        counts=counts,
    )


def estimate(tally: Tally, plan: Plan) -> Estimate:
    """How many people have each label, unbiased, with exact standard errors.

    T̂ = (S − qkN − μ)/(k(p − q)), σ² = (kNpq + V)/(k(p − q))², μ and V from the fakes
    (:func:`hubbub.estimates.fake_noise`); for categories :func:`hubbub.numeric.estimation.category_variance` at the
    estimated counts, as it depends on them. Raises where counts cannot be those of the people and fakes declared.
    """
    seen = _check_tally(tally, plan)
    schema, protocol = plan.schema, plan.protocol
    distribution, centre, gain = None, 0.0, protocol.k * (1 - 2 * protocol.q)
    if protocol.sends_category:
        gain = 1 - schema.width * protocol.q
        values = category_estimate(tally.counts, tally.n, protocol.q, schema.width)
        stderr = np.sqrt(category_variance(np.clip(values, 0, tally.n), tally.n, protocol.q, schema.width))
    else:
        noise = fake_noise(schema, protocol, tally.n, tally.fakes, batches=tally.batches, seen=seen)
        values, sigma = count_among_fakes(
            tally.counts, tally.n, protocol.q, k=protocol.k, mean=noise.mean, variance=noise.variance
        )
        stderr = np.full(schema.width, sigma)
        if noise.distribution is not None:
            distribution = smooth(noise.distribution, noise.rest + protocol.k * tally.n * protocol.q * (1 - protocol.q))
            centre = float(np.arange(noise.distribution.low, noise.distribution.high + 1) @ noise.distribution.pmf)
    for array in (values, stderr):
        array.setflags(write=False)
    return Estimate(
        labels=schema.labels,
        values=values,
        stderr=stderr,
        n=tally.n,
        one_choice=schema.exclusive,
        unbiased=values,
        distribution=distribution,
        centre=centre,
        gain=gain,
    )


def achieved_guarantee(tally: Tally, plan: Plan) -> Guarantee:
    """The guarantee of the batch that arrived, which may be larger or smaller than planned.

    An account at the number of people of the smallest shuffled batch, or of all if none was shuffled, and at the number
    of fakes that it had; solved for what the plan solved for. A batch at the planned size has the planned guarantee.
    """
    _check_tally(tally, plan)
    claim, protocol = plan.guarantee, plan.protocol
    people = tally.smallest_batch or tally.n
    if isinstance(protocol.m, int) and tally.batches <= 1:
        protocol = replace(protocol, m=tally.fakes)
    if people == plan.n and protocol == plan.protocol:
        return claim
    return account(
        protocol,
        plan.schema,
        check_whole("the number of people", people, 1),
        epsilon=None if claim.solved == "epsilon" else claim.epsilon,
        delta=claim.delta if claim.solved == "epsilon" else None,
        honest_fraction=plan.honest_fraction,
        shuffler=claim.assumptions.shuffler,
    )


def joint(reports: Reports | Iterable[Reports], plan: Plan, labels: Iterable[str]) -> Joint:
    """How many people have each combination of the given labels, unbiased, with standard errors.

    ĥ = (P_L⁻¹ s − fakes)/k for the histogram s of the messages over the L labels, by the inverse transform [000 §3].
    Needs whole records; split bits and categories show no combinations. Takes a batch or the blocks of one.
    """
    if not isinstance(plan, Plan):
        reject("plan", "be a Plan", type(plan).__name__)
    if not plan.protocol.sends_records:
        reject("the plan", "release whole records for a joint table", plan.protocol.release)
    chosen = tuple(labels) if not isinstance(labels, str) else (labels,)
    if not set(chosen) <= set(plan.schema.labels) or len(set(chosen)) != len(chosen):
        reject("labels", "be distinct labels of the schema", "others")
    check_whole("the number of labels", len(chosen), 1, _LABELS)
    bits = [plan.schema.labels.index(label) for label in chosen]
    counts = np.zeros(1 << len(bits), np.int64)
    total: Tally | None = None
    for part in [reports] if isinstance(reports, Reports) else reports:
        check_plan(plan.id, part.plan.id)
        one = tally(part)
        total = one if total is None else total + one
        for start in range(0, len(part), _ROWS):
            counts += np.bincount(_select(part.messages[start : start + _ROWS], bits), minlength=counts.size)
    if total is None:
        reject("reports", "hold at least one block", "none")
    seen = _check_tally(total, plan)
    m, schema = plan.protocol.m, plan.schema
    patterns = fake_patterns(schema, len(bits))
    drawn = isinstance(m, Fakes) and m.by == "shuffler"
    if isinstance(m, Fakes) and drawn:
        fakes = patterns * schema.size * total.batches * m.mean
    else:
        fakes = patterns * (total.fakes if seen is None else seen)
    return Joint(
        labels=chosen,
        counts=counts,
        n=total.n,
        q=plan.protocol.q,
        k=plan.protocol.k,
        fakes=fakes,
        spread=m.variance / m.mean if isinstance(m, Fakes) and drawn else None,
    )


def _select(records: NDArray[np.uint8], bits: list[int]) -> NDArray[np.int64]:
    value = np.zeros(len(records), np.int64)
    for place, bit in enumerate(bits):
        value |= (records[:, bit >> 3] >> (bit & 7) & 1).astype(np.int64) << place
    return value


def _check_tally(tally: Tally, plan: Plan) -> int | None:
    """How many fakes users must have drawn, where messages show it; raises on what no batch of the plan can show."""
    if not isinstance(tally, Tally):
        reject("tally", "be a Tally", type(tally).__name__)
    if not isinstance(plan, Plan):
        reject("plan", "be a Plan", type(plan).__name__)
    check_plan(plan.id, tally.plan)
    protocol, m = plan.protocol, plan.protocol.m
    own = protocol.k * tally.n
    if isinstance(m, Fakes) and m.by == "shuffler":
        if not tally.batches:
            reject("the tally", "be of shuffled reports, as the shuffler adds the fakes", "others")
        return None
    if protocol.sends_bits:
        return None
    if isinstance(m, Fakes):
        if tally.messages < own:
            reject("the tally", f"have at least {own} messages of {tally.n} people", tally.messages)
        return tally.messages - own
    if tally.messages != own + tally.fakes:
        reject("the tally", f"have {own + tally.fakes} messages of {tally.n} people with their fakes", tally.messages)
    return None
