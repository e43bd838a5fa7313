"""Protocol × Schema × n → Guarantee: the only room that judges privacy.

- ``accounting``, ``calibration``, ``ledger``: the verbs and the noun that others use;
- ``analysis``: which theorem speaks for which protocol;
- ``bit``, ``records``, ``split``, ``fakes``: the theorems, one module for each kind of crowd;
- ``engine``, ``losses``: sums of independent terms, and compositions, bracketed rigorously;
- ``rigorous``: ball arithmetic.
"""

from hubbub.accountant.accounting import account, curve
from hubbub.accountant.calibration import Calibrated, calibrate
from hubbub.accountant.ledger import Ledger

__all__ = ["Calibrated", "Ledger", "account", "calibrate", "curve"]
