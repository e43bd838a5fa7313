"""Audits of surveys: every attribute by itself as a one-hot plan, and the messages of all attributes together.

Given the records, the attributes of a survey are independent. Reduced to one attribute, a client or a shuffler of the
survey is one of a one-hot plan with the noise of that attribute, to which all tests of such plans apply; the other
attributes hold varying categories meanwhile. The likelihood ratio of a whole batch is the product over all attributes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.records import one_hot
from hubbub.errors import WireError
from hubbub.lab.audit.attacks import CLEAR_CROWD, CROWD, Neighbours, Pair, statistic
from hubbub.lab.audit.commands import AttributeAnswers, Client, ClientCommand, Shuffler
from hubbub.lab.audit.model import Probe
from hubbub.lab.audit.statistics import Finding, finding, normal_p
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection, SetBits
from hubbub.pipeline.reports import Reports, message_type
from hubbub.planner import plan_from

Numbers = NDArray[np.int64]
LINKED_NAME = "answers of one person kept together"
LINKED_BATCH = 200  # people in the batches that show if the answers of one person stay together


@dataclass(frozen=True, slots=True, eq=False)
class AttributeAudit:
    """One attribute of a survey: its one-hot plan, and the programs under audit reduced to it."""

    survey: Plan
    place: int
    name: str

    def plan(self, n: int | None = None, *, numbers: bool = False) -> Plan:
        """Return the one-hot plan of the attribute, with a guarantee of its own.

        A clear category is a whole record, or with ``numbers`` a single bit, which is the same message.
        """
        schema, noise = self.survey.schema, self.survey.protocol.noise[self.place]
        held, attribute = self.survey.guarantee, schema.attributes[self.place]
        release = self.survey.protocol.release
        if noise.clear and not numbers:
            release = "records"
        labels = schema.labels[attribute.start : attribute.stop]
        protocol, trust = Protocol(noise.q, 1, noise.m, release), held.assumptions.trust
        size = self.survey.n if n is None else n
        return plan_from(Schema.one_hot(labels), size, protocol, delta=held.delta or 1e-9, trust=trust)

    def client(self, send: Client) -> Client:
        """Return a client of the survey as one of this attribute; a command reads answers, others read records."""
        questions = self.survey.schema.questions
        assert questions is not None
        answers = AttributeAnswers(questions, self.place) if isinstance(send, ClientCommand) else None

        def sent(collection: Collection, plan: Plan) -> Reports:
            n, survey = len(collection), resized(self.survey, plan.n)
            categories = collection.ones(0, n)[0].astype(np.int64)
            if isinstance(send, ClientCommand) and answers is not None:
                reports = send.send(answers.spell(categories.tolist()), n, survey)
            else:
                reports = send(people(survey.schema, self._around(categories)), survey)
            return self._reduced(reports, survey, plan, n)

        return sent

    def shuffler(self, shuffle: Shuffler) -> Shuffler:
        """Return a shuffler of the survey as one of this attribute; other plans reach it unchanged."""

        def shuffled(reports: Reports) -> Reports:
            plan, survey = reports.plan, resized(self.survey, reports.plan.n)
            start = survey.schema.attributes[self.place].start
            own = _categories(reports) + start
            others = np.delete(self._around(np.zeros(reports.n, np.int64)), self.place, axis=1)
            others = others + np.delete(_starts(survey.schema), self.place)
            # The messages of a person arrive together.
            arrival = np.concatenate(
                [np.arange(own.size) / max(own.size, 1), np.repeat(np.arange(reports.n), others.shape[1]) / reports.n]
            )
            messages = np.concatenate([own, others.reshape(-1)])[np.argsort(arrival, kind="stable")]
            batch = Reports(survey, messages.astype(message_type(survey)), reports.n)
            return replace(self._reduced(shuffle(batch), survey, plan, reports.n), shuffled=True)

        return shuffled

    def _around(self, categories: Numbers) -> Numbers:
        """Return rows of categories in which the other attributes vary from person to person."""
        sizes = np.array([one.size for one in self.survey.schema.attributes], np.int64)
        rows = (np.arange(categories.size)[:, None] + np.arange(sizes.size)) % sizes
        rows[:, self.place] = categories
        return np.asarray(rows, np.int64)

    def reduced(self, messages: NDArray[Any]) -> Numbers:
        """Return the categories of this attribute among the messages of a survey, in their order."""
        attribute = self.survey.schema.attributes[self.place]
        return messages[(messages >= attribute.start) & (messages < attribute.stop)].astype(np.int64) - attribute.start

    def _reduced(self, reports: Reports, survey: Plan, plan: Plan, n: int) -> Reports:
        if not isinstance(reports, Reports) or reports.plan.id != survey.id:
            raise WireError("a program must return reports of its plan")
        own = self.reduced(reports.messages)
        coded = one_hot(own, plan.schema.width) if plan.protocol.sends_records else own.astype(message_type(plan))
        return Reports(plan, coded, n)


def attributes(plan: Plan) -> list[AttributeAudit]:
    """Return all attributes of a survey, each with a name for reports."""
    often: dict[str, int] = {}
    found = []
    for place, one in enumerate(plan.schema.attributes):
        often[one.question] = often.get(one.question, 0) + 1
        found.append((place, one.question, often[one.question]))
    return [
        AttributeAudit(plan, place, name if often[name] == 1 else f"{name}, attribute {number} of {often[name]}")
        for place, name, number in found
    ]


def resized(plan: Plan, n: int) -> Plan:
    """Return the plan for another number of people, for tests of its messages; its guarantee is void."""
    return plan if plan.n == n else replace(plan, n=n, guarantee=replace(plan.guarantee, n=n))


def people(schema: Schema, rows: Numbers) -> Collection:
    """Return the collection of records with these categories, a row for each person."""
    flat = (rows + _starts(schema)).astype(np.uint32).reshape(-1)
    return Collection(schema, SetBits(flat, np.arange(1, len(rows) + 1, dtype=np.int64) * rows.shape[1]))


def _starts(schema: Schema) -> Numbers:
    return np.array([one.start for one in schema.attributes], np.int64)


def _categories(reports: Reports) -> Numbers:
    if not reports.plan.protocol.sends_records:
        return reports.messages.astype(np.int64)
    bits = np.unpackbits(reports.messages, axis=1, bitorder="little", count=reports.plan.schema.width)
    return np.asarray(bits.argmax(axis=1), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SurveyNeighbours:
    """Two collections in which the victim has the first or the last category of all attributes, and others the last."""

    plan: Plan

    @property
    def name(self) -> str:
        """The pair in words."""
        return f"n = {self.plan.n}: first | last category of all {len(self.plan.schema.attributes)} attributes"

    def collections(self) -> tuple[Collection, Collection]:
        """Return both collections, with the victim's record first."""
        last = np.array([one.size - 1 for one in self.plan.schema.attributes], np.int64)
        rows = np.tile(last, (self.plan.n, 1))
        other = rows.copy()
        other[0] = 0
        return people(self.plan.schema, other), people(self.plan.schema, rows)

    def statistic(self) -> Callable[[Reports], float]:
        """Return the log-likelihood ratio of a batch: the sum over all attributes."""
        scores = []
        for one in attributes(self.plan):
            size, noise = self.plan.schema.attributes[one.place].size, self.plan.protocol.noise[one.place]
            # Only the distribution of the messages is used, not the guarantee.
            alone = Plan(
                schema=Schema.one_hot(size),
                n=self.plan.n,
                protocol=Protocol(noise.q, 1, noise.m, self.plan.protocol.release),
                guarantee=self.plan.guarantee,
                stderr=1.0,
            )
            first, last = Probe("first", (0,)), Probe("last", (size - 1,))
            scores.append((one, alone, statistic(Neighbours(alone, first, last, last))))

        def score(reports: Reports) -> float:
            total = 0.0
            for one, alone, part in scores:
                own = one.reduced(reports.messages).astype(message_type(alone))
                total += part(Reports(alone, own, alone.n))
            return total

        return score


