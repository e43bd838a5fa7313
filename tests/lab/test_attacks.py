"""Every simulated attack agrees with its exact value, rejects wrong ones, and stays below the proven bound."""

import functools
import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cli.conftest import call
from tests.report.structure import check_page

import hubbub as hb
from hubbub.accountant import Ledger, account
from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople
from hubbub.errors import BatchTooSmall, InvalidInput
from hubbub.lab import attacks
from hubbub.lab.attacks import compromised, poisoning, repetition, small_batches
from hubbub.lab.attacks.evidence import Attack, page, rate
from hubbub.model.protocol import Noise
from hubbub.pipeline import shuffle as shuffler

BIT = hb.Schema.bits(1)
FOUR = hb.Schema.one_hot(poisoning.LABELS)


def stream(seed: int = 7) -> SeededStreamNotForPeople:
    return SeededStreamNotForPeople(seed)


@functools.cache
def shown(name: str) -> Attack:
    return attacks.demonstrate(name, trials=1000, entropy=stream())


@pytest.mark.long
@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_simulation_agrees_with_exact_values(name: str) -> None:
    assert len(shown(name).readings) >= 8
    assert [one for one in shown(name).readings if not one.agrees] == []


# Small batches.


@pytest.mark.parametrize("n", [2, 5, 7])
def test_exact_guess_by_enumeration(n: int) -> None:
    q = 0.2
    totals = {}
    for answer in (0, 1):
        distribution = np.zeros(n + 1)
        for flips in range(2**n):
            toss = [flips >> i & 1 for i in range(n)]
            bits = [answer ^ toss[0], *(1 ^ t for t in toss[1:])]
            distribution[sum(bits)] += math.prod(q if t else 1 - q for t in toss)
        totals[answer] = distribution
    assert small_batches.exact(n, q) == pytest.approx(0.5 * float(np.maximum(totals[0], totals[1]).sum()), rel=1e-12)


def test_guess_in_a_batch_of_one_is_the_local_guarantee() -> None:
    q = 0.1
    local = account(hb.Protocol(q), BIT, 1000, epsilon=0.0, trust="nobody").delta
    assert small_batches.exact(1, q) == pytest.approx((1 + local) / 2, rel=1e-6)


def test_guesses_stay_below_the_proven_bound_and_fall_with_n() -> None:
    q = 0.05
    seen = [small_batches.exact(n, q) for n in (1, 3, 10, 100, 1000)]
    proven = [(1 + account(hb.Protocol(q), BIT, n, epsilon=0.0).delta) / 2 for n in (1, 3, 10, 100, 1000)]
    assert all(a <= b * (1 + 1e-9) for a, b in zip(seen, proven, strict=True))
    assert all(a > b for a, b in pairwise(seen))


def test_wrong_batch_size_is_rejected() -> None:
    reading = small_batches.attack(30, 0.03, trials=2000, entropy=stream())
    assert reading.agrees
    assert not reading.low <= small_batches.exact(60, 0.03) <= reading.high
    assert not reading.low <= small_batches.exact(30, 0.06) <= reading.high


def test_shuffler_rejects_small_batches() -> None:
    plan = hb.plan_from(BIT, 1000, hb.Protocol(0.03), delta=1e-6)
    few = hb.randomize(hb.Collection.from_values([True] * 999, BIT), plan, entropy=stream())
    with pytest.raises(BatchTooSmall):
        hb.shuffle(few, entropy=stream())


# Repetition.


def test_repeated_guess_grows_and_stays_below_the_ledger() -> None:
    q, n = 0.15, 200
    seen = [repetition.exact(n, q, rounds) for rounds in (1, 4, 16, 64)]
    proven = [0.5 * (1 + Ledger().charge_protocol(hb.Protocol(q), BIT, n, rounds=r).delta(0.0)) for r in (1, 4, 16, 64)]
    assert all(a < b for a, b in pairwise(seen))
    assert all(a <= b for a, b in zip(seen, proven, strict=True))
    assert seen[0] == pytest.approx(small_batches.exact(n, q), abs=0.002)


