"""Each defect planted in a client is diagnosed as that defect, and honest clients get no diagnosis."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.lab.faults import generator, honest, spoiled, tried, with_flip, without_last_fake
from tests.pipeline.points import plan_of

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.audit import results as page
from hubbub.lab.audit.client import run_values, runs_needed, search
from hubbub.lab.audit.commands import Client
from hubbub.lab.audit.model import probes
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.statistics import Diagnosis, bennett_p, hypergeometric_p
from hubbub.pipeline.randomize import randomize

Bits = NDArray[np.uint8]
LETTERS = hb.Schema.bits(list("abcdefgh"))
COLOURS = hb.Schema.one_hot(["red", "green", "blue", "other"])
EFFORT = Effort(values=1500, runs=8, shuffles=0, pipeline=0, mixed=3000)


def local(schema: hb.Schema = LETTERS, q: float = 0.2, k: int = 1, release: str = "records") -> hb.Plan:
    return hb.plan_from(schema, 100, hb.Protocol(q, k, 0, release), delta=1e-6, trust="nobody")  # type: ignore[arg-type]


def only(found: Audit) -> Diagnosis:
    """Return the only diagnosis of a failed audit."""
    assert not found.passed
    assert len(found.diagnoses) == 1, [one.text for one in found.diagnoses]
    assert found.diagnoses[0].text in found.sentence()
    return found.diagnoses[0]


def changed(change: Callable[[Bits, Bits], Bits], plan: hb.Plan, effort: Effort = EFFORT) -> Diagnosis:
    return only(tried(plan, spoiled(change), effort))


def test_bit_never_flipped() -> None:
    def keep(sent: Bits, true: Bits) -> Bits:
        sent[:, 7] = true[:, 7]
        return sent

    one = changed(keep, local(q=0.272))
    assert one.text.startswith("bit 7 (h) was never flipped: expected 27.2 %, observed 0 of 60,000 (0 %; 99.9 % ")
    assert (one.kind, one.harm) == ("flip probability", "privacy")


@pytest.mark.parametrize("release", ["records", "bits"])
@pytest.mark.parametrize(("factor", "word", "harm"), [(0.95, "less", "privacy"), (1.05, "more", "estimates")])
def test_all_bits_too_rarely_or_too_often(release: str, factor: float, word: str, harm: str) -> None:
    found = tried(local(release=release), with_flip(factor), EFFORT)
    one = only(found)
    assert one.text.startswith(f"every bit is flipped {word} often than planned: expected 20 %, observed ")
    assert one.harm == harm
    assert found.private is (harm == "estimates")
    assert ("estimates would be biased" in found.sentence()) is (harm == "estimates")
    assert ("no loss of privacy was found" in found.sentence()) is (harm == "estimates")


def test_more_noise_on_one_bit_and_less_on_another() -> None:
    coins = generator()

    def uneven(_: Bits, true: Bits) -> Bits:
        chance = np.full(true.shape, 0.2)
        chance[:, 1], chance[:, 2] = 0.25, 0.15
        return true ^ (coins.random(true.shape) < chance)

    found = tried(local(), spoiled(uneven), EFFORT)
    assert [(one.text.split(":")[0], one.harm) for one in found.diagnoses] == [
        ("bit 2 (c) is flipped less often than planned", "privacy"),
        ("bit 1 (b) is flipped more often than planned", "estimates"),
    ]
    assert not found.private


def test_flips_beyond_one_half_are_no_extra_noise() -> None:
    found = tried(local(), spoiled(lambda sent, _: 1 - sent), EFFORT)
    assert "the opposite of the truth is shown" in only(found).text
    assert not found.private


def test_flips_biased_by_the_true_value() -> None:
    coins = generator()

    def biased(_: Bits, true: Bits) -> Bits:
        return true ^ (coins.random(true.shape) < np.where(true, 0.1, 0.2))

    one = changed(biased, local())
    assert one.kind == "biased flips"
    assert (
        "flips depend on the true value: set bits (1 → 0) are flipped less often than planned: expected 20 %"
        in one.text
    )
    assert "unset bits (0 → 1): expected 20 %, observed" in one.text


def test_one_value_sent_in_the_clear() -> None:
    def missing(sent: Bits, true: Bits) -> Bits:
        return np.where(true.any(axis=1, keepdims=True), sent, true)

    assert changed(missing, local()).text.startswith("every bit of the value: nothing set was never flipped")


def test_one_coin_for_all_bits() -> None:
    coins = generator()
    one = changed(lambda _, true: true ^ (coins.random((len(true), 1)) < 0.2), local())
    assert one.kind == "correlated bits"
    assert one.text.startswith("one coin flips all bits of a record together instead of one coin per bit")


def test_two_bits_that_share_a_coin() -> None:
    def shared(sent: Bits, true: Bits) -> Bits:
        sent[:, 5] = true[:, 5] ^ sent[:, 2] ^ true[:, 2]
        return sent

    one = changed(shared, local())
    assert one.text.startswith(
        "flips of bits are not independent: bit 2 (c) and bit 5 (f) are flipped together, both in"
    )


@pytest.mark.parametrize("adjacent", [True, False])
def test_identical_copies(adjacent: bool) -> None:
    def copies(sent: Bits, true: Bits) -> Bits:
        first = sent[: len(true) // 3]
        return np.repeat(first, 3, axis=0) if adjacent else np.tile(first, (3, 1))

    one = changed(copies, local(k=3), replace(EFFORT, values=500))
    assert one.kind == "equal copies"
    assert one.text.startswith("the 3 copies of a record are identical: they share one draw of noise instead of 3")


@pytest.mark.parametrize(("sent", "expected"), [(2, 3), (4, 3), (1, 2)])
@pytest.mark.parametrize("release", ["records", "bits"])
def test_wrong_number_of_copies(sent: int, expected: int, release: str) -> None:
    send, plan = honest(), local(k=expected, release=release)

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        other = replace(plan, protocol=plan.protocol.changed(k=sent))
        return replace(send(collection, other), plan=plan)

    found = tried(plan, client, replace(EFFORT, values=300))
    assert f"{sent} {'copy' if sent == 1 else 'copies'} instead of {expected}" in found.diagnoses[0].text
    assert not found.private


def test_records_in_the_clear() -> None:
    found = tried(local(), spoiled(lambda _, true: true), EFFORT)
    assert only(found).text == "records are sent unchanged: nothing was flipped in 60,000 messages"


def test_split_records_in_the_clear() -> None:
    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        return hb.Reports(plan, collection.ones(0, len(collection))[0].astype(np.uint8), len(collection))

    assert only(tried(local(release="bits"), client, EFFORT)).kind == "clear records"


def test_constant_output() -> None:
    one = changed(lambda sent, _: np.full_like(sent, 1), local())
    assert one.kind == "constant output"
    assert one.text.startswith("every message is the same constant, whatever the value")


def test_deterministic_output() -> None:
    one = changed(lambda _, true: true ^ np.array([1, 0, 0, 1, 0, 0, 0, 0], np.uint8), local())
    assert one.kind == "deterministic output"


def test_noise_drawn_once_per_run() -> None:
    one = changed(lambda sent, _: np.repeat(sent[:1], len(sent), axis=0), local(), replace(EFFORT, mixed=0))
    assert (one.kind, one.text.split(":")[0]) == ("reused noise", "noise is drawn once per run")


def test_noise_reused_every_eighth_record() -> None:
    one = changed(lambda sent, true: true ^ (sent ^ true)[np.arange(len(sent)) % 8], local())
    assert one.kind == "dependent records"
    assert "records depend on earlier ones" in one.text
    assert "8 messages earlier" in one.text


def test_flips_that_follow_the_record_before() -> None:
    """Marginal rates are as planned; a flip makes the next one of the same bit more likely."""
    coins = generator()

    def sticky(_: Bits, true: Bits) -> Bits:
        fresh, flips = coins.random(true.shape) < 0.2, np.zeros(true.shape, np.bool_)
        keep = coins.random(true.shape) < 0.1
        flips[0] = fresh[0]
        for i in range(1, len(true)):
            flips[i] = np.where(keep[i], flips[i - 1], fresh[i])
        return true ^ flips

    one = changed(sticky, local())
    assert one.kind == "dependent records"
    assert "1 message earlier" in one.text


def test_bits_of_earlier_records_that_remain() -> None:
    """Runs on equal records do not show a buffer that is not cleared."""

    def uncleared(sent: Bits, true: Bits) -> Bits:
        flips = sent ^ true
        return (true | np.vstack([true[:1], true[:-1]])) ^ flips

    found = tried(local(), spoiled(uncleared), EFFORT)
    assert {one.kind for one in found.diagnoses} == {"dependent records"}
    assert any("after a record in which it is set" in one.text for one in found.diagnoses)
    assert tried(local(), spoiled(uncleared), replace(EFFORT, mixed=0)).passed


@pytest.mark.parametrize("schema", [LETTERS, hb.Schema.bits(80), hb.Schema.bits(1)])
def test_sorted_or_permuted_messages_pass(schema: hb.Schema) -> None:
    """The shuffler hides the order of messages, so no order is a defect; what cannot be tested is noted."""
    coins, effort = generator(), replace(EFFORT, values=400, short=30)

    def ordered(sent: Bits, _: Bits) -> Bits:
        return sent[np.lexsort(np.packbits(sent, axis=1, bitorder="little").T[::-1])]

    found = tried(local(schema), spoiled(ordered), effort)
    assert found.passed, found.sentence()
    assert any("sorted by content" in note for note in found.notes)
    mixed = tried(local(schema), spoiled(lambda sent, _: coins.permutation(sent)), effort)
    assert mixed.passed, mixed.sentence()
    assert any("not in the order of the records" in note for note in mixed.notes)


def test_category_that_flips_to_its_neighbour_only() -> None:
    coins = generator()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        true = collection.ones(0, len(collection))[0]
        sent = np.where(coins.random(true.size) < 0.3, (true + 1) % 4, true)
        return hb.Reports(plan, sent.astype(np.uint8), len(collection))

    one = only(tried(local(COLOURS, 0.1, release="category"), client, EFFORT))
    assert one.kind == "categories after a flip"
    assert "is not shown as every other category equally often: as category" in one.text
    assert "expected 33.33 %" in one.text


@pytest.mark.parametrize(("factor", "harm"), [(0.9, "privacy"), (1.1, "estimates")])
def test_category_flipped_too_rarely_or_too_often(factor: float, harm: str) -> None:
    one = only(tried(local(COLOURS, 0.1, release="category"), with_flip(factor), EFFORT))
    assert (one.kind, one.harm) == ("flip probability", harm)
    assert one.text.startswith("every category is flipped")


@pytest.mark.parametrize(("scale", "word", "harm"), [(0.27, "fewer", "privacy"), (0.33, "more", "estimates")])
def test_wrong_number_of_fakes(scale: float, word: str, harm: str) -> None:
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        other = replace(plan, protocol=plan.protocol.changed(m=hb.Fakes.binomial(3, scale)))
        return replace(send(collection, other), plan=plan)

    found = tried(plan_of("one_hot", "clear among binomial fakes"), client, EFFORT)
    one = only(found)
    assert one.text.startswith(f"users add {word} fakes than planned: expected 0.9 per user, observed 0.")
    assert found.private is (harm == "estimates")


@pytest.mark.parametrize("name", ["clear among fakes", "fake and flip"])
def test_fakes_that_are_not_uniform(name: str) -> None:
    one = only(tried(plan_of("one_hot", name), without_last_fake(), EFFORT))
    assert one.kind == "distribution of fakes"
    assert one.text.startswith("fakes are not uniform over the legal records: they show ")


def weak(bits: int, seed: int = 1, *, per_record: bool = False) -> Client:
    """Return a client whose noise comes from a generator with a short seed, drawn for each run or for each record."""
    coins = generator(seed)
    tables: dict[int, NDArray[np.bool_]] = {}

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        width, n = plan.schema.width, len(collection)
        rows = np.unpackbits(collection.rows(0, n), axis=1, bitorder="little", count=width)
        if per_record:
            if width not in tables:
                tables[width] = np.random.default_rng(9).random((1 << bits, width)) < plan.protocol.q
            noise = tables[width][coins.integers(0, 1 << bits, n)]
        else:
            noise = np.random.default_rng(coins.integers(0, 1 << bits)).random((n, width)) < plan.protocol.q
        return hb.Reports(plan, np.packbits(rows ^ noise, axis=1, bitorder="little"), n)

    return client


def test_seed_of_sixteen_bits_per_run() -> None:
    effort = Effort(values=100, runs=4, shuffles=0, pipeline=0, short=1000)
    found = tried(local(), weak(16), effort)
    one = only(found)
    assert one.kind == "weak seed"
    assert "an earlier one byte for byte (1,000 runs of " in one.text
    assert "the seed is fixed or too short" in one.text
    fair = tried(local(), weak(60), effort)
    assert fair.passed
    assert "a seed of up to 17 bits per run would have been found" in fair.sentence()


def test_seed_of_sixteen_bits_per_record() -> None:
    plan, effort = local(hb.Schema.bits(120)), Effort(values=500, runs=4, shuffles=0, pipeline=0)
    one = only(tried(plan, weak(16, per_record=True), effort))
    assert one.kind == "weak seed"
    assert one.text.startswith("noise repeats: the same stretch of 1 message, again after")


def test_generator_with_a_short_period() -> None:
    noise = generator().random((1 << 11, 8)) < 0.2
    place = 0

    def cyclic(_: Bits, true: Bits) -> Bits:
        nonlocal place
        chosen = (place + np.arange(len(true))) % len(noise)
        place += len(true)
        return true ^ noise[chosen]

    one = changed(cyclic, local(), replace(EFFORT, values=1000))
    assert one.kind in ("weak seed", "dependent records")
    assert "2,048" in one.text or "earlier" in one.text


def test_fixed_seed_is_a_weak_seed() -> None:
    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        return randomize(collection, plan, entropy=SeededStreamNotForPeople(5))

    one = only(tried(local(), client, replace(EFFORT, mixed=0, short=20)))
    assert one.kind in ("weak seed", "dependent records")


def test_headline_and_chart_show_the_same_pair_of_records() -> None:
    found = tried(local(), honest(), EFFORT)
    assert found.passed
    assert found.best is not None
    assert found.best.of_records
    assert found.best.name in found.sentence()
    drawn = page._chosen(found)
    assert drawn == [found.best]
    assert drawn[0].curve


def test_single_bit_is_the_headline_only_if_it_violates() -> None:
    def keep(sent: Bits, true: Bits) -> Bits:
        sent[:, 7] = true[:, 7]
        return sent

    found = tried(local(), spoiled(keep), EFFORT)
    assert found.best is not None
    assert found.best.epsilon > found.best.claimed
    assert page._chosen(found)[0] is found.best
    assert f"ε ≥ {found.best.epsilon:.4g}" in found.sentence()


@pytest.mark.parametrize(
    ("factor", "kinds"), [(0.9, {"flip probability"}), (1.1, {"flip probability"}), (1.0, set[str]())]
)
def test_no_defect_is_named_that_is_absent(factor: float, kinds: set[str]) -> None:
    """A wrong flip probability is not mistaken for dependence, over many clients."""
    for seed in range(8):
        found = tried(local(hb.Schema.bits(4)), with_flip(factor, seed), replace(EFFORT, values=600, mixed=600))
        assert {one.kind for one in found.diagnoses} <= kinds


def test_bounds_are_conservative() -> None:
    """The p-values of diagnoses are never below the exact ones."""
    coins = generator()
    for _ in range(300):
        total = int(coins.integers(5, 60))
        first, second = coins.integers(1, total, 2).tolist()
        exact = stats.hypergeom(total, first, second)
        for both in range(max(0, first + second - total), min(first, second) + 1):
            tails = min(exact.cdf(both), exact.sf(both - 1))
            bound = hypergeometric_p([[both]], [[first]], [[second]], [[total]])[0]
            assert bound >= min(1.0, tails) - 1e-12
        n, p = int(coins.integers(3, 200)), float(coins.random())
        counts = np.arange(n + 1)
        tails = np.minimum(stats.binom.cdf(counts, n, p), stats.binom.sf(counts - 1, n, p))
        assert (bennett_p(counts - n * p, n * p * (1 - p)) >= tails - 1e-12).all()


def test_pooled_tables_are_conservative() -> None:
    """The sum of two hypergeometric counts, against its exact distribution."""
    coins = generator()
    for _ in range(100):
        sizes = coins.integers(5, 30, 2)
        first, second = (np.array([coins.integers(1, size) for size in sizes]) for _ in range(2))
        one, two = (stats.hypergeom(*row).pmf(np.arange(31)) for row in zip(sizes, first, second, strict=True))
        pmf = np.convolve(one, two)
        for x in np.flatnonzero(pmf > 1e-14):
            tail = min(pmf[: x + 1].sum(), pmf[x:].sum())
            # The bound depends on the tables through the sum of their counts only.
            split = np.array([[x], [0]])
            assert hypergeometric_p(split, first[:, None], second[:, None], sizes[:, None])[0] >= tail - 1e-12


@pytest.mark.slow
def test_power_of_the_search_for_seeds() -> None:
    """A seed of the stated size is found with probability 95 %."""
    plan, probe = local(), probes(LETTERS)[0]
    outcomes = [search(weak(10, seed), plan, probe, runs_needed(10), lambda: None) for seed in range(150)]
    assert all(one is not None and one.seed_bits == 10 for one in outcomes)
    hits = sum(one is not None and one.repeats > 0 for one in outcomes)
    assert stats.binom.cdf(hits, 150, 0.95) > 1e-3
    assert stats.binom.sf(hits - 1, 150, 0.95) > 1e-3


def test_search_needs_enough_noise() -> None:
    assert run_values(local(q=0.2), 1000) is not None
    assert run_values(local(hb.Schema.bits(1), q=1e-4), 1000) is None
    found = tried(
        local(hb.Schema.bits(1), q=1e-4), honest(), Effort(values=50, runs=2, shuffles=0, pipeline=0, short=9)
    )
    assert any("no weak seed was searched for" in note for note in found.notes)


def test_illegal_messages_in_short_runs() -> None:
    """A client that breaks only on few records."""
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        if len(collection) < 50:
            raise hb.WireError("messages of this plan must have 21 bytes each, got 5 bytes in total")
        return send(collection, plan)

    one = only(tried(local(), client, Effort(values=100, runs=2, shuffles=0, pipeline=0, short=5)))
    assert (one.kind, one.text.split(" (")[-1]) == ("illegal messages", "short runs)")


def test_seeds_stated_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    for bits in (16, 20, 24, 32):
        assert f"| {bits} bits | {runs_needed(bits):,} |" in text
