"""Plans of surveys in words: the error, the layout, the messages and the noise of every question."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hubbub.mechanisms.design import places
from hubbub.mechanisms.errors import QuestionError, question_errors
from hubbub.model.plans import Plan
from hubbub.model.privacy import Guarantee
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Questions, Scale
from hubbub.model.questions.cross import sides

_NAMES = {"binomial": "Binomial", "poisson": "Poisson", "laplace": "Laplace", "gaussian": "Gaussian"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWords:
    """One question of a plan in words, with the figures behind them."""

    name: str
    error: QuestionError
    layout: str
    """The categories that are counted, such as "256 buckets in levels of 16 and 1"."""
    messages: int
    """Answers that a person sends for it, fakes not included: one for each attribute."""
    noise: str

    @property
    def precision(self) -> str:
        """The predicted standard error in the unit of the question."""
        return f"{described_error(self.error)} (standard error of {self.error.measures})"


def described_error(error: QuestionError) -> str:
    """Return a predicted error with its unit.

    >>> described_error(QuestionError(question="a", stderr=8.4, people=8.4, unit="people", measures="one count"))
    '8.4 people'
    """
    return f"{error.stderr:,.4g}{' ' + error.unit if error.unit else ''}"


def described_questions(plan: Plan) -> list[QuestionWords]:
    """Describe every question of a plan for a survey."""
    questions, noise, where = survey_questions(plan), plan.protocol.noise, places(plan.schema)
    return [
        QuestionWords(
            name=one.question,
            error=one,
            layout=described_layout(one.question, questions),
            messages=len(where[one.question]),
            noise=described_noises([noise[place] for place in where[one.question]]),
        )
        for one in question_errors(plan)
    ]


def survey_questions(plan: Plan) -> Questions:
    """Return the questions of a plan for a survey."""
    return plan.schema.questions


def described_layout(name: str, questions: Questions) -> str:
    """Describe the attributes that a question is collected as.

    >>> survey = Questions.create({"load time": Scale(0, 4096, buckets=256, levels=[16, 1]), "memory": Number(0, 9)})
    >>> described_layout("load time", survey), described_layout("memory", survey)
    ('256 buckets in levels of 16 and 1', '256 levels in 4 digits of base 4')
    """
    question = questions[name]
    text = _layout(question, questions)
    if name in questions.derived:
        text += f", from the cross-table {questions.crosses(name)[0]!r}"
    return text + (", or no answer" if getattr(question, "missing", False) else "")


def _layout(question: Question, questions: Questions) -> str:
    if isinstance(question, Choice):
        return f"{len(question.labels):,} labels"
    if isinstance(question, Flag):
        return "yes or no"
    if isinstance(question, Scale):
        levels = f" in levels of {_listed(map(str, question.widths))}" if len(question.widths) > 1 else ""
        return f"{question.buckets:,} buckets{levels}"
    if isinstance(question, Number):
        bases = sorted(set(question.radices))
        digits = f"{len(question.radices)} digits of base {_listed(map(str, bases))}"
        return f"{question.levels:,} levels in {digits}{', also of the square' if question.variance else ''}"
    assert isinstance(question, Cross)
    sizes = [side.sizes[-1] for side in sides(question, dict(questions.items))]
    return f"{math.prod(sizes):,} cells, {' × '.join(question.names)}"


def described_noise(noise: Noise) -> str:
    """Describe the noise of one attribute.

    >>> described_noise(Noise(m=Fakes.laplace(4.0, 54))), described_noise(Noise(0.125))
    ('Laplace(4) + 54 fakes per category', 'q = 0.125')
    """
    return described_noises([noise])


def described_noises(each: Sequence[Noise]) -> str:
    """Describe the noise of several attributes; equal ones are counted.

    >>> described_noises([Noise(m=Fakes.laplace(4.0, 54))] * 2 + [Noise(m=Fakes.laplace(8.0, 99))])
    '2 × Laplace(4) + 54, Laplace(8) + 99 fakes per category'
    """
    found: dict[tuple[str, str], int] = {}
    for one in each:
        text = _noise(one)
        found[text] = found.get(text, 0) + 1
    endings = {ending for _, ending in found}
    parts = [f"{count} × {text}" if count > 1 else text for (text, _), count in found.items()]
    if len(endings) > 1:
        parts = [part + ending for part, (_, ending) in zip(parts, found, strict=True)]
        return ", ".join(parts)
    return ", ".join(parts) + "".join(endings)


def _noise(noise: Noise) -> tuple[str, str]:
    m = noise.m
    if not isinstance(m, Fakes):
        return f"q = {noise.q:.4g}", ""
    if m.by == "shuffler":
        return f"{_NAMES[m.distribution]}({m.scale:.4g}) + {m.shift}", " fakes per category"
    parameters = f"{m.shift}, {m.scale:.4g}" if m.distribution == "binomial" else f"{m.scale:.4g}"
    return f"{_NAMES[m.distribution]}({parameters})", " fakes per user"


def described_survey_protocol(protocol: Protocol) -> str:
    """Describe the protocol of a survey in a few words.

    >>> described_survey_protocol(Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2))
    '2 answers in the clear: Laplace fakes of scale 4 in every category, drawn by the shuffler'
    """
    noise = protocol.noise
    answers = f"{len(noise):,} answer{'' if len(noise) == 1 else 's'}"
    flips = [one.q for one in noise if not one.clear]
    texts = []
    if flips:
        by = "randomized response" if protocol.sends_category else "split bits"
        texts.append(f"{answers if len(flips) == len(noise) else len(flips)} by {by}: q = {_span(flips)}")
    for kind in dict.fromkeys(one.m.distribution for one in noise if isinstance(one.m, Fakes)):
        drawn = [one.m for one in noise if isinstance(one.m, Fakes) and one.m.distribution == kind]
        who = answers if len(drawn) == len(noise) else f"{len(drawn)}"
        if drawn[0].by == "shuffler":
            scales = _span([one.scale for one in drawn])
            told = f"{_NAMES[kind]} fakes of scale {scales} in every category, drawn by the shuffler"
        else:
            told = f"{_NAMES[kind]} fakes of the users, {_span([one.mean for one in drawn])} each on average"
        texts.append(f"{who} in the clear: {told}")
    return "; ".join(texts)


def _span(values: Iterable[float]) -> str:
    listed = list(values)
    low, high = f"{min(listed):.4g}", f"{max(listed):.4g}"
    return low if low == high else f"{low} to {high}"


def batch_fakes(plan: Plan) -> float:
    """Return the expected number of fakes in a batch of the planned size.

    >>> from hubbub import Schema, plan_from
    >>> survey = Schema.survey({"a": Flag(), "b": Choice(["x", "y", "z"])})
    >>> plan = plan_from(survey, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), delta=1e-6)
    >>> round(batch_fakes(plan))
    270
    """
    total = 0.0
    for attribute, noise in zip(plan.schema.attributes, plan.protocol.noise, strict=True):
        if noise.shuffler_fakes is not None:
            total += attribute.size * noise.shuffler_fakes.mean
        elif noise.user_fakes is not None:
            total += plan.n * noise.user_fakes.mean
    return total


def survey_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return names and values that describe the questions of a plan, and what is sent for them."""
    rows: list[tuple[str, str]] = []
    for one in described_questions(plan):
        rows.append(("" if rows else "questions", f"{one.name}: {one.precision}"))
        rows.append(("", f"  {one.layout}{f'; {one.noise}' if one.noise else ''}"))
    count = len(plan.protocol.noise)
    rows.append(("answers", f"{count:,} per person{', in separate messages that nothing links' if count > 1 else ''}"))
    if fakes := batch_fakes(plan):
        by_shuffler = any(noise.shuffler_fakes for noise in plan.protocol.noise)
        rows.append(("fakes", f"{fakes:,.0f} in a batch, drawn by {'the shuffler' if by_shuffler else 'the users'}"))
    return rows


def survey_record(plan: Plan) -> list[dict[str, object]]:
    """Return the questions of a plan as JSON objects."""
    return [
        {
            "question": one.name,
            "stderr": one.error.stderr,
            "unit": one.error.unit,
            "measures": one.error.measures,
            "people": one.error.people,
            "layout": one.layout,
            "messages": one.messages,
            "noise": one.noise,
        }
        for one in described_questions(plan)
    ]


def _listed(names: Iterable[str]) -> str:
    """Return names in a row: "a", "a and b", "a, b and c"."""
    each = list(names)
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"


def described_assumptions(guarantee: Guarantee, *, survey: bool, rounds: int = 1) -> list[str]:
    """Return the assumptions of a guarantee in sentences; the bits of a survey are categories of its attributes."""
    lines = guarantee.assumptions.sentences(rounds)
    return [line.replace("messages for each bit", "messages for each category") for line in lines] if survey else lines
