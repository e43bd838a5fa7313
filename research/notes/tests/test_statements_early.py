"""The statements of notes 002, 001 and 000: every check bears its status out, and checks can fail."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from research.notes.statements import (
    note000,
    note000_law,
    note000_limits,
    note000_ratio,
    note000_single,
    note000_steps,
    note001,
    note002,
    note002_copies,
    note002_proofs,
    note002_rule,
)
from research.notes.statements.catalogue import Statement

Fault = Callable[[Any], Any]

NOTES = {"002": note002.STATEMENTS, "001": note001.STATEMENTS, "000": note000.STATEMENTS}
STATEMENTS = [statement for statements in NOTES.values() for statement in statements]
BY_ID = {statement.id: statement for statement in STATEMENTS}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.id)
def test_the_evidence_bears_the_status_out(statement: Statement) -> None:
    found = statement.check()
    assert found.agrees, found.shown
    assert found.shown and "\n" not in found.shown


def test_every_statement_has_its_own_id_and_says_why() -> None:
    assert len(BY_ID) == len(STATEMENTS)
    for name, statements in NOTES.items():
        assert all(one.id.startswith(name) and one.claim and one.remark for one in statements)


def scaled(factor: float) -> Fault:
    return lambda right: lambda *args, **kwargs: factor * right(*args, **kwargs)


def swapped(right: Any) -> Any:
    return lambda *args, **kwargs: right(*args, **kwargs)[::-1]


def inverted(right: Any) -> Any:
    return lambda *args, **kwargs: 1 / right(*args, **kwargs)


def all_zeros(right: Any) -> Any:
    return lambda n, ones, q: right(n, 0, q)


def never_lying(right: Any) -> Any:
    return lambda people, plan, *, entropy: right(people, plan, entropy=lambda size: b"\xff" * size)


FAULTS: list[tuple[str, ModuleType, str, Fault]] = [
    ("002-s1", note002_proofs, "randomize", never_lying),
    ("002-s2 P[R(v)=s]", note002_proofs, "transition_matrix", scaled(1.001)),
    ("002-(4.1)-(4.4)", note002_proofs, "count_variance", scaled(1.01)),
    ("002-(4.32)", note002_rule, "outlier_ratio", scaled(1.001)),
    ("002-(4.42)", note002_rule, "three_sigma_bit_flip", scaled(0.99)),
    ('002 "precision grown 10 fold"', note002_rule, "three_sigma_bit_flip", scaled(2.2)),
    ("002-(5.13)", note002_copies, "copies_outlier_ratio_bound", scaled(0.999)),
    ("001-s1 defs, (1.1)", note001, "local_epsilon", scaled(0.99)),
    ("001-s2.2, (2.1)", note001, "outcome_probability", scaled(1.001)),
    ("001-s3, (3.1)", note001, "vector_privacy_ratio", scaled(1.001)),
    ("001-(3.2),(3.3) + cdf", note001, "neighbours", swapped),
    ("000-(2.2), P_L=P_1 (x) P_{L-1}", note000_law, "transition_matrix", swapped),
    ("000-s3 TODO", note000_law, "joint_estimate", scaled(1.01)),
    ("000-Prop 3.2 (3.8) + 4-step algorithm", note000_law, "outcome_probability_by_halves", scaled(1.001)),
    ("000-Prop 5.1 (5.1), proof TODO", note000_ratio, "local_epsilon", scaled(0.99)),
    ("000-Prop 5.2 (5.10), TODO in induction", note000_steps, "vector_probability_ratio", inverted),
    ('000-Prop 5.3 "TODO is this true?"', note000_steps, "vector_privacy_ratio", scaled(2.0)),
    ("000-s5.4 definition of eps-local DP", note000_steps, "sufficient_tail", scaled(0.1)),
    ('000-s6.3 P_{n,m}(mu_m-d)<=P_{n,0}(mu_0-d) "(TODO)"', note000_single, "crowd", all_zeros),
    ("000-Prop 6.1", note000_single, "probability_ratios", swapped),
    ("000-s6.6 quantile claim + iff", note000_limits, "crowd", all_zeros),
    ("000-s6.7 asymptotic approach", note000_limits, "crowd_variance", scaled(1.01)),
]


@pytest.mark.parametrize(("identity", "module", "name", "fault"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_check_sees_a_fault_in_the_code(
    identity: str, module: ModuleType, name: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    assert not BY_ID[identity].check().agrees
