"""The public tag keys of a task: one for each key of the analyzer, against which clients check evaluations.

A tag key is derived from the analyzer's private key, the task and the key id. It ends with the private key, and the
tags of two tasks or of two keys cannot be linked. Whoever could show different tag keys to different people could tell
them apart by their slots, so the shuffler keeps the bytes that it saw first under an id for ever.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hubbub.documents import Fields, Json, legal
from hubbub.errors import FalseClaim, WireError, check_whole
from hubbub.oprf import Key, suite_named
from hubbub.service.runtime.credentials import derive
from hubbub.service.task.identity import Identity, SignedDocument, document_format, hex_bytes
from hubbub.service.task.sealing import MAX_KEY_ID
from hubbub.wire.bundles import TASK_SIZE
from hubbub.wire.strings import derive_tag_key

KIND = "tag keys"


@functools.lru_cache(maxsize=256)
def tag_key(group: str, private: bytes, task: bytes, key_id: int) -> Key:
    """Return the tag key that belongs to a private key of the analyzer, for a task."""
    return derive_tag_key(group, derive(private, "tags"), task, key_id)


@dataclass(frozen=True, slots=True)
class TagKeys:
    """The public tag keys of a task by the ids of the analyzer's keys."""

    task: bytes
    group: str
    keys: Mapping[int, bytes]

    def sign(self, identity: Identity) -> bytes:
        """Return the signed list."""
        keys: list[Json] = [{"id": key_id, "public": public.hex()} for key_id, public in sorted(self.keys.items())]
        body: dict[str, Json] = {"format": document_format(KIND), "task": self.task.hex(), "group": self.group}
        return SignedDocument.sign(identity, KIND, {**body, "keys": keys}).to_json()

    @classmethod
    def read(cls, text: str | bytes, analyzer: bytes, task: bytes, group: str) -> Self:
        """Read a list; raise unless the analyzer signed it for this task and group."""
        fields = SignedDocument.from_json(text).read(analyzer, KIND, "task", "group", "keys")
        if hex_bytes(fields.text("task"), TASK_SIZE, "the task of the tag keys") != task:
            raise FalseClaim("the tag keys are those of another task")
        if fields.text("group") != group:
            raise FalseClaim("the tag keys are in another group than the contract names")
        size, keys = suite_named(group).ELEMENT_SIZE, {}
        for entry in fields.items("keys"):
            read = Fields(entry, "a tag key", "id", "public")
            with legal("a tag key"):
                key_id = check_whole("id", read.whole("id"), 1, MAX_KEY_ID)
            if key_id in keys:
                raise WireError("the tag keys must have distinct ids")
            keys[key_id] = hex_bytes(read.text("public"), size, "a public tag key")
        return cls(task, group, keys)
