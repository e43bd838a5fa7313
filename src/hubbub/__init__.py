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
    from hubbub.pipeline.string_tallies import StringTally, tally_strings
    from hubbub.pipeline.tally import tally
    from hubbub.planner import (
        Cost,
        FamilyPlan,
        Outline,
        best_epsilon,
        cost,
        frontier,
        frontier_by_family,
        load_plan,
        outline,
        plan,
        plan_from,
        smallest_n,
    )
    from hubbub.results.comparisons import (
        Comparison,
        Difference,
        LabelComparison,
        NumberComparison,
        ScaleComparison,
        SurveyComparison,
        compare,
        compare_power,
        pool,
    )
    from hubbub.results.counts import Estimate, LabelEstimate
    from hubbub.results.cross import CrossEstimate
    from hubbub.results.estimate import achieved_guarantee, estimate, estimate_survey, joint
    from hubbub.results.joint import ConditionalTable, Joint, JointCell
    from hubbub.results.measures import Measure
    from hubbub.results.numbers import NumberEstimate
    from hubbub.results.scales import ScaleEstimate
    from hubbub.results.strings import StringCount, StringEstimate, estimate_strings
    from hubbub.results.surveys import SurveyEstimate

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
    "pipeline.string_tallies": ("StringTally", "tally_strings"),
    "pipeline.tally": ("tally",),
    "planner": (
        "Cost",
        "FamilyPlan",
        "Outline",
        "best_epsilon",
        "cost",
        "frontier",
        "frontier_by_family",
        "load_plan",
        "outline",
        "plan",
        "plan_from",
        "smallest_n",
    ),
    "results.comparisons": (
        "Comparison",
        "Difference",
        "LabelComparison",
        "NumberComparison",
        "ScaleComparison",
        "SurveyComparison",
        "compare",
        "compare_power",
        "pool",
    ),
    "results.counts": ("Estimate", "LabelEstimate"),
    "results.cross": ("CrossEstimate",),
    "results.estimate": ("achieved_guarantee", "estimate", "estimate_survey", "joint"),
    "results.joint": ("ConditionalTable", "Joint", "JointCell"),
    "results.measures": ("Measure",),
    "results.numbers": ("NumberEstimate",),
    "results.scales": ("ScaleEstimate",),
    "results.strings": ("StringCount", "StringEstimate", "estimate_strings"),
    "results.surveys": ("SurveyEstimate",),
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
    "CrossEstimate",
    "Difference",
    "EntropyFailure",
    "Estimate",
    "Fakes",
    "FalseClaim",
    "FamilyPlan",
    "Flag",
    "Guarantee",
    "HubbubError",
    "Infeasible",
    "InvalidInput",
    "InvalidRecord",
    "Joint",
    "JointCell",
    "LabelComparison",
    "LabelEstimate",
    "Ledger",
    "LedgerDamaged",
    "Measure",
    "Noise",
    "Number",
    "NumberComparison",
    "NumberEstimate",
    "Odds",
    "Outline",
    "Plan",
    "PlanMismatch",
    "PrivacyCurve",
    "ProgramFailure",
    "Protocol",
    "QuestionError",
    "Reports",
    "Scale",
    "ScaleComparison",
    "ScaleEstimate",
    "Schema",
    "SealError",
    "Several",
    "StringCount",
    "StringEstimate",
    "StringTally",
    "Survey",
    "SurveyComparison",
    "SurveyEstimate",
    "Tally",
    "Text",
    "TooLarge",
    "Total",
    "WireError",
    "account",
    "achieved_guarantee",
    "best_epsilon",
    "calibrate",
    "chance_shown",
    "compare",
    "compare_power",
    "cost",
    "count_shown",
    "estimate",
    "estimate_strings",
    "estimate_survey",
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
    "smallest_n",
    "tally",
    "tally_strings",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hubbub' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"hubbub.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
