"""A plan in plain words: what a device sends, who learns what, and what a guarantee means for somebody who guesses.

Every figure here is computed from the plan. The words are for readers who know neither the protocol nor the theory.
"""

import math
from collections.abc import Sequence

from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import check_type
from hubbub.mechanisms.chances import chance_shown, count_shown
from hubbub.mechanisms.errors import QuestionError, question_errors
from hubbub.model.plans import Plan
from hubbub.model.privacy import described_rate, success_rate
from hubbub.pipeline import device
from hubbub.planner import cost, margin, question_margins
from hubbub.report import sentences
from hubbub.report.results import percent
from hubbub.report.sentences import DOES, SHOWN, UNCOVERED, mechanisms, numbered, only_question, question_words
from hubbub.report.words import described_assumptions, described_weight
from hubbub.wire import messages

WEAK = 0.9
"""Share of right guesses from which on a protection is called weak."""
CERTAIN = 0.999
"""Share of right guesses from which on a protection is not worth mentioning."""


def assumed(plan: Plan) -> list[str]:
    """Return the assumptions of the guarantee of a plan in sentences."""
    return described_assumptions(plan.guarantee, survey=only_question(plan.schema) is None, rounds=plan.rounds)


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
    lines = sentences.asked(check_type("plan", plan, Plan).schema)
    lines.append(f"No result is computed from fewer than {plan.n:,} people.")
    if plan.rounds > 1:
        lines.append(f"The same people may be asked up to {plan.rounds:,} times.")
    return lines


def leaves(plan: Plan) -> list[str]:
    """Say what leaves a device."""
    lines = sentences.leaves(plan)
    sent, nothing = cost(plan), "No name, no address, no time and no device identifier is part of a message."
    if sent.messages is None or sent.bytes is None:
        return [*lines, nothing]
    envelope = f"a sealed envelope of {sent.bytes:,} bytes, the same size for everyone"
    return [*lines, f"The device sends {numbered(sent.messages, 'message')} to the services in {envelope}. {nothing}"]


def example(plan: Plan) -> tuple[str, list[tuple[str, str]]]:
    """Return an invented answer, and the messages that a device might send for it: meaning and bytes.

    The example is the same whenever it is made from the same plan: it shows nobody's data.
    """
    value, answer = sentences.example_answers(plan.schema)
    entropy = SeededStreamNotForPeople(int(plan.id[:8], 16))
    fixed = plan.protocol.fixed_fakes // plan.n or None
    sent = device.payloads(value, plan, fakes=fixed, entropy=entropy)
    shown = [(meaning(payload, plan), messages.encode(payload, plan).hex()) for payload in sent]
    return answer, shown


def meaning(payload: bytes, plan: Plan) -> str:
    """Return the labels that a payload names, or its text."""
    return mechanisms(plan)[0][0].reads(payload, plan)


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
        return _learns_behind_relay(plan)
    if not held.shuffler:
        everything = "every message, with its sender"
        return [
            ("analyzer", everything, learned(plan.total.epsilon, plan.total.delta, plan.rounds)),
            ("reader of the results", "counts with error bars", "no more than the analyzer"),
            ("observer of the network", "who takes part, and when", "nothing about the answer"),
        ]
    both = learned(plan.rounds * held.collusion_epsilon, rounds=plan.rounds)
    own = ", its own fakes" if held.fakes else ""
    read = UNCOVERED[plan.protocol.clear] if held.fakes else "no more than the analyzer"
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


def _learns_behind_relay(plan: Plan) -> list[tuple[str, str, str]]:
    """Return who learns what if a relay hides from the shuffler who sends."""
    alone = f"{chance_shown(plan, 1):.2g}"
    return [
        (
            "analyzer",
            "texts that many people have, each with a noisy number of them",
            learned(plan.total.epsilon, plan.total.delta, plan.rounds),
        ),
        (
            "shuffler",
            "which texts are equal, and how many people sent each; no senders",
            "if texts are sealed: whether anyone has a text that it had evaluated; with the results: the exact numbers "
            "of the texts that are shown",
        ),
        ("relay", "who takes part, and when; everything is sealed", "nothing about the text"),
        ("shuffler and analyzer, if they collude", "all texts and exact numbers, no senders", "not whose text it is"),
        ("relay and shuffler, if they collude", "who sent equal texts", "frequent texts can be guessed"),
        ("all three, if they collude", "every text with its sender", "the text (no protection)"),
        ("reader of the results", "what the analyzer publishes", f"a text of one person with probability {alone}"),
    ]


def spoken(half: float, unit: str = "") -> str:
    """Return the half-width of an interval with three digits.

    >>> spoken(45.472), spoken(1111.3, "people"), spoken(0.0)
    ('± 45.5', '± 1,110 people', '± 0')
    """
    return f"± {float(f'{half:.3g}'):,.10g}{' ' + unit if unit else ''}"


def margins(plan: Plan) -> list[tuple[QuestionError, str]]:
    """Return the error of every question that has a name, and its margin at 95 % with its unit; none for one count."""
    if only_question(plan.schema) is not None:
        return []
    half = question_margins(plan)
    return [(one, spoken(half[one.question], one.unit)) for one in question_errors(plan)]


REPRESENTS = "How well the people who take part represent others is a separate question, which noise does not change."


def precision(plan: Plan) -> list[str]:
    """Say how precise the results are."""
    where, often = f"In a batch of {plan.n:,} people, the added noise moves", "95 of 100 collections"
    if each := margins(plan):
        lines = [f"{where} results by at most the following in {often}. Every result states its own interval."]
        return [*lines, *(f"{one.question}: {half} ({one.measures})." for one, half in each), REPRESENTS]
    reach = margin(plan)
    lines = [f"{where} a count by at most {spoken(reach, 'people')} in {often}. Every result states its own interval."]
    if question_words(only_question(plan.schema)).thresholded:
        lines.insert(0, _shown(plan))
    share = reach / 0.1 / plan.n
    if share <= 1:
        lines.append(
            f"The noise allows counts of at least {percent(share)} of the people to be measured within a tenth of "
            "their value."
        )
    else:
        lines.append("No share of the people can be measured within a tenth of its value: the batch is too small.")
    return [*lines, REPRESENTS]


def _shown(plan: Plan) -> str:
    """Say how many people must have a text for it to be shown."""
    half, most, alone = count_shown(plan, 0.5), count_shown(plan, 0.95), f"{chance_shown(plan, 1):.2g}"
    return (
        f"A text that {half:,} people have is shown in half of all collections, one that {most:,} people have in 95 of "
        f"100. The fewer people have a text, the more rarely it is shown: that of one person with probability {alone}."
    )


def summary(plan: Plan) -> str:
    """Return the protection in one or two sentences."""
    held, total = plan.guarantee, plan.total
    does = DOES[plan.protocol.clear]
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
