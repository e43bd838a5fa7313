"""The report on a plan: every kind of protocol in words, honest odds, and everything that a reader was promised."""

import dataclasses
import math
import re
from html import unescape

import pytest
from tests.report.structure import check_page

import hubbub as hb
from hubbub.model.privacy import TrustModel, described_rate, success_rate
from hubbub.report import explanation, render
from hubbub.report.plan_report import Agreement, Background, plan_report
from hubbub.report.report import Table
from hubbub.report.words import described_plan

COLOURS = hb.Schema.one_hot(["red", "green", "blue", "<other>"])
FLAGS = hb.Schema.bits(["dark", "sound"])
PLANS = {
    "flip": hb.plan_from(FLAGS, 1000, hb.Protocol(0.2), delta=1e-6),
    "one bit": hb.plan_from(hb.Schema.bits(["crashed"]), 1000, hb.Protocol(0.2), delta=1e-6),
    "copies": hb.plan_from(COLOURS, 1000, hb.Protocol(0.2, k=4), delta=1e-6),
    "split": hb.plan_from(COLOURS, 1000, hb.Protocol(0.1, release="bits"), delta=1e-6),
    "response": hb.plan_from(COLOURS, 1000, hb.Protocol(0.1, release="category"), delta=1e-6),
    "local": hb.plan_from(COLOURS, 1000, hb.Protocol(0.3), delta=1e-6, trust="nobody"),
    "fixed fakes": hb.plan_from(FLAGS, 1000, hb.Protocol(0.1, m=2500), delta=1e-6),
    "users' fakes": hb.plan_from(COLOURS, 1000, hb.Protocol(0.0, m=hb.Fakes.binomial(4, 0.5)), delta=1e-6),
    "shuffler's fakes": hb.plan_from(COLOURS, 100, hb.Protocol(0.0, m=hb.Fakes.laplace(4.0, 60)), delta=1e-6),
    "few of many": hb.plan_from(hb.Schema.at_most(2, 20), 1000, hb.Protocol(0.05, release="bits"), delta=1e-6),
}
AGREEMENT = Agreement(
    id="c0" * 32,
    min_batch_size=1100,
    epoch=7 * 86_400,
    start="2030-01-03 00:00 UTC",
    end="2031-01-02 00:00 UTC",
    admission="by ticket, issued by accounts.example",
    operators={"shuffler": "0a" * 32, "analyzer": "0b" * 32},
    signed=("analyzer",),
)


@pytest.mark.parametrize("name", PLANS)
def test_every_protocol_has_a_page(name: str) -> None:
    plan = PLANS[name]
    page = render(plan_report(plan, Background(question="Which <colour>?", alternatives=[plan], central=2.0)))
    found = check_page(page, 0)
    text = unescape(re.sub(r"<[^>]*>", " ", page))
    for heading in (
        "What is asked, and of whom",
        "What leaves a device",
        "Who learns what",
        "The odds in plain words",
        "How precise the results are",
        "Alternatives considered",
        "What the guarantee rests on",
        "How it was verified",
        "Retention, erasure and withdrawal",
        "Identifiers and signatures",
    ):
        assert f"<h2>{heading}</h2>" in page
    assert found.counts["h1"] == 1
    assert plan.id in text
    assert [sentence for sentence in plan.guarantee.assumptions.sentences() if sentence not in text] == []
    assert "<other>" not in page
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_the_example_message_is_one_that_the_plan_allows() -> None:
    from hubbub.wire import messages

    for name, plan in PLANS.items():
        answer, sent = explanation.example(plan)
        assert answer == plan.schema.labels[0]
        assert explanation.example(plan) == (answer, sent)
        for what, text in sent:
            assert explanation.meaning(messages.decode(bytes.fromhex(text), plan), plan) == what, name


def test_clear_records_are_called_unprotected() -> None:
    rows = explanation.learns(PLANS["shuffler's fakes"])
    assert {who: told for who, _, told in rows}["both, if they collude"] == "the answer (no protection)"
    assert any("unchanged" in line for line in explanation.leaves(PLANS["shuffler's fakes"]))
    assert not any("unchanged" in line for line in explanation.leaves(PLANS["split"]))


