"""An audit finds every fault planted in a client, names its place, and passes honest clients."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.lab.faults import EFFORT, generator, honest, spoiled, tried, with_flip, without_last_fake
from tests.pipeline.points import POINTS, plan_of

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.audit.client import examine_flips, examine_independence
from hubbub.lab.audit.commands import Client, read_output
from hubbub.lab.audit.model import probes, sample
from hubbub.lab.audit.results import Audit, Effort
from hubbub.pipeline.randomize import randomize

Bits = NDArray[np.uint8]
COLOURS = hb.Schema.one_hot(["red", "", "blue"])
TABLE = hb.Schema.bits(["a", "b", "c", "d", "e"])


def local(schema: hb.Schema, q: float = 0.1, k: int = 1, release: str = "records") -> hb.Plan:
    return hb.plan_from(schema, 100, hb.Protocol(q, k, 0, release), delta=1e-6, trust="nobody")  # type: ignore[arg-type]


def reasons(found: Audit) -> str:
    assert not found.passed
    assert found.sentence().startswith("FAIL: ")
    return " / ".join(f"{one.name}: {one.where}" for one in found.violations)


def test_last_bit_left_unflipped() -> None:
    def keep_last(sent: Bits, true: Bits) -> Bits:
        sent[:, -1] = true[:, -1]
        return sent

    found = tried(local(TABLE), spoiled(keep_last))
    assert "flips per bit: bit 4 (e)" in reasons(found)
    assert {one.where for one in found.violations if one.name.startswith("flips per bit")} <= {
        "bit 4 (e), unset",
        "bit 4 (e), set",
        *(f"bit 4 (e) at value: {probe.name}" for probe in probes(TABLE)),
    }
    shown = next(one for one in found.attacks if one.event.startswith("a single bit"))
    assert shown.name.startswith("bit 4 (e)")
    assert shown.epsilon > shown.claimed


@pytest.mark.parametrize("release", ["records", "bits"])
def test_flip_probability_five_per_cent_too_small(release: str) -> None:
    plan, effort = local(TABLE, release=release), Effort(values=2000, runs=8, shuffles=0, pipeline=0)
    found = tried(plan, with_flip(0.95), effort)
    assert "flips of unset bits: all bits" in reasons(found)
    fair = tried(plan, honest(), effort)
    assert fair.passed
    assert fair.power is not None
    assert fair.power < 0.05


def test_flip_probability_rounded_to_eight_bits() -> None:
    found = tried(local(TABLE), with_flip(25 / 256 / 0.1), Effort(values=8000, runs=8, shuffles=0, pipeline=0))
    assert "flips of unset bits" in reasons(found)


@pytest.mark.parametrize(("schema", "value"), [(COLOURS, "only (blank)"), (TABLE, "nothing set")])
def test_raw_answer_for_a_missing_value(schema: hb.Schema, value: str) -> None:
    blank = np.array([0, 1, 0] if schema is COLOURS else [0] * 5, np.uint8)

    def missing(sent: Bits, true: Bits) -> Bits:
        return np.where((true == blank).all(axis=1, keepdims=True), true, sent)

    assert f"flips per value: value: {value}" in reasons(tried(local(schema), spoiled(missing)))


def test_one_coin_for_all_bits() -> None:
    coins = generator()

    def together(_: Bits, true: Bits) -> Bits:
        return true ^ (coins.random((len(true), 1)) < 0.1)

    assert "pairs of bits" in reasons(tried(local(TABLE), spoiled(together)))


def test_one_coin_for_all_split_bits() -> None:
    coins = generator()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        rows = np.unpackbits(collection.rows(0, len(collection)), axis=1, bitorder="little", count=5)
        rows ^= coins.random((len(rows), 1)) < 0.1
        return hb.Reports(plan, np.nonzero(rows)[1].astype(np.uint8), len(collection))

    found = tried(local(TABLE, release="bits"), client, Effort(values=300, runs=32, shuffles=0, pipeline=0))
    assert "pairs of bits across runs" in reasons(found)


def test_flips_that_depend_on_another_bit() -> None:
    coins = generator()

    def dependent(_: Bits, true: Bits) -> Bits:
        chance = np.full(true.shape, 0.1)
        chance[:, 0] = np.where(true[:, 4], 0.05, 0.15)
        return true ^ (coins.random(true.shape) < chance)

    assert "flips per bit and value: bit 0 (a)" in reasons(tried(local(TABLE), spoiled(dependent)))


def test_equal_copies() -> None:
    def copies(sent: Bits, true: Bits) -> Bits:
        return np.tile(sent[: len(true) // 3], (3, 1))

    text = reasons(tried(local(TABLE, k=3), spoiled(copies)))
    assert "repeated flips: in another copy" in text
    assert "variance of counts across runs" in text


def test_equal_adjacent_copies() -> None:
    def copies(sent: Bits, true: Bits) -> Bits:
        return np.repeat(sent[: len(true) // 3], 3, axis=0)

    assert "repeated flips: 1 message earlier" in reasons(tried(local(TABLE, k=3), spoiled(copies)))


def test_noise_memoized_per_value() -> None:
    def remembered(sent: Bits, _: Bits) -> Bits:
        return np.repeat(sent[:1], len(sent), axis=0)

    assert "repeated flips" in reasons(tried(local(TABLE), spoiled(remembered)))


def test_noise_reused_every_eighth_record() -> None:
    def reused(sent: Bits, _: Bits) -> Bits:
        return sent[np.arange(len(sent)) % 8]

    assert "repeated flips" in reasons(tried(local(TABLE), spoiled(reused)))


@pytest.mark.parametrize("release", ["records", "bits"])
def test_fixed_seed(release: str) -> None:
    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        return randomize(collection, plan, entropy=SeededStreamNotForPeople(5))

    assert "repeated runs" in reasons(tried(local(TABLE, release=release), client))


def test_seed_reset_in_every_run_with_random_order() -> None:
    coins = generator()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        reports = randomize(collection, plan, entropy=SeededStreamNotForPeople(5))
        return replace(reports, messages=reports.messages[coins.permutation(len(reports))])

    assert "variance of counts across runs" in reasons(tried(local(TABLE), client))


def test_padding_bits_that_leak() -> None:
    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        rows = honest()(collection, plan).messages | (collection.rows(0, len(collection)) << 5)
        head = b"HBM" + bytes([2]) + bytes.fromhex(plan.id)[:16]
        return read_output(b"".join(head + row.tobytes() for row in rows), plan, len(collection))

    assert "zero padding bits" in reasons(tried(local(TABLE), client))


def test_extra_message_for_one_value() -> None:
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        reports = send(collection, plan)
        if collection.rows(0, 1)[0, 0] == 16:
            reports = replace(reports, messages=np.concatenate([reports.messages, reports.messages[:1]]))
        return reports

    found = tried(local(TABLE), client)
    assert "must send 1500 messages, got 1501: value: only e" in reasons(found)


def test_too_few_fakes() -> None:
    plan = plan_of("one_hot", "clear among binomial fakes")
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        fewer = replace(plan, protocol=plan.protocol.changed(m=hb.Fakes.binomial(3, 0.28)))
        return replace(send(collection, fewer), plan=plan)

    assert "fakes per user" in reasons(tried(plan, client))


def test_wrong_fakes() -> None:
    plan = plan_of("one_hot", "clear among fakes")
    assert "bit 3 (other)" in reasons(tried(plan, without_last_fake()))


def test_category_that_flips_to_its_neighbour_only() -> None:
    coins = generator()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        true = collection.ones(0, len(collection))[0]
        sent = np.where(coins.random(true.size) < 0.2, (true + 1) % 3, true)
        return hb.Reports(plan, sent.astype(np.uint8), len(collection))

    found = tried(local(COLOURS, release="category"), client)
    assert "category" in reasons(found)
    assert any(one.epsilon > one.claimed for one in found.attacks)


FAIR = Effort(values=120, runs=8, shuffles=0, pipeline=0, mixed=150, short=10)


def false_positives(confidence: float, seeds: range) -> tuple[int, int]:
    """Return how many audits of the library's client find a defect, over all points of the family, and the total."""
    verdicts = [
        not tried(plan_of(kind, name), honest(1000 * seed + place), FAIR, confidence).diagnoses
        for seed, (place, (kind, name)) in itertools.product(seeds, enumerate(POINTS))
    ]
    return verdicts.count(False), len(verdicts)


