"""The estimate in the result of a batch, as an object that can be pooled and compared."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hubbub.documents import legal
from hubbub.errors import WireError
from hubbub.mechanisms.noise import noise_from_document
from hubbub.model.privacy import Guarantee
from hubbub.results.counts import Estimate
from hubbub.results.surveys import SurveyEstimate

_WHAT = "the result of a batch"


def estimate_of(result: Mapping[str, Any]) -> Estimate | SurveyEstimate:
    """Return the estimate of a committed batch from its result, a JSON object of the analyzer."""
    if result.get("state") != "committed":
        raise WireError(f"{_WHAT} must be committed to have an estimate")
    try:
        if "questions" in result:
            return SurveyEstimate.from_json(json.dumps(result["estimate"]))
        values, stderr = (np.array(result[name], np.float64) for name in ("values", "stderr"))
        labels, people, one_choice = tuple(result["labels"]), result["people"], result["one_choice"]
        plan, noise, guarantee = result["plan"], result["noise"], result["guarantee"]
    except KeyError as error:
        raise WireError(f"{_WHAT} must have the entry {error.args[0]!r}") from None
    except (TypeError, ValueError):
        raise WireError(f"{_WHAT} must have lists of numbers") from None
    if not (np.isfinite(values).all() and np.isfinite(stderr).all() and (stderr >= 0).all()):
        raise WireError(f"{_WHAT} must have finite values and errors of at least 0")
    for array in (values, stderr):
        array.setflags(write=False)
    with legal(_WHAT):
        return Estimate(
            labels=labels,
            values=values,
            stderr=stderr,
            n=people,
            one_choice=one_choice,
            unbiased=values,
            noise=noise_from_document(noise),
            plan=plan,
            achieved=Guarantee.from_document(guarantee),
        )