def test_who_colludes_sees_all_rounds() -> None:
    """The noise of one round protects much less after all of them; reports and the studio must say so."""
    once = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.4), delta=1e-6)
    weekly = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.4), delta=1e-6, rounds=52, total_delta=1e-4)
    epsilon = once.guarantee.assumptions.collusion_epsilon
    assert weekly.guarantee.assumptions.collusion_epsilon == epsilon < 1
    for plan, right in ((once, explanation.guesses(epsilon)), (weekly, explanation.guesses(52 * epsilon))):
        together = "shuffler and analyzer together" + (" in all 52 rounds" if plan is weekly else "")
        assert dict(explanation.odds(plan))[together] == right
        learns = {who: told for who, _, told in explanation.learns(plan)}["both, if they collude"]
        assert learns == explanation.learned(plan.rounds * epsilon, rounds=plan.rounds)
    assert explanation.guesses(52 * epsilon) == "almost always (no real protection)"
    assert any("collude in all 52 rounds" in line for line in explanation.assumed(weekly))
    assert not any("rounds" in line for line in explanation.assumed(once))


def test_a_series_is_stated_before_one_round() -> None:
    """Regression: guarantee, odds and collusion ε were those of one round, without a word; the first card as well."""
    weekly = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.4), delta=1e-6, rounds=52, total_delta=1e-4)
    total, once = weekly.total, weekly.guarantee
    assert total.epsilon > 3 * once.epsilon
    rows = [(name, value) for name, value in described_plan(weekly) if name]
    named = dict(rows)
    assert named["guarantee"].startswith(f"({total.epsilon:.4g}, {total.delta:.3g})-differential privacy for all 52")
    assert named["odds"].startswith("after all 52 rounds")
    assert described_rate(success_rate(total.epsilon, total.delta)) in named["odds"]
    collusion = once.assumptions.collusion_epsilon
    assert named["collusion ε"] == f"{52 * collusion:.3g} for all 52 rounds, {collusion:.3g} per round"
    order = [name for name, _ in rows]
    assert order.index("guarantee") < order.index("odds") < order.index("per round")
    each = f"{once.epsilon:.4g}"
    for line in str(weekly).splitlines():
        assert each not in line or "per round" in line
    report = plan_report(weekly)
    assert report.tiles[0][0] == f"ε = {total.epsilon:.3g}"
    assert f"ε = {once.epsilon:.3g} per round" in report.tiles[0][1]
    readers = [who for who, _ in explanation.odds(weekly)]
    assert readers[1].endswith("of all 52 rounds")
    assert readers[2].endswith("of one round")
    assert str(once.assumptions.sentences()).count("rounds") == 0
    assert "ε = " not in " ".join(explanation.assumed(weekly)).replace(
        f"collusion ε = {52 * collusion:.3g} for all 52 rounds, {collusion:.3g} per round", ""
    )


def test_alternatives_to_a_series_are_guessed_in_all_its_rounds() -> None:
    """Regression: next to 52 rounds, those who collude were said to guess the alternatives as if there was one."""
    schema = hb.Schema.one_hot(3)
    weekly = hb.plan_from(schema, 1000, hb.Protocol(0.49), delta=1e-6, rounds=52, total_delta=1e-4)
    other = hb.plan_from(schema, 1000, hb.Protocol(0.48, release="bits"), delta=1e-6)
    report = plan_report(weekly, Background(alternatives=[other]))
    (table,) = next(one.blocks[1:] for one in report.sections if one.heading == "Alternatives considered")
    assert isinstance(table, Table)
    assert table.head[1] == "95 % margin per round"
    assert table.head[3].endswith("guess right, after all 52 rounds")
    row = next(row for row in table.rows if row[0] == "split bits")
    assert explanation.guesses(52 * other.guarantee.assumptions.collusion_epsilon).startswith(row[3])
    assert row[2] == "the shuffler, and 1,000 users"
    assert report.tiles[2][1].endswith("per round")
    assert explanation.learns(weekly)[0][2].endswith("after all 52 rounds")


@pytest.mark.parametrize("trust", ["nobody", "shuffling", "shuffler-noise"])
def test_every_plan_says_what_it_needs(trust: TrustModel) -> None:
    plan = hb.plan(hb.Schema.one_hot(3), 1000, epsilon=1.0, delta=1e-6, trust=trust)
    needs = plan.guarantee.assumptions.needs
    number = {"nobody": "nobody but", "shuffling": "1,000 honest users", "shuffler-noise": "no honest user besides"}
    assert needs.startswith(number[trust])
    assert dict(described_plan(plan))["needs"] == needs
    assert needs in str(plan)
    assert needs in str(plan_report(plan))
    assert needs in str(explanation.explain(plan))


