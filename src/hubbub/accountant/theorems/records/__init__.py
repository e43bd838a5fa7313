"""Whole records in flipped copies: bounds on δ(ε) that hold for every collection.

- :mod:`~hubbub.accountant.theorems.records.local`: one user's messages, without any crowd.
- :mod:`~hubbub.accountant.theorems.records.blankets`: privacy blankets, group privacy for copies, blankets of fakes.
- :mod:`~hubbub.accountant.theorems.records.exchange`: slot exchange (``docs/theory/slot-exchange.md``), with the kinds
  of the other users in :mod:`~hubbub.accountant.theorems.records.kinds`, the quadrature in
  :mod:`~hubbub.accountant.theorems.records.contour`, Theorem 4 in
  :mod:`~hubbub.accountant.theorems.records.labels` and Theorem 5 in :mod:`~hubbub.accountant.theorems.records.cells`.

:func:`bound` is the least of them.
"""

from hubbub.accountant.theorems.records.blankets import (
    OVERFLOW,
    Atoms,
    blanket,
    bracket,
    copies,
    fake_blanket,
    uniform_blanket,
)
from hubbub.accountant.theorems.records.exchange import bound, exchange
from hubbub.accountant.theorems.records.local import local

__all__ = [
    "OVERFLOW",
    "Atoms",
    "blanket",
    "bound",
    "bracket",
    "copies",
    "exchange",
    "fake_blanket",
    "local",
    "uniform_blanket",
]
