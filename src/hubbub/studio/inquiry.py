"""``Inquiry``: what the page asks for, every value within its range."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import Interval, check_choice, check_real, check_whole, reject
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.questions import Choice, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.planner.request import Limits, Request

Kind = Literal["one", "few", "any", "strings", "survey"]
KINDS = ("one", "few", "any", "strings", "survey")
PEOPLE = (10, 10**9)
EPSILON = Interval(0.01, 20.0)
DELTA = Interval(1e-12, 1e-2)
MOST_ANSWERS, MOST_BYTES, MOST_ROUNDS, MOST_COMPROMISED = 2000, 1024, 1000, 90
MOST_QUESTIONS, MOST_LABELS, MOST_BUCKETS, LONGEST = 12, 100, 1024, 60
KEYS = ("kind", "d", "k", "questions", "n", "epsilon", "delta", "rounds", "trust", "clear", "compromised", "joint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question to people, their number, a budget and the trust: the state of the page."""

    kind: Kind
    schema: Schema
    n: int
    epsilon: float
    delta: float
    rounds: int
    trust: TrustModel
    clear: bool
    compromised: int
    """Percentage of the users that the attacker controls."""
    joint: bool

    def __post_init__(self) -> None:
        check_whole("n", self.n, *PEOPLE)
        check_real("epsilon", self.epsilon, EPSILON)
        check_real("delta", self.delta, DELTA)
        check_whole("rounds", self.rounds, 1, MOST_ROUNDS)
        check_choice("trust", self.trust, TRUST_MODELS)
        check_whole("compromised", self.compromised, 0, MOST_COMPROMISED)

    @classmethod
    def from_document(cls, value: Json) -> Self:
        """Read an inquiry from a JSON object."""
        read = Fields(value, "the inquiry", *KEYS)
        with legal("the inquiry"):
            kind = check_choice("kind", read.text("kind"), KINDS)
            made: dict[str, Any] = {"kind": kind, "trust": check_choice("trust", read.text("trust"), TRUST_MODELS)}
            return cls(
                **made,
                schema=_schema(kind, read),
                n=read.whole("n"),
                epsilon=read.real("epsilon"),
                delta=read.real("delta"),
                rounds=read.whole("rounds"),
                clear=read.truth("clear"),
                compromised=read.whole("compromised"),
                joint=read.truth("joint"),
            )

    @property
    def honest_fraction(self) -> float:
        """Fraction of the users that follow the protocol."""
        return (100 - self.compromised) / 100

    @property
    def budget(self) -> Budget:
        """The budget of all rounds together."""
        return Budget(self.epsilon, self.delta)

    @property
    def limits(self) -> Limits:
        """The constraints besides the trust."""
        return {"honest_fraction": self.honest_fraction, "joint": self.joint, "rounds": self.rounds}

    @property
    def request(self) -> Request:
        """The request with any trust: families that need more than is allowed are shown for comparison."""
        return Request.of(self.schema, self.n, self.budget, trust="shuffler-noise", **self.limits)

    def allows(self, trust: TrustModel, *, clear: bool) -> bool:
        """Return True if a family that needs this trust may be chosen."""
        if TRUST_MODELS.index(trust) > TRUST_MODELS.index(self.trust):
            return False
        return not clear or self.trust == "shuffler-noise" or self.clear


def _schema(kind: str, read: Fields) -> Schema:
    if kind == "survey":
        items = read.items("questions")
        check_whole("the number of questions", len(items), 1, MOST_QUESTIONS)
        made = [_question(item, place) for place, item in enumerate(items, 1)]
        if len(dict(made)) != len(made):
            reject("the names of questions", "be distinct")
        return Schema.survey(dict(made))
    if kind == "strings":
        return Schema.strings(check_whole("d, the bytes of the longest string,", read.whole("d"), 1, MOST_BYTES))
    d = check_whole("d", read.whole("d"), 1 if kind == "any" else 2, MOST_ANSWERS)
    if kind == "few":
        return Schema.at_most(check_whole("k", read.whole("k"), 1, d), d)
    return Schema.one_hot(d) if kind == "one" else Schema.bits(d)


def _question(value: Json, place: int) -> tuple[str, Question]:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in QUESTIONS:
        reject(f"question {place}", f"have the kind {', '.join(QUESTIONS)}")
    keys, make = QUESTIONS[kind]
    read = Fields(value, f"question {place}", "name", "kind", *keys)
    name = read.text("name").strip()
    if not 0 < len(name) <= LONGEST:
        reject(f"the name of question {place}", f"have 1 to {LONGEST} characters")
    return name, make(read)


def _choice(read: Fields) -> Choice:
    labels = [label.strip() for label in read.texts("labels")]
    check_whole("the number of labels", len(labels), 2, MOST_LABELS)
    if not all(0 < len(label) <= LONGEST for label in labels):
        reject("labels", f"have 1 to {LONGEST} characters each")
    return Choice(labels)


def _scale(read: Fields) -> Scale:
    buckets = check_whole("buckets", read.whole("buckets"), 2, MOST_BUCKETS)
    return Scale(read.real("low"), read.real("high"), buckets=buckets)


QUESTIONS: dict[str, tuple[tuple[str, ...], Callable[[Fields], Question]]] = {
    "choice": (("labels",), _choice),
    "flag": ((), lambda _: Flag()),
    "number": (("low", "high"), lambda read: Number(read.real("low"), read.real("high"))),
    "scale": (("low", "high", "buckets"), _scale),
}
"""The kinds of questions in a survey, with their keys."""
