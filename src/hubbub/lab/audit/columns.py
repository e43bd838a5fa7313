"""The columns of a survey under audit: every attribute by itself as a one-hot plan.

Given the records, the attributes of a survey are independent. Reduced to one attribute, a client or a shuffler of the
survey is one of a one-hot plan with the noise of that attribute, to which all tests of such plans apply; the other
attributes hold varying categories meanwhile. The likelihood ratio of a whole batch is the product over all attributes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.records import one_hot
from hubbub.errors import WireError
from hubbub.lab.audit.commands import AttributeAnswers, Client, ClientCommand, Shuffler
from hubbub.lab.audit.model import Probe
from hubbub.lab.mechanisms import Column, columns
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection, SetBits
from hubbub.pipeline.reports import Reports, message_type
from hubbub.planner import plan_from

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnAudit:
    """One attribute of a survey: its one-hot plan, and the programs under audit reduced to it."""

    survey: Plan
    place: int
    name: str
    column: Column

    def plan(self, n: int | None = None, *, numbers: bool = False) -> Plan:
        """Return the one-hot plan of the attribute, with a guarantee of its own.

        A clear category is a whole record, or with ``numbers`` a single bit, which is the same message.
        """
        noise, held, release = self.column.noise, self.survey.guarantee, self.survey.protocol.release
        protocol = Protocol(noise.q, 1, noise.m, release if noise.q or numbers else "records")
        size = self.survey.n if n is None else n
        return plan_from(self.column.schema, size, protocol, delta=held.delta or 1e-9, trust=held.assumptions.trust)

    def message_plan(self) -> Plan:
        """Return the one-hot plan of the attribute, for the distribution of its messages; its guarantee is void."""
        noise = self.column.noise
        protocol = Protocol(noise.q, 1, noise.m, self.survey.protocol.release)
        return replace(self.survey, schema=self.column.schema, protocol=protocol, stderr=1.0)

    def probe(self, record: Probe) -> Probe:
        """Return the category of this attribute in a record of the survey."""
        return Probe(record.name, (record.ones[self.place] - self.column.start,))

    def client(self, send: Client) -> Client:
        """Return a client of the survey as one of this attribute; a command reads answers, others read records."""
        questions = self.survey.schema.questions
        answers = AttributeAnswers(questions, self.place) if isinstance(send, ClientCommand) else None

        def sent(collection: Collection, plan: Plan) -> Reports:
            n, survey = len(collection), resized(self.survey, plan.n)
            categories = collection.ones(0, n)[0].astype(np.int64)
            if isinstance(send, ClientCommand) and answers is not None:
                reports = send.send(answers.spell(categories.tolist()), n, survey)
            else:
                reports = send(_people(survey.schema, self._around(categories) + starts(survey.schema)), survey)
            return self._reduced(reports, survey, plan, n)

        return sent

    def shuffler(self, shuffle: Shuffler) -> Shuffler:
        """Return a shuffler of the survey as one of this attribute; other plans reach it unchanged."""

        def shuffled(reports: Reports) -> Reports:
            plan, survey = reports.plan, resized(self.survey, reports.plan.n)
            own = _categories(reports) + self.column.start
            others = np.delete(self._around(np.zeros(reports.n, np.int64)), self.place, axis=1)
            others = others + np.delete(starts(survey.schema), self.place)
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
        start, stop = self.column.start, self.column.stop
        return messages[(messages >= start) & (messages < stop)].astype(np.int64) - start

    def _reduced(self, reports: Reports, survey: Plan, plan: Plan, n: int) -> Reports:
        if not isinstance(reports, Reports) or reports.plan.id != survey.id:
            raise WireError("a program must return reports of its plan")
        own = self.reduced(reports.messages)
        return Reports(plan, _coded(own, plan), n)


def separate(plan: Plan) -> list[ColumnAudit]:
    """Return the columns that are audited by themselves, with names for reports; none if all labels are one column."""
    if not plan.schema.named:
        return []
    names = [one.question for one in plan.schema.attributes]
    often, found = Counter(names), Counter[str]()
    audits = []
    for place, (name, column) in enumerate(zip(names, columns(plan), strict=True)):
        found[name] += 1
        text = name if often[name] == 1 else f"{name}, attribute {found[name]} of {often[name]}"
        audits.append(ColumnAudit(plan, place, text, column))
    return audits


def resized(plan: Plan, n: int) -> Plan:
    """Return the plan for another number of people, for tests of its messages; its guarantee is void."""
    return plan if plan.n == n else replace(plan, n=n, guarantee=replace(plan.guarantee, n=n))


def collection_of(schema: Schema, held: Sequence[Probe]) -> Collection:
    """Return the collection of people with these records."""
    if not schema.named:
        return Collection.from_values(np.array([one.bits(schema.width) for one in held]), schema)
    return _people(schema, np.array([one.ones for one in held], np.int64))


def _people(schema: Schema, rows: Numbers) -> Collection:
    """Return the collection of people with these labels, a row for each person, one of every attribute."""
    ends = np.arange(1, len(rows) + 1, dtype=np.int64) * rows.shape[1]
    return Collection(schema, SetBits(rows.astype(np.uint32).reshape(-1), ends))


def starts(schema: Schema) -> Numbers:
    """Return the first label of every attribute."""
    return np.array([one.start for one in schema.attributes], np.int64)


def _coded(categories: Numbers, plan: Plan) -> NDArray[Any]:
    """Return categories as messages of a one-hot plan."""
    if plan.protocol.sends_records:
        return one_hot(categories, plan.schema.width)
    return categories.astype(message_type(plan))


def _categories(reports: Reports) -> Numbers:
    """Return the categories that messages of a one-hot plan show."""
    if reports.messages.ndim == 1:
        return reports.messages.astype(np.int64)
    bits = np.unpackbits(reports.messages, axis=1, bitorder="little", count=reports.plan.schema.width)
    return np.asarray(bits.argmax(axis=1), np.int64)
