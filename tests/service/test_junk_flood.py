"""A flood of bundles that are accepted and hold nothing: what it costs the people in the same batch."""

from pathlib import Path

import pytest
from tests.service.admissions import BY_TICKET
from tests.service.flood import spoiled
from tests.service.system import System, plan_of

import hubbub as hb
from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Protocol
from hubbub.service.provision import closing_size, draft_contract
from hubbub.service.task.admission import Admission

PEOPLE, JUNK, MALICIOUS = 500, 552, 51
HIDDEN_BY_FAKES = hb.plan_from(hb.Schema.one_hot(2), 1000, Protocol(0, m=Fakes.laplace(1.0, shift=14)), delta=1e-6)
"""A plan whose certificate rests on the shuffler's fakes and on no other person."""
HIDDEN_BY_PEOPLE = plan_of(width=2, n=1000)


def flooded(folder: Path, plan: Plan, admission: Admission, people: int, junk: int) -> System:
    """Return a system in which people and junk have made a bucket of the default size, counted."""
    system = System(folder, plan=plan, min_batch_size=closing_size(plan), admission=admission)
    system.fill(people)
    client = system.client
    for _ in range(junk):
        system.upload(spoiled(client))
    system.next_epoch()
    system.deliver()
    return system


def test_one_device_does_not_erase_the_answers_of_an_open_collection(tmp_path: Path) -> None:
    """Regression: 552 bundles of one sender withheld the answers of 500 people, whom the fakes hide all the same."""
    system = flooded(tmp_path, HIDDEN_BY_FAKES, Admission("open"), PEOPLE, JUNK)
    (result,) = system.results()
    assert result["state"] == "committed"
    assert (result["people"], result["charged"], result["bundles"]) == (PEOPLE, JUNK, PEOPLE + JUNK)
    assert result["guarantee"]["assumptions"]["honest"] == 1
    assert sum(result["table"]["value"]) == pytest.approx(PEOPLE, abs=8 * sum(result["table"]["stderr"]))
    assert abs(result["table"]["value"][0] - PEOPLE / 2) < 8 * result["table"]["stderr"][0]
    system.shut()


def test_5_percent_of_the_accounts_do_not_erase_the_others(tmp_path: Path) -> None:
    """Regression: 51 accounts of 1,050 withheld the answers of 999 people."""
    people = closing_size(HIDDEN_BY_PEOPLE) - MALICIOUS
    system = flooded(tmp_path, HIDDEN_BY_PEOPLE, BY_TICKET, people, MALICIOUS)
    (result,) = system.results()
    assert (result["state"], result["people"], result["charged"]) == ("committed", people, MALICIOUS)
    assert result["guarantee"]["assumptions"]["honest"] == people
    assert system.contract.reserve == 53
    system.shut()


def test_more_junk_than_the_reserve_withholds_what_the_certificate_does_not_cover(tmp_path: Path) -> None:
    """The control: with people who hide each other, fewer than the certificate needs must not be published."""
    people = HIDDEN_BY_PEOPLE.n - 1
    system = flooded(tmp_path, HIDDEN_BY_PEOPLE, BY_TICKET, people, closing_size(HIDDEN_BY_PEOPLE) - people)
    (result,) = system.results()
    assert result["state"] == "withheld"
    assert "1,000" in result["reason"]
    system.shut()


@pytest.mark.parametrize(
    ("plan", "needed", "size"),
    [
        (HIDDEN_BY_FAKES, 1, 1000),
        (HIDDEN_BY_PEOPLE, 1000, 1053),
        (hb.plan_from(hb.Schema.one_hot(2), 1000, Protocol(0.1), delta=1e-6, honest_fraction=0.9), 900, 1000),
        (hb.plan_from(hb.Schema.one_hot(2), 1000, Protocol(0.1), delta=1e-6, honest_fraction=0.97), 970, 1022),
        (plan_of(n=5), 1, 100),
    ],
)
def test_a_draft_states_what_is_needed_and_where_a_bucket_closes(plan: Plan, needed: int, size: int) -> None:
    draft = draft_contract(plan, analyzer=bytes(32), shuffler=bytes([1] * 32))
    assert (draft.needed, draft.min_batch_size, draft.reserve) == (needed, size, size - needed)
    # 5 % of the people of a bucket, or more where the plan has allowed for more.
    assert 20 * draft.reserve >= size - 20
