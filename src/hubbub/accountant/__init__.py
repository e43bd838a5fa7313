"""Protocol × Schema × n → Guarantee: the only package that judges privacy.

- ``accounting``, ``calibration``, ``ledger``: the functions and the class that other packages use;
- ``analysis``: which theorem certifies which protocol;
- ``theorems``: the theorems, one module per protocol family, and attacks;
- ``quadrature``, ``composition``: rigorous brackets for sums of independent terms, and for compositions;
- ``gaussian_limit``: first guesses for searches, which certify nothing;
- ``overflow``: the privacy cost of a fixed number of slots per client.

Names load on first use: devices check contracts with ``overflow`` and have no numpy.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from hubbub.accountant.accounting import account, curve
    from hubbub.accountant.calibration import Calibrated, calibrate
    from hubbub.accountant.ledger import Ledger

_MODULES = {"accounting": ("account", "curve"), "calibration": ("Calibrated", "calibrate"), "ledger": ("Ledger",)}
__all__ = ["Calibrated", "Ledger", "account", "calibrate", "curve"]


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(_importlib.import_module(f"hubbub.accountant.{module}"), name)
    raise AttributeError(f"module 'hubbub.accountant' has no attribute {name!r}")
