"""A plan for a survey in plain words: the questions, what a device sends for them, and how precise the results are."""

import math

from hubbub.mechanisms.errors import QuestionError, question_errors
from hubbub.model.plans import Plan
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Scale
from hubbub.model.questions.answers import spell
from hubbub.planner import question_margins
from hubbub.report.survey_words import survey_questions

SHOWN = 12
"""Labels of a question that are named one by one."""


def asked_questions(plan: Plan) -> list[str]:
    """Say what is asked, a sentence for every question."""
    questions = survey_questions(plan)
    asked, crosses = questions.asked, [one for one in questions.items if isinstance(one[1], Cross)]
    count = f"{len(asked):,} question{'' if len(asked) == 1 else 's'}"
    lines = [f"Every person answers {count}."]
    lines += [f"{name}: {_answer(question)}." for name, question in asked]
    for _, cross in crosses:
        assert isinstance(cross, Cross)
        names = _listed([repr(name) for name in cross.names])
        lines.append(f"Combinations of the answers to {names} are counted too.")
    return lines


def _answer(question: Question) -> str:
    if isinstance(question, Choice):
        shown, rest = ", ".join(question.labels[:SHOWN]), len(question.labels) - SHOWN
        text = f"one of {len(question.labels):,} answers: {shown}{f', and {rest:,} more' if rest > 0 else ''}"
    elif isinstance(question, Flag):
        text = "yes or no"
    elif isinstance(question, Scale):
        low, high = (spell(edge) for edge in (question.edges[0], question.edges[-1]))
        unit = f" {question.unit}" if question.unit else ""
        text = (
            f"a number from {low} to {high}{unit}; only which of {question.buckets:,} ranges it falls in is sent; "
            "numbers outside count in the first or last range"
        )
    else:
        assert isinstance(question, Number)
        unit = f" {question.unit}" if question.unit else ""
        text = (
            f"a number from {spell(question.low)} to {spell(question.high)}{unit}, rounded at random to one of "
            f"{question.levels:,} evenly spaced values; numbers outside count as the nearest bound"
        )
    if isinstance(question, Cross) or not question.missing:
        return text
    return text + ("; people may also give no answer" if isinstance(question, Scale | Number) else ", or no answer")


def survey_leaves(plan: Plan) -> list[str]:
    """Say what a device does with the answers, up to the fakes of the shuffler."""
    protocol, attributes = plan.protocol, plan.schema.attributes
    count = len(attributes)
    lines = [
        f"The device turns the answers into {count:,} parts, each of which names one category: a label, a range, a "
        "digit of a number, or a combination of answers. The parts are sent in separate messages, and nothing links "
        "them."
        if count > 1
        else "The device turns the answer into one part, which names one category."
    ]
    clear = sum(noise.clear for noise in protocol.noise)
    if clear:
        which = "Every part" if clear == count else f"{clear:,} of the parts"
        lines.append(
            f"{which} is sent unchanged. Only messages that are not true answers, the fakes, hide "
            f"{'it' if clear == count else 'them'}."
        )
    flips = [
        (attribute.size - 1) * noise.q if protocol.sends_category else noise.q
        for attribute, noise in zip(attributes, protocol.noise, strict=True)
        if not noise.clear
    ]
    if flips and protocol.sends_category:
        lines.append(
            f"With a probability of {_percents(flips)}, the device replaces the category by "
            "another one, chosen at random. It sends exactly one message for each part."
        )
    elif flips:
        lines.append(
            "For each part the device makes a list with one entry, yes or no, for each category, and reverses every "
            f"entry with a probability of {_percents(flips)}. It sends one message for each entry that is then yes."
        )
    drawn = [noise.user_fakes.mean for noise in protocol.noise if noise.user_fakes is not None]
    if drawn:
        lines.append(f"It adds fakes, messages with a random category: {math.fsum(drawn):.3g} on average.")
    if any(noise.shuffler_fakes is not None for noise in protocol.noise):
        lines.append("The shuffler adds a random number of fakes to every category and keeps that number secret.")
    return lines


def example_answers(plan: Plan) -> tuple[str, dict[str, object]]:
    """Return invented answers to all questions: in words, and as a device takes them."""
    values: dict[str, object] = {}
    told = []
    for name, question in survey_questions(plan).asked:
        if isinstance(question, Choice):
            values[name] = question.labels[0]
            shown = question.labels[0]
        elif isinstance(question, Flag):
            values[name], shown = True, "yes"
        else:
            ends = question.edges if isinstance(question, Scale) else (question.low, question.high)
            middle = ends[0] + (ends[-1] - ends[0]) / 4
            values[name], shown = middle, f"{spell(middle)}{' ' + question.unit if question.unit else ''}"
        told.append(f"{name}: {shown}")
    return "; ".join(told), values


def survey_precision(plan: Plan) -> list[str]:
    """Say how precise the result of every question is."""
    lines = [
        f"In a batch of {plan.n:,} people, the added noise moves results by at most the following in 95 of 100 "
        "collections. Every result states its own interval."
    ]
    half = question_margins(plan)
    lines += [
        f"{one.question}: {survey_margin(one, half[one.question])} ({one.measures})." for one in question_errors(plan)
    ]
    lines.append(
        "How well the people who take part represent others is a separate question, which noise does not change."
    )
    return lines


def survey_margin(error: QuestionError, half: float) -> str:
    """Return the half-width of an interval with three digits, in the unit of a question.

    >>> survey_margin(QuestionError(question="a", stderr=23.2, people=23.2, unit="people", measures="one count"), 45.47)
    '± 45.5 people'
    """
    return f"± {float(f'{half:.3g}'):,.10g}{' ' + error.unit if error.unit else ''}"


def _percents(shares: list[float]) -> str:
    low, high = f"{100 * min(shares):.2g}", f"{100 * max(shares):.2g}"
    return f"{low}\u00a0%" if low == high else f"{low} to {high}\u00a0%, depending on the part"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
