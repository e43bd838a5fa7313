"""Read results from an analyzer: all batches of its tasks in the order of their release, as tables or as JSON.

A result names what it knows. Fields that an analyzer does not state, such as the bucket of a batch, are left empty.
"""

import csv
import io
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from hubbub.errors import CommandFailure, InvalidInput, WireError, load_extra
from hubbub.results.result import MAX_TIME, table_of, time_text
from hubbub.service.transport import service_url

COLUMNS = {
    "task": "string",
    "bucket": "int64",
    "round": "int64",
    "epoch": "int64",
    "start": "string",
    "end": "string",
    "released": "string",
    "batch": "string",
    "state": "string",
    "question": "string",
    "item": "string",
    "unit": "string",
    "value": "float64",
    "stderr": "float64",
    "low": "float64",
    "high": "float64",
    "population_low": "float64",
    "population_high": "float64",
    "note": "string",
    "n": "int64",
    "epsilon": "float64",
    "delta": "float64",
    "spent_epsilon": "float64",
    "total_epsilon": "float64",
    "total_delta": "float64",
    "reason": "string",
}
"""The columns of a table of results, and their types in Arrow."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskResults:
    """All results of a task, ordered by bucket, and the ranges of buckets that are missing or incomplete."""

    task: str
    results: list[dict[str, Any]]
    gaps: list[dict[str, Any]]

    @classmethod
    def ordered(cls, task: str, results: Sequence[dict[str, Any]], gaps: Sequence[dict[str, Any]]) -> Self:
        """Return the results in the order of their buckets, or else of their epochs."""
        order = sorted(results, key=lambda one: (one.get("bucket") or 0, one.get("epoch") or 0))
        unique: dict[tuple[object, ...], dict[str, Any]] = {}
        for one in gaps:
            # A gap is in the listing, which knows how many of its buckets were counted, and in the next result.
            unique.setdefault((one.get("first"), one.get("last"), one.get("reason")), {}).update(one)
        return cls(task, order, sorted(unique.values(), key=lambda one: one.get("first") or 0))

    def rows(self) -> Iterator[Row]:
        """Yield a row per batch and label, or figure of a question; one for a batch without an estimate, and a gap."""
        gaps = list(self.gaps)
        for result in self.results:
            while gaps and (gaps[0].get("first") or 0) <= (result.get("bucket") or 0):
                yield self._gap_row(gaps.pop(0))
            yield from self._batch_rows(result)
        yield from map(self._gap_row, gaps)

    def _batch_rows(self, result: dict[str, Any]) -> Iterator[Row]:
        guarantee = result.get("guarantee") or {}
        spent, total = result.get("spent") or {}, result.get("total") or {}
        about = {name: result.get(name) for name in ("bucket", "round", "epoch", "batch", "state", "reason")}
        about |= {name: time_of(result, name) for name in ("start", "end", "released")}
        about |= {
            "task": self.task,
            "n": result.get("people"),
            "epsilon": _real(guarantee, "epsilon"),
            "delta": _real(guarantee, "delta"),
        }
        about |= {"spent_epsilon": _real(spent, "epsilon")}
        about |= {"total_epsilon": _real(total, "epsilon"), "total_delta": _real(total, "delta")}
        columns = table_of(result)
        if not columns["item"]:
            yield _row(**about)
        for row in zip(*columns.values(), strict=True):
            yield _row(**about, **dict(zip(columns, row, strict=True)))

    def _gap_row(self, gap: dict[str, Any]) -> Row:
        return _row(task=self.task, bucket=gap.get("first"), state="gap", reason=describe_gap(gap))


def time_of(result: dict[str, Any], name: str) -> str:
    """Return when the round of a result starts or ends, or the result was released, in UTC; empty if not stated.

    >>> time_of({"start": 1_893_628_800}, "start")
    '2030-01-03T00:00:00Z'
    """
    seconds = result.get(name)
    if not isinstance(seconds, int) or not 0 <= seconds < MAX_TIME:
        return ""
    return time_text(seconds)


def describe_gap(gap: dict[str, Any]) -> str:
    """Return a sentence about a gap; a bucket that was open when its store was restored is delivered incomplete.

    >>> describe_gap({"first": 4, "last": 6, "bundles": 1200, "reason": "restored"})
    'buckets 4 to 6 are missing or incomplete (1,200 bundles discarded): restored'
    >>> describe_gap({"first": 4, "last": 4, "bundles": 0, "reason": "restored", "counted": 1})
    'bucket 4 is missing or incomplete (0 bundles discarded): restored; its result stands'
    """
    first, last, bundles = gap.get("first"), gap.get("last"), gap.get("bundles")
    what = f"bucket {first} is" if first == last else f"buckets {first} to {last} are"
    count = f" ({bundles:,} bundle{'s' * (bundles != 1)} discarded)" if isinstance(bundles, int) else ""
    counted = gap.get("counted")
    standing = "its result stands" if first == last else f"the results of {counted} of them stand"
    known = f"; {standing}" if counted else ""
    return f"{what} missing or incomplete{count}: {gap.get('reason') or 'no reason is known'}{known}"


def _row(**values: Any) -> Row:
    return {name: values.get(name) for name in COLUMNS}


def _real(document: dict[str, Any], name: str) -> float | None:
    value = document.get(name)
    return None if value is None else float(value)


class ResultsClient:
    """An analyzer's interface for readers, with a bearer token."""

    def __init__(
        self, url: str, token: str, *, authority: Path | None = None, client: httpx.Client | None = None
    ) -> None:
        address = service_url("the analyzer's address", url)
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidInput("the token must be one line of printable ASCII characters")
        self._url, self._headers = address, {"authorization": f"Bearer {token}", "user-agent": ""}
        self._client = client or httpx.Client(verify=_context(httpx.URL(url), authority), trust_env=False, timeout=60.0)

    def tasks(self) -> list[str]:
        """Return the ids of the tasks that the token may read."""
        return [str(task) for task in _listed(self._get("/v1/tasks"), "tasks")]

    def results(self, task: str) -> TaskResults:
        """Return all results of a task."""
        listing = self._get(f"/v1/tasks/{task}/batches")
        batches = [one for one in _listed(listing, "batches") if isinstance(one, dict) and "batch" in one]
        results = [{**one, **self._get(f"/v1/batches/{one['batch']}")} for one in batches]
        gaps = [gap for one in (listing, *results) for gap in one.get("gaps") or []]
        return TaskResults.ordered(task, results, [gap for gap in gaps if isinstance(gap, dict)])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _get(self, path: str) -> dict[str, Any]:
        try:
            response = self._client.get(self._url + path, headers=self._headers)
        except httpx.HTTPError as error:
            raise CommandFailure(f"the analyzer at {self._url} did not answer: {type(error).__name__}") from None
        try:
            content = response.json()
        except ValueError:
            content = None
        if not response.is_success:
            told = content if isinstance(content, dict) else {}
            reason = told.get("detail") or told.get("title") or f"status {response.status_code}"
            raise CommandFailure(f"the analyzer at {self._url} refused the request: {reason}")
        if not isinstance(content, dict):
            raise WireError(f"the answer of {self._url} must be a JSON object; it may not be an analyzer")
        return content


def _context(place: httpx.URL, authority: Path | None) -> ssl.SSLContext | bool:
    if place.scheme == "http":
        # Loading all certificate authorities would take 50 ms.
        return False
    if authority is not None:
        authority.open("rb").close()
    try:
        return ssl.create_default_context(cafile=authority)
    except ssl.SSLError:
        raise WireError(f"{authority} must be a certificate in PEM") from None


def _listed(content: dict[str, Any], name: str) -> list[Any]:
    values = content.get(name)
    if not isinstance(values, list):
        raise WireError(f"the answer must have a list of {name}; the address may not be an analyzer's")
    return values


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return a table of results as CSV with a header; missing values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def to_parquet(rows: Sequence[Row]) -> bytes:
    """Return a table of results as a Parquet file; needs the extra ``frames``."""
    arrow, parquet = (load_extra(name, "frames", "Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in COLUMNS.items()])
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(list(rows), schema=schema), sink)
    return bytes(sink.getvalue())
