"""Batches of reports as directories of Parquet, which several machines can write and read; needs the extra ``frames``.

A directory holds ``part-*.parquet`` and, written last, the manifest ``_hubbub.json``; without a manifest there is no
batch. A part has the column ``messages``, of binary blocks of concatenated payloads, or, for users of SQL, the column
``message`` with one payload in each row; its other columns are ignored. The metadata of the column has the id of the
plan. Files whose names start with ``_`` or ``.`` are ignored, as Hadoop and Spark do; all others must be in the
manifest. The manifest detects damage, missing parts and parts of other batches; it is not a signature.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hubbub.documents import Fields, legal, parse
from hubbub.errors import WireError, check_type, check_whole, reject
from hubbub.io.files import naming, sync_folder, write_new
from hubbub.io.parquet import (
    MESSAGE,
    MESSAGES,
    PLAN_KEY,
    MessageWriter,
    column_plan,
    group_size,
    number_of_rows,
    payloads,
)
from hubbub.io.parquet import read_columns as read_parquet
from hubbub.model.plans import Plan
from hubbub.model.releases import PAYLOAD_FORMATS
from hubbub.pipeline.reports import MAX_MESSAGES, Batch, BatchHeader, Joined, Source, check_plan, decode_payloads
from hubbub.wire.batches import payload_blocks

FORMAT = "hubbub-reports-1"
MANIFEST = "_hubbub.json"
"""Name of the manifest in its directory."""
BLOCK = 1 << 20
"""Approximate bytes of payloads of one block."""
GROUP = 8
"""Blocks of one row group."""
PART = 1 << 26
"""Approximate bytes of payloads of one part."""
MAX_PARTS = 1 << 16
MAX_MANIFEST_SIZE = 1 << 26
"""Bytes of the largest manifest, with the longest entries for the most parts."""
MAX_GROUP_SIZE = 1 << 28
"""Bytes of messages in the largest row group that is read, without compression."""
_NAME = re.compile(r"part-[A-Za-z0-9._=-]{1,200}\.parquet")
_SERVICE_KEYS = ("certified", "slots")
"""Entries of a batch whose messages a service checked: numbers from 1, absent if there is nothing to say."""
_RUN = "run"
_KEYS = ("format", "plan", "release", "width", "n", "fakes", "messages", "shuffled", "rows", "parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file of a batch."""

    name: str
    rows: int
    """Rows of the file."""
    messages: int
    digest: str | None = None
    """SHA-256 of the payloads, one after another; None if the engine that wrote the part does not know it."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            reject("the name of a part", "be part-….parquet, of letters, digits, dots, hyphens and underscores")
        check_whole("rows", self.rows, 0, MAX_MESSAGES)
        check_whole("messages", self.messages, 0, MAX_MESSAGES)
        if self.digest is not None and not re.fullmatch("[0-9a-f]{64}", self.digest):
            reject("the digest of a part", "be 64 hexadecimal digits or null")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The declaration of a batch in a directory, and the list of its parts."""

    header: BatchHeader
    parts: tuple[Part, ...]
    rows: bool = False
    """True if every row has one message, False if it has a block of messages."""
    run: str | None = None
    """Name of the run whose key made the reports, so that they are not joined with others of the same key."""

    def __post_init__(self) -> None:
        check_type("header", self.header, BatchHeader)
        if self.run is not None and not re.fullmatch("[0-9a-f]{32}", check_type("run", self.run, str)):
            reject("run", "be 32 hexadecimal digits or None")
        check_type("rows", self.rows, bool)
        if not isinstance(self.parts, tuple) or not all(isinstance(part, Part) for part in self.parts):
            reject("parts", "be a tuple of parts")
        if len(self.parts) > MAX_PARTS:
            reject("parts", f"be at most {MAX_PARTS:,}", len(self.parts))
        if len({part.name for part in self.parts}) != len(self.parts):
            reject("parts", "have distinct names")
        total = sum(part.messages for part in self.parts)
        if total != self.header.messages:
            reject("parts", f"have the {self.header.messages:,} messages of the batch", total)
        if self.rows and any(part.rows != part.messages for part in self.parts):
            reject("parts", "have as many rows as messages if every row has one message")

    @classmethod
    def of(
        cls,
        plan: Plan,
        parts: Sequence[Part],
        *,
        n: int,
        fakes: int = 0,
        shuffled: bool = False,
        rows: bool = False,
        certified: int = 0,
        slots: int = 0,
        run: str | None = None,
    ) -> Self:
        """Return the manifest of a batch of the plan; the parts say how many messages it has."""
        messages = sum(part.messages for part in parts)
        given = {"n": n, "fakes": fakes, "certified": certified, "slots": slots}
        header = BatchHeader.of(plan, messages=messages, shuffled=shuffled, **given)
        return cls(header=header, parts=tuple(parts), rows=rows, run=run)

    @property
    def column(self) -> str:
        """The name of the column of messages."""
        return MESSAGE if self.rows else MESSAGES

    def to_json(self) -> str:
        """Return the text of the manifest file."""
        header = self.header
        document = {
            "format": FORMAT,
            "plan": header.plan,
            "release": header.release,
            "width": header.width,
            "n": header.n,
            "fakes": header.fakes,
            "messages": header.messages,
            "shuffled": header.shuffled,
            "rows": self.rows,
            **{name: getattr(header, name) for name in _SERVICE_KEYS if getattr(header, name)},
            **({} if self.run is None else {_RUN: self.run}),
        }
        lines = [
            json.dumps({"name": part.name, "rows": part.rows, "messages": part.messages, "digest": part.digest})
            for part in self.parts
        ]
        head = json.dumps(document, indent=1).removesuffix("\n}")
        listed = "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
        return f'{head},\n "parts": {listed}\n}}\n'

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a manifest from its text; raises :class:`WireError` unless it is complete and consistent."""
        what = "the manifest of a batch"
        document = parse(text, what)
        declared = document.get("format") if isinstance(document, dict) else None
        if declared != FORMAT:
            raise WireError(f"the format of {what} must be {FORMAT!r}")
        added = [name for name in _SERVICE_KEYS if isinstance(document, dict) and name in document]
        keyed = isinstance(document, dict) and _RUN in document
        read = Fields(document, what, *_KEYS, *added, *([_RUN] if keyed else []))
        release, width = read.text("release"), read.whole("width")
        with legal(what):
            if release not in PAYLOAD_FORMATS or width < 1:
                raise WireError(f"{what} must have a release and a width of at least 1")
            header = BatchHeader(
                plan=read.text("plan"),
                release=release,
                width=width,
                payload=PAYLOAD_FORMATS[release].size(width),
                messages=read.whole("messages"),
                n=read.whole("n"),
                fakes=read.whole("fakes"),
                shuffled=read.truth("shuffled"),
                **{name: check_whole(name, read.whole(name), 1) for name in added},
            )
            listed = tuple(_part(item) for item in read.items("parts"))
            run = read.text(_RUN) if keyed else None
            return cls(header=header, parts=listed, rows=read.truth("rows"), run=run)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the manifest into a directory that has none, durably, after all parts."""
        write_new(Path(path, MANIFEST), self.to_json().encode())

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read the manifest of a directory; raises :class:`WireError` if there is none."""
        try:
            return cls.from_json(_read_manifest(Path(path, MANIFEST)))
        except FileNotFoundError:
            if not Path(path).is_dir():
                raise
            raise WireError(
                f"a batch in a directory must have the manifest {MANIFEST}, which is written last"
            ) from None


def _read_manifest(place: Path) -> bytes:
    """Return the bytes of a manifest, which may come from anywhere: a pipe would block, and a device has no end."""
    size = place.stat().st_size
    if not place.is_file():
        raise WireError("the manifest of a batch must be a regular file")
    if size > MAX_MANIFEST_SIZE:
        raise WireError(f"the manifest of a batch must have at most {MAX_MANIFEST_SIZE:,} bytes, got {size:,}")
    return place.read_bytes()


def _part(value: Any) -> Part:
    read = Fields(value, "a part in the manifest of a batch", "name", "rows", "messages", "digest")
    digest = None if read["digest"] is None else read.text("digest")
    return Part(name=read.text("name"), rows=read.whole("rows"), messages=read.whole("messages"), digest=digest)


def is_directory(path: str) -> bool:
    """Return True if a name stands for a batch in a directory: one that exists, or a name that ends with a slash.

    >>> is_directory("reports/"), is_directory("reports.hub")
    (True, False)
    """
    return path.endswith("/") or Path(path).is_dir()


def read_directory(path: str | PathLike[str], plan: Plan) -> Batch:
    """Open a batch in a directory and check its manifest; its parts, each checked, are read on iteration."""
    check_type("plan", plan, Plan)
    with naming(str(path)):
        manifest = open_directory(path)
        manifest.header.check(plan)
    return Batch(manifest.header, _messages(str(path), manifest, plan))


def open_directory(path: str | PathLike[str]) -> Manifest:
    """Return the manifest of a directory, after checking that it has exactly the files that the manifest lists."""
    manifest = Manifest.read(path)
    found = {file.name for file in Path(path).iterdir() if not file.name.startswith(("_", "."))}
    listed = {part.name for part in manifest.parts}
    if missing := listed - found:
        raise WireError(f"a batch must have all parts of its manifest, but {_counted(missing)} missing")
    if extra := found - listed:
        raise WireError(f"a batch must have only the parts of its manifest, but {_counted(extra)} not in it")
    if odd := {name for name in listed if not Path(path, name).is_file()}:
        raise WireError(f"the parts of a batch must be regular files, but {_counted(odd)} not")
    return manifest


def _counted(names: set[str]) -> str:
    first = min(names)[:80]
    return f"{first} is" if len(names) == 1 else f"{first} and {len(names) - 1:,} more are"


def read_payloads(path: str | PathLike[str], manifest: Manifest) -> Iterator[NDArray[np.uint8]]:
    """Yield the payloads of all parts, and check every part against the manifest."""
    payload = manifest.header.payload
    for part in manifest.parts:
        file = str(Path(path, part.name))
        with naming(file):
            digest, messages = hashlib.sha256(), 0
            check_plan(manifest.header.plan, column_plan(file, manifest.column), "a part and its manifest")
            if (rows := number_of_rows(file)) != part.rows:
                raise WireError(f"the part must have the {part.rows:,} rows of the manifest, got {rows:,}")
            rows_at_once, indexed = _rows_at_once(file, manifest), ("NONE",) if manifest.rows else ()
            for _, columns in read_parquet(file, lambda _: [manifest.column], rows_at_once, indexed=indexed):
                data = payloads(columns[0], payload, rows=manifest.rows)
                messages += data.size // payload
                if part.digest is not None:
                    digest.update(data.data)
                yield data
            if messages != part.messages:
                raise WireError(f"the part must have the {part.messages:,} messages of the manifest, got {messages:,}")
            if part.digest is not None and digest.hexdigest() != part.digest:
                raise WireError("the part must have the SHA-256 of the manifest: it was changed or replaced")


def _rows_at_once(file: str, manifest: Manifest) -> int:
    """Return how many rows of a part to read at a time, so that the memory is bounded whatever the file holds."""
    size, repeated = group_size(file, manifest.column)
    if size > MAX_GROUP_SIZE:
        raise WireError(f"a row group must have at most {MAX_GROUP_SIZE:,} bytes of messages, got {size:,}")
    if manifest.rows:
        return max(1, BLOCK // manifest.header.payload)
    # Every row may repeat the longest block of the dictionary.
    return 1 if repeated else GROUP


def _messages(path: str, manifest: Manifest, plan: Plan) -> Iterator[NDArray[Any]]:
    for data in read_payloads(path, manifest):
        with naming(path):
            messages = decode_payloads(data, plan)
        yield messages


def write_directory(path: str | PathLike[str], plan: Plan, source: Source, *, rows: bool = False) -> Manifest:
    """Write reports, a batch, or the parts of one batch to a new directory, once, and return its manifest.

    Raises :class:`FileExistsError` if there is anything of this name. ``rows`` writes one message in each row, for
    users of SQL, instead of blocks. If the source raises, the directory is removed; a crash may leave one without a
    manifest, which is no batch.
    """
    check_type("plan", plan, Plan)
    check_type("rows", rows, bool)
    folder = Path(path)
    folder.mkdir()
    try:
        batch = Joined(source, plan)
        found = list(_write_parts(folder, plan, payload_blocks(batch.blocks(), BLOCK, plan.payload), rows))
        manifest = Manifest(header=batch.header, parts=tuple(found), rows=rows)
        sync_folder(folder)
        manifest.write(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest


def _write_parts(folder: Path, plan: Plan, blocks: Iterator[bytes], rows: bool) -> Iterator[Part]:
    """Write blocks of payloads to numbered parts of about :data:`PART` bytes."""
    for number in itertools.count():
        group = list(itertools.islice(blocks, GROUP))
        if not group:
            return
        name, digest = f"part-{number:05}.parquet", hashlib.sha256()
        size = count = 0
        with Path(folder, name).open("xb") as file:
            with MessageWriter(file, plan.payload, rows=rows, metadata={PLAN_KEY: plan.id.encode()}) as writer:
                while group:
                    count += writer.write(group)
                    for block in group:
                        digest.update(block)
                        size += len(block)
                    group = list(itertools.islice(blocks, GROUP)) if size < PART else []
            file.flush()
            os.fsync(file.fileno())
        yield Part(name=name, rows=count, messages=size // plan.payload, digest=digest.hexdigest())
