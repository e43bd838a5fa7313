"""End to end through real processes: the confidence intervals have their stated coverage for every protocol."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.service.admissions import new_ticket
from tests.service.live import LiveSystem, wait_until

from hubbub.bits.entropy import system
from hubbub.bits.exact import Buffered
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline import device
from hubbub.planner import plan_from
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract

N = 400
ENTROPY = Buffered(system)
NUMBERS = itertools.count()


def points() -> dict[str, Plan]:
    """Return a plan for every kind of protocol, with many labels and a few hundred users."""
    wide, few, free = Schema.one_hot(60), Schema.at_most(3, 40), Schema.bits(30)
    protocols = {
        "flip": (wide, Protocol(0.1)),
        "flip, few of many": (few, Protocol(0.2)),
        "flip, free bits": (free, Protocol(0.4)),
        "copies": (wide, Protocol(0.15, k=3)),
        "split": (wide, Protocol(0.05, release="bits")),
        "split, free bits": (free, Protocol(0.2, release="bits")),
        "fakes in total": (wide, Protocol(0.05, m=2 * N)),
        "users' fakes": (wide, Protocol(0.05, m=Fakes.binomial(4, 0.5))),
        "Poisson fakes, split": (wide, Protocol(0.02, m=Fakes.poisson(1.0), release="bits")),
        "shuffler's fakes": (wide, Protocol(0, m=Fakes.laplace(4.0, shift=80))),
        "shuffler's fakes, Gaussian": (wide, Protocol(0, m=Fakes.gaussian(8.0, shift=80), release="bits")),
        "category": (wide, Protocol(0.01, release="category")),
    }
    return {name: plan_from(schema, N, protocol, epsilon=3.0) for name, (schema, protocol) in protocols.items()}


def collect(live: LiveSystem, contract: Contract, records: list[int]) -> dict[str, Any]:
    """Upload everyone's answer, wait for the batch, and return its result."""
    inner, outer = live.keys(contract)
    keys = [sealing.load_public(1, key.public) for key in (inner, outer)]
    layout, bundles = contract.layout, []
    for record in records:
        messages: list[bytes | None] = [*device.record_payloads(record, contract.plan, entropy=ENTROPY)]
        messages = [*messages, *[None] * layout.slots][: layout.slots]
        slots = [sealing.seal_slot(message, layout, inner.id, keys[0]) for message in messages]
        bundles.append(sealing.seal_bundle(slots, layout, outer.id, keys[1], new_ticket(layout.task)))
    for start in range(0, len(bundles), 100):
        assert live.post(b"".join(bundles[start : start + 100]), contract).status_code == 201
    wait_until(lambda: bool(live.results(contract)), "the batch")
    return live.results(contract)[0]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    with LiveSystem(tmp_path_factory.mktemp("live"), plan=points()["flip"], min_batch_size=N).running() as running:
        yield running


def covered(live: LiveSystem, plan: Plan, generator: np.random.Generator) -> tuple[int, int]:
    """Return how many labels of a collection have their true count in the 95 % interval, and the number of labels."""
    schema = plan.schema
    weights = 1 / np.arange(1, schema.width + 1)
    if schema.exclusive:
        chosen = [[int(i)] for i in generator.choice(schema.width, N, p=weights / weights.sum())]
    else:
        sizes = generator.integers(0, schema.max_set + 1, N)
        chosen = [generator.permutation(schema.width)[:size].tolist() for size in sizes]
    contract = live.agree(plan, epoch=1, min_batch_size=N, days=1 + next(NUMBERS))
    result = collect(live, contract, [sum(1 << i for i in one) for one in chosen])
    assert (result["state"], result["people"], result["rejected"]) == ("committed", N, {})
    truth = np.bincount(np.concatenate([np.array(one, int) for one in chosen]), minlength=schema.width)
    low, high = np.array(result["table"]["low"]), np.array(result["table"]["high"])
    return int(((low <= truth) & (truth <= high)).sum()), schema.width


@pytest.mark.long
@pytest.mark.parametrize("name", ["flip", "split", "shuffler's fakes"])
def test_intervals_of_a_collection(live: LiveSystem, name: str) -> None:
    inside, labels = covered(live, points()[name], np.random.default_rng(7))
    assert inside >= 0.8 * labels


@pytest.mark.slow
def test_intervals_have_their_stated_coverage(live: LiveSystem) -> None:
    generator = np.random.default_rng(8)
    shares = {}
    for name, plan in points().items():
        found = [covered(live, plan, generator) for _ in range(8)]
        shares[name] = sum(inside for inside, _ in found), sum(labels for _, labels in found)
    inside, labels = (sum(column) for column in zip(*shares.values(), strict=True))
    assert labels > 4000
    assert 0.93 <= inside / labels <= 0.97, shares
    # A plan has a few hundred labels, and the counts of one-hot records are dependent.
    assert all(inside / labels > 0.90 for inside, labels in shares.values()), shares
