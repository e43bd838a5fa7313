"""The whole pipeline at every point of the protocol family, and misuse that it must reject."""

import copy
import math
import pickle
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from tests.pipeline.points import POINTS, N, collection, plan_of, population

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.pipeline.shuffle import shuffle_blocks
from hubbub.results.estimate import achieved_guarantee


def test_example() -> None:
    answers = ["red", "green", "blue", "blue", "other"] * 4000
    schema = hb.Schema.one_hot(["red", "green", "blue", "other"])
    p = hb.plan(schema, n=20_000, budget=hb.Budget(epsilon=0.5, delta=1e-6))
    g = hb.account(hb.Protocol(q=0.1), schema, n=20_000, delta=1e-6)
    people = hb.Collection.from_values(answers, schema)
    own = hb.plan_from(schema, 20_000, hb.Protocol(q=0.1), delta=1e-6)
    mixed = hb.shuffle(hb.randomize(people, p))
    est = hb.estimate(hb.tally(mixed), p).question
    low, high = est.interval(0.95)
    assert own.guarantee == g
    assert p.guarantee.meets(hb.Budget(epsilon=0.5, delta=1e-6))
    assert (np.abs(est.values - [4000, 4000, 8000, 4000]) < 7 * est.stderr).all()
    assert (low < high).all()
    assert est.detectable.all()
    assert (est.detection_limit < 60).all()


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_every_point(kind: str, name: str) -> None:
    plan = plan_of(kind, name)
    people, truth = collection(plan.schema, N), population(plan.schema, N).sum(axis=0)
    reports = hb.randomize(people, plan)
    found = hb.estimate(hb.tally(hb.shuffle(reports)), plan).question
    assert (np.abs(found.values - truth) < 7 * found.stderr).all()
    fair = found.consistent()
    assert fair.values.min() >= 0
    assert fair.values.max() <= N
    assert kind != "one_hot" or math.isclose(fair.values.sum(), N)
    assert achieved_guarantee(hb.tally(hb.shuffle(reports)), plan) == plan.guarantee
    assert hb.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(("kind", "name"), POINTS)
def test_parts_add_up_to_the_whole(kind: str, name: str) -> None:
    """A batch streamed in blocks through files declares the same as one in memory, and gives the same estimates."""
    plan = plan_of(kind, name)
    m = plan.protocol.fixed_fakes or None
    entropy = SeededStreamNotForPeople(81)

    def blocks() -> list[hb.Reports]:
        parts = list(collection(plan.schema, N).blocks(150))
        assert [len(part) for part in parts] == [150, 150, 100]
        shares: list[int | None] = [None] * 3 if m is None else [m, 0, 0]
        return [hb.randomize(part, plan, fakes=f, entropy=entropy) for part, f in zip(parts, shares, strict=True)]

    mixed = shuffle_blocks(blocks(), plan, tempfile.TemporaryFile, memory=1 << 16, entropy=entropy)
    assert (mixed.header.n, mixed.header.fakes, mixed.header.shuffled) == (N, m or 0, True)
    total = hb.tally(mixed)
    assert (total.n, total.fakes, total.batches, total.smallest_batch) == (N, m or 0, 1, N)
    assert total.messages == len(mixed)
    found = hb.estimate(total, plan).question
    assert (np.abs(found.values - population(plan.schema, N).sum(axis=0)) < 7 * found.stderr).all()
    parts = blocks()
    joined = parts[0] + parts[1] + parts[2]
    assert joined.n == N
    hb.estimate(hb.tally(hb.shuffle(joined)), plan)


def test_the_order_is_uniform_and_a_biased_one_is_detected() -> None:
    """All 120 orders of five messages; a permutation that never moves the last one must be rejected."""
    from scipy import stats

    schema = hb.Schema.one_hot(5)
    plan = hb.plan_from(schema, 5, hb.Protocol(2**-40, release="category"), epsilon=30.0)
    reports = hb.Reports(plan, np.arange(5, dtype=np.uint8), 5)
    entropy = SeededStreamNotForPeople(82)
    orders = np.array([hb.shuffle(reports, entropy=entropy).messages for _ in range(6000)]).astype(np.int64)

    def p_value(rows: np.ndarray) -> float:
        codes = rows @ 5 ** np.arange(5)
        return float(stats.chisquare(np.r_[np.unique(codes, return_counts=True)[1], np.zeros(120)][:120]).pvalue)

    assert p_value(orders) > 1e-4
    biased = np.array([np.r_[row[row != 4], 4] for row in orders])
    assert p_value(biased) < 1e-4


