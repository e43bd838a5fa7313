"""Privacy budgets and guarantees: ``Budget``, ``Guarantee``, and the ``Basis`` and ``Assumptions`` of a guarantee."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from enum import StrEnum
from typing import Annotated, Literal, NoReturn

from hubbub.documents import OPTIONAL, Document, Whole, check_fields
from hubbub.errors import NON_NEGATIVE, PROBABILITY, Interval, check_type, check_whole, reject

NEARLY_CERTAIN = 0.99
"""Success rate from which on the digits of what is missing to certainty count."""
MOST_ROUNDS = 10**6
LIMIT = Interval(0.0, math.inf)
"""Values of an ε that may be infinite."""
BUDGET_DELTA = Interval(0.0, 1.0, open_high=True)


TrustModel = Literal["nobody", "shuffling", "shuffler-noise"]
"""Parties that must be honest besides the protected user: nobody; a shuffler that shuffles, with users who add noise;
or a shuffler that also draws its fakes as planned and keeps their number secret."""
TRUST_MODELS: tuple[TrustModel, ...] = ("nobody", "shuffling", "shuffler-noise")
"""All kinds of trust; each includes those before it."""
TRUST_DESCRIPTIONS: dict[TrustModel, str] = {
    "nobody": "nobody besides the protected person's own device must be honest",
    "shuffling": "the shuffler must mix honestly, and other users must add noise",
    "shuffler-noise": "the shuffler must mix honestly, draw its fakes as planned and keep their number secret",
}
WEAK_COLLUSION = 10.0
"""Collusion ε above which the noise of one device protects nobody in practice: a guess between two answers is then
right in up to 99.9955 % of all cases."""


_DRAWN = (
    "The shuffler draws its fakes as planned and keeps their number secret.",
    "The shuffler does not see the results: it could subtract its own fakes from them, and the fakes would hide "
    "nothing from it.",
)
_RELAYED = (
    "The shuffler subtracts a number, drawn as planned and kept secret, from the number of people who hold each "
    "string, passes on what is positive and nothing else, and does not work with the analyzer.",
    "A relay, which neither of them runs, keeps the senders from the shuffler, which sees which answers are equal. A "
    "shuffler that also sees the results knows the exact number of people of every string that is shown.",
)
_RELAY_FAILS = (
    "The devices and the shuffler draw their randomness from secure sources.",
    "If shuffler and analyzer collude, they see all strings and how many people hold each, unlinked from their senders "
    "by the relay (collusion ε = ∞).",
    "If relay and shuffler collude, they see who sent equal strings, and may guess frequent ones.",
)


class Basis(StrEnum):
    """The kind of evidence behind a guarantee."""

    EXACT = "exact"
    """The supremum over all neighbouring collections and both orders, to a stated tolerance, rounded up."""
    PROVEN = "proven"
    """A theorem that holds for all neighbouring collections, possibly loose."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        reject("value", "be 'exact' or 'proven'", value)


