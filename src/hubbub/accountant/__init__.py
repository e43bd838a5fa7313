"""Protocol × Schema × n → Guarantee: the only package that judges privacy.

- ``accounting``, ``calibration``, ``ledger``: the public functions and :class:`Ledger`;
- ``analysis``: which theorem applies to which protocol;
- ``theorems``: ``bit``, ``records``, ``split``, ``fakes``, one module for each kind of release;
- ``quadrature``, ``composition``: sums of independent terms, and compositions, bracketed rigorously;
- ``overflow``: the privacy cost of a fixed number of slots per client;
- ``rigorous``: ball arithmetic.

Names load on first use: devices check contracts with ``overflow`` and have no numpy.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from hubbub.accountant.accounting import account, curve
    from hubbub.accountant.calibration import Calibrated, calibrate
    from hubbub.accountant.ledger import Ledger

_MODULES = {
    "accounting": ("account", "curve"),
    "calibration": ("Calibrated", "calibrate"),
    "ledger": ("Ledger",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Calibrated",
    "Ledger",
    "account",
    "calibrate",
    "curve",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hubbub.accountant' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"hubbub.accountant.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
