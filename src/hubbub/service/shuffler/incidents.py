"""Incidents: events that an operator must know about, counted for the metrics and logged with a safe message."""

import logging
from collections import Counter

log = logging.getLogger("hubbub.pipeline.shuffle")


class Incidents:
    """The number of incidents by name; messages never contain people's data."""

    NAMES = (
        "analyzer-restored",
        "counter-unproven",
        "disk",
        "fenced",
        "key-lost",
        "keys-changed",
        "restored",
        "task-failed",
    )

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(self.NAMES, 0))

    def report(self, name: str, message: str) -> None:
        """Count and log an incident."""
        self.counts[name] += 1
        log.error("%s: %s", name, message)
