"""The account of every stored case is what it was, to the last digit."""

import itertools

import pytest
from tests.accountant.accounts import GROUPS, figures, spelled, stored


def test_the_table_holds_every_case_once() -> None:
    cases = [spelled(case) for case in itertools.chain(*GROUPS.values())]
    assert len(set(cases)) == len(cases) >= 500
    assert sorted(stored()) == sorted(cases)


@pytest.mark.parametrize("group", GROUPS)
def test_accounts_are_those_of_the_table(group: str) -> None:
    table = stored()
    changed = []
    for case in GROUPS[group]:
        known, found = table[spelled(case)], figures(case)
        if known != found:
            changed.append(f"{spelled(case)}\n  was {known}\n  now {found}")
    assert not changed, "\n".join([f"{len(changed)} of {len(GROUPS[group])} accounts changed:", *changed[:20]])
