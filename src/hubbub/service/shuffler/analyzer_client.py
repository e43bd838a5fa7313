"""The requests of the shuffler to the analyzer."""

from typing import Protocol


class AnalyzerClient(Protocol):
    """Requests to the analyzer; a request that fails may have been processed."""

    def put_manifest(self, batch: str, document: bytes) -> bytes | list[int]:
        """Announce a batch; return its receipt if its result is durable, otherwise the missing chunks.

        Raise the problem ``fenced`` if the analyzer has another manifest under this number.
        """

    def put_chunk(self, batch: str, index: int, data: bytes) -> None:
        """Send a chunk of an announced batch."""

    def manifest(self, batch: str) -> bytes | None:
        """Return the manifest that the analyzer has for a batch; None if it knows no such batch."""

    def counter(self, task: str) -> bytes:
        """Return the analyzer's signed counter of the buckets announced for a task."""

    def put_keys_in_use(self, task: str, document: bytes) -> None:
        """Send the signed statement of the analyzer's keys that undelivered reports are sealed to."""

    def keys(self) -> bytes:
        """Return the analyzer's signed key list."""

    def tag_keys(self, task: str) -> bytes:
        """Return the analyzer's signed tag keys of a task of strings."""