def test_formula_without_composition_is_rejected() -> None:
    plan = hb.plan_from(BIT, 50, hb.Protocol(0.2), delta=1e-6)
    found = repetition.attack(plan, [32], trials=1500, entropy=stream())
    shuffled, linked = found
    assert shuffled.agrees
    assert linked.agrees
    assert not shuffled.low <= repetition.exact(50, plan.protocol.q, 1) <= shuffled.high
    assert not linked.low <= repetition.averaging(plan.protocol.q, 1) <= linked.high


def test_ledger_stops_in_time() -> None:
    plan = hb.plan_from(BIT, 200, hb.Protocol(0.15), delta=1e-6)
    admitted = repetition.rounds_within(plan, 2.0, 64)
    assert 1 < admitted < 64
    ledger = Ledger()
    assert ledger.charge_protocol(plan.protocol, BIT, 200, rounds=admitted).epsilon(1e-6) <= 2.0
    assert ledger.charge_protocol(plan.protocol, BIT, 200, rounds=admitted + 1).epsilon(1e-6) > 2.0


# Poisoning.


@pytest.mark.parametrize("case", poisoning.cases(), ids=lambda case: f"{case.name} {case.protocol.q:.2f}")
def test_bias_of_a_malicious_client_by_expectation(case: poisoning.Case) -> None:
    """Add one malicious client to the expected counts and apply the real estimator."""
    protocol, n, v = case.protocol, 1000, 1 / 4
    q, k = protocol.q, protocol.k
    held = np.array([200, 300, 450, 49])
    plan = hb.plan_from(FOUR, n, protocol, delta=1e-6)
    drawn, fakes = 0 if protocol.user_fakes is None else 2000, protocol.fixed_fakes
    flip = 3 * q if protocol.sends_category else q
    expected = k * (held * (1 - flip) + (n - 1 - held) * q) + (drawn + fakes) * (q + (1 - 2 * q) * v)
    messages = k * (n - 1) + fakes + drawn + max(k, case.sent)
    expected[0] += case.sent
    if not protocol.sends_bits:  # messages of a malicious client without the label have another one
        expected[1] += max(0, k - case.sent)
    whole, scale = np.floor(expected).astype(np.int64), 10**9  # expected counts are not whole, and estimates are linear
    part = np.round(scale * (expected - whole)).astype(np.int64)
    low, high = (_estimate(plan, counts, messages, n, fakes) for counts in (whole, whole + part))
    shift = low + (high - low) / scale - held[0]
    assert shift == pytest.approx(poisoning.bias(protocol, FOUR, case.sent), abs=1e-6)


def _estimate(plan: hb.Plan, counts: NDArray[np.int64], messages: int, n: int, fakes: int) -> float:
    tally = hb.Tally(plan=plan.id, n=n, fakes=fakes, messages=messages, batches=1, smallest_batch=n, counts=counts)
    return float(hb.estimate(tally, plan).question.values[0])


@pytest.mark.parametrize("wrong", [1 / (1 - 2 * 0.25), 1.0, 1 - 0.25])
def test_wrong_bias_is_rejected(wrong: float) -> None:
    reading = poisoning.attack(poisoning.Case("flip, up", hb.Protocol(0.25), 1), repetitions=30, entropy=stream())
    assert reading.agrees
    assert not reading.low <= wrong <= reading.high


def test_extra_whole_records_are_rejected() -> None:
    plan = hb.plan_from(FOUR, 1000, hb.Protocol(0.1, k=4), delta=1e-6)
    with pytest.raises(BatchTooSmall, match="must send"):
        poisoning.poisoned(plan, np.arange(900) % 4, 100, 5, stream())


