"""Surveys: the design behind their plans, and the estimates of their questions.

- ``design``: effects, and what the noise of attributes does to questions; ``errors``: predicted errors;
- ``allocation``, ``layouts``: how much noise for which attribute, digits, levels and derived questions;
- ``answers``: unbiased counts of attributes; ``scales``, ``numbers``, ``tables``, ``cross``: estimates of questions;
- ``results``, ``estimate``: all of them together.

Names load on first use, because the design is also needed below the analyzer.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from hubbub.surveys.cross import CrossEstimate
    from hubbub.surveys.errors import QuestionError, question_errors
    from hubbub.surveys.estimate import estimate_survey
    from hubbub.surveys.measures import Measure
    from hubbub.surveys.numbers import NumberEstimate
    from hubbub.surveys.results import SurveyEstimate
    from hubbub.surveys.scales import ScaleEstimate

_MODULES = {
    "CrossEstimate": "cross",
    "Measure": "measures",
    "NumberEstimate": "numbers",
    "QuestionError": "errors",
    "ScaleEstimate": "scales",
    "SurveyEstimate": "results",
    "estimate_survey": "estimate",
    "question_errors": "errors",
}

__all__ = [
    "CrossEstimate",
    "Measure",
    "NumberEstimate",
    "QuestionError",
    "ScaleEstimate",
    "SurveyEstimate",
    "estimate_survey",
    "question_errors",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'hubbub.surveys' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hubbub.surveys.{_MODULES[name]}"), name)
