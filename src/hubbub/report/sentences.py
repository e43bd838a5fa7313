"""Sentences that differ by mechanism and by type of question: two tables, and the words about plans that follow."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.model.plans import Plan
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.questions import Choice, Cross, Flag, Number, Questions, Scale
from hubbub.model.questions.answers import spell
from hubbub.model.questions.cross import sides
from hubbub.model.questions.text import Text
from hubbub.model.releases import Release
from hubbub.model.schema import Schema

SHOWN = 12
"""Labels, or messages of an example, that are named one by one."""
EXAMPLE = "https://example.org/checkout"


def numbered(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> numbered(1, "label"), numbered(1200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[object]) -> str:
    """Return names in a row: "a", "a and b", "a, b and c"."""
    each = [str(name) for name in names]
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"


def first_of(names: Sequence[str]) -> str:
    """Return the names, or the first of many."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f", and {rest:,} more" if rest > 0 else "")


def span(values: Iterable[float]) -> str:
    """Return the least and the largest of several numbers, or the one that all of them are."""
    each = list(values)
    low, high = f"{min(each):.4g}", f"{max(each):.4g}"
    return low if low == high else f"{low} to {high}"


def percents(shares: Sequence[float]) -> str:
    """Return the least and the largest of several shares in percent, which depend on the part of a record."""
    low, high = f"{100 * min(shares):.2g}", f"{100 * max(shares):.2g}"
    return f"{100 * max(shares):.3g}\u00a0%" if low == high else f"{low} to {high}\u00a0%, depending on the part"


# Mechanisms.


@dataclass(frozen=True, slots=True)
class Column:
    """A part of a record that is counted together: one of its attributes, or all of its labels; with its noise."""

    noise: Noise
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismWords:
    """The words of one mechanism; :func:`leaves` fills the braces."""

    name: str
    """The messages, in a few words."""
    way: str = "in the clear"
    """The way in which several answers are sent, in a few words."""
    alone: tuple[str, ...] = (
        "The device sends the answer unchanged. Only messages that are not true answers, the fakes, hide it.",
    )
    """Sentences on what a device does if a record is one column."""
    each: str = "{which} is sent unchanged. Only messages that are not true answers, the fakes, hide {them}."
    """A sentence on what a device does with some of several columns."""
    reads: Callable[[bytes, Plan], str]
    """Returns the meaning of a payload."""
    adds: bool = True
    """True if the shuffler's fakes are messages."""


def _index(payload: bytes, plan: Plan) -> str:
    return plan.schema.labels[int.from_bytes(payload, "little")]


def _record(payload: bytes, plan: Plan) -> str:
    number = int.from_bytes(payload, "little")
    return first_of([label for i, label in enumerate(plan.schema.labels) if number >> i & 1]) or "no label"


def _string(payload: bytes, plan: Plan) -> str:
    strings = asked_of(plan.schema)[0][1]
    found = strings.decode(payload[-strings.size :])
    return "no text" if found is None else f"“{found[0]}”"


_LIST = "The device {reverses} with a probability of {q}."
_LISTS = (
    "For each part the device makes a list with one entry, yes or no, for each category, and reverses every entry with "
    "a probability of {q}. It sends one message for each entry that is then yes."
)
MECHANISMS: dict[tuple[Release, bool], MechanismWords] = {
    ("records", True): MechanismWords(name="whole records", reads=_record),
    ("bits", True): MechanismWords(name="split bits", reads=_index),
    ("strings", True): MechanismWords(
        name="strings",
        alone=(
            "The device sends the text unchanged. Whoever shuffles files of unsealed texts reads them. A sealed text "
            "is the same bytes for everybody who has it, and only the analyzer can open them; a device without a text "
            "sends bytes of its own.",
            "The shuffler counts equal texts. It subtracts a random number from every count, keeps that number secret, "
            "and passes on the text with what is left, if anything is.",
        ),
        reads=_string,
        adds=False,
    ),
    ("records", False): MechanismWords(
        name="whole records",
        way="by whole records",
        alone=(_LIST, "{sends}"),
        each=_LISTS,
        reads=_record,
    ),
    ("bits", False): MechanismWords(
        name="split bits",
        way="by split bits",
        alone=(_LIST, "It sends one message for each entry that is then yes; a message names one label."),
        each=_LISTS,
        reads=_index,
    ),
    ("category", False): MechanismWords(
        name="one category",
        way="by randomized response",
        alone=(
            "With a probability of {other}, the device replaces the answer by another one, chosen at random. It sends "
            "one message, which names one answer.",
        ),
        each="With a probability of {other}, the device replaces the category by another one, chosen at random. It "
        "sends exactly one message for each part.",
        reads=_index,
    ),
}
"""The words of every mechanism, by what the shuffler releases, and by whether answers are sent in the clear."""

