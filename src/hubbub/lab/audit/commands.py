"""The programs under audit: a client turns a collection into reports, a shuffler permutes reports.

Both are Python callables or commands. A command reads values from standard input, as the CSV that ``hubbub randomize``
reads, and writes reports to standard output: a ``.hub`` batch or consecutive messages. Time and output are limited.

A command reads answers, not records, and encodes them itself. Not every record is that of an answer: the blocks of a
scale contain each other, and the cells of a cross-table follow from its questions. For one attribute at a time, there
is an answer for every category, except for the unused blocks of a scale.
"""

import contextlib
import csv
import io
import math
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np

from hubbub.bits.entropy import Entropy, system
from hubbub.errors import InvalidInput, ProgramFailure, WireError
from hubbub.model.plans import Plan
from hubbub.model.questions import Choice, Cross, Flag, Number, Question, Questions, Scale, Several, Text
from hubbub.model.questions.number import GRID
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import Reports, decode_payloads
from hubbub.wire import batches, messages

Client = Callable[[Collection, Plan], Reports]  # randomizes a collection; repeated calls must give independent reports
Shuffler = Callable[[Reports], Reports]  # permutes a batch

CUT = "\U0001d11e"
SEPARATOR = ";"  # separates the labels of one cell, as in the files of `hubbub randomize`