def test_intervals_do_not_widen_for_malicious_clients() -> None:
    held = [poisoning.coverage(malicious) for malicious in (0, 10, 20, 40)]
    assert held[0] >= 0.95
    assert all(a > b for a, b in pairwise(held))
    reading = poisoning.coverage_attack(40, repetitions=200, entropy=stream())
    assert reading.agrees
    assert not reading.low <= 0.95 <= reading.high


# Compromised users.


def test_compromised_users_do_not_count() -> None:
    plan = hb.plan_from(BIT, 500, hb.Protocol(0.05), delta=1e-6)
    reading = compromised.attack_flips(plan, 0.98, trials=2000, entropy=stream())
    assert reading.agrees
    assert reading.exact == small_batches.exact(10, plan.protocol.q)
    assert not reading.low <= small_batches.exact(500, plan.protocol.q) <= reading.high


def test_shuffler_fakes_do_not_depend_on_compromised_users() -> None:
    fakes = hb.Fakes.laplace(1.0, 14)
    plan = hb.plan_from(BIT, 50, hb.Protocol(0.0, m=fakes, release="bits"), delta=1e-6)
    readings = [compromised.attack_fakes(plan, share, trials=400, entropy=stream()) for share in (0.0, 0.98)]
    assert all(one.agrees for one in readings)
    assert not readings[0].low <= compromised.exact_fakes(hb.Fakes.laplace(0.5, 14)) <= readings[0].high
    assert compromised.exact_fakes(fakes) <= (math.exp(plan.guarantee.epsilon) + 1e-6) / (
        1 + math.exp(plan.guarantee.epsilon)
    )


# A shuffler that reads the results.


def kept_fakes(monkeypatch: pytest.MonkeyPatch, labels: int) -> list[NDArray[np.int64]]:
    """Let the library's shuffler keep how many fakes of each label it draws, as any program of its operator could."""
    kept: list[NDArray[np.int64]] = []
    honest = shuffler.draw_fakes

    def draw(plan: hb.Plan, *, entropy: Entropy) -> NDArray[Any]:
        drawn = honest(plan, entropy=entropy)
        kept.append(np.bincount(drawn.astype(np.int64), minlength=labels))
        return drawn

    monkeypatch.setattr(shuffler, "draw_fakes", draw)
    return kept


def test_a_shuffler_that_reads_results_knows_the_exact_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It only reads: nobody colludes, and every party follows the protocol."""
    plan = hb.plan(hb.Schema.one_hot(10), 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    assert plan.protocol.shuffler_fakes is not None
    answers = np.arange(1000) ** 2 % 10
    kept, truth = kept_fakes(monkeypatch, 10), np.bincount(answers, minlength=10)
    sent = hb.randomize(hb.Collection.from_values(answers, plan.schema), plan, entropy=stream())
    published = hb.estimate(hb.tally(hb.shuffle(sent, entropy=stream())), plan).question.values
    assert np.abs(published - truth).max() > 1
    assert published + kept[0].mean() - kept[0] == pytest.approx(truth, abs=1e-9)


def test_a_shuffler_that_reads_results_knows_the_exact_counts_of_a_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag()})
    plan = hb.plan(schema, 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    answers = {"colour": ["red"] * 500 + ["blue"] * 500, "dark mode": [i < 137 for i in range(1000)]}
    kept = kept_fakes(monkeypatch, plan.schema.width)
    sent = hb.randomize(hb.Collection.from_values(answers, plan.schema), plan, entropy=stream())
    found = hb.tally(hb.shuffle(sent, plan, entropy=stream())).counts
    assert sorted((found - kept[0]).tolist()) == [0, 137, 500, 500, 863]


def test_a_shuffler_that_reads_results_names_the_answer_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own bundles fill the batch around one person, and it knows its fakes: it is right 40 times of 40.

    The control reads the same results and knows the same bundles, but not the fakes: the guarantee limits its success
    to e^ε/(e^ε + d − 1), plus three standard deviations here.
    """
    labels, runs = 10, 40
    plan = hb.plan(hb.Schema.one_hot(labels), 1000, hb.Budget(1.0, 1e-6), trust="shuffler-noise")
    assert plan.protocol.shuffler_fakes is not None
    mean, own = plan.protocol.shuffler_fakes.mean, np.arange(999) % labels
    kept, source, named, guessed = kept_fakes(monkeypatch, labels), stream(), 0, 0
    for run in range(runs):
        victim = run * 7 % labels
        batch = hb.Collection.from_values(np.append(own, victim), plan.schema)
        shuffled = hb.shuffle(hb.randomize(batch, plan, entropy=source), entropy=source)
        left = hb.estimate(hb.tally(shuffled), plan).question.values - np.bincount(own, minlength=labels)
        named += int(np.argmax(left + mean - kept[-1])) == victim
        guessed += int(np.argmax(left)) == victim
    share = math.e / (math.e + labels - 1)
    assert named == runs
    assert guessed <= runs * share + 3 * math.sqrt(runs * share * (1 - share))


