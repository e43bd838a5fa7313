"""Protocol × Schema × n → Guarantee: the only package that judges privacy.

- ``accounting``, ``calibration``, ``ledger``: the functions and the class that other packages use;
- ``analysis``: which theorem certifies which protocol (``flip_analyses``, ``fake_analyses``, ``curves``);
- ``theorems``: the theorems, one module per protocol family, and attacks;
- ``quadrature``, ``composition``: rigorous brackets for sums of independent terms, and for compositions;
- ``gaussian_limit``: first guesses for searches;
- ``rigorous``: certificates confirmed in ball arithmetic.
"""

from hubbub.accountant.accounting import account, curve
from hubbub.accountant.calibration import Calibrated, calibrate
from hubbub.accountant.ledger import Ledger
from hubbub.accountant.tails import Sufficient, ratio_density, sufficient, sufficient_flip

__all__ = [
    "Calibrated",
    "Ledger",
    "Sufficient",
    "account",
    "calibrate",
    "curve",
    "ratio_density",
    "sufficient",
    "sufficient_flip",
]