@pytest.mark.long
def test_library_client_passes_everywhere() -> None:
    failed, audits = false_positives(0.9, range(1))
    assert stats.binom.sf(failed - 1, audits, 0.1) > 1e-3


@pytest.mark.parametrize("release", ["records", "bits"])
def test_rare_flips_in_wide_records_pass(release: str) -> None:
    """Counts with a mean below one are not normal."""
    plan = local(hb.Schema.one_hot(3000), q=2e-5, release=release)
    for seed in range(3):
        found = tried(plan, honest(seed), Effort(values=30, runs=16, shuffles=0, pipeline=0))
        assert found.passed, found.sentence()


@pytest.mark.slow
def test_false_positive_rate_is_as_stated() -> None:
    failed, audits = false_positives(0.9, range(1, 25))
    assert stats.binom.sf(failed - 1, audits, 0.1) > 1e-3


def test_p_values_of_honest_clients() -> None:
    """P-values of single tests are uniform up to the lattice; small ones would be false positives."""
    p: dict[str, list[float]] = {}
    for seed in range(36):
        plan = plan_of("bits", ("flip", "split", "fake and flip")[seed % 3])
        send: Client = honest(seed)
        samples = [sample(send, plan, probe, 250, 8, lambda: None) for probe in probes(plan.schema)]
        for one in (*examine_flips(samples, plan), *examine_independence(samples, plan)):
            p.setdefault(one.name, []).append(one.p)
    for name, values in p.items():
        assert min(values) > 1e-4, name
        assert np.mean(np.array(values) < 0.05) < 0.2, name
    sharp = p["flips of unset bits"] + p["variance of counts across runs"]
    assert stats.kstest(sharp, "uniform").pvalue > 1e-3


