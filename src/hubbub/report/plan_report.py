"""The report on a plan: one page for a lawyer, an analyst and an engineer, on screen or on two sheets of paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hubbub import planner
from hubbub.errors import check_type
from hubbub.model.plans import Plan
from hubbub.model.privacy import success_rate
from hubbub.planner.margins import overall_margin
from hubbub.report import explanation
from hubbub.report.explanation import one_in
from hubbub.report.report import Block, Facts, Report, Section, Table
from hubbub.report.results import excess_sentence, private, view_blocks
from hubbub.report.rows import TRUST
from hubbub.report.sentences import batch_fakes
from hubbub.report.words import described_error, described_questions, described_weight
from hubbub.results.result import Result

PER_TRUST = 2
"""Alternatives shown of each kind of trust."""
TOP = 10
"""Labels of an estimate that are listed."""
SIGN = "Approved by: ______________________________    Date: ______________"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The contract of the two operators, as far as a reader of the report needs it."""

    id: str
    min_batch_size: int
    epoch: int
    """Seconds after which a batch is released at the earliest, and the finest time that is stored."""
    start: str
    end: str
    admission: str
    operators: Mapping[str, str]
    """The public identities of shuffler and analyzer, by role."""
    signed: Sequence[str]
    """The roles whose signature was verified."""
    export: bool = False
    """True if the analyzer keeps the shuffled messages of every counted batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The contents of a report besides the plan: question, alternatives, checks, results, and the operators' words."""

    question: str = ""
    alternatives: Sequence[Plan] = ()
    """Plans for the same request, such as those of :func:`hubbub.frontier`."""
    central: float | None = None
    """The margin of a count at 95 % if a trusted server added the noise: :func:`hubbub.planner.central_margin`."""
    checks: Sequence[str] = ()
    """The checks of the plan that were made, and their results."""
    agreement: Agreement | None = None
    statements: Sequence[str] = ()
    """Statements of the operators on retention, legal basis or contact."""
    estimates: Mapping[str, Result] = field(default_factory=dict)
    """Results of collections under the plan, by name."""


def plan_report(plan: Plan, background: Background | None = None) -> Report:
    """Return the report on a plan."""
    check_type("plan", plan, Plan)
    given = background or Background()
    held = plan.guarantee
    sections = [
        Section("What is asked, and of whom", [Facts(explanation.asked(plan))]),
        Section("What leaves a device", _leaves(plan)),
        Section("Who learns what", [Table(("party", "sees", "learns"), explanation.learns(plan))]),
        Section("The odds in plain words", _odds(plan)),
        Section("How precise the results are", [Facts(explanation.precision(plan))]),
        *_survey(plan),
        *_results(given),
        *_alternatives(plan, given),
        Section("What the guarantee rests on", [Facts(_rests(plan))]),
        Section("How it was verified", [Facts(_verified(plan, given))]),
        Section("Retention, erasure and withdrawal", [Facts(_retention(plan, given))]),
        Section("Identifiers and signatures", _identifiers(plan, given)),
    ]
    total = plan.total
    right = explanation.rounded(success_rate(total.epsilon, total.delta))
    together = "" if plan.rounds == 1 else f" for all {plan.rounds:,} rounds together"
    proven = f"proven for every person{together}, except with probability {one_in(total.delta)}"
    if plan.rounds > 1:
        proven += f"; ε = {held.epsilon:.3g} per round"
    tiles = [
        (f"ε = {total.epsilon:.3g}", proven),
        (right, "of guesses are right, at most" + (f", after all {plan.rounds:,} rounds" if plan.rounds > 1 else "")),
        _margin(plan),
        (f"{plan.n:,} people", "at least, in every result"),
    ]
    return Report(
        title="Privacy report" + (f": {given.question}" if given.question else ""),
        heading=given.question or "How this collection protects each person",
        lede=explanation.summary(plan),
        tiles=tiles,
        sections=sections,
        note="this page describes technical measures and is not legal advice; it loads and sends nothing.",
        plan=plan.id,
        style=STYLE,
    )


def _rests(plan: Plan) -> list[str]:
    needs = f"Needed: {plan.guarantee.assumptions.needs}."
    return [needs, *explanation.assumed(plan), f"The results rest on devices: {described_weight(plan)}."]


