"""The black boxes of an audit: a client turns a collection into reports, a mix reorders reports; calls or commands.

A command gets values on its standard input, as the CSV that ``hubbub randomize`` reads, and writes reports to its
standard output: a ``.hub`` batch, or messages one after the other. Its time and its output are bounded.
"""

import contextlib
import csv
import io
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.bits.entropy import Entropy, system
from hubbub.client import randomize
from hubbub.errors import ProgramFailure, WireError
from hubbub.plans import Plan
from hubbub.records import Collection
from hubbub.reports import Reports, decode_payloads
from hubbub.wire import batches, messages

Client = Callable[[Collection, Plan], Reports]
"""Anything that randomizes: called with equal plans and collections, its answers must be independent."""
ShufflerProgram = Callable[[Reports], Reports]
"""Anything that shuffles a batch."""

SEPARATOR = ";"
"""Between the labels of one cell, as in the files of ``hubbub randomize``."""


def own_client(collection: Collection, plan: Plan) -> Reports:
    """The client of this package, with the randomness of the operating system, and the people's share of the fakes."""
    return seeded_client(system)(collection, plan)


def seeded_client(entropy: Entropy) -> Client:
    """The same with randomness of one's own, for tests and simulations."""

    def send(collection: Collection, plan: Plan) -> Reports:
        m = plan.protocol.m
        share = min(m, m * len(collection) // plan.n) if isinstance(m, int) else None
        return randomize(collection, plan, fakes=share, entropy=entropy)

    return send


@dataclass(frozen=True, slots=True)
class Command:
    """A client that is a program: values in, reports out.

    >>> import sys
    >>> from hubbub.schema import Schema
    >>> from hubbub.planner import plan_from
    >>> from hubbub.protocol import Protocol
    >>> own = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(0.1), delta=1e-6)
    >>> silent = Command((sys.executable, "-c", "raise SystemExit(3)"))
    >>> silent(Collection.from_values(["red", "blue"], own.schema), own)
    Traceback (most recent call last):
    hubbub.errors.ProgramFailure: the client left with exit code 3
    """

    words: tuple[str, ...]
    seconds: float = 60.0
    """How long one run may take."""

    def __call__(self, collection: Collection, plan: Plan) -> Reports:
        """Run it once on all values of the collection."""
        # Ten times the messages that are expected, and room for a header: more is not an answer.
        expected = int(len(collection) * plan.payload_messages) + (plan.protocol.fixed_fakes)
        limit = 10 * (expected + 100) * messages.size(plan) + 4096
        data = _run(self.words, spell_values(collection), "client", self.seconds, limit)
        return read_output(data, plan, len(collection))


@dataclass(frozen=True, slots=True)
class CommandShuffler:
    """A shuffler that is a program: a ``.hub`` batch in, a shuffled one out."""

    words: tuple[str, ...]
    seconds: float = 60.0

    def __call__(self, reports: Reports) -> Reports:
        """Run it once on a batch."""
        data = batches.encode(reports)
        mixed = _run(self.words, data, "shuffler", self.seconds, 10 * len(data) + 64 * 2**20)
        return read_output(mixed, reports.plan, reports.n)


def spell_values(collection: Collection) -> bytes:
    """The CSV of a collection: one column of labels; where a label has the separator in it, a column for each label.

    >>> from hubbub.schema import Schema
    >>> spell_values(Collection.from_values([["a"], [], ["a", "b"]], Schema.bits(["a", "b"])))
    b'value\\na\\n""\\na;b\\n'
    """
    schema, labels = collection.schema, collection.schema.labels
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    flat, ones = collection.ones(0, len(collection))
    if not schema.exclusive and any(SEPARATOR in label or not label for label in labels):
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
    """The reports that a program wrote, in either form; raises :class:`WireError` on illegal ones.

    Bytes that begin neither as a batch nor as a message are a :class:`ProgramFailure`: there is nothing to audit.
    """
    if data[:4] == batches.MAGIC:
        reports = batches.decode(data, plan)
        if reports.n != n:
            raise WireError(f"the batch must declare {n} people, got {reports.n}")
        return reports
    if data and data[:3] != messages.MAGIC:
        raise ProgramFailure("the output must be a .hub batch or messages, got something else")
    size = messages.size(plan)
    if len(data) % size:
        raise WireError(f"messages of this plan must have {size} bytes each, got {len(data)} in all")
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    head = size - plan.payload
    same = (rows[:, :head] == rows[:1, :head]).all(axis=1) if len(rows) else np.ones(0, np.bool_)
    # The first message, and the first that begins otherwise, are read with all checks.
    for place in (0, int(np.argmin(same))) if len(rows) else ():
        messages.decode(rows[place].tobytes(), plan)
    return Reports(plan, decode_payloads(rows[:, head:], plan), n)


def _run(words: Sequence[str], data: bytes, what: str, seconds: float, limit: int) -> bytes:
    """The output of a program; it and all that it started are ended if it takes too long or writes too much."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as complaints:
        source.write(data)
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(words), stdin=source, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
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
            raise ProgramFailure(f"the {what} left with exit code {code}{_last_words(complaints)}")
        return written


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # It leads a session of its own, so that its children go with it and nobody else does.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_words(complaints: io.BufferedRandom) -> str:
    complaints.seek(0)
    lines = complaints.read(1 << 16).decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""