DOES = {True: "hides its answer among fakes", False: "randomizes its answer"}
UNCOVERED = {True: "the exact counts", False: "the counts without the noise of its fakes"}
"""The counts of a shuffler that takes its own fakes away, by whether answers are sent in the clear."""
DISTRIBUTIONS = {
    "binomial": "Binomial({0.shift}, {0.scale:.4g})",
    "poisson": "Poisson({0.scale:.4g})",
    "laplace": "Laplace({0.scale:.4g}) + {0.shift}",
    "gaussian": "Gaussian({0.scale:.4g}) + {0.shift}",
}
PER = {"users": " fakes per user", "shuffler": " fakes per category"}
DRAWN = {"users": "", "shuffler": ", drawn by the shuffler"}


def mechanisms(plan: Plan) -> list[tuple[MechanismWords, list[Column]]]:
    """Return the mechanisms of a plan, those in the clear first, with the columns that each of them protects."""
    sizes = [one.size for one in plan.schema.attributes] or [plan.schema.width]
    found: dict[tuple[Release, bool], list[Column]] = {}
    for noise, size in zip(plan.protocol.noise, sizes, strict=True):
        found.setdefault((plan.protocol.release, noise.clear), []).append(Column(noise, size))
    return [(MECHANISMS[key], found[key]) for key in sorted(found, key=lambda key: not key[1])]


def described_protocol(protocol: Protocol) -> str:
    """Describe a protocol in a few words.

    >>> described_protocol(Protocol(0.125, 4)), described_protocol(Protocol(0.0, m=Fakes.poisson(0.5), release="bits"))
    ('whole records: q = 0.125, 4 copies', 'split bits: in the clear, Poisson(0.5) fakes per user')
    >>> described_protocol(Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2))
    '2 answers in the clear: Laplace fakes of scale 4 in every category, drawn by the shuffler'
    """
    noise = protocol.noise
    if len(noise) > 1:
        groups: dict[tuple[bool, str], list[Noise]] = {}
        for one in noise:
            name = one.m.distribution.capitalize() if isinstance(one.m, Fakes) else ""
            groups.setdefault((one.clear, name), []).append(one)
        return "; ".join(_several(protocol, key, groups[key], len(noise)) for key in sorted(groups))
    words, (only,) = MECHANISMS[protocol.release, noise[0].clear], noise
    texts = [f"q = {only.q:.4g}" if only.q else "in the clear"]
    if protocol.k > 1:
        texts.append(f"{protocol.k} copies")
    if isinstance(only.m, Fakes):
        drawn = DISTRIBUTIONS[only.m.distribution].format(only.m)
        if not words.adds:
            return f"{words.name}: the shuffler subtracts {drawn} from the people who hold each"
        texts.append(f"{drawn}{PER[only.m.by]}{DRAWN[only.m.by]}")
    elif only.m:
        texts.append(f"{only.m:,} fakes")
    return f"{words.name}: {', '.join(texts)}"