@pytest.mark.long
def test_power_is_as_stated() -> None:
    """A client with the stated shortfall fails with probability 95 %, with half of it less often."""
    plan, effort = local(hb.Schema.bits(2), q=0.2), Effort(values=500, runs=4, shuffles=0, pipeline=0)
    fair = tried(plan, honest(), effort)
    assert fair.power is not None

    def found(share: float, seed: int) -> bool:
        client = with_flip(1 - share, seed)
        samples = [sample(client, plan, probe, 500, 4, lambda: None) for probe in probes(plan.schema)]
        one = examine_flips(samples, plan)[0]
        assert one.name == "flips of unset bits"
        return one.violates(fair.level)

    hits = sum(found(fair.power, seed) for seed in range(50))
    assert stats.binom.cdf(hits, 50, 0.95) > 1e-3
    assert sum(found(fair.power / 2, seed) for seed in range(50)) < 40


def test_empirical_epsilon_approaches_the_claim() -> None:
    found = tried(local(TABLE), honest(), EFFORT)
    assert found.passed
    assert found.best is not None
    assert 0.9 * found.best.claimed < found.best.epsilon <= found.best.claimed
    far = [one for one in found.attacks if "nothing set | everything set" in one.name]
    assert all(math.isclose(one.claimed, 5 * math.log(9), rel_tol=1e-6) for one in far)
    assert all(one.epsilon > 5 for one in far)
