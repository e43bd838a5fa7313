"""From a tally to figures: ``estimate`` for every plan, ``joint`` tables of labels, the guarantee that was achieved."""

import functools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant import account
from hubbub.accountant.overflow import with_overflow
from hubbub.errors import check_type, check_whole, reject
from hubbub.mechanisms.chances import drawn_by
from hubbub.mechanisms.noise import count_noise, fake_noise, known_total
from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.model.schema import choose_labels
from hubbub.numeric.estimation import category_estimate, category_variance, count_among_fakes, counts_of_total
from hubbub.pipeline.reports import Source, Tally, check_plan, parts
from hubbub.pipeline.tally import check_tally, visit_blocks
from hubbub.results.answers import answer_counts
from hubbub.results.joint import Joint, fake_patterns
from hubbub.results.labels import LabelView
from hubbub.results.result import Counts, Result, counted_as
from hubbub.results.strings import StringView

_ROWS = 1 << 20
"""Messages that are counted at a time, which bounds the memory."""
_LABELS = 20
"""Largest number of labels of a joint table; memory and standard errors grow exponentially with it."""


def estimate(tally: Tally, plan: Plan) -> Result:
    """Estimate the answers to all questions of a plan, without bias, with standard errors and intervals.

    The number of people is known, and the attributes of a question, and tables that count the same people, are combined
    by least squares. Raises if the declared people and fakes cannot have sent these messages.

    >>> from hubbub import Collection, Fakes, Protocol, Schema, plan_from, randomize, shuffle
    >>> from hubbub import tally as count
    >>> plan = plan_from(Schema.strings(16), 90, Protocol(0, m=Fakes.laplace(0.5, 9), release="strings"), epsilon=4.0)
    >>> people = Collection.from_values(["oops"] * 60 + ["ouch"] * 29 + ["secret"], plan.schema)
    >>> result = estimate(count(shuffle(randomize(people, plan))), plan)
    >>> for name, true in {"oops": 60, "ouch": 29}.items():
    ...     low, high = result[name].interval()
    ...     print(name, low <= true <= high or "unlucky")
    oops ...
    ouch ...
    """
    user_fakes = check_tally(tally, plan)
    kind = counted_as(plan.schema)
    counts: tuple[Counts, ...]
    if kind is StringView:
        counts = (_strings(tally, plan),)
    elif kind is LabelView:
        counts = (_labels(tally, plan, user_fakes),)
    else:
        counts = tuple(answer_counts(tally, plan))
    achieved = functools.partial(_achieved, plan, tally)
    return Result(schema=plan.schema, n=tally.n, counts=counts, plan=plan.id, achieved=achieved)


def _labels(tally: Tally, plan: Plan, user_fakes: int | None) -> LabelView:
    """Return the number of people with each label, with exact standard errors.

    T̂ = (S − qkN − μ)/(k(p − q)), σ² = (kNpq + V)/(k(p − q))², μ and V from the fakes
    (:func:`hubbub.mechanisms.noise.fake_noise`). If everyone has exactly one label, the counts add up to n, which makes
    σ smaller by √(1 − 1/d) (:func:`hubbub.numeric.estimation.counts_of_total`); for categories, which do so anyway,
    :func:`hubbub.numeric.estimation.category_variance` at the estimated counts, on which it depends.
    """
    schema, protocol = plan.schema, plan.protocol
    if protocol.sends_category:
        values = category_estimate(tally.counts, tally.n, protocol.q, schema.width)
        stderr = np.sqrt(category_variance(np.clip(values, 0, tally.n), tally.n, protocol.q, schema.width))
        error = count_noise(schema, protocol, tally.n)
    else:
        noise = fake_noise(schema, protocol, tally.n, tally.fakes, batches=tally.batches, user_fakes=user_fakes)
        error = count_noise(schema, protocol, tally.n, noise)
        if known_total(schema, protocol):
            values = counts_of_total(tally.counts, tally.n, protocol.k * (1 - 2 * protocol.q))
        else:
            values, _ = count_among_fakes(
                tally.counts, tally.n, protocol.q, k=protocol.k, mean=noise.mean, variance=noise.variance
            )
        stderr = np.full(schema.width, math.sqrt(error.variance))
    for array in (values, stderr):
        array.setflags(write=False)
    return LabelView(
        labels=schema.labels,
        values=values,
        stderr=stderr,
        n=tally.n,
        one_choice=schema.exclusive,
        unbiased=values,
        noise=error,
    )


def _strings(tally: Tally, plan: Plan) -> StringView:
    """Return the number of people who hold each string that is shown: R + E[Z], with the standard error of Z."""
    texts, drawn = plan.schema.text, drawn_by(plan)
    assert texts is not None and tally.strings is not None
    pairs = zip(tally.strings, tally.counts.tolist(), strict=True)
    rows = sorted((-number, *decoded) for body, number in pairs if (decoded := texts.decode(body)))
    numbers = np.array([-row[0] for row in rows], np.int64)
    numbers.setflags(write=False)
    strings, cut = tuple(row[1] for row in rows), tuple(row[2] for row in rows)
    return StringView(n=tally.n, strings=strings, cut=cut, numbers=numbers, fakes=drawn)