def _several(protocol: Protocol, key: tuple[bool, str], each: list[Noise], total: int) -> str:
    """Describe those of several answers that one mechanism protects."""
    answers = numbered(total, "answer") if len(each) == total else f"{len(each)}"
    drawn = [one.m for one in each if isinstance(one.m, Fakes)]
    if not drawn:
        told = f"q = {span(one.q for one in each)}"
    elif drawn[0].by == "shuffler":
        told = f"{key[1]} fakes of scale {span(one.scale for one in drawn)} in every category, drawn by the shuffler"
    else:
        told = f"{key[1]} fakes of the users, {span(one.mean for one in drawn)} each on average"
    return f"{answers} {MECHANISMS[protocol.release, key[0]].way}: {told}"


def described_noises(each: Sequence[Noise]) -> str:
    """Describe the noise of several attributes; equal ones are counted.

    >>> described_noises([Noise(m=Fakes.laplace(4.0, 54))]), described_noises([Noise(0.125)])
    ('Laplace(4) + 54 fakes per category', 'q = 0.125')
    >>> described_noises([Noise(m=Fakes.laplace(4.0, 54))] * 2 + [Noise(m=Fakes.laplace(8.0, 99))])
    '2 × Laplace(4) + 54, Laplace(8) + 99 fakes per category'
    """
    found = Counter(
        (DISTRIBUTIONS[one.m.distribution].format(one.m), PER[one.m.by])
        if isinstance(one.m, Fakes)
        else (f"q = {one.q:.4g}", "")
        for one in each
    )
    *rest, last = {ending for _, ending in found}
    parts = [
        (f"{count} × {text}" if count > 1 else text) + ending * bool(rest) for (text, ending), count in found.items()
    ]
    return ", ".join(parts) + last * (not rest)


def batch_fakes(plan: Plan) -> float:
    """Return the expected number of fakes in a batch of the planned size, without those that are not messages.

    >>> from hubbub import plan_from
    >>> survey = Schema.survey({"a": Flag(), "b": Choice(["x", "y", "z"])})
    >>> plan = plan_from(survey, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), delta=1e-6)
    >>> round(batch_fakes(plan))
    270
    """
    drawn = [(one, one.noise.m) for _, columns in mechanisms(plan) for one in columns]
    return math.fsum(
        m.mean * (plan.n if m.by == "users" else one.size) if isinstance(m, Fakes) else m for one, m in drawn
    )


def leaves(plan: Plan) -> list[str]:
    """Say what a device does with the answers, up to the fakes of the shuffler."""
    found, times = mechanisms(plan), plan.protocol.k
    columns = [one for _, each in found for one in each]
    total, lines = len(columns), []
    if total > 1:
        lines.append(
            f"The device turns the answers into {total:,} parts, each of which names one category: a label, a range, a "
            "digit of a number, or a combination of answers. The parts are sent in separate messages, and nothing "
            "links them."
        )
    for words, each in found:
        made = "makes a list with one entry, yes or no, for each label, and reverses every entry"
        many = f"It does so {times:,} times, and sends each result as one message."
        which, them = ("Every part", "it") if len(each) == total else (f"{len(each):,} of the parts", "them")
        told = {
            "q": percents([one.noise.q for one in each]),
            "other": percents([(one.size - 1) * one.noise.q for one in each]),
            "reverses": made if each[0].size > 1 else "reverses the answer",
            "sends": many if times > 1 else "It sends the result as one message.",
            "which": which,
            "them": them,
        }
        lines += [text.format_map(told) for text in (words.alone if total == 1 else (words.each,))]
    return [*lines, *_added(plan, "answer" if total == 1 else "category")]


def _added(plan: Plan, answer: str) -> list[str]:
    """Say who adds fakes."""
    lines, drawn = [], [one.m for one in plan.protocol.noise]
    if by_users := [one.mean for one in drawn if isinstance(one, Fakes) and one.by == "users"]:
        lines.append(f"It adds fakes, messages with a random {answer}: {math.fsum(by_users):.3g} on average.")
    if fixed := sum(one for one in drawn if isinstance(one, int)):
        lines.append(f"All devices together add {fixed:,} fakes, messages with a random {answer}.")
    if plan.protocol.has_shuffler_fakes and mechanisms(plan)[0][0].adds:
        lines.append(f"The shuffler adds a random number of fakes for every {answer} and keeps that number secret.")
    return lines