def seeded_client(entropy: Entropy) -> Client:
    """Return the client of this library with the given entropy, for tests and simulations."""

    def send(collection: Collection, plan: Plan) -> Reports:
        m = plan.protocol.fixed_fakes
        share = min(m, m * len(collection) // plan.n) if m else None
        return randomize(collection, plan, fakes=share, entropy=entropy)

    return send


library_client = seeded_client(system)
"""The client of this library with the operating system's randomness and the users' share of fakes."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client that is an external program: it reads values and writes reports.

    >>> import sys
    >>> from hubbub import Protocol, Schema, plan_from
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(0.1), delta=1e-6)
    >>> failing = ClientCommand((sys.executable, "-c", "raise SystemExit(3)"))
    >>> failing(Collection.from_values(["red", "blue"], plan.schema), plan)
    Traceback (most recent call last):
    hubbub.errors.ProgramFailure: the client exited with code 3
    """

    words: tuple[str, ...]
    seconds: float = 60.0  # timeout of one run

    def __call__(self, collection: Collection, plan: Plan) -> Reports:
        """Run the program once on all values of the collection."""
        return self.send(spell_values(collection), len(collection), plan)

    def send(self, values: bytes, n: int, plan: Plan) -> Reports:
        """Run the program once on the values of n people, as CSV."""
        # Ten times the expected messages plus a header: a program that writes more is broken.
        expected = int(n * plan.payload_messages) + plan.protocol.fixed_fakes
        limit = 10 * (expected + 100) * messages.size(plan) + 4096
        return read_output(_run(self.words, values, "client", self.seconds, limit), plan, n)


@dataclass(frozen=True, slots=True)
class ShufflerCommand:
    """A shuffler that is an external program: it reads a ``.hub`` batch and writes it shuffled."""

    words: tuple[str, ...]
    seconds: float = 60.0

    def __call__(self, reports: Reports) -> Reports:
        """Run the program once on a batch."""
        data = batches.encode(reports)
        shuffled = _run(self.words, data, "shuffler", self.seconds, 10 * len(data) + 64 * 2**20)
        return read_output(shuffled, reports.plan, reports.n)


def spell_values(collection: Collection) -> bytes:
    """Return a collection as CSV: one column of labels, or a column per label if one contains the separator.

    >>> from hubbub.model.schema import Schema
    >>> spell_values(Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"])))
    b'value\\na\\n""\\na;b\\n'
    """
    schema, labels = collection.schema, collection.schema.labels
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if schema.text is not None:
        # A string that was cut is followed by a letter of four bytes, which never fits, so that it is cut again.
        found = [schema.text.decode(row.tobytes()) for row in collection.rows(0, len(collection))]
        writer.writerow(["string"])
        writer.writerows([one[0] + CUT * one[1] if one is not None else ""] for one in found)
        return text.getvalue().encode()
    flat, ones = collection.ones(0, len(collection))
    if not schema.min_set and any(SEPARATOR in label or not label for label in labels):
        writer.writerow(labels)
        rows = np.zeros((len(collection), schema.width), np.uint8)
        rows[np.repeat(np.arange(ones.size), ones), flat] = 1
        writer.writerows(rows.tolist())
    else:
        name = "value"
        while name in labels:
            name += "_"
        writer.writerow([name])
        ends = np.cumsum(ones).tolist()
        chosen = flat.tolist()
        writer.writerows(
            [SEPARATOR.join(labels[i] for i in chosen[start:end])] for start, end in zip([0, *ends], ends, strict=False)
        )
    return text.getvalue().encode()


def read_output(data: bytes, plan: Plan, n: int) -> Reports:
    """Parse the reports that a program wrote, in either form; raises :class:`WireError` on illegal ones.

    Output that begins neither as a batch nor as a message raises :class:`ProgramFailure`, because there is nothing to
    audit.
    """
    if data[:4] == batches.MAGIC:
        reports = batches.decode(data, plan)
        if reports.n != n:
            raise WireError(f"the batch must declare {n} people, got {reports.n}")
        return reports
    if data and data[:3] != messages.MAGIC:
        raise ProgramFailure("the output must be a .hub batch or consecutive messages")
    size = messages.size(plan)
    if len(data) % size:
        raise WireError(f"messages of this plan must have {size} bytes each, got {len(data)} bytes in total")
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    head = size - plan.payload
    same = (rows[:, :head] == rows[:1, :head]).all(axis=1) if len(rows) else np.ones(0, np.bool_)
    # The first message, and the first with a different header, pass through all checks.
    for place in (0, int(np.argmin(same))) if len(rows) else ():
        messages.decode(rows[place].tobytes(), plan)
    return Reports(plan, decode_payloads(rows[:, head:], plan), n)


def _run(words: Sequence[str], data: bytes, what: str, seconds: float, limit: int) -> bytes:
    """Return the output of a program; it is killed with its children if it takes too long or writes too much."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
        source.write(data)
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(words), stdin=source, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise ProgramFailure(f"the {what} could not be started: {(error.strerror or 'unknown').lower()}") from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(seconds, stop)
        timer.start()
        assert process.stdout is not None
        try:
            with process.stdout as output:
                written = output.read(limit + 1)
            if len(written) > limit:
                raise ProgramFailure(f"the {what} wrote more than {limit:,} bytes")
            code = process.wait()
        finally:
            timer.cancel()
            _end(process)
        if late.is_set():
            raise ProgramFailure(f"the {what} took more than {seconds:g} seconds")
        if code:
            raise ProgramFailure(f"the {what} exited with code {code}{_last_line(errors)}")
        return written


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # The program leads its own session, so this kills its children and nothing else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(errors: io.BufferedRandom) -> str:
    errors.seek(0)
    lines = errors.read(1 << 16).decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


Answers = dict[str, object]
MAX_CHANCE = 2.0**-20
"""Largest probability that a device rounds a number to another category; the tests would not notice it."""
VARIED = 8
"""Number of different answers to the questions around the attribute under test."""


class UnreachableCategory(InvalidInput):
    """No answer has this category."""


class AttributeAnswers:
    """Answers of people by their category of one attribute; their other answers vary.

    >>> answers = AttributeAnswers(Questions.create({"a": Flag(), "b": Choice(["x", "y"])}), 1)
    >>> answers.spell([1, 0])
    b'a,b\\n0,y\\n1,x\\n'
    """

    def __init__(self, questions: Questions, place: int) -> None:
        self._questions, self._place = questions, place
        self._found: dict[int, Answers] = {}

    def spell(self, categories: Iterable[int]) -> bytes:
        """Return the answers of people with these categories as CSV, as ``hubbub randomize`` reads it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [name for name, _ in self._questions.asked]
        writer.writerow(names)
        for person, category in enumerate(categories):
            chosen = self._chosen(category)
            around = self._around[person % len(self._around)]
            # A row of a single empty cell would be an empty line.
            row = [_cell(chosen.get(name, around.get(name))) for name in names]
            writer.writerow(row) if any(row) or len(row) > 1 else text.write('""\n')
        return text.getvalue().encode()

    def _chosen(self, category: int) -> Answers:
        """Return the answers that decide on the category."""
        if category not in self._found:
            attribute = self._questions.columns[self._place]
            first = next(i for i, one in enumerate(self._questions.columns) if one.question == attribute.question)
            question = self._questions[attribute.question]
            if isinstance(question, Cross):
                found = self._cell(question, category)
            else:
                found = {attribute.question: answer(question, self._place - first, category)}
            self._check(found, category)
            self._found[category] = found
        return self._found[category]

    def _cell(self, cross: Cross, cell: int) -> Answers:
        found: Answers = {}
        for name in reversed(cross.names):
            question = self._questions[name]
            assert not isinstance(question, Cross | Number)
            cell, category = divmod(cell, question.sizes[-1])
            found[name] = answer(question, len(question.sizes) - 1, category)
        return found

    def _check(self, chosen: Answers, category: int) -> None:
        """Raise unless a device that rounds numbers to the nearest level gives these answers the category."""
        found = self._questions.encode({**self._around[0], **chosen}, lambda numerator: 2 * numerator >= GRID)
        if found[self._place] != category:
            raise UnreachableCategory("no answer has this category")

    @cached_property
    def _around(self) -> list[Answers]:
        """Answers to all questions, of which each varies by itself."""
        rows: list[Answers] = [{} for _ in range(VARIED)]
        for shift, (name, question) in enumerate(self._questions.asked):
            size = question.sizes[-1] if not isinstance(question, Number) else VARIED
            for person, row in enumerate(rows):
                row[name] = _any(question, (person + shift) % min(size, VARIED))
        return rows


def answer(question: Question, attribute: int, category: int) -> object:
    """Return an answer with this category of an attribute of the question; None is a missing answer.

    >>> answer(Choice(["x", "y"], missing=True), 0, 1), answer(Scale(edges=[0, 1, 10, 100]), 0, 2)
    ('y', 10.0)
    >>> answer(Number(0, 15, digits=[4, 4]), 1, 2)
    8.0
    """
    match question:
        case Choice():
            return question.labels[category] if category < len(question.labels) else None
        case Flag():
            return bool(category) if category < 2 else None
        case Scale():
            width = question.widths[attribute]
            if category == question.padded // width:
                return None
            if category * width >= question.buckets:
                raise UnreachableCategory("no answer is in an unused block of a scale")
            return question.edges[category * width]
        case Number():
            return _number(question, attribute, category)
        case Cross() | Several() | Text():
            raise InvalidInput("a question must be a Choice, Flag, Scale or Number to be answered by one category")
    assert_never(question)


def _number(question: Number, attribute: int, category: int) -> float | None:
    """Return a number whose level, or that of its square, has a digit at the place of the attribute, and no other."""
    if question.missing:
        if attribute == 0:
            return None if category else question.low
        attribute -= 1
    square, place = divmod(attribute, len(question.radices))
    share = category * math.prod(question.radices[:place]) / (question.levels - 1)
    if square:
        share = (1 + math.sqrt(share)) / 2
    value = question.low + (question.high - question.low) * share
    reached = question.share(value)
    level = ((2 * reached - 1) ** 2 if square else reached) * (question.levels - 1)
    if abs(level - round(level)) > MAX_CHANCE:
        raise UnreachableCategory("no answer is certain to be rounded to this level")
    return value


def _any(question: Choice | Flag | Scale | Number, step: int) -> object:
    """Return one of several answers."""
    if isinstance(question, Number):
        return question.low + (question.high - question.low) * step / VARIED
    try:
        return answer(question, len(question.sizes) - 1, step)
    except UnreachableCategory:
        return answer(question, len(question.sizes) - 1, 0)


def _cell(value: object) -> str:
    """Return an answer as the text of a cell."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else value if isinstance(value, str) else repr(value)
