"""Batches of different people: ``pool`` adds them up, ``compare`` tests whether their populations differ.

- ``labels``: counts of labels; ``figures``: means, sums, variances and distributions; ``surveys``: whole surveys;
- ``differences``: the difference of one figure; ``intervals``: its intervals and p-values;
- ``verbs``: ``compare``, ``compare_power`` and ``pool``, for all of them.
"""

from hubbub.results.comparisons.differences import Difference
from hubbub.results.comparisons.figures import NumberComparison, ScaleComparison
from hubbub.results.comparisons.labels import Comparison, LabelComparison
from hubbub.results.comparisons.surveys import SurveyComparison
from hubbub.results.comparisons.verbs import compare, compare_power, pool

__all__ = [
    "Comparison",
    "Difference",
    "LabelComparison",
    "NumberComparison",
    "ScaleComparison",
    "SurveyComparison",
    "compare",
    "compare_power",
    "pool",
]