HALF = Interval(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Budget(Document):
    """A target: (ε,δ)-differential privacy for the replacement of one record; δ = 0 asks for pure privacy.

    >>> Budget(1.0, 1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """

    epsilon: Annotated[float, NON_NEGATIVE]
    delta: Annotated[float, BUDGET_DELTA]


@dataclass(frozen=True, slots=True)
class Total(Document):
    """The (ε, δ) of several collections together; ε is infinite if no bound is proven.

    >>> Total(1.5, 1e-6)
    Total(epsilon=1.5, delta=1e-06)
    """

    epsilon: Annotated[float, LIMIT]
    delta: Annotated[float, PROBABILITY]


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds(Document):
    """Certified success rates of the best guess between two equally likely answers of one person, all else known.

    ½(1 + δ(0)) by the plan's own curve at its honest fraction, where any plan with the same ε may allow up to
    (e^ε + δ)/(e^ε + 1). Each is an average over all outcomes: some tell more, with a probability that δ limits.

    >>> Odds(round=0.55, total=0.55, local=1.0, local_total=1.0).round
    0.55
    """

    round: Annotated[float, HALF]
    """From one round."""
    total: Annotated[float, HALF]
    """From all rounds together."""
    local: Annotated[float, HALF]
    """From one round, if shuffler and analyzer collude."""
    local_total: Annotated[float, HALF]
    """From all rounds, if they do."""


def guess_rate(delta: float) -> float:
    """Return ½(1 + δ(0)), rounded up to six digits, with a margin that lets a coarser implementation confirm it.

    >>> guess_rate(0.0), guess_rate(1e-300), guess_rate(0.08222574009), guess_rate(1.0)
    (0.5, 0.500001, 0.541114, 1.0)
    """
    # The tolerance is below the margin from six digits on; a smaller δ must not become none.
    least = 500_000 + (delta > 0)
    return min(1.0, max(least, math.ceil((0.5 + 0.5 * delta * (1 + 1e-5)) * 10**6 - 1e-6)) / 10**6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions(Document):
    """The conditions under which a guarantee holds: who must be honest, and what the analyzer sees."""

    honest: Annotated[int, Whole(1)]
    """Users who follow the protocol, including the protected one; the others may collude with the analyzer."""
    shuffler: bool
    """True if the shuffler must be honest: permute the messages and keep the order secret."""
    fakes: bool
    """True if the shuffler must also draw its fakes as planned and keep their number secret."""
    view: str
    """Description of the analyzer's view."""
    collusion_epsilon: Annotated[float, LIMIT]
    """Pure ε of everything one user sent, if shuffler and analyzer collude; ∞ for clear records."""
    count_epsilon: Annotated[float, LIMIT]
    """Pure ε of the *number* of messages one user sent, which the shuffler sees unless uploads are padded."""
    relay: Annotated[bool, OPTIONAL] = False
    """True if a relay must keep the senders from the shuffler, which sees which messages are equal."""

    @property
    def trust(self) -> TrustModel:
        """The trust that the guarantee needs."""
        if not self.shuffler:
            return "nobody"
        return "shuffler-noise" if self.fakes else "shuffling"

    @property
    def honest_users(self) -> str:
        """The number of honest users in words."""
        return "no honest user besides the protected one" if self.honest == 1 else f"{self.honest:,} honest users"

    @property
    def needs(self) -> str:
        """The parties that must be honest, in a few words.

        >>> Assumptions(
        ...     honest=900, shuffler=True, fakes=False, view="bits", collusion_epsilon=4.4, count_epsilon=0.0
        ... ).needs
        '900 honest users, and a shuffler that mixes and does not work with the analyzer'
        """
        if not self.shuffler:
            return "nobody but the protected person's own device"
        does = "counts, subtracts" if self.relay else "mixes, draws its fakes" if self.fakes else "mixes"
        secret = " as planned, keeps their number secret" if self.fakes else ""
        relay = ", and a relay that neither of them runs" if self.relay else ""
        return f"{self.honest_users}, and a shuffler that {does}{secret} and does not work with the analyzer{relay}"

    def sentences(self, rounds: int = 1) -> list[str]:
        """Return everything the guarantee rests on, and what remains if it fails, as English sentences.

        What is left if shuffler and analyzer collude is that of all ``rounds`` together.

        >>> held = Assumptions(
        ...     honest=900, shuffler=True, fakes=False, view="whole records", collusion_epsilon=4.4, count_epsilon=0.0
        ... )
        >>> print(*held.sentences(), sep="\\n")
        The analyzer sees whole records, unlinked from their senders by an honest shuffler.
        The shuffler mixes all messages, tells nobody their order or their senders, and does not work with the analyzer.
        At least 900 users, including the protected one, follow the protocol and keep their noise secret.
        Every person answers once per round: the guarantee covers one record, and each further answer weakens it.
        The devices and the shuffler draw their randomness from secure sources.
        If shuffler and analyzer collude, only the person's own noise is left: a guess between two answers is then right
        in up to 98.8 % of all cases (collusion ε = 4.4).
        >>> clear = Assumptions(
        ...     honest=1, shuffler=True, fakes=True, view="messages", collusion_epsilon=math.inf, count_epsilon=math.inf
        ... )
        >>> clear.sentences()[-1].endswith("or the shuffler learns it.")
        True
        """
        check_whole("rounds", rounds, 1, MOST_ROUNDS)
        once = (
            "Every person answers once per round: the guarantee covers one record, and each further answer weakens it."
        )
        if not self.shuffler:
            return [
                f"The analyzer sees {self.view}, with their senders.",
                "The device of the protected person follows the protocol and draws its randomness from a secure "
                "source; nobody else needs to be honest.",
                once,
            ]
        users = (
            "At least 1 user, the protected one, follows the protocol"
            if self.honest == 1
            else f"At least {self.honest:,} users, including the protected one, follow the protocol and keep their "
            "noise secret"
        )
        if self.relay:
            return [f"The analyzer sees {self.view}.", *_RELAYED, f"{users}.", once, *_RELAY_FAILS]
        lines = [
            f"The analyzer sees {self.view}, unlinked from their senders by an honest shuffler.",
            "The shuffler mixes all messages, tells nobody their order or their senders, and does not work with the "
            "analyzer.",
            *(_DRAWN if self.fakes else ()),
            f"{users}.",
            once,
            "The devices and the shuffler draw their randomness from secure sources.",
            self._collusion(rounds),
        ]
        if self.count_epsilon > 0:
            each = " per round" if rounds > 1 else ""
            pure = "" if math.isinf(self.count_epsilon) else f" ({self.count_epsilon:.4g}-differentially private{each})"
            lines.append(
                "The number of messages of one user depends on the record: uploads must be padded to a fixed number, "
                f"or the shuffler learns it{pure}."
            )
        return lines

    def _collusion(self, rounds: int) -> str:
        """Return what is left if shuffler and analyzer collude."""
        epsilon, told = rounds * self.collusion_epsilon, f"collusion ε = {self.described_collusion(rounds)}"
        when = "If shuffler and analyzer collude" + (f" in all {rounds:,} rounds" if rounds > 1 else "")
        if math.isinf(epsilon):
            return f"{when}, nothing protects the record ({told})."
        if epsilon > WEAK_COLLUSION:
            return (
                f"{when}, the person's own noise is too small to protect anybody: a guess about the record can be all "
                f"but certain ({told})."
            )
        return (
            f"{when}, only the person's own noise is left: a guess between two answers is then right in up to "
            f"{described_rate(success_rate(epsilon))} of all cases ({told})."
        )

    def described_collusion(self, rounds: int = 1) -> str:
        """Return the pure ε of all messages that one user sends in all rounds, which policies limit.

        >>> held = Assumptions(
        ...     honest=9, shuffler=True, fakes=False, view="bits", collusion_epsilon=0.0679, count_epsilon=0.0
        ... )
        >>> held.described_collusion(), held.described_collusion(52)
        ('0.0679', '3.53 for all 52 rounds, 0.0679 per round')
        """
        check_whole("rounds", rounds, 1, MOST_ROUNDS)
        if math.isinf(self.collusion_epsilon):
            return "∞"
        each = f"{self.collusion_epsilon:.3g}"
        return (
            each
            if rounds == 1
            else f"{rounds * self.collusion_epsilon:.3g} for all {rounds:,} rounds, {each} per round"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee(Document):
    """(ε,δ)-differential privacy for the replacement of one record of a collection of n.

    ``lower_bound`` is what the best known attack attains for the parameter that was solved for: no guarantee with a
    smaller value exists.
    """

    epsilon: Annotated[float, LIMIT]
    delta: Annotated[float, PROBABILITY]
    lower_bound: Annotated[float, LIMIT]
    solved: Literal["epsilon", "delta"]
    basis: Basis
    method: str
    n: Annotated[int, Whole(1)]
    assumptions: Assumptions
    unshuffled: Annotated[int, Whole(), OPTIONAL] = 0
    """People among those who were counted whose messages nobody shuffled, although the plan relies on that; if there
    are any, the figures are those of everybody's own noise alone. 0 in a plan."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.unshuffled and self.assumptions.shuffler:
            reject("unshuffled", "be 0 for a guarantee that rests on a shuffler", self.unshuffled)

    def meets(self, budget: Budget) -> bool:
        """Return True if this guarantee implies the budget."""
        check_type("budget", budget, Budget)
        return self.epsilon <= budget.epsilon and self.delta <= budget.delta

    @property
    def note(self) -> str:
        """A note that belongs wherever the figures of people who were counted are stated; often empty.

        >>> local = Assumptions(
        ...     honest=1, shuffler=False, fakes=False, view="bits", collusion_epsilon=4.4, count_epsilon=0.0
        ... )
        >>> parts = dict(lower_bound=0.0, solved="delta", basis=Basis.PROVEN, method="flips", assumptions=local)
        >>> Guarantee(epsilon=1.0, delta=0.9, n=1200, unshuffled=600, **parts).note
        "the reports of 600 people were not shuffled: anyone who sees them can link them to their senders, so only each
        device's own noise counts, for everybody"
        """
        if not self.unshuffled:
            return ""
        people = "1 person" if self.unshuffled == 1 else f"{self.unshuffled:,} people"
        return (
            f"the reports of {people} were not shuffled: anyone who sees them can link them to their senders, so only "
            "each device's own noise counts, for everybody"
        )

    @property
    def odds(self) -> str:
        """The guarantee as the success rate of the strongest attacker, in words."""
        return described_odds(self.epsilon, self.delta)

    @property
    def attack(self) -> str:
        """The best known attack in words; none exists where the guarantee is perfect."""
        if self.lower_bound > 0:
            return f"{self.solved} {self.lower_bound:.4g}"
        return "none exists" if (self.delta if self.solved == "delta" else self.epsilon) == 0 else "none known"

    def __str__(self) -> str:
        return (
            f"({self.epsilon:.6g}, {self.delta:.3g})-DP, {self.basis.value} by {self.method}, n = {self.n:,}; "
            f"best known attack: {self.attack}{'; ' * bool(self.unshuffled)}{self.note}"
        )


def described_odds(epsilon: float, delta: float) -> str:
    """Return (ε, δ) as the success rate of the strongest attacker, in words."""
    return (
        "an attacker who knows everyone else's answer and guesses between two answers of one person is right in at "
        f"most {described_rate(success_rate(epsilon, delta))} of all cases, and by chance in 50 %"
    )


def success_rate(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest success rate of a guess between two equally likely answers of one person.

    (e^ε + δ)/(e^ε + 1): a test with false positive rate a has a true positive rate of at most e^ε·a + δ and of at most
    1 − e^−ε(1 − δ − a) (Kairouz, Oh and Viswanath 2015); the sum of both rates of success is largest where they meet.

    >>> round(success_rate(0.0), 3), round(success_rate(1.0, 1e-6), 3), success_rate(math.inf)
    (0.5, 0.731, 1.0)
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def described_rate(value: float) -> str:
    """Write a success rate, rounded up: with three digits, or with two digits of what is missing to certainty.

    >>> described_rate(0.5), described_rate(0.7310586), described_rate(0.99989), described_rate(1.0)
    ('50 %', '73.2 %', '99.989 %', '100 %')
    """
    if value < NEARLY_CERTAIN:
        return f"{math.ceil(1000 * value) / 10:g} %"
    missing = Context(prec=2, rounding=ROUND_FLOOR).create_decimal(100 - 100 * value)
    return f"{float(100 - missing):.10g} %"
