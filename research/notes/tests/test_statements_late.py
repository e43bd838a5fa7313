"""The statements of notes 003 and 004 agree with their status, and their checks are such as can fail."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from research.notes.statements import (
    note003_noise,
    note003_ratio,
    note004_bits,
    note004_fakes,
    note004_zeros,
    unsettled,
)
from research.notes.statements.catalogue import Statement, Status
from research.notes.statements.everything import NOTES, STATEMENTS, counts, note_of

LATE = [one for one in STATEMENTS if note_of(one) in ("003", "004", "open")]


def found(identity: str) -> Statement:
    return next(one for one in LATE if one.id == identity)


@pytest.mark.parametrize("statement", LATE, ids=lambda one: one.id)
def test_evidence_bears_the_status_out(statement: Statement) -> None:
    evidence = statement.check()
    assert evidence.agrees is True, evidence.shown
    assert any(letter.isdigit() for letter in evidence.shown)
    assert "\n" not in evidence.shown
    assert len(evidence.shown) < 240


def test_ids_are_unique_and_every_status_occurs() -> None:
    assert len({one.id for one in LATE}) == len(LATE) == 64
    assert counts(one for one in LATE if note_of(one) == "003") == {
        Status.CONFIRMED: 18,
        Status.WRONG: 6,
        Status.LOOSE: 2,
        Status.EMPTY: 1,
    }
    assert counts(one for one in LATE if note_of(one) == "004") == {
        Status.CONFIRMED: 24,
        Status.WRONG: 5,
        Status.LOOSE: 3,
        Status.EMPTY: 1,
    }
    assert {one.status for one in unsettled.STATEMENTS} == {Status.UNDETERMINED}


def test_all_notes_are_there() -> None:
    assert {note_of(one) for one in STATEMENTS} == set(NOTES)
    assert len({one.id for one in STATEMENTS}) == len(STATEMENTS)


def scaled(function: Callable[..., Any], factor: float) -> Callable[..., Any]:
    return lambda *args, **options: factor * function(*args, **options)


CONTROLS: list[tuple[str, ModuleType, str, float]] = [
    (
        "003 E X0=1, VarX0=phi^L-1, E X1=phi^L, VarX1=psi^L-phi^{2L}; E R, Var R; (6.1)-(6.9)",
        note003_ratio,
        "outlier_ratio_variance",
        1.001,
    ),
    ('003 "eps stays the same under anonymization"', note003_ratio, "local_epsilon", 0.999),
    ("003-(3.1)-(3.4),(3.6)", note003_ratio, "outlier_ratio", 1.001),
    ("003 conj. 1", note003_ratio, "stick", 1.001),
    ("003-(3.12)", note003_noise, "three_sigma_flip", 0.99),
    ("003-(3.13),(3.15)", note003_noise, "simple_three_sigma_flip", 0.99),
    ("003-(3.14),(3.16)", note003_noise, "flip_from_phi", 1.001),
    ("003-(4.1)-(4.3)", note003_noise, "local_flip", 0.999),
    ("003 sigma=7.5 sqrt N", note003_noise, "count_stderr", 7.5 / 7.2077),
    ("003 sigma=.6 sqrt N, 12-fold", note003_noise, "local_flip", 0.99),
    ("003 q=.351, 1.6, 12.5x, 15K", note003_noise, "simple_three_sigma_flip", 1.001),
    ('003 "1% of population with 10% error"', note003_noise, "count_stderr", 0.66),
    ("003-s5 (5.1)-(5.10), k set bits == L=2k", note003_noise, "simple_three_sigma_flip", 1.5),
    ('003-s5 remark "want to show formally"', note003_noise, "phi", 1.001),
    ("004-s1 abstract", note004_bits, "fake_chi_square", 1.1),
    ("004-(4.1)-(4.5), g", note004_bits, "privacy_from_probability", 1.001),
    ("004-Prop 4.1 (4.6)", note004_bits, "shifted_chernoff_flip", 0.3),
    ("004-Lemma 4.3", note004_bits, "chernoff_flip", 0.3),
    ("004-(4.24)", note004_zeros, "outlier_ratio", 1.001),
    ("004-(4.26)-(4.27)", note004_zeros, "chernoff_flip", 0.9),
    ("004-(4.37)-(4.42)", note004_zeros, "chernoff_flip", 0.9),
    ("004-Lemma 4.5, 4.6", note004_zeros, "chernoff_flip", 0.1),
    ("004-(5.1), L(h)=log((h_l+1)/h_l')", note004_fakes, "uniform_delta", 1.001),
    ("004-(5.2)-(5.3) Chernoff+union", note004_fakes, "clear_fakes", 0.3),
    ("004-s5 m>=3d log(4/delta)((e^eps+1)/(e^eps-1))^2", note004_fakes, "clear_fakes", 0.99),
    ("004-(6.2) and next display", note004_fakes, "_within", 0.5),
    ("004-Prop 6.1", note004_fakes, "column_flip", 0.1),
    ("004-Prop 6.1", note004_fakes, "fake_second_moment", 1.001),
]


@pytest.mark.parametrize(("identity", "module", "name", "factor"), CONTROLS)
def test_a_wrong_formula_is_found(
    identity: str, module: ModuleType, name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, scaled(getattr(module, name), factor))
    assert not found(identity).check().agrees