def _margin(plan: Plan) -> tuple[str, str]:
    """Return the margin of a count, or of the first question of a survey."""
    often = "95 of 100 times" + (", per round" if plan.rounds > 1 else "")
    for error, half in explanation.margins(plan):
        return half, f"on {error.question} ({error.measures}), {often}"
    return explanation.spoken(planner.margin(plan), "people"), f"on a count, {often}"


STYLE = """
td, td:not(.words) { white-space: normal; overflow-wrap: anywhere }
td::before { overflow-wrap: normal; flex: none; max-width: 45% }
@media print {
  @page { margin: 10mm 12mm }
  main { padding: 0; max-width: none }
  body { font-size: 12px; line-height: 1.32 }
  h1 { font-size: 17px; margin: 0 0 2px } h2 { font-size: 13px; margin: 9px 0 2px; break-after: avoid }
  .lead { font-size: 12px; margin: 0 }
  ul { margin: 2px 0; padding-left: 16px } li { margin: 0 } p { margin: 2px 0 }
  .tiles { margin: 6px 0; gap: 6px; grid-template-columns: repeat(4, 1fr) }
  .tile { padding: 4px 8px } .tile b { font-size: 14px } .tile span { font-size: 12px; line-height: 1.25 }
  .table { margin: 3px 0 } table { font-size: 12px } th, td { padding: 1px 6px }
  figure { display: none }
  tr, li, .tile { break-inside: avoid }
  footer { margin-top: 8px; padding-top: 4px; font-size: 12px } code { font-size: 1em }
}
"""
"""Two sheets of A4, in the smallest type that is pleasant to read; tables replace the charts."""


def _leaves(plan: Plan) -> list[Block]:
    answer, sent = explanation.example(plan)
    first = f"An example: a person answers “{answer}”."
    if not sent:
        return [Facts(explanation.leaves(plan)), f"{first} This time, chance has it that the device sends no message."]
    rows = [(str(number), what, text) for number, (what, text) in enumerate(sent[:4], 1)]
    rest = f" and {len(sent) - 4:,} more" if len(sent) > 4 else ""
    words = f"{first} The device might send {'this message' if len(sent) == 1 else 'these messages'}{rest}:"
    table = Table(("message", "says", "bytes before sealing, in hexadecimal"), rows)
    return [Facts(explanation.leaves(plan)), words, table]


def _survey(plan: Plan) -> list[Section]:
    """Return the questions of a survey as engineers see them: error, layout, messages and noise of each."""
    rows = [
        (one.name, described_error(one.error), one.error.measures, one.layout, str(one.messages), one.noise or "–")
        for one in described_questions(plan)
    ]
    if not rows:
        return []
    head = ("question", "standard error", "of", "counted as", "messages", "noise")
    fakes = batch_fakes(plan)
    words = f"A batch of {plan.n:,} people contains {fakes:,.0f} fakes on average." if fakes else "There are no fakes."
    return [Section("How each question is collected", [Table(head, rows), words])]


def _odds(plan: Plan) -> list[Block]:
    rows, delta = list(explanation.odds(plan)), plan.total.delta
    if delta > 0:
        rounds = f" in any of {plan.rounds:,} rounds" if plan.rounds > 1 else ""
        never = (
            f"The figure includes a probability of {one_in(delta)} with which the protection may fail "
            f"altogether{rounds}."
        )
    else:
        never = "The protection holds without exception."
    return [
        "Suppose that somebody must guess which of two answers a person gave, and that both seem equally likely.",
        Table(("if the guess is made by", "it is right"), rows),
        f"{never} This holds whatever else is known about that person and about all others, now or later.",
    ]


