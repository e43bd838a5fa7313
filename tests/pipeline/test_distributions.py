"""Messages have the distribution that theory predicts, for batches and devices; planted faults are detected."""

import math
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.bits.statistics import FALSE_POSITIVE_RATE, pair_p, position_p
from tests.pipeline.points import SCHEMAS, plan_of

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.mechanisms import flip
from hubbub.mechanisms.draws import draw_number
from hubbub.model.questions import Question
from hubbub.pipeline import device
from hubbub.pipeline import randomize as client
from hubbub.pipeline.randomize import fake_collection
from hubbub.pipeline.shuffle import draw_fakes

N = 10_000
Rows = NDArray[np.int64]


def unpack(reports: hb.Reports) -> NDArray[np.uint8]:
    width = reports.plan.schema.width
    return np.unpackbits(reports.messages, axis=1, bitorder="little", count=width)


def chi_square(counts: Rows, weights: NDArray[np.float64]) -> float:
    """Return the p-value of counts, with rare outcomes merged; 0 if an impossible one occurs."""
    expected = weights / weights.sum() * counts.sum()
    frequent = expected > 5
    if not frequent.all():
        counts = np.r_[counts[frequent], counts[~frequent].sum()]
        expected = np.r_[expected[frequent], expected[~frequent].sum()]
    possible = expected > 0
    return float(stats.chisquare(counts[possible], expected[possible]).pvalue) if not counts[~possible].any() else 0.0


def sent_by_batch(kind: str, name: str, record: int, seed: int) -> tuple[NDArray[np.uint8], float]:
    plan = plan_of(kind, name)
    bits = np.array([[record >> i & 1 for i in range(plan.schema.width)]] * N)
    reports = hb.randomize(hb.Collection.from_values(bits, plan.schema), plan, entropy=SeededStreamNotForPeople(seed))
    return unpack(reports)[: N * plan.protocol.k], plan.protocol.q


@pytest.mark.parametrize(("kind", "record"), [("one_hot", 2), ("bits", 5), ("at_most", 0b10010)])
@pytest.mark.parametrize("name", ["flip", "copies"])
def test_flips(kind: str, record: int, name: str) -> None:
    rows, q = sent_by_batch(kind, name, record, 91)
    flips = rows ^ np.array([record >> i & 1 for i in range(rows.shape[1])], np.uint8)
    assert position_p(flips, q) > FALSE_POSITIVE_RATE
    assert pair_p(flips, q) > FALSE_POSITIVE_RATE
    for wrong in (0.9 * q, 1.1 * q):
        assert position_p(flips, wrong) < FALSE_POSITIVE_RATE
    forgotten = flips.copy()
    forgotten[:, -1] = 0
    assert position_p(forgotten, q) < FALSE_POSITIVE_RATE


def split_distribution(kind: str, record: int, q: float) -> NDArray[np.float64]:
    """The distribution of the set of positions that one user sends."""
    width = SCHEMAS[kind].width
    distance = [(x ^ record).bit_count() for x in range(1 << width)]
    return np.array([q**h * (1 - q) ** (width - h) for h in distance])


