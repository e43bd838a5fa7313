"""The five applications at reduced size, and the formulas that they hold the figures of 2016 against."""

import functools
import importlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from examples._collection import simulate_counts, simulate_records
from examples._outcome import Outcome, budget_of_2016
from examples._page import page
from examples._rules_2016 import Claim, compare_shares, local_share, plain_flip, ratio_flip, share_within, stand_out
from research.notes.formulas.estimation import count_stderr
from tests.report.structure import check_page

import hubbub as hb
from examples import home_pages, search_queries, tiles
from hubbub.accountant import account
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.pipeline.records import SetBits

SIZES = {
    "home_pages": 20_000,
    "search_defaults": 20_000,
    "tiles": 10_000,
    "clicks": 5_000,
    "search_queries": 20_000,
}


def stream(seed: int = 7) -> SeededStreamNotForPeople:
    return SeededStreamNotForPeople(seed)


@functools.cache
def outcome(name: str) -> Outcome:
    found: Outcome = importlib.import_module(f"examples.{name}").run(SIZES[name], stream())
    return found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.long] if name.startswith("search") else [], id=name) for name in SIZES
    ],
)
def shown(request: pytest.FixtureRequest) -> Outcome:
    """The outcome of every application in turn: pytest groups tests by it, so that few test processes compute it."""
    return outcome(request.param)


def test_plan_meets_the_guarantee(shown: Outcome) -> None:
    assert shown.plan.n == SIZES[shown.study.name]
    assert shown.plan.protocol.q > 0  # the policy: nothing in the clear
    ledger = hb.Ledger().charge_protocol(
        shown.plan.protocol, _small(shown.plan.schema), shown.plan.n, rounds=shown.study.rounds
    )
    assert ledger.epsilon(shown.study.budget.delta) <= shown.study.budget.epsilon * 1.01
    assert any(rival.protocol == shown.plan.protocol for rival in shown.frontier)


def _small(schema: hb.Schema) -> hb.Schema:
    """A schema with the same distance, which is all that matters for split bits, and fewer labels."""
    return hb.Schema.bits(schema.distance)


def test_estimates_are_as_good_as_they_say(shown: Outcome) -> None:
    errors = shown.simulated.estimate.values - shown.simulated.truth
    width = errors.size
    # σ of the mean square is √(2/width) of it, a little more for the skewness of rare flips.
    assert abs(np.mean(errors**2) / shown.plan.stderr**2 - 1) < 5 * math.sqrt(2.5 / width)
    assert shown.simulated.covered > 0.95 - 4 * math.sqrt(0.05 / width)
    assert int(shown.simulated.truth.sum()) >= SIZES[shown.study.name] or shown.study.name == "search_defaults"


def test_messages_are_as_many_as_planned(shown: Outcome) -> None:
    q, n, width = shown.plan.protocol.q, shown.plan.n, shown.plan.schema.width
    ones = int(shown.simulated.truth.sum())
    expected = ones * (1 - q) + (n * width - ones) * q
    assert abs(shown.simulated.messages - expected) < 5 * math.sqrt(n * width * q * (1 - q)) + 1


def test_page_and_record_are_whole(shown: Outcome) -> None:
    check_page(page(shown), charts=3)
    record = json.loads(json.dumps(shown.record()))
    assert record["epsilon"] == 2.0
    assert record["compared"]
    assert record["claims"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["clicks"])
def test_command(name: str, tmp_path: Any) -> None:
    module = importlib.import_module(f"examples.{name}")
    target = f"{tmp_path}/page.html"
    result = CliRunner().invoke(module.main, ["--people", "2000", "--seed", "3", "--json", "-o", target])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["people"] == 2000
    told = CliRunner().invoke(module.main, ["--people", "2000", "--seed", "3"])
    assert "The figures of 2016, for 50,000 people" in told.stdout
    closing = told.stdout.split("With 2,000 people:")[1]
    assert "50,000" not in closing
    assert closing.count(", 2,000 people)") == 2
    assert "→ split bits" in told.stdout


def test_closing_sentences_fit_the_size_that_was_run(shown: Outcome) -> None:
    assert shown.people_of_2016 == importlib.import_module(f"examples.{shown.study.name}").PEOPLE
    assert {claim.n for claim in shown.claims} == {SIZES[shown.study.name]}
    text = " ".join([shown.accuracy(), *(claim.sentence() for claim in shown.claims), *shown.remarks])
    assert f"{shown.people_of_2016:,}" not in text
    assert all(float(share) < 100 for share in re.findall(r"([\d.]+) %", text))
    assert not re.search(r"\bfew\b|\btenth\b|three times|seven times", text)


def test_no_label_is_measured_in_a_tiny_collection() -> None:
    assert compare_shares(1.2, 0.5) == "no share within the target error"
    assert compare_shares(0.2, 1.5) == "shares down to 20 %, where the rule measures none"
    assert "above the 10 %" in compare_shares(0.2, 0.1)


def test_a_claim_that_holds_is_said_to_hold() -> None:
    assert Claim("", hb.Protocol(0.25), hb.Schema.bits(1), 1000, 2.0, 1e-6).sentence().endswith("The target is met.")


@pytest.mark.parametrize("shown", ["home_pages", "clicks", "search_queries"], indirect=True)
def test_claims_of_2016_are_void(shown: Outcome) -> None:
    for claim in shown.claims:
        assert claim.found.lower_bound > 0.05 > 1e4 * claim.target


# The figures of 2016.


