"""A plan in plain words: what a device sends, who learns what, and what a guarantee means for somebody who guesses.

Every figure here is computed from the plan. The words are for readers who know neither the protocol nor the theory.
"""

import math
from collections.abc import Sequence

from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import check_type
from hubbub.model.plans import Plan
from hubbub.model.privacy import described_rate, success_rate
from hubbub.model.schema import Schema
from hubbub.pipeline import device
from hubbub.planner import cost, margin
from hubbub.report.influence import described_weight
from hubbub.report.results import percent
from hubbub.report.string_words import (
    asked_string,
    example_string,
    string_learns,
    string_leaves,
    string_meaning,
    string_precision,
)
from hubbub.report.survey_explanation import asked_questions, example_answers, survey_leaves, survey_precision
from hubbub.report.survey_words import described_assumptions
from hubbub.wire import messages

SHOWN = 12
"""Labels, or messages of an example, that are named one by one."""
WEAK = 0.9
"""Share of right guesses from which on a protection is called weak."""
CERTAIN = 0.999
"""Share of right guesses from which on a protection is not worth mentioning."""


def assumed(plan: Plan) -> list[str]:
    """Return the assumptions of the guarantee of a plan in sentences."""
    return described_assumptions(plan.guarantee, survey=plan.schema.named, rounds=plan.rounds)


def guesses(epsilon: float, delta: float = 0.0) -> str:
    """Return how often a guess between two answers is right, in words.

    >>> guesses(1.0, 1e-6), guesses(57.0), guesses(math.inf)
    ('at most 73.2\\xa0% of the time', 'almost always (no real protection)', 'always (no protection)')
    """
    share = success_rate(epsilon, delta)
    if math.isinf(epsilon):
        return "always (no protection)"
    if share >= CERTAIN:
        return "almost always (no real protection)"
    return f"at most {rounded(share)} of the time"


def rounded(share: float) -> str:
    """Return a share of right guesses in percent, rounded up, with a space at which no line breaks.

    >>> rounded(0.73106)
    '73.2\\xa0%'
    """
    return described_rate(share).replace(" ", "\u00a0")


def learned(epsilon: float, delta: float = 0.0, rounds: int = 1) -> str:
    """Return what a party learns about one person's answer in this many rounds, whose total is (ε, δ).

    >>> learned(1.0), learned(math.inf)
    ('little: a guess at the answer is right at most 73.2\\xa0% of the time', 'the answer (no protection)')
    """
    share = success_rate(epsilon, delta)
    if math.isinf(epsilon):
        return "the answer (no protection)"
    if share >= CERTAIN:
        return "the answer, almost always (no real protection)"
    degree = "little" if share < WEAK else "much"
    after = f", after all {rounds:,} rounds" if rounds > 1 else ""
    return f"{degree}: a guess at the answer is right {guesses(epsilon, delta)}{after}"


def one_in(probability: float) -> str:
    """Return a small probability in words, rounded up to two digits.

    >>> one_in(1e-6), one_in(9.13e-07), one_in(0.0)
    ('1 in 1,000,000', '1 in 1,000,000', 'never')
    """
    if probability <= 0:
        return "never"
    number = 1 / probability
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return f"1 in {max(math.floor(number / unit + 1e-9), 1) * unit:,}"


def asked(plan: Plan) -> list[str]:
    """Say what is asked of how many people."""
    schema = check_type("plan", plan, Plan).schema
    lines = [_choice(schema)] if not schema.named else asked_questions(plan)
    lines.append(f"No result is computed from fewer than {plan.n:,} people.")
    if plan.rounds > 1:
        lines.append(f"The same people may be asked up to {plan.rounds:,} times.")
    return lines


def _choice(schema: Schema) -> str:
    if schema.text is not None:
        return asked_string(schema.text)
    if schema.exclusive:
        choice = f"Every person gives exactly one of {schema.width:,} answers"
    elif schema.width == 1:
        choice = "Every person answers yes or no"
    elif schema.dense:
        choice = f"Every person answers yes or no to each of {schema.width:,} items"
    else:
        choice = f"Every person chooses at most {schema.max_set:,} of {schema.width:,} items"
    return f"{choice}: {labels(schema)}."


def labels(schema: Schema) -> str:
    """Return the labels, or the first of many."""
    shown = ", ".join(schema.labels[:SHOWN])
    rest = schema.width - SHOWN
    return shown if rest <= 0 else f"{shown}, and {rest:,} more"


