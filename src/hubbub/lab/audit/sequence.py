"""Tests on records of mixed values: state that a client carries from one record to the next, and the order it writes.

A run on equal records does not show what earlier records do to later ones. Here all test values are mixed in random
order. The counts of the whole run are known whatever the order of the messages; if the messages come in the order of
the records, their flips must also be independent of the record before.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, draw, system
from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.independence import columns
from hubbub.lab.audit.model import MessageModel, Probe, unpack
from hubbub.lab.audit.probes import check_reports, number_of_fakes
from hubbub.lab.audit.statistics import Finding, bennett_p, finding, hypergeometric_p, worst
from hubbub.model.plans import Plan
from hubbub.pipeline.records import Collection

COUNTS_NAME, BEFORE_NAME = "counts of mixed values", "flips after another record"
Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """The messages of one run on records of mixed values."""

    records: NDArray[np.uint8]  # a row of bits per record
    counts: NDArray[np.int64]
    messages: NDArray[Any]
    fakes: int


def send_mixed(client: Client, plan: Plan, probes: list[Probe], n: int, *, entropy: Entropy = system) -> Mixed:
    """Send n records, drawn from the probes, in one run; raises WireError on illegal reports."""
    chosen = (draw(entropy, n) % np.uint64(len(probes))).astype(np.int64)
    records = np.array([probe.bits(plan.schema.width) for probe in probes])[chosen]
    reports = client(Collection.from_values(records, plan.schema), plan)
    check_reports(reports, plan, n)
    model = MessageModel(plan)
    return Mixed(records, model.counts(reports.messages), reports.messages, number_of_fakes(reports, n))


def examine(mixed: Mixed, plan: Plan) -> tuple[list[Finding], bool | None]:
    """Return the tests of a mixed run, and if its messages are in the order of the records (None if unknown)."""
    model = MessageModel(plan)
    found = [_counts(mixed, model)]
    if not model.linked or model.has_user_fakes or plan.protocol.clear:
        return found, None
    chosen = columns(plan.schema.width)
    truth = mixed.records[:, chosen].astype(np.bool_)
    shown = _shown(mixed.messages, chosen, model)
    aligned = [rows ^ truth for rows in _layouts(shown, len(truth), plan.protocol.k)]
    in_order = _in_order(aligned, truth, model)
    if in_order is None or not in_order[1]:
        return found, None if in_order is None else False
    return [*found, _after(aligned[in_order[0]], truth, [model.bit_name(j) for j in chosen])], True


def _counts(mixed: Mixed, model: MessageModel) -> Finding:
    """Test how often each bit is shown: a sum of independent terms of known mean and variance."""
    n, k = len(mixed.records), model.plan.protocol.k
    ones = mixed.records.sum(axis=0, dtype=np.float64)
    lit, dark = 1 - model.flip(was_set=True), model.flip(was_set=False)
    gained, _, _ = model.moments(n, mixed.fakes)
    noise = model.moments(n, mixed.fakes)[1] - k * n * model.plan.protocol.q * (1 - model.plan.protocol.q)
    mean = k * (ones * lit + (n - ones) * dark) + gained
    variance = k * (ones * lit * (1 - lit) + (n - ones) * dark * (1 - dark)) + noise
    (j,), p = worst(bennett_p(mixed.counts - mean, variance))
    return finding("client", COUNTS_NAME, model.bit_name(j), mixed.counts[j] / (k * n), mean[j] / (k * n), p)


def _shown(messages: NDArray[Any], chosen: list[int], model: MessageModel) -> Bits:
    if model.plan.protocol.sends_category:
        return np.asarray(messages[:, None] == np.array(chosen)[None, :])
    return unpack(messages, chosen)


def _layouts(shown: Bits, n: int, k: int) -> list[Bits]:
    """Return the first copies if copies follow each other, and if all first copies come before all second ones."""
    return [shown[:n], shown[::k]] if k > 1 else [shown]


def _in_order(aligned: list[Bits], truth: Bits, model: MessageModel) -> tuple[int, bool] | None:
    """Return the layout that agrees best with the records, and if it is in order; None if noise hides the order.

    Messages are in order if they differ from the records in clearly fewer bits than messages in random order would.
    """
    share, (n, width) = truth.mean(axis=0), truth.shape
    lit, dark = 1 - model.flip(was_set=True), model.flip(was_set=False)
    margin = 8 * width * math.sqrt(0.25 / n)  # eight standard deviations, even if all bits are flipped together
    planned, shown = float((share * (1 - lit) + (1 - share) * dark).sum()), share * lit + (1 - share) * dark
    if _disagreement(share, shown) - planned < 2 * margin:
        return None
    wrong = [float(rows.mean(axis=0).sum()) for rows in aligned]
    best = int(np.argmin(wrong))
    shown = (aligned[best] ^ truth).mean(axis=0)
    return best, wrong[best] < _disagreement(share, shown) - margin


def _disagreement(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the expected number of bits in which independent records with these frequencies differ."""
    return float((one * (1 - two) + (1 - one) * two).sum())


def _after(flips: Bits, truth: Bits, names: list[str]) -> Finding:
    """Test if a bit is flipped more often after a record in which it is set, for unset and for set bits."""
    p, shares = [], []
    before, now, flipped = truth[:-1], truth[1:], flips[1:]
    for lit in (False, True):
        here = now == lit
        total, first, second = here.sum(axis=0), (here & before).sum(axis=0), (here & flipped).sum(axis=0)
        both = (here & before & flipped).sum(axis=0)
        p.append(hypergeometric_p(both[None], first[None], second[None], total[None]))
        shares.append((both / np.maximum(first, 1), (second - both) / np.maximum(total - first, 1)))
    (state, j), smallest = worst(np.array(p))
    where = f"{names[j]}, {('unset', 'set')[state]}, after a record in which it is set"
    return finding("client", BEFORE_NAME, where, shares[state][0][j], shares[state][1][j], smallest)