@pytest.mark.parametrize(("kind", "record"), [("one_hot", 2), ("bits", 5), ("at_most", 0b10010)])
def test_split_bits(kind: str, record: int) -> None:
    """Positions come user after user in rising order for packed and sparse records alike; their counts are binomial."""
    plan = plan_of(kind, "split")
    q, width = plan.protocol.q, plan.schema.width
    bits = np.array([[record >> i & 1 for i in range(width)]] * N)
    sent = hb.randomize(hb.Collection.from_values(bits, plan.schema), plan, entropy=SeededStreamNotForPeople(92))
    counts = np.bincount(sent.messages, minlength=width)
    chance = np.where(bits[0], 1 - q, q)

    def z(rate: NDArray[np.float64]) -> float:
        return float(stats.chi2.sf((((counts - N * rate) ** 2) / (N * rate * (1 - rate))).sum(), width))

    assert z(chance) > FALSE_POSITIVE_RATE
    assert z(np.where(bits[0], 1 - 1.1 * q, 1.1 * q)) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(
    ("kind", "value", "record"), [("one_hot", "blue", 4), ("bits", ["a", "c"], 5), ("at_most", ["w", "z"], 18)]
)
@pytest.mark.parametrize("name", ["flip", "split"])
def test_a_device_has_the_distribution_of_the_batch(kind: str, value: object, record: int, name: str) -> None:
    plan = plan_of(kind, name)
    entropy = SeededStreamNotForPeople(93)
    seen = np.zeros(1 << plan.schema.width, np.int64)
    for _ in range(N):
        sent = device.payloads(value, plan, entropy=entropy)
        numbers = [int.from_bytes(payload, "little") for payload in sent]
        seen[numbers[0] if name == "flip" else sum(1 << i for i in numbers)] += 1
    assert chi_square(seen, split_distribution(kind, record, plan.protocol.q)) > FALSE_POSITIVE_RATE
    assert chi_square(seen, split_distribution(kind, record, 1.1 * plan.protocol.q)) < FALSE_POSITIVE_RATE
    assert chi_square(seen, split_distribution(kind, record ^ 1, plan.protocol.q)) < FALSE_POSITIVE_RATE


def category_distribution(truth: int, q: float) -> NDArray[np.float64]:
    distribution = np.full(4, q)
    distribution[truth] = 1 - 3 * q
    return distribution


def test_categories() -> None:
    plan = plan_of("one_hot", "category")
    people = hb.Collection.from_values(np.full(N, 1), plan.schema)
    entropy = SeededStreamNotForPeople(94)
    batch = np.bincount(hb.randomize(people, plan, entropy=entropy).messages, minlength=4)
    alone = np.bincount([device.payloads("green", plan, entropy=entropy)[0][0] for _ in range(N)], minlength=4)
    for seen in (batch, alone):
        assert chi_square(seen, category_distribution(1, 0.1)) > FALSE_POSITIVE_RATE
        for wrong in (0.09, 0.11):
            assert chi_square(seen, category_distribution(1, wrong)) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("way", ["batch", "device"])
def test_fakes_are_uniform_among_legal_records(kind: str, way: str) -> None:
    schema, entropy = SCHEMAS[kind], SeededStreamNotForPeople(95)
    if way == "batch":
        records = fake_collection(N, schema, entropy=entropy).rows(0, N)[:, 0].astype(np.int64)
    else:
        records = np.array([flip.uniform_record(schema.columns[0], entropy) for _ in range(N)])
    legal = [x for x in range(1 << schema.width) if x.bit_count() <= schema.max_set]
    legal = [x for x in legal if kind != "one_hot" or x.bit_count() == 1]
    distribution = np.zeros(1 << schema.width)
    distribution[legal] = 1
    assert chi_square(np.bincount(records, minlength=distribution.size), distribution) > FALSE_POSITIVE_RATE
    distribution[legal[-1]] = 1.6
    assert chi_square(np.bincount(records, minlength=distribution.size), distribution) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("width", "size"), [(70, 3), (9, 6), (300, 2), (80, 60)])
def test_wide_fakes_are_uniform(width: int, size: int) -> None:
    schema = hb.Schema.at_most(size, width)
    flat, ones = fake_collection(4000, schema, entropy=SeededStreamNotForPeople(96)).ones(0, 4000)
    distribution = np.array([math.comb(width, i) / schema.size for i in range(size + 1)])
    assert chi_square(np.bincount(ones, minlength=size + 1), distribution) > FALSE_POSITIVE_RATE
    assert chi_square(np.bincount(flat, minlength=width), np.ones(width)) > FALSE_POSITIVE_RATE