def leaves(plan: Plan) -> list[str]:
    """Say what leaves a device."""
    lines = _own_messages(plan) if not plan.schema.named else survey_leaves(plan)
    sent = cost(plan)
    if sent.messages is not None and sent.bytes is not None:
        number = f"{sent.messages:,} message{'s' * (sent.messages != 1)}"
        lines.append(
            f"The device sends {number} to the services in a sealed envelope of {sent.bytes:,} bytes, the same size "
            "for everyone. No name, no address, no time and no device identifier is part of a message."
        )
    else:
        lines.append("No name, no address, no time and no device identifier is part of a message.")
    return lines


def _own_messages(plan: Plan) -> list[str]:
    protocol, schema = plan.protocol, plan.schema
    lines = []
    if protocol.sends_strings:
        return string_leaves()
    if protocol.sends_category:
        share = (schema.width - 1) * protocol.q
        lines.append(
            f"With probability {percent(share)}, the device replaces the answer by another one, chosen at random. "
            "It sends one message, which names one answer."
        )
    elif protocol.clear:
        lines.append(
            "The device sends the answer unchanged. Only messages that are not true answers, the fakes, hide it."
        )
    else:
        made = "makes a list with one entry, yes or no, for each label, and reverses every entry"
        what = made if schema.width > 1 else "reverses the answer"
        lines.append(f"The device {what} with probability {percent(protocol.q)}.")
        if protocol.sends_bits:
            lines.append("It sends one message for each entry that is then yes; a message names one label.")
        elif protocol.k > 1:
            lines.append(f"It does so {protocol.k:,} times, and sends each result as one message.")
        else:
            lines.append("It sends the result as one message.")
    if drawn := protocol.user_fakes:
        lines.append(f"It adds fakes, messages with a random answer: {drawn.mean:.3g} on average.")
    elif protocol.fixed_fakes:
        lines.append(f"All devices together add {protocol.fixed_fakes:,} fakes, messages with a random answer.")
    if protocol.shuffler_fakes:
        lines.append("The shuffler adds a random number of fakes for every answer and keeps that number secret.")
    return lines


