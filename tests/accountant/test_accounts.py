"""The account of every stored case is what it was, to the last digit."""

import itertools

import pytest
from tests.accountant.accounts import GROUPS, Case, figures, spelled, stored

SHARE = 4
"""One case in so many is fast; the others take 15 seconds."""


def check(cases: list[Case]) -> None:
    table = stored()
    changed = []
    for case in cases:
        known, found = table[spelled(case)], figures(case)
        if known != found:
            changed.append(f"{spelled(case)}\n  was {known}\n  now {found}")
    assert not changed, "\n".join([f"{len(changed)} of {len(cases)} accounts changed:", *changed[:20]])


def test_the_table_holds_every_case_once() -> None:
    cases = [spelled(case) for case in itertools.chain(*GROUPS.values())]
    assert len(set(cases)) == len(cases) >= 500
    assert sorted(stored()) == sorted(cases)


@pytest.mark.parametrize("group", GROUPS)
def test_some_accounts_are_those_of_the_table(group: str) -> None:
    check(GROUPS[group][::SHARE])


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_all_other_accounts_are_those_of_the_table(group: str) -> None:
    check([case for place, case in enumerate(GROUPS[group]) if place % SHARE])