# Reports.


def test_intervals_of_rates_are_clopper_pearson() -> None:
    from scipy import stats

    for hits, trials in ((0, 10), (3, 10), (10, 10), (517, 1000)):
        expected = stats.binomtest(hits, trials).proportion_ci(0.999, method="exact")
        assert rate(hits, trials)[1:] == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.long
def test_page_is_self_contained() -> None:
    everything = [shown(name) for name in attacks.ATTACKS]
    check_page(page(everything), 7)
    assert sum(len(one.pictures) for one in everything) == 7


@pytest.mark.long
def test_figures_are_repeatable() -> None:
    found = attacks.pictures(trials=100)
    again = attacks.demonstrate("batches", trials=100, entropy=stream(attacks.SEED))
    assert found["attack-batches-guesses"].html() == again.pictures["batches-guesses"].html()
    assert {
        "attack-batches-guesses",
        "attack-repetition",
        "attack-poisoning-bias",
        "attack-compromised-epsilon",
    } <= set(found)


def test_command_prints_json_and_writes_a_page(tmp_path: object) -> None:
    target = f"{tmp_path}/attacks.html"
    result = call("attacks", "--only", "batches", "--trials", "200", "--seed", "3", "--json", "-o", target)
    assert result.exit_code == 0, result.output
    (one,) = json.loads(result.stdout)
    assert one["name"] == "batches"
    assert {"exact", "seen", "low", "high", "agrees"} <= set(one["readings"][0])
    again = call("attacks", "--only", "batches", "--trials", "200", "--seed", "3", "--json")
    assert json.loads(again.stdout) == [one]
    assert "small" in call("attacks", "--only", "batches", "--trials", "100").stdout


def test_surveys_are_refused() -> None:
    flags = hb.Schema.survey({"dark mode": hb.Flag(), "logged in": hb.Flag()})
    protocol = hb.Protocol.survey([Noise(0.1)] * 2)
    plan = hb.plan_from(flags, 20, protocol, delta=1e-3)
    single = hb.plan_from(hb.Schema.survey({"dark mode": hb.Flag()}), 20, hb.Protocol(0.1, release="bits"), delta=1e-3)
    for one in (plan, single):
        for run in (
            lambda: compromised.attack_flips(one, 0.5, trials=10, entropy=stream()),  # noqa: B023
            lambda: compromised.attack_fakes(one, 0.5, trials=10, entropy=stream()),  # noqa: B023
            lambda: repetition.attack(one, [1], trials=10, entropy=stream()),  # noqa: B023
            lambda: poisoning.poisoned(one, np.zeros(20, np.int64), 1, 1, stream()),  # noqa: B023
            lambda: poisoning.bias(one.protocol, one.schema, 1),  # noqa: B023
        ):
            with pytest.raises(InvalidInput, match="must not be that of a survey; attacks"):
                run()