def crowds(plan: Plan) -> list[Pair]:
    """Return the neighbours to attack: a small crowd, and one person alone if every answer is flipped."""
    held, clear = plan.guarantee, plan.protocol.clear
    sizes = [] if clear else [1]
    if held.assumptions.shuffler:
        sizes.append(min(plan.n, CLEAR_CROWD if clear else CROWD))
    found: list[Pair] = []
    for n in dict.fromkeys(sizes):
        small = plan_from(plan.schema, n, plan.protocol, delta=held.delta, trust=held.assumptions.trust)
        if small.guarantee.epsilon < math.inf:
            found.append(SurveyNeighbours(small))
    return found


def linked_answers(shuffler: Shuffler, plan: Plan, runs: int, progress: Callable[[], None]) -> Finding:
    """Test that the answers of one person do not stay together.

    Of every second person, all answers are the first category, of the others the last. Two neighbouring messages are
    alike if they are answers to different attributes and agree in that. In a random order of N messages, of which
    message v is like d_v others, the number A of alike neighbours has the mean Σd/N, and

        E[A²] = Σd/N + 2·Σd(d − 1)/(N(N − 1)) + ((Σd)² − 2Σd − 4Σd(d − 1))/(N(N − 1)).
    """
    survey = resized(plan, min(plan.n, LINKED_BATCH))
    schema, n = survey.schema, survey.n
    last = np.array([one.size - 1 for one in schema.attributes], np.int64)
    rows = np.where(np.arange(n)[:, None] % 2 == 0, 0, last) + _starts(schema)
    batch = Reports(survey, rows.reshape(-1).astype(message_type(survey)), n)
    place = np.repeat(np.arange(last.size), [one.size for one in schema.attributes])
    side = np.full(schema.width, -1)
    side[_starts(schema)], side[_starts(schema) + last] = 0, 1
    off = variance = seen = expected = 0.0
    for _ in range(runs):
        messages = shuffler(batch).messages.astype(np.int64)
        kinds, sides, size = place[messages], side[messages], float(messages.size)
        alike = (kinds[1:] != kinds[:-1]) & (sides[1:] == sides[:-1]) & (sides[1:] >= 0)
        table = np.zeros((2, last.size))
        np.add.at(table, (sides[sides >= 0], kinds[sides >= 0]), 1)
        like = table.sum(axis=1, keepdims=True) - table  # d of a message, by side and attribute
        total, paths = float((table * like).sum()), float((table * like * (like - 1)).sum())
        mean = total / size
        square = mean + (2 * paths + total**2 - 2 * total - 4 * paths) / (size * (size - 1))
        seen, expected = seen + int(alike.sum()), expected + mean
        off, variance = off + int(alike.sum()) - mean, variance + max(square - mean**2, 0.0)
        progress()
    p = float(normal_p(off / math.sqrt(variance))) if variance else 1.0
    return finding("shuffler", LINKED_NAME, "all attributes", seen / runs, expected / runs, p)


def cost(plan: Plan) -> float:
    """Return the approximate number of messages of one run of the pipeline."""
    each = zip(plan.schema.attributes, plan.protocol.noise, strict=True)
    drawn = sum(one.size * noise.shuffler_fakes.mean for one, noise in each if noise.shuffler_fakes is not None)
    return plan.n * plan.payload_messages + drawn + 20