def test_a_large_collusion_epsilon_is_no_protection() -> None:
    assert "no real protection" in explanation.guesses(12.0)
    assert "no real protection" not in explanation.guesses(3.0)
    assert explanation.learned(6.0).startswith("much")
    assert explanation.learned(0.5).startswith("little")


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_the_odds_are_those_of_the_best_guess(epsilon: float) -> None:
    """Randomized response with odds e^ε is guessed right with exactly the stated share; a leak of δ adds to it."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert success_rate(epsilon, 0.0) == pytest.approx(keep, rel=1e-12)
    # With probability δ the answer is revealed, otherwise randomized response: this mechanism is (ε, δ)-private.
    delta = 0.01
    best = delta + (1 - delta) * keep
    assert best <= success_rate(epsilon, delta) * (1 + 1e-12)
    assert success_rate(epsilon, delta) == pytest.approx(
        (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1), rel=1e-12
    )


def test_the_stated_share_is_rounded_up() -> None:
    shares = [success_rate(step / 100, 1e-6) for step in range(600)]
    for share in shares:
        assert float(explanation.rounded(share).removesuffix("\u00a0%")) >= 100 * share - 1e-9


def test_small_probabilities_are_rounded_up() -> None:
    for probability in (1e-3, 9.99e-7, 3.2e-9, 0.4, 0.07):
        number = int(explanation.one_in(probability).removeprefix("1 in ").replace(",", ""))
        assert 1 / number >= probability * (1 - 1e-9)


def test_the_contract_is_described_with_its_signatures() -> None:
    page = render(plan_report(PLANS["split"], Background(agreement=AGREEMENT, statements=["Contact: a@example.org"])))
    for words in (
        "c0" * 32,
        "after 1 week at the earliest",
        "at least 1,100 people",
        "analyzer (signature verified)",
        "shuffler (not signed)",
        "accounts.example",
        "Contact: a@example.org",
    ):
        assert words in page


def test_results_are_shown_with_their_intervals() -> None:
    plan = PLANS["split"]
    people = hb.Collection.from_values(["red"] * 700 + ["green"] * 300, COLOURS)
    estimate = hb.estimate(hb.tally(hb.shuffle(hb.randomize(people, plan))), plan)
    page = render(plan_report(plan, Background(estimates={"week 1": estimate})))
    check_page(page, 1)
    assert "Results: week 1" in page
    assert "1,000 people" in page


def test_the_explanation_has_the_same_facts() -> None:
    for plan in PLANS.values():
        headings = [heading for heading, _ in explanation.explain(plan)]
        assert headings[0] == "In short"
        assert "Who learns what" in headings
        assert all(line for _, lines in explanation.explain(plan) for line in lines)


@pytest.mark.parametrize("export", [False, True])
def test_the_report_says_whether_messages_are_kept(export: bool) -> None:
    given = Background(agreement=dataclasses.replace(AGREEMENT, export=export))
    text = unescape(re.sub(r"<[^>]*>", " ", render(plan_report(PLANS["split"], given))))
    assert ("deletes the messages of a batch when it has counted them" in text) != export
    assert ("keeps the mixed messages of every batch that it has counted in a folder" in text) == export


def test_a_shuffler_that_takes_its_fakes_away_sees_the_noise_of_devices() -> None:
    drawn = hb.Fakes.laplace(4.0, 60)
    for protocol, left in (
        (hb.Protocol(0.1, m=drawn), "the counts without the noise of its fakes; "),
        (hb.Protocol(0.1, m=drawn, release="bits"), "the counts without the noise of its fakes; "),
        (hb.Protocol(0.0, m=drawn, release="bits"), "the exact counts; "),
    ):
        plan = hb.plan_from(COLOURS, 100, protocol, delta=1e-6)
        assert plan.guarantee.assumptions.fakes
        told = {who: told for who, _, told in explanation.learns(plan)}["shuffler that reads the results"]
        assert told.startswith(left)
    assert "Every device randomizes its answer, and" in explanation.summary(PLANS["copies"])
    assert "Every device hides its answer among fakes, and" in explanation.summary(PLANS["users' fakes"])


def test_a_shuffler_that_reads_the_results_is_named() -> None:
    """It subtracts its own fakes: the words "nothing about the answer" hold only for one that sees no results."""
    for name, plan in PLANS.items():
        rows = {who: told for who, _, told in explanation.learns(plan)}
        assert "shuffler" not in rows
        if not plan.guarantee.assumptions.shuffler:
            continue
        alone = rows["shuffler that reads the results"]
        assert alone.endswith(rows["both, if they collude"])
        fakes = plan.guarantee.assumptions.fakes
        assert alone.startswith("the exact counts" if fakes and plan.protocol.clear else "") or not fakes, name
        assert any("subtract its own fakes" in line for line in explanation.assumed(plan)) == fakes
        assert any("fills the batch" in who for who, _ in explanation.odds(plan))
