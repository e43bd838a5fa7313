"""hubbub: collect sensitive answers so that each person hides in the crowd.

Public names are loaded when they are first used, so that a device can import ``hubbub.device`` without numpy, and
everybody else does not wait for what he does not use.
"""

import importlib as _importlib
import typing as _typing

from hubbub.errors import (
    BatchTooSmall,
    EntropyFailure,
    FalseClaim,
    HubbubError,
    Infeasible,
    InvalidInput,
    PlanMismatch,
    ProgramFailure,
    TooLarge,
    WireError,
)

if _typing.TYPE_CHECKING:
    from hubbub.accountant import Ledger, account, calibrate
    from hubbub.analyzer import estimate, joint, tally
    from hubbub.client import randomize
    from hubbub.estimates import Estimate
    from hubbub.planner import frontier, plan, plan_from
    from hubbub.plans import Plan
    from hubbub.privacy import Assumptions, Basis, Budget, Guarantee
    from hubbub.protocol import Fakes, Protocol
    from hubbub.records import Collection
    from hubbub.reports import Reports, Tally
    from hubbub.schema import Schema
    from hubbub.shuffler import shuffle

__version__ = "0.1.0.dev0"

__all__ = [
    "Basis",
    "BatchTooSmall",
    "Budget",
    "Collection",
    "EntropyFailure",
    "Estimate",
    "Fakes",
    "FalseClaim",
    "Guarantee",
    "HubbubError",
    "Infeasible",
    "InvalidInput",
    "Ledger",
    "Plan",
    "PlanMismatch",
    "ProgramFailure",
    "Protocol",
    "Reports",
    "Schema",
    "Tally",
    "TooLarge",
    "Assumptions",
    "WireError",
    "account",
    "plan_from",
    "calibrate",
    "estimate",
    "frontier",
    "joint",
    "plan",
    "randomize",
    "shuffle",
    "tally",
]

_ROOMS = {
    "accountant": ("Ledger", "account", "calibrate"),
    "analyzer": ("estimate", "joint", "tally"),
    "batches": ("Collection", "Reports", "Tally"),
    "client": ("randomize",),
    "data": ("Schema",),
    "estimates": ("Estimate",),
    "planner": ("plan_from", "frontier", "plan"),
    "privacy": ("Basis", "Budget", "Guarantee", "Assumptions"),
    "protocol": ("Fakes", "Plan", "Protocol"),
    "shuffler": ("shuffle",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hubbub' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"hubbub.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