# Questions.


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWords:
    """The words of one type of question."""

    counted: str = "label"
    """The noun for what people are counted on."""
    answered: bool = True
    """False if people do not answer it, because it follows from other questions."""
    title: Callable[[Any], str] = repr
    """The whole schema in a few words, if it is the only question of it and has no name."""
    asked: Callable[[Any], str]
    """Returns the answers that people may give; a sentence without its end for a question without a name."""
    layout: Callable[[Any, Questions], str] = lambda question, questions: ""
    """The categories that are counted, for a question with a name."""
    example: Callable[[Any], tuple[object, str]] = lambda question: (None, "")
    """An invented answer, as a device takes it and in words."""
    thresholded: bool = False
    """True if answers of few people are not shown."""


def _optional(question: Choice | Flag | Scale | Number, text: str, none: str = ", or no answer") -> str:
    return text + none * question.missing


def _unit(question: Scale | Number) -> str:
    return f" {question.unit}" if question.unit else ""


def _labels_title(schema: Schema) -> str:
    limit = "exactly" if schema.min_set else "at most"
    return f"{schema.form}, {numbered(schema.width, 'label')}, {limit} {schema.max_set:,} set"


_LABELS = {
    "one_hot": "Every person gives exactly one of {0.width:,} answers",
    "bits": "Every person answers yes or no to each of {0.width:,} items",
    "at_most": "Every person chooses at most {0.max_set:,} of {0.width:,} items",
}


def _labels_asked(schema: Schema) -> str:
    choice = _LABELS[schema.form].format(schema) if schema.width > 1 else "Every person answers yes or no"
    return f"{choice}: {first_of(schema.labels)}"


def _labels_example(schema: Schema) -> tuple[object, str]:
    answer = schema.labels[0]
    return (answer if schema.min_set else [answer]), answer


def _strings_title(strings: Text) -> str:
    longer = "cut" if strings.cut else "refused"
    return f"one string of at most {strings.max_bytes:,} bytes, longer ones are {longer}"


def _strings_asked(strings: Text) -> str:
    longer = "is cut" if strings.cut else "is not accepted"
    return (
        f"Every person gives one text of at most {strings.max_bytes:,} bytes, or none; a longer one {longer}. Nobody "
        "has to list the possible texts beforehand"
    )


def _scale_asked(scale: Scale) -> str:
    low, high = (spell(edge) for edge in (scale.edges[0], scale.edges[-1]))
    text = (
        f"a number from {low} to {high}{_unit(scale)}; only which of {scale.buckets:,} ranges it falls in is sent; "
        "numbers outside count in the first or last range"
    )
    return _optional(scale, text, "; people may also give no answer")


def _scale_layout(scale: Scale, questions: Questions) -> str:
    levels = f" in levels of {listed(scale.widths)}" if len(scale.widths) > 1 else ""
    return _optional(scale, f"{scale.buckets:,} buckets{levels}")


def _number_asked(number: Number) -> str:
    text = (
        f"a number from {spell(number.low)} to {spell(number.high)}{_unit(number)}, rounded at random to one of "
        f"{number.levels:,} evenly spaced values; numbers outside count as the nearest bound"
    )
    return _optional(number, text, "; people may also give no answer")


def _number_layout(number: Number, questions: Questions) -> str:
    digits = f"{len(number.radices)} digits of base {listed(sorted(set(number.radices)))}"
    square = ", also of the square" if number.variance else ""
    return _optional(number, f"{number.levels:,} levels in {digits}{square}")


def _quarter(question: Scale | Number, low: float, high: float) -> tuple[object, str]:
    middle = low + (high - low) / 4
    return middle, f"{spell(middle)}{_unit(question)}"


def _cells(cross: Cross, questions: Questions) -> str:
    sizes = [side.sizes[-1] for side in sides(cross, dict(questions.items))]
    return f"{math.prod(sizes):,} cells, {' × '.join(cross.names)}"


