"""hubbub: collect sensitive answers under shuffle-model differential privacy.

Public names load on first use, so that a device can import ``hubbub.device`` without numpy and other imports stay fast.
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
    from hubbub.analyzer import achieved_guarantee, estimate, joint, tally
    from hubbub.charges import Charge
    from hubbub.client import randomize
    from hubbub.comparisons import (
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
    from hubbub.curves import PrivacyCurve
    from hubbub.estimates import Estimate, LabelEstimate
    from hubbub.io.surveys import Survey
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
    from hubbub.plans import Plan
    from hubbub.privacy import Assumptions, Basis, Budget, Guarantee, Odds, Total
    from hubbub.protocol import Fakes, Noise, Protocol
    from hubbub.questions import Choice, Cross, Flag, Number, Scale
    from hubbub.records import Collection
    from hubbub.reports import Batch, BatchHeader, Reports, Tally
    from hubbub.schema import Schema
    from hubbub.shuffler import shuffle
    from hubbub.strings import (
        StringCount,
        StringEstimate,
        StringTally,
        chance_shown,
        count_shown,
        estimate_strings,
        tally_strings,
    )
    from hubbub.surveys import (
        CrossEstimate,
        Measure,
        NumberEstimate,
        QuestionError,
        ScaleEstimate,
        SurveyEstimate,
        estimate_survey,
        question_errors,
    )
    from hubbub.tables import ConditionalTable, Joint, JointCell
    from hubbub.texts import Strings

__version__ = "0.2.0.dev0"

_MODULES = {
    "accountant": ("Calibrated", "Ledger", "account", "calibrate"),
    "analyzer": ("achieved_guarantee", "estimate", "joint", "tally"),
    "charges": ("Charge",),
    "client": ("randomize",),
    "comparisons": (
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
    "curves": ("PrivacyCurve",),
    "estimates": ("Estimate", "LabelEstimate"),
    "io.surveys": ("Survey",),
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
    "plans": ("Plan",),
    "privacy": ("Assumptions", "Basis", "Budget", "Guarantee", "Odds", "Total"),
    "protocol": ("Fakes", "Noise", "Protocol"),
    "questions": ("Choice", "Cross", "Flag", "Number", "Scale"),
    "records": ("Collection",),
    "reports": ("Batch", "BatchHeader", "Reports", "Tally"),
    "schema": ("Schema",),
    "shuffler": ("shuffle",),
    "strings": (
        "StringCount",
        "StringEstimate",
        "StringTally",
        "chance_shown",
        "count_shown",
        "estimate_strings",
        "tally_strings",
    ),
    "surveys": (
        "CrossEstimate",
        "Measure",
        "NumberEstimate",
        "QuestionError",
        "ScaleEstimate",
        "SurveyEstimate",
        "estimate_survey",
        "question_errors",
    ),
    "tables": ("ConditionalTable", "Joint", "JointCell"),
    "texts": ("Strings",),
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
    "StringCount",
    "StringEstimate",
    "StringTally",
    "Strings",
    "Survey",
    "SurveyComparison",
    "SurveyEstimate",
    "Tally",
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