def test_small_batches_are_not_released() -> None:
    plan = plan_of("one_hot", "split")
    few = hb.randomize(collection(plan.schema, N - 1), plan)
    with pytest.raises(hb.BatchTooSmall, match=r"^a batch must have at least 400 people, got 399$"):
        hb.shuffle(few)
    with pytest.raises(hb.BatchTooSmall):
        shuffle_blocks(few, plan, tempfile.TemporaryFile)
    whole = plan_of("one_hot", "flip")
    with pytest.raises(hb.BatchTooSmall, match="must send 400 messages"):
        hb.shuffle(replace(hb.randomize(collection(whole.schema, N - 1), whole), n=N))
    clear = plan_of("one_hot", "clear among fakes")
    with pytest.raises(hb.BatchTooSmall, match="at least 300 fakes, got 299"):
        hb.shuffle(hb.randomize(collection(clear.schema, N), clear, fakes=299))
    drawn = plan_of("bits", "clear among binomial fakes")
    with pytest.raises(hb.BatchTooSmall):
        hb.shuffle(hb.Reports(drawn, np.zeros((N - 1, 1), np.uint8), N))


def test_objects_of_different_plans_are_rejected() -> None:
    one, two = plan_of("one_hot", "flip"), plan_of("one_hot", "split")
    people = collection(one.schema, N)
    with pytest.raises(hb.PlanMismatch):
        hb.randomize(people, plan_of("bits", "flip"))
    mixed = hb.shuffle(hb.randomize(people, one))
    for wrong in (
        lambda: hb.shuffle(mixed, two),
        lambda: hb.estimate(hb.tally(mixed), two).question,
        lambda: hb.tally(mixed) + hb.tally(hb.shuffle(hb.randomize(people, two))),
        lambda: hb.randomize(people, one) + hb.randomize(people, two),
        lambda: hb.joint(mixed, plan_of("one_hot", "copies"), ["red"]),
        lambda: achieved_guarantee(hb.tally(mixed), two),
    ):
        with pytest.raises(hb.PlanMismatch):
            wrong()


def test_a_failing_source_emits_nothing() -> None:
    plan = plan_of("bits", "flip")
    with pytest.raises(hb.EntropyFailure):
        hb.randomize(collection(plan.schema, N), plan, entropy=lambda size: bytes(max(size - 1, 0)))


def test_collections_cannot_be_serialized() -> None:
    people = hb.Collection.from_values(["red", "blue"], hb.Schema.one_hot(["red", "green", "blue"]))
    assert repr(people) == "Collection(2 records of Schema.one_hot(3 labels))"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="no wire format"):
            leave(people)


def test_batches_of_a_shuffler_count_their_own_fakes() -> None:
    plan = plan_of("one_hot", "clear among Laplace fakes")
    people = collection(plan.schema, N)
    mixed = [hb.shuffle(hb.randomize(people, plan)) for _ in range(3)]
    total = hb.tally(mixed[0]) + hb.tally(mixed[1]) + hb.tally(hb.shuffle(mixed[2]))
    assert total.batches == 3
    found = hb.estimate(total, plan).question
    assert (np.abs(found.values - 3 * population(plan.schema, N).sum(axis=0)) < 7 * found.stderr).all()
    assert math.isclose(found.stderr[0], math.sqrt(3) * plan.stderr)
    with pytest.raises(hb.InvalidInput, match="shuffled"):
        hb.estimate(hb.tally(hb.randomize(people, plan)), plan)


def test_achieved_guarantees_depend_on_the_batch() -> None:
    plan = hb.plan_from(hb.Schema.bits(1), 500, hb.Protocol(0.1), delta=1e-6)
    more = hb.shuffle(hb.randomize(hb.Collection.from_values([True] * 1000, plan.schema), plan))
    assert achieved_guarantee(hb.tally(more), plan).epsilon < plan.guarantee.epsilon
    fewer = hb.randomize(hb.Collection.from_values([True] * 200, plan.schema), plan)
    assert achieved_guarantee(hb.tally(fewer), plan).epsilon > plan.guarantee.epsilon
    both = hb.tally(more) + hb.tally(
        hb.shuffle(hb.randomize(hb.Collection.from_values([False] * 500, plan.schema), plan))
    )
    assert achieved_guarantee(both, plan) == plan.guarantee


