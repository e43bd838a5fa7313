"""An audit of a survey passes honest programs, and names the attribute of every planted fault."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.lab.faults import generator, honest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import InvalidInput
from hubbub.lab.audit import results as page
from hubbub.lab.audit.columns import separate
from hubbub.lab.audit.commands import Client, ClientCommand, Shuffler, ShufflerCommand
from hubbub.lab.audit.results import Audit, Effort
from hubbub.lab.audit.shuffler import linked_answers
from hubbub.lab.audit.trial import audit
from hubbub.model.protocol import Noise

SCHEMA = hb.Schema.survey(
    {"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag(), "memory": hb.Number(0, 15, digits=[4, 2])}
)
EFFORT = Effort(values=600, runs=8, shuffles=100, pipeline=200, mixed=500)


def plan_of(noise: list[Noise], release: str = "bits", n: int = 400) -> hb.Plan:
    protocol = hb.Protocol.survey(noise, release)  # type: ignore[arg-type]
    return hb.plan_from(SCHEMA, n, protocol, delta=1e-4)


LAPLACE = plan_of([Noise(m=hb.Fakes.laplace(scale, round(12 * scale))) for scale in (6.0, 4.0, 8.0, 6.0)])
FLIPS = plan_of([Noise(0.1), Noise(0.2), Noise(0.1), Noise(0.15)])
RESPONSES = plan_of([Noise(0.1), Noise(0.2), Noise(0.1), Noise(0.15)], "category")
FAKES = plan_of([Noise(m=hb.Fakes.poisson(1.0))] * 4)


def shuffler(seed: int = 2) -> Shuffler:
    entropy = SeededStreamNotForPeople(seed)
    return lambda reports: hb.shuffle(reports, entropy=entropy)


def tried(plan: hb.Plan, client: Client | None, shuffle: Shuffler | None, effort: Effort = EFFORT) -> Audit:
    return audit(plan, client, shuffle, tried=effort)


def names(found: Audit) -> str:
    assert not found.passed
    assert not found.private
    assert found.sentence().startswith("FAIL: ")
    return " / ".join(one.text for one in found.diagnoses)


def kept(reports: hb.Reports, keep: NDArray[np.bool_], place: int) -> hb.Reports:
    """The reports without some messages of one attribute."""
    one = reports.plan.schema.attributes[place]
    own = (reports.messages >= one.start) & (reports.messages < one.stop)
    return replace(reports, messages=reports.messages[~own | keep])


@pytest.mark.parametrize("plan", ["Laplace", "flips", "responses", pytest.param("fakes", marks=pytest.mark.slow)])
def test_honest_programs_pass(plan: str) -> None:
    chosen = {"Laplace": LAPLACE, "flips": FLIPS, "responses": RESPONSES, "fakes": FAKES}[plan]
    found = tried(chosen, honest(), shuffler())
    assert found.passed, found.sentence()
    whole = [one for one in found.attacks if "all 4 attributes" in one.name]
    assert whole
    assert all(one.epsilon <= one.claimed for one in whole)
    assert {one.part for one in found.findings} >= {"client", "shuffler", "pipeline"}
    for name in ("colour", "dark mode", "memory, attribute 1 of 2", "memory, attribute 2 of 2"):
        assert any(one.where.startswith(f"{name}: ") for one in found.findings)
    assert page.record(found)
    assert "memory, attribute 2 of 2" in page.page(found)


def other_noise(place: int, noise: Noise) -> Callable[[hb.Plan], hb.Plan]:
    """Return the plan with another noise of one attribute, as a faulty program reads it."""

    def change(plan: hb.Plan) -> hb.Plan:
        if not plan.schema.named:
            return plan
        each = [noise if i == place else one for i, one in enumerate(plan.protocol.noise)]
        return replace(plan, protocol=hb.Protocol.survey(each, plan.protocol.release))

    return change


def wrong_shuffler(change: Callable[[hb.Plan], hb.Plan]) -> Shuffler:
    shuffle = shuffler()
    return lambda reports: replace(shuffle(replace(reports, plan=change(reports.plan))), plan=reports.plan)


def wrong_client(change: Callable[[hb.Plan], hb.Plan]) -> Client:
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        return replace(send(collection, change(plan)), plan=plan)

    return client


def test_shuffler_without_fakes_for_one_attribute() -> None:
    bare = other_noise(1, Noise(m=hb.Fakes.laplace(2.0**-10, 0)))
    found = names(tried(LAPLACE, None, wrong_shuffler(bare)))
    assert "the shuffler adds less fakes than planned, dark mode: " in found
    assert "planned, colour" not in found
    assert "planned, memory" not in found


def test_shuffler_with_the_scale_of_another_attribute() -> None:
    wrong = other_noise(2, Noise(m=hb.Fakes.laplace(4.0, 96)))
    found = tried(LAPLACE, None, wrong_shuffler(wrong))
    places = {one.where.rpartition(": ")[0] for one in found.violations}
    assert places == {"memory, attribute 1 of 2"}
    assert {one.name for one in found.violations} == {"distribution of shuffler fakes"}


def test_missing_fakes_are_seen_by_the_attack_on_all_attributes() -> None:
    bare = other_noise(1, Noise(m=hb.Fakes.laplace(2.0**-10, 0)))
    effort = replace(EFFORT, shuffles=20, pipeline=400, values=100)
    found = tried(LAPLACE, honest(), wrong_shuffler(bare), effort)
    reached = [one for one in found.attacks if "all 4 attributes" in one.name]
    assert any(one.epsilon > one.claimed for one in reached)


@pytest.mark.parametrize("plan", ["flips", "responses"])
def test_flips_missing_for_one_attribute(plan: str) -> None:
    chosen = FLIPS if plan == "flips" else RESPONSES
    found = tried(chosen, wrong_client(other_noise(3, Noise(2.0**-47))), None)
    text = names(found)
    assert "memory, attribute 2 of 2: " in text
    assert all(one.where.startswith("memory, attribute 2 of 2") for one in found.violations)


def test_flip_probability_of_another_attribute() -> None:
    found = tried(FLIPS, wrong_client(other_noise(1, Noise(0.1))), None)
    assert {one.where.partition(": ")[0] for one in found.violations} == {"dark mode"}


def test_client_that_leaves_out_an_answer() -> None:
    send = honest()

    def client(collection: hb.Collection, plan: hb.Plan) -> hb.Reports:
        reports = send(collection, plan)
        return kept(reports, np.arange(len(reports)) % 7 > 0, 0)

    for plan in (RESPONSES, LAPLACE):
        found = tried(plan, client, None)
        assert any(one.part == "wire" and one.where.startswith("colour") for one in found.violations)


def in_order(plan: hb.Plan, place: int) -> Shuffler:
    """A shuffler that leaves the answers of one attribute in the order of their arrival."""
    shuffle, one = shuffler(), plan.schema.attributes[place]

    def ordered(reports: hb.Reports) -> hb.Reports:
        mixed = shuffle(reports)
        if not reports.plan.schema.named:
            return mixed

        def own(messages: NDArray[Any]) -> NDArray[np.bool_]:
            return np.asarray((messages >= one.start) & (messages < one.stop))

        messages = mixed.messages.copy()
        arrived = reports.messages[own(reports.messages)]
        messages[np.flatnonzero(own(messages))[: arrived.size]] = arrived
        return replace(mixed, messages=messages)

    return ordered


def test_attribute_that_leaves_in_order_of_arrival() -> None:
    found = tried(FLIPS, None, in_order(FLIPS, 1))
    assert {one.where.partition(": ")[0] for one in found.violations} == {"dark mode"}
    assert "the order of arrival shows" in names(found)


def test_answers_of_one_person_that_stay_together() -> None:
    rng, shuffle = generator(), shuffler()

    def bundled(reports: hb.Reports) -> hb.Reports:
        if not reports.plan.schema.named:
            return shuffle(reports)
        rows = reports.messages[: 4 * reports.n].reshape(reports.n, -1)
        mixed = rows[rng.permutation(len(rows))].reshape(-1)
        return replace(reports, messages=np.concatenate([mixed, reports.messages[4 * reports.n :]]), shuffled=True)

    bad = linked_answers(bundled, FLIPS, 5, lambda: None)
    assert bad.p < 1e-9
    assert bad.observed > 2 * bad.allowed / 1.5
    assert linked_answers(shuffle, FLIPS, 40, lambda: None).p > 1e-4
    assert linked_answers(shuffle, LAPLACE, 40, lambda: None).p > 1e-4


def test_moments_of_alike_neighbours() -> None:
    """The stated variance is that of random orders: z-values of many batches have variance 1."""
    rng = generator()

    def permuted(reports: hb.Reports) -> hb.Reports:
        return replace(reports, messages=rng.permutation(reports.messages), shuffled=True)

    p = [linked_answers(permuted, FLIPS, 1, lambda: None).p for _ in range(400)]
    assert 0.01 < np.mean(np.array(p) < 0.05) < 0.1


def test_names_of_attributes() -> None:
    assert [one.name for one in separate(FLIPS)] == [
        "colour",
        "dark mode",
        "memory, attribute 1 of 2",
        "memory, attribute 2 of 2",
    ]


def test_commands_of_shufflers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the shuffler must be a Python callable for a survey"):
        audit(FLIPS, None, ShufflerCommand(("true",)), runs=100)


def test_a_program_that_sends_nothing_is_reported() -> None:
    found = audit(FLIPS, ClientCommand(("true",)), None, runs=100)
    assert not found.passed
