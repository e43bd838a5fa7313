"""The number of people that a question of a survey needs: sampling error and noise together.

A share s of a population, estimated from n people with noise of the standard deviation σ, has the variance
s(1 − s)/n + σ²/n². It is within the relative error r at a normal quantile z if n is at least

    (z²·s(1 − s) + √(z⁴·s²(1 − s)² + 4·r²s²·z²σ²)) / (2·r²s²).

Distributions are taken as normal: counts that are worth a relative error of some percent are large.
"""

import math
from dataclasses import dataclass

from hubbub.model.plans import Plan
from hubbub.planner.precision import LEVEL, Goal, normal_quantile, question_noise


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleNeeded:
    """The number of people that measure a share of a population as precisely as requested, and why so many.

    >>> print(PeopleNeeded.of(Goal(0.01, 0.05), 2.799178))
    152,910 people measure a label held by 1% of the people within ±5% at the 95% level: 99.5% of the squared error \
is sampling, and the noise alone would need 10,973 people
    """

    goal: Goal
    people: float
    """About the number of people, sampling error and noise together."""
    noise_only: float
    """About the number of people that the noise alone requires."""

    @classmethod
    def of(cls, goal: Goal, stderr: float) -> "PeopleNeeded":
        """Return the number of people if the noise of a count has this standard error, whatever n is."""
        noise = normal_quantile(goal.level) * stderr / (goal.share * goal.within)
        return cls(goal=goal, people=goal.people(stderr), noise_only=noise)

    @property
    def sampling(self) -> float:
        """Share of the squared error that comes from sampling, if this number of people answers."""
        return self.goal.sample_size / self.people

    def __str__(self) -> str:
        return (
            f"{math.ceil(self.people):,} people measure {self.goal}: {self.sampling:.1%} of the squared error is "
            f"sampling, and the noise alone would need {math.ceil(self.noise_only):,} people"
        )


def people_needed(plan: Plan, question: str, share: float, within: float, level: float = LEVEL) -> PeopleNeeded:
    """Return about how many people a question needs so that an answer of this share is measured within an error.

    The noise is that of the plan: the shuffler's does not depend on n, and users' noise hardly does once the plan is
    made anew for more people. For a scale, the share is that of the people below an edge.

    >>> from hubbub import Choice, Fakes, Protocol, Schema, plan_from
    >>> survey = Schema.survey({"colour": Choice(["red", "green", "blue"])})
    >>> fakes = plan_from(survey, 1000, Protocol(0.0, m=Fakes.laplace(2.0, 25), release="bits"), epsilon=1.0)
    >>> round(people_needed(fakes, "colour", share=0.01, within=0.05).sampling, 3)
    0.997
    """
    return PeopleNeeded.of(Goal(share, within, level), question_noise(plan, question))