QUESTIONS: dict[type, QuestionWords] = {
    Choice: QuestionWords(
        asked=lambda one: _optional(one, f"one of {len(one.labels):,} answers: {first_of(one.labels)}"),
        layout=lambda one, _: _optional(one, f"{len(one.labels):,} labels"),
        example=lambda one: (one.labels[0], one.labels[0]),
    ),
    Flag: QuestionWords(
        asked=lambda one: _optional(one, "yes or no"),
        layout=lambda one, _: _optional(one, "yes or no"),
        example=lambda one: (True, "yes"),
    ),
    Scale: QuestionWords(
        asked=_scale_asked, layout=_scale_layout, example=lambda one: _quarter(one, one.edges[0], one.edges[-1])
    ),
    Number: QuestionWords(
        asked=_number_asked, layout=_number_layout, example=lambda one: _quarter(one, one.low, one.high)
    ),
    Cross: QuestionWords(
        answered=False,
        asked=lambda one: f"Combinations of the answers to {listed(map(repr, one.names))} are counted too",
        layout=_cells,
    ),
    Schema: QuestionWords(title=_labels_title, asked=_labels_asked, example=_labels_example),
    Text: QuestionWords(
        counted="string",
        title=_strings_title,
        asked=_strings_asked,
        example=lambda one: (EXAMPLE[: one.max_bytes],) * 2,
        thresholded=True,
    ),
}
"""The words of every type of question; a schema of labels, or of strings, is one question without a name."""


def asked_of(schema: Schema) -> tuple[tuple[str, Any], ...]:
    """Return the questions of a schema with their names; the only one of a schema that is no survey has none."""
    return schema.questions.items if schema.named else (("", schema.text or schema),)


def question_words(question: object) -> QuestionWords:
    """Return the words of a question."""
    return QUESTIONS[type(question)]


def only_question(schema: Schema) -> Any:
    """Return the question of a schema that asks one thing, without a name; None for a survey."""
    name, question = asked_of(schema)[0]
    return None if name else question


def described_schema(schema: Schema) -> str:
    """Describe the records of a schema in a few words.

    >>> described_schema(Schema.one_hot(3)), described_schema(Schema.strings(40))
    ('one_hot, 3 labels, exactly 1 set', 'one string of at most 40 bytes, longer ones are refused')
    """
    only = only_question(schema)
    if only is not None:
        return question_words(only).title(only)
    return f"survey of {numbered(len(asked_of(schema)), 'question')}, {schema.width:,} categories in all"


def described_layout(name: str, questions: Questions) -> str:
    """Describe the attributes that a question is collected as.

    >>> survey = Questions.create({"load time": Scale(0, 4096, buckets=256, levels=[16, 1]), "memory": Number(0, 9)})
    >>> described_layout("load time", survey), described_layout("memory", survey)
    ('256 buckets in levels of 16 and 1', '256 levels in 4 digits of base 4')
    """
    text = question_words(questions[name]).layout(questions[name], questions)
    return text + (f", from the cross-table {questions.crosses(name)[0]!r}" if name in questions.derived else "")


def asked(schema: Schema) -> list[str]:
    """Say what is asked, a sentence for every question."""
    each = [(name, question_words(question), question) for name, question in asked_of(schema)]
    named = [f"{name}: {words.asked(question)}." for name, words, question in each if name and words.answered]
    whole = [f"{words.asked(question)}." for name, words, question in each if not (name and words.answered)]
    return [f"Every person answers {numbered(len(named), 'question')}.", *named, *whole] if named else whole


def example_answers(schema: Schema) -> tuple[object, str]:
    """Return an invented record: as a device takes it, and in words."""
    only = only_question(schema)
    if only is not None:
        return question_words(only).example(only)
    each = [(name, question_words(question), question) for name, question in asked_of(schema)]
    found = {name: words.example(question) for name, words, question in each if words.answered}
    told = "; ".join(f"{name}: {text}" for name, (_, text) in found.items())
    return {name: value for name, (value, _) in found.items()}, told