@pytest.mark.parametrize(
    ("recomputed", "printed"),
    [
        (local_share(10**7, 2, 2.0, 0.05), 0.018),
        (plain_flip(10**7, 2, 2.0), 0.00015),
        (share_within(count_stderr(10**7, 0.00015), 10**7, 0.05), 0.00023),
        (local_share(50_000, 6, 2.0, 0.25), 0.16),
        (share_within(count_stderr(50_000, ratio_flip(50_000, 2, 2.0)), 50_000, 0.25), 0.003),
    ],
)
def test_printed_figures_come_out(recomputed: float, printed: float) -> None:
    assert recomputed == pytest.approx(printed, rel=0.025)


@pytest.mark.parametrize(
    ("recomputed", "printed"),
    [
        (local_share(10**7, 13, 2.0, 0.05), 0.21),
        (share_within(count_stderr(10**7, ratio_flip(10**7, 13, 2.0)), 10**7, 0.05), 0.021),
        (local_share(10**7, 2, math.log(2), 0.05), 0.018),  # guarantee 2 as a ratio of 2
    ],
)
def test_figures_that_do_not_come_out_are_far_off(recomputed: float, printed: float) -> None:
    assert abs(recomputed / printed - 1) > 0.3


def test_the_claim_about_home_pages_is_void_at_full_size() -> None:
    schema = hb.Schema.one_hot(50_000)
    claim = Claim("", hb.Protocol(0.00015), schema, 10**7, 2.0, 1e-9)
    assert 0.79 < claim.found.lower_bound <= claim.found.delta < 0.80
    split = account(hb.Protocol(0.00015, release="bits"), schema, 10**7, delta=1e-9)
    assert split.epsilon < 0.25  # the same q is more than enough for split bits


def test_standing_out_agrees_with_the_accountant() -> None:
    n, q = 10**7, 0.00015
    seen = stand_out(n, q, trials=4000, entropy=stream())
    proven = account(hb.Protocol(q), hb.Schema.one_hot(50_000), n, epsilon=0.0)
    assert seen.low <= (1 + proven.delta) / 2
    assert seen.high >= (1 + proven.lower_bound) / 2  # the guess by counts is as good as the best known attack
    assert seen.low > math.exp(2) / (1 + math.exp(2))  # more often right than ε = 2 would allow
    assert seen.alone == pytest.approx(math.exp(-2 * n * q * q), abs=0.04)


def test_delta_is_a_hundredth_of_one_person() -> None:
    assert budget_of_2016(50_000) == hb.Budget(2.0, 2e-7)


# Synthetic people, and the law of the counts.


def test_tiles_are_legal_records() -> None:
    flat, ends = tiles.chosen_tiles(2000, stream())
    people = hb.Collection(hb.Schema.at_most(tiles.TILES, tiles.SITES), SetBits(flat, ends))  # rejects illegal ones
    assert len(people) == 2000
    assert ends[-1] < 2000 * tiles.TILES  # popular sites were drawn twice, and count once


def test_queries_add_up_and_hashes_fit() -> None:
    people = search_queries.Population.zipf(30_000, stream())
    assert int(people.counts.sum()) == 30_000
    assert int(people.hashes.max()) < 2**28
    assert (np.diff(people.hashes) > 0).all()
    assert search_queries.lengths(10**8) == [18, 23, 28]


def test_simulated_counts_match_simulated_records() -> None:
    truth = np.array([700, 200, 90, 10, 0], np.int64)
    plan = hb.plan_from(hb.Schema.one_hot(5), 1000, hb.Protocol(0.05, release="bits"), delta=1e-6)
    source = stream()
    people = hb.Collection.from_values(np.repeat(np.arange(5), truth), plan.schema)
    records = np.array([simulate_records([(people, truth)], plan, entropy=source).estimate.values for _ in range(30)])
    counts = np.array([simulate_counts(truth, 1000, plan, entropy=source).estimate.values for _ in range(500)])
    sigma = plan.stderr
    for sample in (records, counts):
        assert np.abs(sample.mean(axis=0) - truth).max() < 4.5 * sigma / math.sqrt(len(sample))
        assert np.abs(sample.var(axis=0) / sigma**2 - 1).max() < 4.5 * math.sqrt(2 / len(sample))


def test_simulated_counts_need_split_bits() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(5), 1000, hb.Protocol(0.05), delta=1e-6)
    with pytest.raises(hb.errors.InvalidInput, match="split bits"):
        simulate_counts(np.full(5, 200), 1000, plan, entropy=stream())


def test_sites_shrink_with_the_people() -> None:
    assert home_pages.study(10**7).schema.width == 50_000
    assert home_pages.study(20_000).schema.width == 100


@pytest.mark.long
@pytest.mark.parametrize("name", ["home_pages", "search_defaults", "tiles", "clicks"])
def test_documented_figures_are_those_of_the_plans(name: str) -> None:
    module = importlib.import_module(f"examples.{name}")
    asked = module.study(module.PEOPLE)
    plan = asked.chosen()
    text = (Path(__file__).parents[2] / "docs" / "applications.md").read_text().replace("\u00a0", " ")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {name.replace('_', ' ')} |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[4]) == pytest.approx(plan.stderr, rel=0.006)
    share = share_within(plan.stderr, plan.n, asked.error)
    assert float(cells[5].removesuffix(" %")) / 100 == pytest.approx(share, rel=0.05)
    assert float(cells[6].removeprefix("≤ ")) == pytest.approx(plan.payload_messages, rel=0.005)
