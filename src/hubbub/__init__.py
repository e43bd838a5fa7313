"""hubbub: collect sensitive answers under shuffle-model differential privacy.

Public names load on first use, so that devices need no numpy (``hubbub.pipeline.device``) and imports stay fast.
"""

import importlib as _importlib
import typing as _typing

from hubbub.errors import (
    AlreadyCharged,
    BatchTooSmall,
    BudgetExceeded,
    EntropyFailure,
    FalseClaim,
    HubbubError,
    Infeasible,
    InvalidInput,
    InvalidRecord,
    LedgerDamaged,
    PlanMismatch,
    ProgramFailure,
    SealError,
    TooLarge,
    WireError,
)

if _typing.TYPE_CHECKING:
    from hubbub.accountant import Calibrated, Ledger, account, calibrate
    from hubbub.accountant.charges import Charge
    from hubbub.io.surveys import Survey
    from hubbub.mechanisms.chances import chance_shown, count_shown
    from hubbub.mechanisms.errors import QuestionError, question_errors
    from hubbub.model.curves import PrivacyCurve
    from hubbub.model.plans import Plan
    from hubbub.model.privacy import Assumptions, Basis, Budget, Guarantee, Odds, Total
    from hubbub.model.protocol import Fakes, Noise, Protocol
    from hubbub.model.questions import Choice, Cross, Flag, Number, Scale, Several, Text
    from hubbub.model.schema import Schema
    from hubbub.pipeline.randomize import randomize
    from hubbub.pipeline.records import Collection
    from hubbub.pipeline.reports import Batch, BatchHeader, Reports, Tally
    from hubbub.pipeline.shuffle import shuffle
    from hubbub.pipeline.tally import tally
    from hubbub.planner import (
        Cost,
        FamilyPlan,
        Outline,
        cost,
        frontier,
        frontier_by_family,
        load_plan,
        outline,
        plan,
        plan_from,
        solve,
    )
    from hubbub.results.compare import (
        Comparison,
        Difference,
        LabelComparison,
        NumberComparison,
        ScaleComparison,
        compare,
        compare_power,
    )
    from hubbub.results.cross import CrossView
    from hubbub.results.estimate import achieved_guarantee, estimate, joint
    from hubbub.results.figures import Figure
    from hubbub.results.joint import ConditionalTable, Joint, JointCell
    from hubbub.results.labels import LabelView
    from hubbub.results.numbers import NumberView
    from hubbub.results.pool import pool
    from hubbub.results.result import Result
    from hubbub.results.scales import ScaleView
    from hubbub.results.strings import StringView

__version__ = "0.2.0.dev0"

_MODULES = {
    "accountant": ("Calibrated", "Ledger", "account", "calibrate"),
    "accountant.charges": ("Charge",),
    "io.surveys": ("Survey",),
    "mechanisms.chances": ("chance_shown", "count_shown"),
    "mechanisms.errors": ("QuestionError", "question_errors"),
    "model.curves": ("PrivacyCurve",),
    "model.plans": ("Plan",),
    "model.privacy": ("Assumptions", "Basis", "Budget", "Guarantee", "Odds", "Total"),
    "model.protocol": ("Fakes", "Noise", "Protocol"),
    "model.questions": ("Choice", "Cross", "Flag", "Number", "Scale", "Several", "Text"),
    "model.schema": ("Schema",),
    "pipeline.randomize": ("randomize",),
    "pipeline.records": ("Collection",),
    "pipeline.reports": ("Batch", "BatchHeader", "Reports", "Tally"),
    "pipeline.shuffle": ("shuffle",),
    "pipeline.tally": ("tally",),
    "planner": (
        "Cost",
        "FamilyPlan",
        "Outline",
        "cost",
        "frontier",
        "frontier_by_family",
        "load_plan",
        "outline",
        "plan",
        "plan_from",
        "solve",
    ),
    "results.compare": (
        "Comparison",
        "Difference",
        "LabelComparison",
        "NumberComparison",
        "ScaleComparison",
        "compare",
        "compare_power",
    ),
    "results.cross": ("CrossView",),
    "results.estimate": ("achieved_guarantee", "estimate", "joint"),
    "results.figures": ("Figure",),
    "results.joint": ("ConditionalTable", "Joint", "JointCell"),
    "results.labels": ("LabelView",),
    "results.numbers": ("NumberView",),
    "results.pool": ("pool",),
    "results.result": ("Result",),
    "results.scales": ("ScaleView",),
    "results.strings": ("StringView",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AlreadyCharged",
    "Assumptions",
    "Basis",
    "Batch",
    "BatchHeader",
    "BatchTooSmall",
    "Budget",
    "BudgetExceeded",
    "Calibrated",
    "Charge",
    "Choice",
    "Collection",
    "Comparison",
    "ConditionalTable",
    "Cost",
    "Cross",
    "CrossView",
    "Difference",
    "EntropyFailure",
    "Fakes",
    "FalseClaim",
    "FamilyPlan",
    "Figure",
    "Flag",
    "Guarantee",
    "HubbubError",
    "Infeasible",
    "InvalidInput",
    "InvalidRecord",
    "Joint",
    "JointCell",
    "LabelComparison",
    "LabelView",
    "Ledger",
    "LedgerDamaged",
    "Noise",
    "Number",
    "NumberComparison",
    "NumberView",
    "Odds",
    "Outline",
    "Plan",
    "PlanMismatch",
    "PrivacyCurve",
    "ProgramFailure",
    "Protocol",
    "QuestionError",
    "Reports",
    "Result",
    "Scale",
    "ScaleComparison",
    "ScaleView",
    "Schema",
    "SealError",
    "Several",
    "StringView",
    "Survey",
    "Tally",
    "Text",
    "TooLarge",
    "Total",
    "WireError",
    "account",
    "achieved_guarantee",
    "calibrate",
    "chance_shown",
    "compare",
    "compare_power",
    "cost",
    "count_shown",
    "estimate",
    "frontier",
    "frontier_by_family",
    "joint",
    "load_plan",
    "outline",
    "plan",
    "plan_from",
    "pool",
    "question_errors",
    "randomize",
    "shuffle",
    "solve",
    "tally",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hubbub' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"hubbub.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
