"""Sums of tallies and pools of estimates: what they state holds for everybody who was counted."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hubbub as hb
from hubbub.io.reports import read_reports, write_reports
from hubbub.pipeline.reports import Batch, BatchHeader
from hubbub.pipeline.tally import counted_batch
from hubbub.report import html_table, result_page
from hubbub.report.results import private
from hubbub.results.estimate import achieved_guarantee
from hubbub.results.pool import _together, weakest

N = 500
LABELS = hb.Schema.one_hot(["a", "b", "c"])
SPLIT = hb.plan_from(LABELS, N, hb.Protocol(0.05, release="bits"), epsilon=1.0)
SURVEY = hb.Schema.survey({"colour": hb.Choice(["red", "blue"]), "dark mode": hb.Flag()})
ANSWERS = hb.plan_from(SURVEY, N, hb.Protocol.survey([hb.Noise(q=0.05)] * 2), epsilon=1.0)
PLANS = {
    "split bits": SPLIT,
    "records": hb.plan_from(LABELS, N, hb.Protocol(0.05), epsilon=1.0),
    "categories": hb.plan_from(LABELS, N, hb.Protocol(0.05, release="category"), epsilon=1.0),
    "fixed fakes": hb.plan_from(LABELS, N, hb.Protocol(0.05, m=N), epsilon=1.0),
    "copies": hb.plan_from(LABELS, N, hb.Protocol(0.2, k=2), delta=1e-6),
    "survey": ANSWERS,
}


def reports(plan: hb.Plan, people: int = N) -> hb.Reports:
    value = {"colour": "red", "dark mode": True} if plan is ANSWERS else "b"
    everybody = hb.Collection.from_values([value] * people, plan.schema)
    return hb.randomize(everybody, plan, fakes=plan.protocol.fixed_fakes or None)


def mixed(plan: hb.Plan, people: int = N) -> hb.Tally:
    return hb.tally(hb.shuffle(reports(plan))) + hb.tally(reports(plan, people))


@pytest.mark.parametrize("name", PLANS)
def test_a_sum_with_unshuffled_reports_states_the_local_figure_for_everybody(name: str) -> None:
    """Regression: the sum had the guarantee of the shuffled batch; for split bits δ = 8.8e-5 instead of 0.896."""
    plan = PLANS[name]
    alone = achieved_guarantee(hb.tally(reports(plan)), plan)
    one, two = hb.tally(hb.shuffle(reports(plan))), hb.tally(reports(plan))
    for total in (one + two, two + one, sum([one, two, hb.tally(hb.shuffle(reports(plan)))])):
        assert isinstance(total, hb.Tally)
        held = achieved_guarantee(total, plan)
        assert (held.epsilon, held.delta, held.assumptions.trust) == (alone.epsilon, alone.delta, "nobody")
        assert held.unshuffled == total.unshuffled == N
        assert held.n == total.n


def test_unshuffled_people_add_up() -> None:
    whole = mixed(SPLIT) + hb.tally(reports(SPLIT, 300))
    assert (whole.unshuffled, achieved_guarantee(whole, SPLIT).unshuffled) == (N + 300, N + 300)


def test_the_local_figure_is_that_of_the_own_messages_by_enumeration() -> None:
    q = SPLIT.protocol.q
    # Of two bits that differ, seen in order, the most telling outcome is that neither was flipped.
    exact = (1 - q) ** 2 - math.e * q**2
    held = achieved_guarantee(mixed(SPLIT, 1), SPLIT)
    assert exact <= held.delta <= exact * (1 + 1e-9)
    assert held.note.startswith("the reports of 1 person were not shuffled")


def test_estimates_and_everything_written_about_them_say_so() -> None:
    found = hb.estimate(mixed(SPLIT), SPLIT)
    assert found.guarantee is not None
    assert "500 people were not shuffled" in found.guarantee.note
    for text in (private(found), html_table(found), result_page(found), str(found.guarantee)):
        assert "500 people were not shuffled" in text
    read = hb.Result.from_json(found.to_json())
    assert read.guarantee == found.guarantee
    survey = hb.estimate(mixed(ANSWERS), ANSWERS)
    assert survey.guarantee is not None
    assert survey.guarantee.unshuffled == N
    assert "500 people were not shuffled" in result_page(survey)
    again = hb.Result.from_json(survey.to_json())
    assert again.guarantee == survey.guarantee


def test_reports_hidden_by_the_shufflers_fakes_are_not_added_to_unshuffled_ones() -> None:
    """Regression: only a tally without any shuffled batch was refused, although the clear ones hide nothing."""
    plan = hb.plan_from(LABELS, N, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)), delta=1e-6)
    with pytest.raises(hb.InvalidInput, match="must be shuffled, because the shuffler adds the fakes"):
        hb.estimate(mixed(plan), plan)
    with pytest.raises(hb.InvalidInput, match="must be shuffled, because the shuffler adds the fakes"):
        achieved_guarantee(mixed(plan), plan)
    with pytest.raises(hb.InvalidInput, match="must be shuffled"):
        hb.joint([hb.shuffle(reports(plan)), reports(plan)], plan, ["a"])


@pytest.mark.parametrize("name", ["one.hub", "one.parquet", "one/"])
def test_files_and_directories_remember_it(name: str, tmp_path: Path) -> None:
    def stored(batch: hb.Reports, place: str) -> hb.Tally:
        path = f"{tmp_path}/{place}{name}"
        write_reports(path, SPLIT, Batch(batch.header, batch.blocks))
        return hb.tally(read_reports(path, SPLIT))

    total = stored(hb.shuffle(reports(SPLIT)), "mixed-") + stored(reports(SPLIT), "raw-")
    assert (total.unshuffled, total.batches) == (N, 1)
    assert achieved_guarantee(total, SPLIT).unshuffled == N


def test_a_plan_without_a_shuffler_keeps_its_figure() -> None:
    plan = hb.plan_from(LABELS, N, hb.Protocol(0.4), delta=1e-6, trust="nobody")
    held = achieved_guarantee(mixed(plan), plan)
    assert (held.epsilon, held.unshuffled, held.note) == (plan.guarantee.epsilon, 0, "")


def test_a_pool_of_shuffled_and_unshuffled_estimates_states_the_local_figure() -> None:
    parts = [
        hb.estimate(hb.tally(hb.shuffle(reports(SPLIT))), SPLIT),
        hb.estimate(hb.tally(reports(SPLIT)), SPLIT),
    ]
    for order in itertools.permutations(parts):
        found = hb.pool(order).guarantee
        assert found is not None
        assert (found.delta, found.unshuffled) == (parts[1].guarantee.delta, N)  # type: ignore[union-attr]
    # A larger figure of shuffled people says nothing about those whose messages nobody shuffled.
    held = parts[0].guarantee
    assert held is not None
    weak = replace(parts[0], achieved=replace(held, epsilon=99.0, delta=0.9))
    assert weakest([weak, parts[1]]) is None


def test_a_pool_assumes_what_any_of_its_parts_assumes() -> None:
    """Regression: pooled with a larger figure that needs nobody, people behind a shuffler seemed to need none."""
    local = hb.plan_from(LABELS, N, hb.Protocol(0.4), delta=1e-6, trust="nobody")
    drawn = hb.plan_from(LABELS, N, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 25)), delta=1e-6)
    parts = [hb.estimate(hb.tally(hb.shuffle(reports(plan))), plan) for plan in (local, drawn, SPLIT)]
    first, second = (part.guarantee for part in parts[:2])
    assert first is not None
    assert second is not None
    held = weakest([replace(parts[0], achieved=replace(first, epsilon=9.0, delta=1e-3)), parts[1]])
    assert held is not None
    assert held.epsilon == 9.0
    assert (held.assumptions.shuffler, held.assumptions.fakes) == (True, True)
    assert math.isinf(held.assumptions.collusion_epsilon)
    assert "with their senders" not in held.assumptions.sentences()[0]
    raw = hb.estimate(hb.tally(reports(SPLIT)), SPLIT)
    assert hb.pool([parts[0], raw]).guarantee is None


def test_guarantees_hold_together_under_the_strongest_of_their_conditions() -> None:
    one = hb.Assumptions(
        honest=9, shuffler=True, fakes=False, view="counts", collusion_epsilon=3.0, count_epsilon=1.0, relay=False
    )
    two = hb.Assumptions(
        honest=1, shuffler=True, fakes=True, view="tags", collusion_epsilon=2.0, count_epsilon=4.0, relay=True
    )
    both = replace(two, honest=9, view="counts and tags", collusion_epsilon=3.0)
    assert _together([one, two]) == both
    assert _together([two, one]) == replace(both, view="tags and counts")


def test_the_sum_has_the_fewest_fakes_of_a_batch() -> None:
    """Regression: several batches counted as having all planned fakes, although one declared fewer."""
    plan = PLANS["fixed fakes"]
    whole = hb.tally(hb.shuffle(reports(plan)))
    sent = hb.randomize(hb.Collection.from_values(["a"] * N, LABELS), plan, fakes=10)
    fewer = hb.tally(replace(sent, shuffled=True))
    alone = achieved_guarantee(fewer, plan)
    assert alone.delta > plan.guarantee.delta
    assert achieved_guarantee(whole + fewer, plan) == achieved_guarantee(fewer + whole, plan) == alone


def test_of_a_batch_with_rejected_messages_the_certified_people_and_their_fakes_count() -> None:
    plan = PLANS["fixed fakes"]
    counts = np.zeros(3, np.int64)

    def opened(n: int, certified: int = 0) -> hb.Guarantee:
        header = BatchHeader.of(plan, messages=2 * n, n=n, fakes=n, shuffled=True, certified=certified)
        return achieved_guarantee(counted_batch(header, 2 * n, counts.copy()), plan)

    assert opened(900, 600) == opened(600)
    assert opened(900).delta < opened(600).delta < plan.guarantee.delta


def test_users_who_are_not_honest_cannot_hide_others_among_declared_fakes() -> None:
    plan = hb.plan_from(LABELS, N, hb.Protocol(0.05, m=N), epsilon=1.0, honest_fraction=0.5)
    header = BatchHeader.of(plan, messages=6 * N, n=N, fakes=5 * N, shuffled=True)
    assert achieved_guarantee(counted_batch(header, 6 * N, np.zeros(3, np.int64)), plan).delta == plan.guarantee.delta


def test_a_tally_of_several_batches_that_does_not_say_so_has_a_batch_without_fakes() -> None:
    plan, counts = PLANS["fixed fakes"], np.zeros(3, np.int64)
    counts.setflags(write=False)
    both = hb.Tally(plan=plan.id, n=2 * N, fakes=2 * N, messages=4 * N, batches=2, smallest_batch=N, counts=counts)
    assert both.fewest_fakes == 0
    assert achieved_guarantee(both, plan).delta > plan.guarantee.delta


def test_no_single_figure_is_stated_where_none_has_the_largest_of_both() -> None:
    part = hb.estimate(hb.tally(hb.shuffle(reports(SPLIT))), SPLIT)
    held = part.guarantee
    assert held is not None
    one = replace(part, achieved=replace(held, epsilon=2.0, delta=1e-9))
    two = replace(part, achieved=replace(held, epsilon=1.0, delta=1e-3))
    assert weakest([one, two]) is weakest([two, one]) is None


def test_a_sum_of_shuffled_batches_is_as_good_as_the_smallest() -> None:
    large, small = hb.tally(hb.shuffle(reports(SPLIT, 900))), hb.tally(hb.shuffle(reports(SPLIT)))
    assert achieved_guarantee(large, SPLIT).delta < SPLIT.guarantee.delta
    assert achieved_guarantee(large + small, SPLIT) == SPLIT.guarantee


def test_the_achieved_guarantee_is_solved_for_what_the_plan_solved_for() -> None:
    plan = PLANS["copies"]
    held = achieved_guarantee(hb.tally(hb.shuffle(reports(plan, 900))), plan)
    assert held.delta == plan.guarantee.delta
    assert held.epsilon < plan.guarantee.epsilon


def test_a_tally_is_not_added_to_itself() -> None:
    one = hb.tally(hb.shuffle(reports(SPLIT)))
    with pytest.raises(hb.InvalidInput, match="different people"):
        one + one
    with pytest.raises(hb.InvalidInput, match="different people"):
        sum([one, one])


def make(**changed: object) -> Callable[[], hb.Tally]:
    one = hb.tally(hb.shuffle(reports(SPLIT)))
    return lambda: replace(one, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (make(unshuffled=N + 1), "unshuffled must be"),
        (make(smallest_batch=0), "smallest_batch must be at least 1"),
        (make(fewest_fakes=-1), "fewest_fakes must be"),
    ],
)
def test_tallies_that_contradict_themselves_are_refused(build: Callable[[], hb.Tally], message: str) -> None:
    with pytest.raises(hb.InvalidInput, match=message):
        build()


def test_a_tally_without_a_shuffled_batch_is_unshuffled_whatever_it_says() -> None:
    one = hb.tally(reports(SPLIT))
    assert replace(one, unshuffled=0).unshuffled == N
    counts = np.zeros(3, np.int64)
    made = hb.Tally(plan=SPLIT.id, n=7, fakes=0, messages=0, batches=0, smallest_batch=0, counts=counts)
    assert (hb.tally(hb.shuffle(reports(SPLIT))) + made).unshuffled == 7


def test_a_plan_states_no_figure_of_unshuffled_people() -> None:
    local = hb.plan_from(LABELS, N, hb.Protocol(0.4), delta=1e-6, trust="nobody")
    with pytest.raises(hb.InvalidInput, match="unshuffled"):
        replace(local, guarantee=replace(local.guarantee, unshuffled=3))
    with pytest.raises(hb.InvalidInput, match="unshuffled must be 0"):
        replace(SPLIT.guarantee, unshuffled=3)