def example(plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    """Return an invented answer, and the messages that a device might send for it: meaning and bytes.

    The example is the same whenever it is made from the same plan: it shows nobody's data.
    """
    schema, protocol = plan.schema, plan.protocol
    answer = schema.labels[0] if schema.text is None else example_string(schema.text)
    value: object = answer if schema.exclusive or schema.text is not None else [answer]
    if schema.named:
        answer, value = example_answers(plan)
    entropy = SeededStreamNotForPeople(int(plan.id[:8], 16))
    fixed = protocol.fixed_fakes // plan.n if protocol.fixed_fakes else None
    sent = device.payloads(value, plan, fakes=fixed, entropy=entropy)
    shown = [(meaning(payload, plan), messages.encode(payload, plan).hex()) for payload in sent]
    return answer, shown


def meaning(payload: bytes, plan: Plan) -> str:
    """Return the labels that a payload names, or its text."""
    if plan.protocol.sends_strings:
        return string_meaning(payload, plan)
    number = int.from_bytes(payload, "little")
    if plan.protocol.payload_format.is_index:
        return plan.schema.labels[number]
    names = [label for i, label in enumerate(plan.schema.labels) if number >> i & 1]
    if len(names) > SHOWN:
        return f"{', '.join(names[:SHOWN])}, and {len(names) - SHOWN:,} more"
    return ", ".join(names) or "no label"


def odds(plan: Plan) -> list[tuple[str, str]]:
    """Return who guesses a person's answer, and how often at most the guess is right."""
    held = plan.guarantee
    once = "" if plan.rounds == 1 else " of one round"
    reader = "the analyzer, or a reader of the results"
    rows = [("somebody who knows nothing", "50\u00a0% of the time, by chance")]
    if plan.rounds > 1:
        rows.append((f"{reader} of all {plan.rounds:,} rounds", guesses(plan.total.epsilon, plan.total.delta)))
    rows.append((f"{reader}{once}", guesses(held.epsilon, held.delta)))
    if held.assumptions.shuffler:
        who = "relay, shuffler and analyzer together" if held.assumptions.relay else "shuffler and analyzer together"
        who += "" if plan.rounds == 1 else f" in all {plan.rounds:,} rounds"
        together = guesses(plan.rounds * held.assumptions.collusion_epsilon)
        rows.append((who, together))
        if not held.assumptions.relay:
            rows.append(("a shuffler that reads the results and fills the batch with messages of its own", together))
    return rows


def learns(plan: Plan) -> list[tuple[str, str, str]]:
    """Return who sees what, and what that tells about one person."""
    held = plan.guarantee.assumptions
    if held.relay:
        return string_learns(plan, learned(plan.total.epsilon, plan.total.delta, plan.rounds))
    if not held.shuffler:
        everything = "every message, with its sender"
        return [
            ("analyzer", everything, learned(plan.total.epsilon, plan.total.delta, plan.rounds)),
            ("reader of the results", "counts with error bars", "no more than the analyzer"),
            ("observer of the network", "who takes part, and when", "nothing about the answer"),
        ]
    both = learned(plan.rounds * held.collusion_epsilon, rounds=plan.rounds)
    own = ", its own fakes" if held.fakes else ""
    less = "the exact counts" if plan.protocol.clear else "the counts without the noise of its fakes"
    read = less if held.fakes else "no more than the analyzer"
    return [
        ("analyzer", f"{held.view}, without senders", learned(plan.total.epsilon, plan.total.delta, plan.rounds)),
        (
            "shuffler that sees no results",
            "who sends, and when; messages are sealed to the analyzer",
            "nothing about the answer",
        ),
        (
            "shuffler that reads the results",
            f"who sends, and when{own}, counts with error bars",
            f"{read}; if it fills a batch with messages of its own, {both}",
        ),
        ("both, if they collude", "every message with its sender", both),
        ("reader of the results", "counts with error bars", "no more than the analyzer"),
        ("observer of the network", "who takes part, and when", "nothing about the answer"),
    ]


def spoken(half: float) -> str:
    """Return the half-width of an interval with three digits.

    >>> spoken(45.472), spoken(1111.3), spoken(0.0)
    ('± 45.5', '± 1,110', '± 0')
    """
    return f"± {float(f'{half:.3g}'):,.10g}"


def precision(plan: Plan) -> list[str]:
    """Say how precise the results are."""
    if plan.schema.named:
        return survey_precision(plan)
    reach = margin(plan)
    lines = [
        f"In a batch of {plan.n:,} people, the added noise moves a count by at most {spoken(reach)} people in "
        "95 of 100 collections. Every result states its own interval."
    ]
    if plan.protocol.sends_strings:
        lines.insert(0, string_precision(plan))
    share = reach / 0.1 / plan.n
    if share <= 1:
        lines.append(
            f"The noise allows counts of at least {percent(share)} of the people to be measured within a tenth of "
            "their value."
        )
    else:
        lines.append("No share of the people can be measured within a tenth of its value: the batch is too small.")
    lines.append(
        "How well the people who take part represent others is a separate question, which noise does not change."
    )
    return lines


def summary(plan: Plan) -> str:
    """Return the protection in one or two sentences."""
    held, total = plan.guarantee, plan.total
    does = "hides its answer among fakes" if plan.protocol.clear else "randomizes its answer"
    first = {
        "nobody": "Every device randomizes its answer so strongly that nobody has to be trusted.",
        "shuffling": f"Every device {does}, and a shuffler separates answers from the people who gave them.",
        "shuffler-noise": "A shuffler separates answers from the people who gave them and hides them among fakes.",
    }[held.assumptions.trust]
    if held.assumptions.relay:
        first = "A shuffler counts equal texts without reading them, and shows only those that many people have."
    results = "the results" if plan.rounds == 1 else f"the results of all {plan.rounds:,} rounds"
    right = guesses(total.epsilon, total.delta)
    chance = "chance alone gives 50\u00a0%"
    return f"{first} Whoever sees {results} and guesses between two answers is right {right}; {chance}."


def explain(plan: Plan) -> Sequence[tuple[str, Sequence[str]]]:
    """Return headings and sentences that explain a plan to readers who are not engineers."""
    answer, sent = example(plan)
    shown = [f"{number}. {what}" for number, (what, _) in enumerate(sent[:SHOWN], 1)]
    rest = [f"… and {len(sent) - SHOWN:,} more"] if len(sent) > SHOWN else []
    messages_of = [
        f"Example: a person answers “{answer}”. The device might send:",
        *(shown or ["nothing at all"]),
        *rest,
    ]
    return [
        ("In short", [summary(plan)]),
        ("What is asked", asked(plan)),
        ("What leaves a device", [*leaves(plan), *messages_of]),
        ("Who learns what", [f"{who}: sees {what}; learns {told}." for who, what, told in learns(plan)]),
        ("How often a guess is right", [f"{who}: {share}" for who, share in odds(plan)]),
        ("How precise the results are", precision(plan)),
        ("What must hold", [f"It needs {plan.guarantee.assumptions.needs}.", *assumed(plan)]),
        ("What one device can do", [f"One device: {described_weight(plan)}."]),
    ]
