"""The messages of a survey have their stated distribution, from devices and from collections alike."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.pipeline import device
from hubbub.pipeline.shuffle import draw_fakes

pytestmark = pytest.mark.pipeline

SCHEMA = hb.Schema.survey(
    {"colour": hb.Choice(["red", "green", "blue"]), "dark": hb.Flag(), "load": hb.Choice(list("abcd"))}
)
ANSWERS = {"colour": "green", "dark": True, "load": "a"}
TRUE = [1, 4, 5]
START, SIZE = np.array([0, 3, 5]), np.array([3, 2, 4])
OWNER = np.repeat(np.arange(3), SIZE)
RATES = np.array([0.3, 1.5, 0.05])
FLIPS = np.array([0.1, 0.2, 0.03])
HIGH = np.array([0.3, 0.45, 0.24])


def plan_of(noise: list[hb.Noise], release: Any = "bits") -> hb.Plan:
    return hb.plan_from(SCHEMA, 10, hb.Protocol.survey(noise, release), epsilon=50.0)


def expected(name: str) -> Any:
    """Return the expected messages of one person in each category."""
    own = np.zeros(9)
    own[TRUE] = 1
    if name == "poisson":
        return own + (RATES / SIZE)[OWNER]
    if name == "binomial":
        return own + (4 * RATES / 4 / SIZE)[OWNER]
    q = (HIGH if name == "many changes" else FLIPS)[OWNER]
    if name == "split":
        return own * (1 - 2 * q) + q
    return np.where(own == 1, 1 - (SIZE[OWNER] - 1) * q, q)


PLANS = {
    "poisson": plan_of([hb.Noise(m=hb.Fakes.poisson(rate)) for rate in RATES]),
    "binomial": plan_of([hb.Noise(m=hb.Fakes.binomial(4, rate / 4)) for rate in RATES]),
    "split": plan_of([hb.Noise(q) for q in FLIPS]),
    "response": plan_of([hb.Noise(q) for q in FLIPS], "category"),
    "many changes": plan_of([hb.Noise(q) for q in HIGH], "category"),
}


def from_collection(plan: hb.Plan, people: int) -> NDArray[np.int64]:
    collection = hb.Collection.from_values([ANSWERS] * people, SCHEMA)
    return hb.tally(hb.randomize(collection, plan, entropy=SeededStreamNotForPeople(3))).counts


def from_devices(plan: hb.Plan, people: int) -> NDArray[np.int64]:
    entropy, found = SeededStreamNotForPeople(4), Counter[int]()
    for _ in range(people):
        found.update(payload[0] for payload in device.payloads(ANSWERS, plan, entropy=entropy))
    return np.array([found[i] for i in range(9)])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("source", "people"), [(from_collection, 100_000), (from_devices, 5_000)])
def test_messages_have_their_distribution(
    name: str, source: Callable[[hb.Plan, int], NDArray[np.int64]], people: int
) -> None:
    plan = PLANS[name]
    counts, mean = source(plan, people), people * expected(name)
    # No count is the sum of more than independent messages: its variance is at most its mean.
    assert (np.abs(counts - mean) < 5 * np.sqrt(mean) + 1).all(), (counts, mean)
    if plan.protocol.sends_category:
        assert [counts[j == OWNER].sum() for j in range(3)] == [people] * 3


def test_the_order_of_a_device_is_uniform() -> None:
    plan = plan_of([hb.Noise(m=hb.Fakes.laplace(0.3, 12))] * 3)
    entropy, draws = SeededStreamNotForPeople(5), 6000
    found = Counter(tuple(device.payloads(ANSWERS, plan, entropy=entropy)) for _ in range(draws))
    assert len(found) == 6
    assert sum((count - draws / 6) ** 2 for count in found.values()) / (draws / 6) < 31  # χ² of 5, 10⁻⁵


def test_the_order_of_many_messages_is_uniform() -> None:
    """More messages than fit into one random number: every message is as often first as any other."""
    messages, entropy, first = 40, SeededStreamNotForPeople(6), Counter[int]()
    for _ in range(4000):
        order = list(range(messages))
        device._permute(order, entropy)
        assert sorted(order) == list(range(messages))
        first[order[0]] += 1
    assert sum((first[i] - 100) ** 2 for i in range(messages)) / 100 < 88  # χ² of 39, 10⁻⁵


def test_the_shuffler_draws_from_the_distribution_of_each_attribute() -> None:
    scales = [0.5, 3.0, 8.0]
    plan = plan_of([hb.Noise(m=hb.Fakes.gaussian(scale, int(20 * scale))) for scale in scales])
    entropy = SeededStreamNotForPeople(8)
    drawn = np.array([np.bincount(draw_fakes(plan, entropy=entropy), minlength=9) for _ in range(400)])
    for j, scale in enumerate(scales):
        part = drawn[:, j == OWNER]
        assert abs(part.mean() - int(20 * scale)) < 5 * scale / np.sqrt(part.size) + 1e-9
        assert 0.85 < part.std() / np.sqrt(hb.Fakes.gaussian(scale, int(20 * scale)).variance) < 1.15
