"""The public figures of a service: its readiness, the metrics it exports, and the alerts that follow from them.

The rules are those of ``deploy/alerts.yml`` that need no history. Counts of bundles are rounded down by the shuffler,
and change only at the end of an epoch; nothing finer is read here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prometheus_client.parser import text_string_to_metric_families

from hubbub.errors import WireError
from hubbub.service.runtime.metrics import rounding_step

Severity = Literal["page", "ticket"]
Kind = Literal["value", "age", "left"]
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The readiness and the metrics of one service, which everybody may see."""

    role: str
    ready: bool
    values: Mapping[str, float] = field(default_factory=dict)
    """Figures without labels, by their names without the prefix."""
    bundles: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bundles by task and state, rounded down."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Conservation error by task."""


def read_figures(role: str, ready: bool, text: str) -> ServiceFigures:
    """Read the metrics of a service."""
    values: dict[str, float] = {}
    bundles: dict[tuple[str, str], int] = {}
    errors: dict[str, int] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix("hubbub_")
                if name == "bundles":
                    bundles[sample.labels["task"], sample.labels["state"]] = int(sample.value)
                elif name == "conservation_error":
                    errors[sample.labels["task"]] = int(sample.value)
                elif not sample.labels:
                    values[name] = float(sample.value)
    except (ValueError, KeyError, IndexError, OverflowError):
        raise WireError(f"the metrics of the {role} must be in the text format of Prometheus") from None
    return ServiceFigures(role, ready, values, bundles, errors)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of people who wait at the shuffler, as a range; ``high`` is None if the step is not known."""

    low: int
    high: int | None
    needed: int | None

    def to_document(self) -> dict[str, Any]:
        """Return the range as a JSON object."""
        return {"low": self.low, "high": self.high, "needed": self.needed}


def waiting(figures: ServiceFigures, task: str, min_batch_size: int | None) -> Waiting | None:
    """Return the range of people in the open bucket at the end of the last epoch; None if the shuffler does not say.

    >>> waiting(ServiceFigures("shuffler", True, bundles={("t", "open"): 300}), "t", 1000)
    Waiting(low=300, high=399, needed=1000)
    """
    found = figures.bundles.get((task, "open"))
    if found is None:
        return None
    high = None if min_batch_size is None else found + rounding_step(min_batch_size) - 1
    return Waiting(found, high, min_batch_size)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that an operator must look at; ``name`` is a section of the run book."""

    role: str
    name: str
    severity: Severity
    text: str

    def to_document(self) -> dict[str, Any]:
        """Return the alert as a JSON object."""
        return {"role": self.role, "name": self.name, "severity": self.severity, "text": self.text}


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit of one figure: of its value, of the seconds since it was due, or of the seconds left."""

    name: str
    severity: Severity
    figure: str
    kind: Kind
    limit: float
    text: str
    below: bool = False

    def broken(self, value: float, now: float) -> bool:
        """Return True if the figure is beyond its limit."""
        shown = value if self.kind == "value" else now - value if self.kind == "age" else value - now
        return shown < self.limit if self.below else shown > self.limit


RULES = (
    Rule(
        "HubbubDeliveryStuck",
        "page",
        "outbox_age_seconds",
        "value",
        3600,
        "A batch has not been delivered for an hour.",
    ),
    Rule("HubbubReleaseStuck", "page", "tick_age_seconds", "value", 300, "No batch is released: the tick fails."),
    Rule("HubbubCountingStuck", "page", "counting_age_seconds", "value", 1800, "Batches that arrived are not counted."),
    Rule(
        "HubbubKeysNotFetched",
        "page",
        "fetching_keys_age_seconds",
        "value",
        21_600,
        "No keys were fetched for 6 hours.",
    ),
    Rule("HubbubKeyOverdue", "ticket", "key_due_timestamp_seconds", "age", DAY, "A new encryption key is overdue."),
    Rule(
        "HubbubCertificateExpiring",
        "ticket",
        "link_certificate_expires_timestamp_seconds",
        "left",
        30 * DAY,
        "The certificate of the link expires within 30 days.",
        below=True,
    ),
    Rule(
        "HubbubCertificateExpiring",
        "ticket",
        "link_authority_expires_timestamp_seconds",
        "left",
        180 * DAY,
        "The authority of the link expires within 180 days.",
        below=True,
    ),
    Rule(
        "HubbubCertificateExpiring",
        "ticket",
        "certificate_expires_timestamp_seconds",
        "left",
        14 * DAY,
        "The public certificate expires within 14 days.",
        below=True,
    ),
    Rule(
        "HubbubCertificateExpired",
        "page",
        "link_certificate_expires_timestamp_seconds",
        "left",
        3 * DAY,
        "The certificate of the link expires within three days or has expired.",
        below=True,
    ),
    Rule("HubbubDiskLow", "ticket", "disk_free", "value", 0.2, "Less than a fifth of the disk is free.", below=True),
    Rule("HubbubDiskFull", "page", "disk_free", "value", 0.08, "The disk is almost full.", below=True),
    Rule("HubbubQueueFull", "page", "queue_depth", "value", 0.8, "Uploads arrive faster than they are stored."),
    Rule("HubbubDraining", "ticket", "draining", "value", 0, "The command 'drain' makes the shuffler refuse uploads."),
    Rule("HubbubStoreRestored", "page", "incidents_restored", "value", 0, "The store was restored from a backup."),
    Rule("HubbubStoreRestored", "page", "incidents_analyzer_restored", "value", 0, "The analyzer's counter went back."),
    Rule(
        "HubbubCounterUnproven",
        "page",
        "incidents_counter_unproven",
        "value",
        0,
        "The analyzer's counter includes a batch that the shuffler never sealed.",
    ),
    Rule("HubbubKeysChanged", "page", "incidents_keys_changed", "value", 0, "The analyzer changed a known key."),
    Rule("HubbubKeyLost", "page", "incidents_key_lost", "value", 0, "The analyzer destroyed a key still in use."),
    Rule("HubbubTaskFailed", "ticket", "incidents_task_failed", "value", 0, "A batch could not be released."),
    Rule("HubbubShuffleStuck", "page", "shuffling_age_seconds", "value", 7200, "A released batch is not shuffled."),
    Rule("HubbubShuffleStuck", "page", "incidents_disk", "value", 0, "A shuffle waits for free disk space."),
    Rule(
        "HubbubEvaluationsUsed",
        "ticket",
        "evaluations_used",
        "value",
        0.8,
        "Most evaluations of a string key are used.",
    ),
)
"""Limits of figures without labels."""


def alerts(figures: ServiceFigures, now: float) -> Iterator[Alert]:
    """Yield the alerts of a service; a certificate that has expired is not also announced to expire."""
    role = figures.role
    if not figures.ready:
        yield Alert(role, "HubbubDown", "page", f"The {role} is not ready.")
    for task, error in sorted(figures.errors.items()):
        if error:
            text = f"Bundles of task {task[:8]} are not accounted for. Do not publish its results."
            yield Alert(role, "HubbubConservationError", "page", text)
    for (task, state), count in sorted(figures.bundles.items()):
        if state == "fenced" and count:
            yield Alert(role, "HubbubFenced", "page", f"Bundles of task {task[:8]} were discarded by the fence.")
    broken = [rule for rule in RULES if rule.broken(figures.values.get(rule.figure, _GOOD[rule.figure]), now)]
    worse = {rule.figure for rule in broken if rule.severity == "page"}
    for rule in broken:
        if rule.severity == "page" or rule.figure not in worse:
            yield Alert(role, rule.name, rule.severity, rule.text)


_GOOD = {rule.figure: 1e12 if rule.below else (1e12 if rule.kind == "age" else 0.0) for rule in RULES}
"""Values that break no rule, for figures that a service does not have."""