@pytest.mark.long
@pytest.mark.parametrize("way", ["batch", "device"])
@pytest.mark.parametrize("fakes", [hb.Fakes.binomial(3, 0.3), hb.Fakes.poisson(0.7), hb.Fakes.poisson(2.4)])
def test_numbers_of_fakes(way: str, fakes: hb.Fakes) -> None:
    schema = hb.Schema.bits(1)
    plan = hb.plan_from(schema, 1, hb.Protocol(0.0, m=fakes), epsilon=1.0)
    entropy = SeededStreamNotForPeople(97)
    one = hb.Collection.from_values([True], schema)
    times = 9000
    if way == "batch":
        numbers = [len(hb.randomize(one, plan, entropy=entropy)) - 1 for _ in range(times)]
    else:
        numbers = [len(device.payloads(True, plan, entropy=entropy)) - 1 for _ in range(times)]
    seen = np.bincount(numbers, minlength=12)[:12]
    if fakes.distribution == "binomial":
        distribution = stats.binom.pmf(np.arange(12), 3, 0.3)
        wrong = stats.binom.pmf(np.arange(12), 3, 0.33)
    else:
        distribution = stats.poisson.pmf(np.arange(12), fakes.scale)
        wrong = stats.poisson.pmf(np.arange(12), 1.1 * fakes.scale)
    assert chi_square(seen, distribution) > FALSE_POSITIVE_RATE
    assert chi_square(seen, wrong) < FALSE_POSITIVE_RATE


def test_probabilities_below_the_grid_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rare, used = hb.Fakes.binomial(3, 2.0**-60), []

    def coins(count: int, numerator: int, **_: object) -> NDArray[np.uint8]:
        used.append(numerator)
        return np.zeros(count, np.uint8)

    monkeypatch.setattr(client, "coins", coins)
    client._binomial(9, rare.scale, bytes)
    assert used == [flip._chance(rare)] == [1]


def test_the_fakes_of_many_users_add_up() -> None:
    plan = hb.plan_from(hb.Schema.bits(1), 1000, hb.Protocol(0.0, m=hb.Fakes.poisson(1.7)), epsilon=1.0)
    people = hb.Collection.from_values([True] * 1000, plan.schema)
    entropy = SeededStreamNotForPeople(98)
    numbers = np.array([len(hb.randomize(people, plan, entropy=entropy)) - 1000 for _ in range(1000)])
    assert abs(numbers.mean() - 1700) < 4.5 * math.sqrt(1.7)
    assert abs(numbers.var() / 1700 - 1) < 4.5 * math.sqrt(2 / 1000)


@pytest.mark.long
@pytest.mark.parametrize(
    "fakes", [hb.Fakes.laplace(2.0, 5), hb.Fakes.gaussian(3.3, 4), hb.Fakes.laplace(0.3, 0), hb.Fakes.gaussian(0.4, 1)]
)
def test_drawn_numbers(fakes: hb.Fakes) -> None:
    entropy = SeededStreamNotForPeople(99)
    numbers = np.array([draw_number(fakes, entropy=entropy) for _ in range(N)])
    distribution = fakes.pmf
    seen = np.bincount(numbers, minlength=distribution.size)[: distribution.size]
    assert chi_square(seen, distribution) > FALSE_POSITIVE_RATE
    if fakes.shift > 1:
        assert (
            chi_square(
                seen,
                hb.Fakes(distribution=fakes.distribution, scale=1.1 * fakes.scale, shift=fakes.shift).pmf[
                    : distribution.size
                ],
            )
            < FALSE_POSITIVE_RATE
        )
        clamped = np.bincount(np.maximum(numbers - 3, 0), minlength=distribution.size)
        assert chi_square(clamped, distribution) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_shuffler_covers_every_kind(kind: str) -> None:
    plan = plan_of(kind, "clear among Laplace fakes")
    fakes = draw_fakes(plan, entropy=SeededStreamNotForPeople(100))
    values, counts = np.unique(fakes[:, 0], return_counts=True)
    assert values.size == plan.schema.size
    assert abs(counts.mean() - 60) < 5 * math.sqrt(32 / values.size)


