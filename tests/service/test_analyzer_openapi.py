"""The analyzer's OpenAPI document describes what its two interfaces answer, with real documents of the shuffler."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.service.analyzer_system import AnalyzerSystem
from tests.service.asgi import Answer, one

from hubbub.service.analyzer.http import delivery_app, evaluation_app, results_app
from hubbub.service.runtime.http import App
from hubbub.service.task.manifest import Gap

FOLDER = Path(__file__).parents[2] / "docs" / "openapi"
DOCUMENT: dict[str, Any] = json.loads((FOLDER / "analyzer.json").read_text("utf-8"))


@pytest.fixture
def apps(tmp_path: Path) -> Any:
    system = AnalyzerSystem(tmp_path)
    yield system, delivery_app(system.core, lambda: None), results_app(system.core)
    system.shut()


def _validate(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(value)


def conforms(answer: Answer, method: str, path: str) -> Any:
    """Check a response against the document, and return its content."""
    described = DOCUMENT["paths"][path][method.lower()]["responses"][str(answer.status)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    if "content" not in described:
        assert answer.body == b""
        return None
    (kind, content), *_ = described["content"].items()
    assert answer.headers["content-type"] == kind
    found = json.loads(answer.body)
    _validate(found, content["schema"])
    return found


def accepted(document: bytes, path: str) -> None:
    """Check a request against the document."""
    schema = DOCUMENT["paths"][path]["put"]["requestBody"]["content"]["application/json"]["schema"]
    _validate(json.loads(document), schema)


def test_every_answer_conforms(apps: tuple[AnalyzerSystem, App, App]) -> None:
    system, link, results = apps
    core, task = system.core, system.contract.id
    bearer = {"authorization": f"Bearer {core.store.add_token('all', 'read:*', now=0, expires=1e12)}"}

    def put(path: str, body: bytes, template: str) -> Any:
        answer = one(link, "PUT", path, body, {"content-length": str(len(body))})
        return conforms(answer, "put", template)

    conforms(one(link, "GET", "/v1/keys"), "get", "/v1/keys")
    key = system.key()
    slots = system.shuffler.people(["1"] * 20, key)
    sent = system.shuffler.batch(3, slots, key, chunk=15, gaps=(Gap(1, 1, 4, "restored"),))
    accepted(sent.document, "/v1/batches/{batch}")
    path = f"/v1/batches/{sent.id}"
    assert put(path, sent.document, "/v1/batches/{batch}") == {"missing": [0, 1]}
    for index, data in enumerate(sent.chunks):
        put(f"{path}/chunks/{index}", data, "/v1/batches/{batch}/chunks/{index}")
    while core.work():
        pass
    assert put(path, sent.document, "/v1/batches/{batch}")["body"]["state"] == "committed"
    doubled = system.shuffler.batch(3, slots, key, seed=1)
    assert put(path, doubled.document, "/v1/batches/{batch}")["type"] == "urn:hubbub:problem:fenced"
    stored = conforms(one(link, "GET", f"{path}/manifest"), "get", "/v1/batches/{batch}/manifest")
    assert stored["body"]["bucket"] == 3
    counter = conforms(one(link, "GET", f"/v1/tasks/{task}/counter"), "get", "/v1/tasks/{task}/counter")
    assert counter["body"]["bucket"] == 3
    statement = system.shuffler.keys_in_use(key.id)
    accepted(statement, "/v1/tasks/{task}/keys-in-use")
    put(f"/v1/tasks/{task}/keys-in-use", statement, "/v1/tasks/{task}/keys-in-use")
    older = system.shuffler.keys_in_use(number=0)
    assert put(f"/v1/tasks/{task}/keys-in-use", older, "/v1/tasks/{task}/keys-in-use")["status"] == 409
    answer = one(results, "GET", f"/v1/tasks/{task}/batches", headers=bearer)
    listed = conforms(answer, "get", "/v1/tasks/{task}/batches")
    assert [entry["bucket"] for entry in listed["batches"]] == [3]
    assert [gap["reason"] for gap in listed["gaps"]] == ["restored", "unknown here"]
    later = one(results, "GET", f"/v1/tasks/{task}/batches?after=3", headers=bearer)
    rest = conforms(later, "get", "/v1/tasks/{task}/batches")
    assert (rest["batches"], rest["gaps"]) == ([], listed["gaps"])
    for wrong in ("-1", "x", "", "1e3", "1" * 16):
        refused = one(results, "GET", f"/v1/tasks/{task}/batches?after={wrong}", headers=bearer)
        assert conforms(refused, "get", "/v1/tasks/{task}/batches")["type"] == "urn:hubbub:problem:malformed", wrong
    result = conforms(one(results, "GET", path, headers=bearer), "get", "/v1/batches/{batch}")
    assert (result["bucket"], result["people"]) == (3, 20)
    conforms(one(results, "GET", "/v1/tasks", headers=bearer), "get", "/v1/tasks")


def test_several_results_conform(apps: tuple[AnalyzerSystem, App, App]) -> None:
    system, _, results = apps
    core, task, key = system.core, system.contract.id, system.key()
    bearer = {"authorization": f"Bearer {core.store.add_token('all', 'read:*', now=0, expires=1e12)}"}
    system.deliver(system.shuffler.batch(3, system.shuffler.people(["1"] * 20, key), key))
    result = system.result(3)
    template, several = "/v1/tasks/{task}/results", f"/v1/tasks/{task}/results"
    for query, buckets in {"": [3], "?after=2&last=3": [3], "?after=3": [], "?last=2": []}.items():
        answer = conforms(one(results, "GET", several + query, headers=bearer), "get", template)
        assert [entry["bucket"] for entry in answer["results"]] == buckets, query
    assert conforms(one(results, "GET", several, headers=bearer), "get", template)["results"] == [result]
    for wrong in ("?after=x", "?last=-1"):
        refused = conforms(one(results, "GET", several + wrong, headers=bearer), "get", template)
        assert refused["type"] == "urn:hubbub:problem:malformed"
    other = one(results, "GET", f"/v1/tasks/{'cd' * 16}/results", headers=bearer)
    assert conforms(other, "get", template)["type"] == "urn:hubbub:problem:unknown-task"
    narrow = core.store.add_token("narrow", f"read:{'cd' * 16}", now=0, expires=1e12)
    refused = one(results, "GET", several, headers={"authorization": f"Bearer {narrow}"})
    assert conforms(refused, "get", template)["type"] == "urn:hubbub:problem:forbidden"
    assert one(results, "GET", several).status == 401


def test_all_routes_are_documented(apps: tuple[AnalyzerSystem, App, App]) -> None:
    served = set()
    for app in (*apps[1:], evaluation_app(apps[0].core)):
        assert isinstance(app, Starlette)
        for route in app.routes:
            assert isinstance(route, Route)
            served |= {(method, route.path) for method in (route.methods or set()) - {"HEAD"}}
    assert served == {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
