"""``verify``: re-derive the privacy claim of a plan, in integer arithmetic, and say which part of it is confirmed."""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from fractions import Fraction

from .bounds import Bound, exceeds_pure, exceeds_ratio, odds
from .crowds import NoTheorem, TooMuchWork, Watch, silent
from .document import Claim, Fakes, read
from .theorems import theorems

UNCHECKED = "the points of the curve; stderr, lower_bound, basis and method, which are no part of the privacy claim"


class State(StrEnum):
    """The outcome for a plan, or for one part of its claim."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed here"
    FALSE = "false"

    @property
    def code(self) -> int:
        """The exit code of a command that checks a plan."""
        return {State.CONFIRMED: 0, State.NOT_CONFIRMED: 7, State.FALSE: 4}[self]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a claim, the outcome, and the reason in words."""

    name: str
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for a plan: that of the weakest part of its claim."""

    plan: str
    state: State
    parts: tuple[Part, ...]
    epsilon: float
    delta: float
    n: int
    bound: float | None
    """The smallest upper bound found on δ at the claimed ε, rounded up; None if none was evaluated."""
    method: str
    honest: int
    """Honest users that the bound needs, including the protected one."""
    shuffler: bool
    """True if the bound needs an honest shuffler."""
    fakes: bool
    """True if the bound needs the shuffler to draw its fakes as planned."""

    def rows(self) -> list[tuple[str, str]]:
        """Return the verdict as lines of text, each with its name."""
        parts = [(part.name, f"{part.state.value}: {part.reason}") for part in self.parts]
        return [("plan", f"{self.plan[:8]}…"), ("verdict", self.state.value), *parts, ("not checked", UNCHECKED)]

    def to_document(self) -> dict[str, object]:
        """Return the verdict as a JSON object."""
        return {
            "plan": self.plan,
            "verdict": self.state.value,
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "n": self.n,
            "bound": self.bound,
            "method": self.method,
            "assumptions": {"honest": self.honest, "shuffler": self.shuffler, "fakes": self.fakes},
            "parts": {part.name: {"verdict": part.state.value, "reason": part.reason} for part in self.parts},
            "not_checked": ["curve", "stderr", "lower_bound", "basis", "method"],
        }


def verify(text: str | bytes, *, watch: Watch = silent) -> Verdict:
    """Return the verdict on a plan's JSON; raise :class:`~hubbub.checker.WireError` if it is damaged or forged.

    ``watch`` is told the work done so far, and all of it, where an evaluation takes seconds.
    """
    claim = read(text)
    guarantee, best = _guarantee(claim, watch)
    parts = (
        guarantee,
        _total(claim, guarantee, watch),
        _collusion(claim),
        _count(claim),
        _odds(claim, guarantee, watch),
    )
    states = [part.state for part in parts]
    state = next((one for one in (State.FALSE, State.NOT_CONFIRMED) if one in states), State.CONFIRMED)
    return Verdict(
        plan=claim.id,
        state=state,
        parts=parts,
        epsilon=math.inf if claim.epsilon is None else float(claim.epsilon),
        delta=float(claim.delta),
        n=claim.n,
        bound=_above(best.upper) if best else None,
        method=best.method if best else "",
        honest=best.honest if best else 1,
        shuffler=best.shuffler if best else False,
        fakes=best.fakes if best else False,
    )


PURE = "the largest likelihood ratio of one user's messages"


def _guarantee(claim: Claim, watch: Watch) -> tuple[Part, Bound | None]:
    """Decide the claimed (ε, δ)."""
    if claim.epsilon is None or claim.delta == 1:
        return Part("guarantee", State.CONFIRMED, "the claim is empty: every protocol meets it"), None
    if claim.flip > 0 and exceeds_pure(claim.epsilon, odds(claim)):
        pure = Bound(Fraction(0), PURE, 1, shuffler=False)
        return Part("guarantee", State.CONFIRMED, _sentence(claim, pure)), pure
    if claim.delta == 0:
        return _impure(claim), None
    best: Bound | None = None
    reasons: list[str] = []
    for theorem in theorems(claim, watch):
        try:
            for bound in theorem():
                if bound.upper <= claim.delta:
                    return Part("guarantee", State.CONFIRMED, _sentence(claim, bound)), bound
                if bound.lower > claim.delta and claim.honest == claim.users:
                    return Part(
                        "guarantee", State.FALSE, f"an attack attains δ ≥ {_text(bound.lower, ROUND_FLOOR)} at this ε"
                    ), bound
                best = bound if best is None or bound.upper < best.upper else best
        except TooMuchWork:
            reasons = ["the evaluation would take longer than a minute"]
        except NoTheorem as error:
            reasons = [str(error)]
    if best and best.upper < 1:
        reasons.insert(0, f"the best bound found is δ ≤ {_text(best.upper)}, by {best.method}")
    return Part("guarantee", State.NOT_CONFIRMED, "; ".join(reasons) or "no theorem of this checker applies"), best


def _impure(claim: Claim) -> Part:
    """Decide a claim of δ = 0 below the pure ε of one user's messages.

    If all messages, fakes included, happen to show one record, the ratio of probabilities is that pure ε; clear records
    are revealed if no fake falls on one of them. Only flips among the shuffler's unbounded fakes may do better.
    """
    if claim.flip > 0 and isinstance(claim.fakes, Fakes) and claim.fakes.by_shuffler:
        return Part("guarantee", State.NOT_CONFIRMED, "no theorem of this checker applies to δ = 0")
    return Part("guarantee", State.FALSE, "an outcome of positive probability has a larger ratio than e^ε")


def _sentence(claim: Claim, bound: Bound) -> str:
    assert claim.epsilon is not None
    users = "the protected user" if bound.honest == 1 else f"{bound.honest:,} honest users"
    shuffler = " and an honest shuffler" if bound.shuffler else ""
    drawn = " that draws its fakes as planned" if bound.fakes else ""
    return (
        f"δ ≤ {_text(bound.upper)} at ε = {float(claim.epsilon):.6g} for n = {claim.n:,}, "
        f"with {users}{shuffler}{drawn}, by {bound.method}"
    )


def _total(claim: Claim, guarantee: Part, watch: Watch) -> Part:
    """Decide the claim for all rounds together, by basic composition: every round costs the guarantee."""
    rounds = "1 round" if claim.rounds == 1 else f"{claim.rounds:,} rounds"
    if claim.total_epsilon is None or claim.total_delta == 1:
        return Part("total", State.CONFIRMED, "the claim is empty: all protocols meet it")
    if claim.epsilon is None or claim.rounds * claim.epsilon > claim.total_epsilon:
        added = False
    else:
        added = claim.rounds * claim.delta <= claim.total_delta
    pure = claim.flip > 0 and exceeds_pure(claim.total_epsilon / claim.rounds, odds(claim))
    if pure:
        return Part("total", State.CONFIRMED, f"{rounds} cost at most the sum of the pure ε of one user's messages")
    if not added and claim.rounds == 1:
        other, _ = _guarantee(replace(claim, epsilon=claim.total_epsilon, delta=claim.total_delta), watch)
        return replace(other, name="total")
    if not added:
        reason = f"the guarantees of {rounds} add up to more, and this checker does not compose curves"
        return Part("total", State.NOT_CONFIRMED, reason)
    if guarantee.state is not State.CONFIRMED:
        return Part("total", State.NOT_CONFIRMED, "it is the sum of guarantees that are not confirmed")
    return Part("total", State.CONFIRMED, f"the guarantees of {rounds} add up to at most the total")


def _collusion(claim: Claim) -> Part:
    """Decide the claim for a colluding shuffler: the pure ε of all messages of one user."""
    true = claim.collusion_epsilon is None or (claim.flip > 0 and exceeds_pure(claim.collusion_epsilon, odds(claim)))
    return _pure_part("collusion_epsilon", "one user's messages", true)


def _count(claim: Claim) -> Part:
    """Decide the claim for the number of messages: it depends on the record if set bits are sent, but not for one-hot
    records and surveys, whose number of set bits has one distribution for all categories."""
    if claim.release != "bits" or claim.kind in ("one_hot", "survey") or claim.count_epsilon is None:
        return _pure_part("count_epsilon", "the number of one user's messages", True)
    ratio = (1 - claim.flip) / claim.flip if claim.flip else Fraction(0)
    true = claim.flip > 0 and exceeds_pure(claim.count_epsilon, [(ratio, claim.copies * claim.max_set)])
    return _pure_part("count_epsilon", "the number of one user's messages", true)


def _odds(claim: Claim, guarantee: Part, watch: Watch) -> Part:
    """Decide the success rates of a guess between two answers: a rate r of one round says δ(0) ≤ 2r − 1.

    The distances of rounds add up. Of pure ε, a rate is at most e^ε/(1 + e^ε): r/(1 − r) is the likelihood ratio.
    """
    apart, own = 2 * claim.odds.round - 1, claim.odds
    alone, together = _beyond_pure(claim, own.local, 1), _beyond_pure(claim, own.local_total, claim.rounds)
    if alone or (claim.flip == 0 and together):
        return Part("odds", State.FALSE, "a guess from all messages of one person may be right more often")
    if guarantee.state is not State.CONFIRMED:
        return Part("odds", State.NOT_CONFIRMED, "the guarantee is not confirmed either")
    added = 2 * own.total - 1 >= min(Fraction(1), claim.rounds * apart)
    if not added or alone is None or together is not False:
        reason = "those of several rounds are below what they add up to, and this checker does not compose curves"
        return Part("odds", State.NOT_CONFIRMED, reason)
    if apart < 1:
        found, _ = _guarantee(replace(claim, epsilon=Fraction(0), delta=apart), watch)
        if found.state is not State.CONFIRMED:
            return replace(found, name="odds")
    return Part("odds", State.CONFIRMED, f"a guess from one round is right with probability {_text(own.round)} at most")


def _beyond_pure(claim: Claim, rate: Fraction, rounds: int) -> bool | None:
    """Return whether the likelihood ratio of all messages of one user is above that of a success rate; None if unsure.

    Powers of ratios are compared by their logarithms: those of many rounds or copies have millions of digits.
    """
    if rate == 1 or claim.flip == 0:
        return rate < 1
    return exceeds_ratio(rate / (1 - rate), [(ratio, power * rounds) for ratio, power in odds(claim)])


def _pure_part(name: str, what: str, true: bool) -> Part:
    reason = f"the pure ε of {what} is {'at most' if true else 'above'} the claimed one"
    return Part(name, State.CONFIRMED if true else State.FALSE, reason)


def _above(value: Fraction) -> float:
    """Return a double of at least the value."""
    return math.nextafter(float(value), math.inf) if 0 < value < 1 else float(value > 0)


def _text(value: Fraction, rounding: str = ROUND_CEILING) -> str:
    """Return six digits of a bound, rounded up, or down if it is a lower one."""
    digits = Context(prec=6, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{digits:g}" if digits >= Decimal("1e-4") else f"{float(digits):.6g}"