def _alternatives(plan: Plan, given: Background) -> list[Section]:
    """Return the plan among the most precise alternatives of each kind of trust."""
    if not given.alternatives:
        return []
    number = dict.fromkeys(TRUST, 0)
    rows, marks = [], []
    own = planner.family_key(plan)
    others = [one for one in given.alternatives if planner.family_key(one) != own]
    for one in sorted([plan, *others], key=lambda one: one.stderr):
        held, chosen = one.guarantee.assumptions, one is plan
        number[held.trust] += 1
        if number[held.trust] > PER_TRUST and not chosen:
            continue
        # The alternatives are those of one round: those who collude do so in all of them.
        together = explanation.guesses(plan.rounds * held.collusion_epsilon) if held.shuffler else "no shuffler needed"
        honest = TRUST[held.trust][1] + (f", and {held.honest:,} users" if held.shuffler and held.honest > 1 else "")
        margin = explanation.spoken(overall_margin(one))
        rows.append((planner.family_name(one), margin, honest, together.partition(" of the time")[0]))
        marks.append("best" if chosen else "")
    if given.central is not None:
        margin = explanation.spoken(given.central)
        rows.append(("central mechanism, for reference", margin, "a server that sees all answers", "always"))
        marks.append("")
    each, after = (" per round", f", after all {plan.rounds:,} rounds") if plan.rounds > 1 else ("", "")
    head = ("protocol", f"95 % margin{each}", "who must be honest", f"colluding operators guess right{after}")
    words = "Protocols with the same privacy" + (" in each round:" if plan.rounds > 1 else ":")
    return [Section("Alternatives considered", [words, Table(head, rows, marks)])]


def _verified(plan: Plan, given: Background) -> list[str]:
    held = plan.guarantee
    once = " per round" if plan.rounds > 1 else ""
    kind = {"exact": "exact: no smaller value is true", "proven": "proven: the true value may be smaller"}
    return [
        f"(ε, δ) = ({held.epsilon:.4g}, {held.delta:.3g}){once} is {kind[held.basis.value]}, by {held.method}.",
        f"Best known attack{once}: {held.attack}.",
        *given.checks,
        "Everyone can repeat the checks: hubbub inspect plan.json and hubbub verify plan.json recompute the claim, "
        "hubbub audit --plan plan.json tests a client from outside.",
        "hubbub's own theorems are proven in its documentation and checked by a second derivation and by enumeration; "
        "they are not peer-reviewed.",
    ]


def _retention(plan: Plan, given: Background) -> list[str]:
    if not plan.guarantee.assumptions.shuffler:
        link = (
            "The analyzer can link a randomized answer to its sender if it stores senders; hubbub does not store them."
        )
    else:
        link = (
            "Until a batch is released, the shuffler stores sealed envelopes without their senders. When it releases "
            "the batch, it mixes the messages, deletes the envelopes and erases the keys that could open them."
        )
    agreement = given.agreement
    kept = "The analyzer deletes the messages of a batch when it has counted them, and keeps the counts."
    if agreement and agreement.export:
        kept = (
            "The analyzer keeps the mixed messages of every batch that it has counted in a folder, as both operators "
            "agreed (export); everyone who reads the folder learns what the analyzer learns, and its operator states "
            "how long it is kept."
        )
    when = (
        f"A batch is released after {_duration(agreement.epoch)} at the earliest, and only with at least "
        f"{agreement.min_batch_size:,} people. Answers of a batch that stays smaller expire and are never counted."
        if agreement
        else "Answers of a batch that stays smaller than the minimum expire and are never counted."
    )
    return [
        f"{link} {kept}",
        when,
        "A device that sends nothing leaves no trace: nobody has to take part.",
        "A single answer cannot be found, corrected or deleted after it was sent, because nothing links it to a "
        "person. Withdrawing means not answering in later rounds. The people should be told so beforehand.",
        "These statements describe hubbub's services. Operators who move files themselves state their own periods.",
        *given.statements,
    ]


def _identifiers(plan: Plan, given: Background) -> list[Block]:
    rows = [("plan", plan.id)]
    if agreement := given.agreement:
        rows += [("contract", agreement.id), ("period", f"{agreement.start} to {agreement.end}")]
        rows += [("admission", agreement.admission)]
        for role, public in agreement.operators.items():
            state = "signature verified" if role in agreement.signed else "not signed"
            rows.append((f"{role} ({state})", public))
    return [Table(("what", "identifier"), rows), SIGN]


def _results(given: Background) -> list[Section]:
    sections = []
    for name, result in given.estimates.items():
        held = f" This batch is {private(result)}." if result.guarantee else ""
        # What holds for all questions is said above the first.
        words: list[Block] = [f"{result.n:,} people.{held}{excess_sentence(result)}"]
        for question, view in result.views:
            title = f"Results: {name}, {question}" if question else f"Results: {name}"
            sections.append(Section(title, [*words, *view_blocks(question, view, top=TOP)]))
            words = []
    return sections


def _duration(seconds: int) -> str:
    for size, unit in ((604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            number = seconds // size
            return f"{number:,} {unit}{'s' * (number != 1)}"
    return f"{seconds:,} seconds"
