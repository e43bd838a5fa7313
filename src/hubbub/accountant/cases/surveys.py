"""Surveys: compositions over their attributes, of which each has a noise of its own."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

from hubbub.accountant.analysis import Analysis, best, log, unknown
from hubbub.accountant.cases.local import collusion
from hubbub.accountant.composition import Loss
from hubbub.accountant.theorems import category, surveys
from hubbub.accountant.theorems.laplace import Atoms
from hubbub.accountant.theorems.surveys import Answers
from hubbub.model.privacy import Basis, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.questions import Number
from hubbub.model.schema import Schema

LOCAL_STEP = 400  # grid points of the largest loss of one user's messages


def survey_analysis(
    protocol: Protocol, schema: Schema, honest: int, trust: TrustModel, *, preliminary: bool = False
) -> Analysis:
    """Return the analysis of a survey of several attributes under the stated trust.

    >>> from hubbub.model.protocol import Fakes, Noise
    >>> from hubbub.model.questions import Flag
    >>> protocol = Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2)
    >>> survey_analysis(protocol, Schema.survey({"a": Flag(), "b": Flag()}), 1, "shuffler-noise").basis
    <Basis.EXACT: 'exact'>
    """
    parts = surveys.grouped([one.size for one in schema.attributes], protocol.noise)
    local = _local_analysis(parts, protocol, collusion(protocol, schema))
    drawn = any(one.noise.shuffler_fakes for one in parts)
    if trust == "nobody" or (drawn and trust == "shuffling"):
        return local
    users = any(one.noise.shuffler_fakes is None for one in parts)
    whole = _composed(
        parts, _free(protocol, schema), protocol, honest if users else 1, fakes=drawn, preliminary=preliminary
    )
    return whole if protocol.clear else best(whole, replace(local, basis=Basis.PROVEN))


def _free(protocol: Protocol, schema: Schema) -> tuple[Answers, ...]:
    """Return attributes in all of which two records can differ at once: all but those that others determine.

    The squares of a number depend on its digits. If answers may be missing, the largest number and no answer differ in
    all attributes.
    """
    sizes, noise = [], []
    left: dict[str, int] = {}
    for one, own in zip(schema.attributes, protocol.noise, strict=True):
        question = schema.questions[one.question]
        bound = isinstance(question, Number) and question.variance and not question.missing
        digits = left.setdefault(one.question, len(question.radices) if isinstance(question, Number) else 0)
        left[one.question] -= 1
        if not bound or digits > 0:
            sizes.append(one.size)
            noise.append(own)
    return surveys.grouped(sizes, noise)


def _composed(
    parts: tuple[Answers, ...],
    free: tuple[Answers, ...],
    protocol: Protocol,
    honest: int,
    *,
    fakes: bool,
    preliminary: bool,
) -> Analysis:
    limit = surveys.largest_loss(parts)
    exact = all(one.noise.clear for one in parts) and free == parts

    def cover() -> Loss | Atoms:
        return surveys.laplace_cover(parts) or surveys.cover(parts, protocol.release, honest, preliminary=preliminary)

    def upper(epsilon: float) -> float:
        # From the largest finite loss on, the grid of the composition may be too coarse for what is known exactly.
        beyond = limit is not None and Fraction(epsilon) >= limit[0]
        return log(limit[1] if limit is not None and beyond else cover().delta(epsilon))

    def lower(epsilon: float) -> float:
        found = surveys.attack(free, protocol.release, honest)
        return log(found.delta(epsilon)) if found else _one_response(parts, honest, epsilon)

    def solve(delta: float) -> tuple[float, float]:
        found = surveys.attack(free, protocol.release, honest)
        least = cover().epsilon(delta)
        if limit is not None and delta >= limit[1]:
            # The quotient is rounded to the nearest float, the next one is at least the exact bound.
            least = min(least, math.nextafter(float(limit[0]), math.inf))
        return found.epsilon(delta) if found else 0.0, least

    count = sum(one.times for one in parts)
    clear = all(one.noise.clear for one in parts)
    noise = "the exact distributions of the fakes" if clear else "certified curves of the users' noise"
    return Analysis(
        upper=upper,
        lower=lower,
        basis=Basis.EXACT if exact else Basis.PROVEN,
        method=f"composition of {noise} over {count} attributes",
        guess=5 * math.sqrt(sum(one.times * surveys.information(one, protocol.release, honest) for one in parts)),
        honest=honest,
        fakes=fakes,
        solve=solve,
    )


def _one_response(parts: tuple[Answers, ...], honest: int, epsilon: float) -> float:
    """Return ln δ(ε) of the best attack on a single attribute by randomized response; errs downwards."""
    flipped = [one for one in parts if not one.noise.clear]
    return max((category.attack(one.size, one.noise.q, honest, epsilon) for one in flipped), default=-math.inf)


def _local_analysis(parts: tuple[Answers, ...], protocol: Protocol, pure: float) -> Analysis:
    """Return the analysis of one user's messages alone: the composition over all attributes, or nothing at all."""

    @cache
    def cover() -> Loss:
        result = None
        for one in parts:
            q = one.noise.q
            if protocol.sends_category:
                truth = 1 - (one.size - 1) * q
                pair = [truth, q, (one.size - 2) * q], [q, truth, (one.size - 2) * q]
            else:
                pair = [(1 - q) ** 2, 2 * q * (1 - q), q * q], [q * q, 2 * q * (1 - q), (1 - q) ** 2]
            loss = Loss.from_distributions(*pair, step=pure / LOCAL_STEP).power(one.times)
            result = loss if result is None else result.compose(loss)
        assert result is not None
        return result

    def upper(epsilon: float) -> float:
        if math.isinf(pure):
            return 0.0
        return -math.inf if epsilon >= pure else log(cover().delta(epsilon))

    return Analysis(
        upper=upper,
        lower=unknown,
        basis=Basis.PROVEN,
        method="the likelihood ratio of one user's messages",
        honest=1,
        shuffler=False,
        pure=pure,
        guess=1.0 if math.isinf(pure) else pure / 2,
    )