def test_devices_need_no_numpy() -> None:
    """Without numpy, scipy and compiled extensions, a device reads a plan and encodes its messages."""
    plan = plan_of("at_most", "flip among Poisson fakes")
    questions: dict[str, Question] = {
        "colour": hb.Choice(["red", "blue"]), "dark": hb.Flag(missing=True), "load": hb.Scale(0, 8, buckets=4),
        "memory": hb.Number(0, 15), "both": hb.Cross("colour", "dark"),
    }  # fmt: skip
    survey = hb.Schema.survey(questions)
    count = len(survey.attributes)
    response = hb.plan_from(survey, 100, hb.Protocol.survey([hb.Noise(0.01)] * count, "category"), epsilon=90.0)
    script = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "scipy", "numba", "cryptography"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from hubbub.pipeline import device
from hubbub.model.plans import Plan
from hubbub.wire import messages
plan = Plan.from_json({plan.to_json()!r})
sent = [messages.encode(payload, plan) for payload in device.payloads(["v", "x"], plan)]
assert all(len(message) == messages.size(plan) for message in sent)
survey = Plan.from_json({response.to_json()!r})
answers = dict(colour="red", dark=None, load=3.5, memory=7)
assert len(device.payloads(answers, survey)) == {count}
assert not any(name.split(".")[0] in ("numpy", "scipy") for name in sys.modules)
print(len(sent) >= 1)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.long
def test_fixed_fakes_of_a_device() -> None:
    schema = SCHEMAS["bits"]
    plan = hb.plan_from(schema, 100, hb.Protocol(0.1, m=300), epsilon=3.0)
    assert len(device.payloads(["a"], plan)) == 4
    odd = hb.plan_from(schema, 100, hb.Protocol(0.1, m=310), epsilon=3.0)
    assert len(device.payloads(["a"], odd, fakes=2)) == 3
    with pytest.raises(hb.InvalidInput, match="does not divide their total"):
        device.payloads(["a"], odd)
    with pytest.raises(hb.InvalidInput, match="fakes must be omitted"):
        device.payloads(["a"], plan_of("bits", "flip among Poisson fakes"), fakes=1)


def test_no_device_adds_fewer_fakes_than_a_plan_for_partly_honest_users_counts_on() -> None:
    schema, protocol = SCHEMAS["bits"], hb.Protocol(0.1, m=310)
    plan = hb.plan_from(schema, 100, protocol, epsilon=3.0, honest_fraction=0.5)
    assert len(device.payloads(["a"], plan, fakes=3)) == 4
    with pytest.raises(hb.InvalidInput, match="fakes must be at least 3 for 1 user, because the plan counts on"):
        device.payloads(["a"], plan, fakes=2)
    part = hb.Collection.from_values([["a"]] * 10, schema)
    assert hb.randomize(part, plan, fakes=30).header.messages == 40
    with pytest.raises(hb.InvalidInput, match="fakes must be at least 30 for 10 users"):
        hb.randomize(part, plan, fakes=29)
    everybody = hb.plan_from(schema, 100, protocol, epsilon=3.0)
    assert len(device.payloads(["a"], everybody, fakes=0)) == 1


def test_a_device_hides_which_message_is_the_record() -> None:
    schema = hb.Schema.bits(10)
    plan = hb.plan_from(schema, 100, hb.Protocol(2**-40, m=200), epsilon=3.0)
    entropy = SeededStreamNotForPeople(101)
    places = []
    for _ in range(3000):
        sent = device.payloads(list(schema.labels), plan, entropy=entropy)
        places += [i for i, payload in enumerate(sent) if payload == b"\xff\x03"]
    assert stats.chisquare(np.bincount(places, minlength=3)).pvalue > FALSE_POSITIVE_RATE
