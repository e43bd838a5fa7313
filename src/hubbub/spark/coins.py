"""Random draws that a repeated task repeats: streams named by purpose, plan, place and content.

The names follow misuse-resistant encryption (Rogaway and Shrimpton 2006): the same rows at the same place have the same
coins, and any other rows independent ones, so that one pad never covers two blocks. The place is part of the name,
because equal blocks of different people must not share their noise.
"""

import hashlib
import importlib
import os
from collections.abc import Sequence

from hubbub.bits.entropy import KeyedStream
from hubbub.errors import WorkerFailure, reject
from hubbub.io.directories import Manifest
from hubbub.model.plans import Plan
from hubbub.pipeline.records import Collection, Packed, SetBits

KEY_BYTES = 32


def run_key(key: bytes | None) -> bytes:
    """Return the key of a run: the one given, to resume a run, or a fresh one, which is stored nowhere.

    >>> len(run_key(None))
    32
    """
    if key is None:
        return os.urandom(KEY_BYTES)
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        reject("key", f"be {KEY_BYTES} secret bytes or None")
    return key


def run_name(key: bytes, plan: Plan) -> str:
    """Return the public name of a run: two batches of one key have the same, and must never be joined.

    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> from hubbub.model.schema import Schema
    >>> plan = plan_from(Schema.one_hot(3), 9, Protocol(0.25), delta=1e-6)
    >>> run_name(bytes(32), plan) == run_name(bytes(32), plan) != run_name(bytes([1] * 32), plan)
    True
    """
    return KeyedStream(key, "run", plan.id)(16).hex()


def shuffle_key(key: bytes, plan: Plan, manifests: Sequence[Manifest]) -> bytes:
    """Return the key of a shuffle of these batches: with other batches, one key has other fakes and files."""
    source = hashlib.sha256()
    for manifest in manifests:
        text = manifest.to_json().encode()
        source.update(len(text).to_bytes(8, "little") + text)
    return KeyedStream(key, "shuffle", plan.id, source.digest())(KEY_BYTES)


def partition() -> int:
    """Return the number of the partition that this task works on."""
    context = importlib.import_module("pyspark").TaskContext.get()
    if context is None:
        # Any fixed number would give equal coins to equal blocks of different partitions.
        raise WorkerFailure("a task must run in Spark, which numbers its partition")
    return int(context.partitionId())


def rounding(key: bytes, plan: Plan, place: int, block: int) -> KeyedStream:
    """Return the stream that rounds the numbers of a survey: no privacy rests on it, so that content is not named."""
    return KeyedStream(key, "rounding", plan.id, place, block)


def noise(key: bytes, plan: Plan, place: int, block: int, people: Collection) -> KeyedStream:
    """Return the coins of a block of people."""
    return KeyedStream(key, "coins", plan.id, place, block, digest(people))


def files(key: bytes, plan: Plan, place: int, block: int, messages: memoryview) -> KeyedStream:
    """Return the stream that assigns the messages of a block to files."""
    return KeyedStream(key, "files", plan.id, place, block, hashlib.sha256(messages).digest())


def digest(people: Collection) -> bytes:
    """Return the SHA-256 of encoded records, as they are randomized.

    >>> from hubbub.model.schema import Schema
    >>> one, two = (Collection.from_values(values, Schema.one_hot(3)) for values in (["0", "1"], ["1", "0"]))
    >>> digest(one) == digest(two)
    False
    """
    records = people.records
    if isinstance(records, Packed):
        return hashlib.sha256(records.rows.tobytes()).digest()
    assert isinstance(records, SetBits)
    found = hashlib.sha256(len(records).to_bytes(8, "little"))
    found.update(records.indices.astype("<u4", copy=False).tobytes())
    if records.ends is not None:
        found.update(records.ends.astype("<i8", copy=False).tobytes())
    return found.digest()