def test_compromised_users_who_declare_more_fakes_add_nothing_to_the_achieved_guarantee() -> None:
    schema, protocol = hb.Schema.bits(1), hb.Protocol(0.1, m=100)
    plan = hb.plan_from(schema, 50, protocol, delta=1e-6, honest_fraction=0.5)
    people = hb.Collection.from_values([True] * 60, schema)
    sent = hb.tally(hb.shuffle(hb.randomize(people, plan, fakes=100)))
    usual, declared = (replace(sent, fakes=fakes, fewest_fakes=fakes, messages=60 + fakes) for fakes in (120, 10_000))
    assert achieved_guarantee(declared, plan) == achieved_guarantee(usual, plan)
    alone = hb.account(protocol.changed(m=120), schema, 60, delta=1e-6, honest_fraction=0.5)
    assert achieved_guarantee(declared, plan).epsilon == alone.epsilon


def test_reports_that_were_never_shuffled_have_the_guarantee_of_their_flips() -> None:
    """Regression: a batch that nobody had shuffled was certified as if it were."""
    schema = hb.Schema.bits(1)
    plan = hb.plan_from(schema, 1000, hb.Protocol(0.1), delta=1e-6)
    reports = hb.randomize(hb.Collection.from_values([True] * 1000, schema), plan)
    assert achieved_guarantee(hb.tally(hb.shuffle(reports)), plan) == plan.guarantee
    held = achieved_guarantee(hb.tally(reports), plan)
    assert held.assumptions.trust == "nobody"
    assert held.epsilon == pytest.approx(plan.guarantee.assumptions.collusion_epsilon, rel=1e-4)


def test_clear_records_of_users_without_a_whole_fake_each_have_no_guarantee() -> None:
    schema = hb.Schema.bits(1)
    plan = hb.plan_from(schema, 50, hb.Protocol(0.0, m=60), epsilon=3.0, honest_fraction=0.5)
    people = hb.Collection.from_values([True] * 40, schema)
    sent = hb.tally(hb.randomize(people, plan))
    tally = replace(sent, fakes=0, fewest_fakes=0, messages=40, batches=1, smallest_batch=40, unshuffled=0)
    assert achieved_guarantee(tally, plan).delta == 1.0


@pytest.mark.long
def test_joint_tables_fit_together() -> None:
    schema = hb.Schema.bits(["a", "b", "c", "d"])
    plan = hb.plan_from(schema, 20_000, hb.Protocol(0.1, m=3000), epsilon=3.0)
    rows = np.random.default_rng(1).random((20_000, 4)) < [0.3, 0.5, 0.2, 0.7]
    rows[:, 3] |= rows[:, 0]
    mixed = hb.shuffle(hb.randomize(hb.Collection.from_values(rows, schema), plan))
    table = hb.joint(mixed, plan, ["d", "a", "b"])
    one = hb.estimate(hb.tally(mixed), plan).question
    for label in "abd":
        alone = table.marginal([label])
        place = schema.labels.index(label)
        assert math.isclose(alone.values[1], one.values[place], rel_tol=1e-9)
        assert abs(alone.stderr[1] / one.stderr[place] - 1) < 0.03
    pair, turned = table.marginal(["a", "d"]), hb.joint(mixed, plan, ["a", "d"])
    assert np.allclose(pair.values, turned.values)
    assert np.allclose(pair.stderr, turned.stderr)
    shares = table.conditional({"a": True})
    assert shares.labels == ("d", "b")
    assert math.isclose(shares.values.sum(), 1)
    who = rows[rows[:, 0]]
    truth = [np.mean((who[:, 3] == x % 2) & (who[:, 1] == x // 2)) for x in range(4)]
    assert (np.abs(shares.values - truth) < 5 * shares.stderr).all()
    assert (shares.stderr < 0.02).all()
    with pytest.raises(hb.InvalidInput, match="release whole records"):
        hb.joint(mixed, plan_of("bits", "split"), ["a"])


def test_the_cost_of_wide_schemas_is_that_of_the_messages() -> None:
    schema = hb.Schema.one_hot(50_000)
    plan = hb.plan_from(schema, 20_000, hb.Protocol(2e-5, release="bits"), epsilon=9.0)
    people = hb.Collection.from_values(np.arange(20_000) % 7, schema)
    assert people.ones(0, 20_000)[0].size == 20_000
    mixed = hb.shuffle(hb.randomize(people, plan))
    assert mixed.messages.nbytes < 2 * 45_000
    assert abs(hb.estimate(hb.tally(mixed), plan).question.values[0] - 2858) < 10
