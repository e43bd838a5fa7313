"""``estimate_survey``: from a tally to the estimates of all questions, each in its own terms."""

import functools

from hubbub.analyzer import achieved_guarantee, check_tally
from hubbub.errors import reject
from hubbub.plans import Plan
from hubbub.reports import Tally
from hubbub.surveys.answers import answer_counts
from hubbub.surveys.results import SurveyEstimate


def estimate_survey(tally: Tally, plan: Plan) -> SurveyEstimate:
    """Estimate the answers to all questions of a survey, without bias, with standard errors and intervals.

    The attributes of a question, and the tables that count the same people, are combined by least squares; the number
    of people is known.
    """
    check_tally(tally, plan)
    if plan.schema.questions is None:
        reject("the plan", "be that of a survey; use hubbub.estimate for others")
    return SurveyEstimate(
        schema=plan.schema,
        n=tally.n,
        counts=tuple(answer_counts(tally, plan)),
        plan=plan.id,
        achieved=functools.partial(achieved_guarantee, tally, plan),
    )
