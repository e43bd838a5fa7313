"""Stand-ins for an analyzer and a shuffler: results as the analyzer writes them, metrics as both export them."""

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import hubbub as hb
from hubbub.mechanisms.noise import noise_document

TASK, TOKEN = "ab" * 16, "a-secret-token"
LABELS = ("search", "news", "video", "mail", "empty page")
PEOPLE, EPOCH, START = 600, 5, 1_900_000_000
PLAN = hb.plan_from(hb.Schema.one_hot(LABELS), 500, hb.Protocol(0.1), delta=1e-6)
NO_PEOPLE = "fewer than 500 clients remain after charging the rejected slots to as few clients as can have sent them"


def drifting(bucket: int) -> list[float]:
    """Return the shares of a batch; the first label grows from batch to batch."""
    first = 0.2 + 0.4 * (1 - 1 / (1 + bucket / 20))
    return [first, *((1 - first) * share for share in (0.4, 0.3, 0.2, 0.1))]


def head(bucket: int, **changes: Any) -> dict[str, Any]:
    """Return the part of a result that a listing shows, too."""
    released = START + EPOCH * (bucket + 1)
    times = {"start": START, "end": START + EPOCH * 10**6, "released": released}
    place = {"bucket": bucket, "round": 1, "epoch": released // EPOCH, **times}
    return {"batch": f"{bucket:032x}", **place, "bundles": PEOPLE, "state": "committed"} | changes


COLUMNS = {
    "questions": "question",
    "labels": "item",
    "units": "unit",
    "values": "value",
    "stderr": "stderr",
    "low": "low",
    "high": "high",
}
"""Arguments that change columns of the table of a result, and the counts that follow from them."""


def committed(bucket: int, shares: Sequence[float] | None = None, /, **changes: Any) -> dict[str, Any]:
    """Return the result of a batch, whose estimate is without error."""
    values = np.array(drifting(bucket) if shares is None else shares) * PEOPLE
    noise = _estimate()
    reach = 1.96 * noise.stderr
    size = len(changes.get("labels") or LABELS)
    table: dict[str, Any] = {
        "question": [None] * size,
        "item": list(LABELS),
        "unit": ["people"] * size,
        "value": values.tolist(),
        "stderr": noise.stderr.tolist(),
        "low": (values - reach).tolist(),
        "high": (values + reach).tolist(),
        "population_low": [None] * size,
        "population_high": [None] * size,
        "note": [None] * size,
    }
    table |= {key: changes.pop(name) for name, key in COLUMNS.items() if name in changes}
    counts: dict[str, Any] = {
        "labels": table["item"],
        "values": table["value"],
        "unbiased": None,
        "stderr": table["stderr"],
        "one_choice": True,
        "remark": "unbiased",
        "noise": changes.pop("noise", noise_document(noise.noise)),
    }
    return {
        **head(bucket),
        "format": "hubbub result 3",
        "task": TASK,
        "plan": PLAN.id,
        "spent": {"rounds": 1, "epsilon": 1.0, "delta": 1e-6},
        "total": {"rounds": 3, "epsilon": 2.5, "delta": 1e-6},
        "gaps": [],
        "rejected": {},
        "charged": 0,
        "people": PEOPLE,
        "messages": PEOPLE,
        "level": 0.95,
        "simultaneous": False,
        "schema": PLAN.schema.to_document() | {"labels": table["item"]},
        "counts": [counts],
        "table": table,
        "distributions": {},
        "other": None,
        "notes": [],
        "guarantee": PLAN.guarantee.to_document(),
    } | changes


@functools.cache
def _estimate() -> hb.LabelView:
    counts = np.full(len(LABELS), PEOPLE // len(LABELS), np.int64)
    sizes: dict[str, Any] = {"n": PEOPLE, "messages": PEOPLE, "smallest_batch": PEOPLE}
    found: hb.LabelView = hb.estimate(hb.Tally(plan=PLAN.id, fakes=0, batches=1, counts=counts, **sizes), PLAN).question
    return found


def withheld(bucket: int) -> dict[str, Any]:
    """Return the result of a batch that was withheld."""
    kept = ("format", "task", "plan", "spent", "total", "gaps", "rejected", "charged")
    full = committed(bucket)
    return {**head(bucket, state="withheld"), **{name: full[name] for name in kept}, "reason": NO_PEOPLE}


class Services:
    """Both services behind one application; everything about them may change while they run."""

    def __init__(self, results: Sequence[dict[str, Any]] = ()) -> None:
        self.results = {one["batch"]: one for one in results}
        self.gaps: list[dict[str, Any]] = []
        self.tasks = [TASK]
        self.token, self.down, self.ready = TOKEN, False, True
        self.open = 300
        self.figures: dict[str, float] = {"disk_free": 0.5}
        self.requests: list[str] = []
        self.app = Starlette(
            routes=[
                Route("/v1/tasks", self._tasks),
                Route("/v1/tasks/{task}/batches", self._listing),
                Route("/v1/tasks/{task}/results", self._several),
                Route("/readyz", self._ready),
                Route("/metrics", self._metrics),
            ]
        )

    def add(self, *results: dict[str, Any]) -> None:
        """Release batches."""
        self.results |= {one["batch"]: one for one in results}

    def _refused(self, request: Request) -> Response | None:
        self.requests.append(f"{request.url.path}?{request.url.query}")
        if self.down:
            return _json({"title": "The service cannot store anything at this time; try again later."}, 503)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _json({"detail": "the token is unknown, revoked or expired"}, 401)
        return None

    async def _tasks(self, request: Request) -> Response:
        return self._refused(request) or _json({"tasks": self.tasks})

    async def _listing(self, request: Request) -> Response:
        after = int(request.query_params.get("after", "0"))
        names = ("batch", "bucket", "round", "epoch", "start", "end", "released", "bundles", "state")
        listed = [{name: one[name] for name in names} for one in self.results.values() if one["bucket"] > after]
        return self._refused(request) or _json({"batches": listed, "gaps": self.gaps})

    async def _several(self, request: Request) -> Response:
        after, last = (int(request.query_params[name]) for name in ("after", "last"))
        # Fewer than the analyzer returns, so that every reading takes several answers.
        found = sorted(self._between(after, last), key=lambda one: int(one["bucket"]))[:50]
        return self._refused(request) or _json({"results": found})

    def _between(self, after: int, last: int) -> list[dict[str, Any]]:
        if last - after < 200:
            names = (f"{bucket:032x}" for bucket in range(after + 1, last + 1))
            return [self.results[name] for name in names if name in self.results]
        return [one for one in self.results.values() if after < one["bucket"] <= last]

    async def _ready(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok" if self.ready else "no", 200 if self.ready and not self.down else 503)

    async def _metrics(self, request: Request) -> Response:
        del request
        lines = [
            f'hubbub_bundles{{task="{TASK}",state="open"}} {self.open}',
            f'hubbub_conservation_error{{task="{TASK}"}} 0',
        ]
        lines += [f"hubbub_{name} {value}" for name, value in self.figures.items()]
        return PlainTextResponse("\n".join(lines) + "\n", 503 if self.down else 200)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")