def achieved_guarantee(tally: Tally, plan: Plan) -> Guarantee:
    """Return the guarantee of the batches that arrived, which may be larger or smaller than planned.

    It holds for everybody who was counted, and is solved for the parameter that the plan solved for. That is the
    guarantee of the smallest shuffled batch, with the fewest fakes that arrived in one; a batch of the planned size has
    the planned guarantee. Where somebody's messages were not shuffled, only the randomization of the own device
    protects them, and no more is stated for anybody: see :attr:`Guarantee.unshuffled`.
    With ``honest_fraction`` < 1 at most ⌊m/n⌋ fakes of each person count, because compromised users may declare more.
    A batch that a service opened counts as the certified number of people with their fakes, and pays for the messages
    that did not fit into the slots of a client.
    """
    check_tally(tally, plan)
    return _achieved(plan, tally)


def _achieved(plan: Plan, tally: Tally) -> Guarantee:
    people, fakes = tally.smallest_batch, tally.fewest_fakes or 0
    if tally.unshuffled:  # of the own messages alone, neither other people nor their fakes matter
        people, fakes = tally.n, plan.protocol.fixed_fakes
    found = _accounted(plan, people, fakes, shuffled=not tally.unshuffled)
    found = with_overflow(found, plan, tally.slots) if tally.slots else found
    return replace(found, unshuffled=tally.unshuffled) if plan.guarantee.assumptions.shuffler else found


def _accounted(plan: Plan, people: int, fakes: int, *, shuffled: bool) -> Guarantee:
    claim, protocol = plan.guarantee, plan.protocol
    trust = claim.assumptions.trust if shuffled else "nobody"
    if protocol.fixed_fakes and shuffled:
        if plan.honest_fraction < 1 and (people != plan.n or fakes != protocol.fixed_fakes):
            fakes = min(fakes, people * (protocol.fixed_fakes // plan.n))
        if protocol.clear and fakes == 0:  # nothing hides a record, and no protocol says so
            fakes, trust = protocol.fixed_fakes, "nobody"
        protocol = protocol.changed(m=fakes)
    if people == plan.n and protocol == plan.protocol and trust == claim.assumptions.trust:
        return claim
    return account(
        protocol,
        plan.schema,
        check_whole("the number of people", people, 1),
        epsilon=None if claim.solved == "epsilon" else claim.epsilon,
        delta=claim.delta if claim.solved == "epsilon" else None,
        honest_fraction=plan.honest_fraction,
        trust=trust,
    )


def joint(reports: Source, plan: Plan, labels: Iterable[str]) -> Joint:
    """Estimate the number of people with each combination of the given labels, without bias, with standard errors.

    ĥ = (P_L⁻¹ s − fakes)/k for the histogram s of the messages over the L labels, by the inverse transform [000 §3].
    Needs a plan that releases whole records, as single bits and categories reveal no combinations. Several batches
    are added.
    """
    check_type("plan", plan, Plan)
    if not plan.protocol.sends_records:
        reject("the plan", "release whole records for a joint table", plan.protocol.release)
    chosen = choose_labels(labels, plan.schema.labels, "the schema")
    check_whole("the number of labels", len(chosen), 1, _LABELS)
    bits = [plan.schema.labels.index(label) for label in chosen]
    counts = np.zeros(1 << len(bits), np.int64)

    def add(block: NDArray[Any]) -> None:
        for start in range(0, len(block), _ROWS):
            np.add(counts, np.bincount(_select(block[start : start + _ROWS], bits), minlength=counts.size), counts)

    total: Tally | None = None
    for part in parts(reports):
        check_plan(plan.id, part.header.plan, "reports and plan")
        one = visit_blocks(part, add)
        total = one if total is None else total + one
    if total is None:
        reject("reports", "contain at least one batch")
    user_fakes = check_tally(total, plan)
    schema, drawn = plan.schema, plan.protocol.shuffler_fakes
    patterns = fake_patterns(schema, len(bits))
    if drawn:
        fakes = patterns * schema.size * total.batches * drawn.mean
    else:
        fakes = patterns * (total.fakes if user_fakes is None else user_fakes)
    return Joint(
        labels=chosen,
        counts=counts,
        n=total.n,
        q=plan.protocol.q,
        k=plan.protocol.k,
        fakes=fakes,
        spread=drawn.variance / drawn.mean if drawn else None,
    )


def _select(records: NDArray[np.uint8], bits: list[int]) -> NDArray[np.int64]:
    value = np.zeros(len(records), np.int64)
    for place, bit in enumerate(bits):
        value |= (records[:, bit >> 3] >> (bit & 7) & 1).astype(np.int64) << place
    return value
