"""φ of a flip probability: golden value, its equal forms, and its inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidInput
from hubbub.numeric.ratios import flip_from_phi, phi


def test_golden() -> None:
    """[003 eq 3.14] at q = 1/4."""
    assert phi(0.25) == pytest.approx(7 / 3, rel=1e-15)


@given(st.floats(0.01, 0.49))
def test_forms_agree(q: float) -> None:
    p = 1 - q
    assert phi(q) == pytest.approx((p**3 + q**3) / (p * q), rel=1e-12)
    assert phi(q) == pytest.approx(p / q + q / p - 1, rel=1e-12)


@given(st.floats(1e-6, 0.499))
def test_inverse(q: float) -> None:
    """[003 eq 3.16]"""
    assert flip_from_phi(phi(q)) == pytest.approx(q, rel=1e-9)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"^q must be in"):
        phi(0.0)
    with pytest.raises(InvalidInput, match=r"^phi must be finite and above 1"):
        flip_from_phi(1.0)
