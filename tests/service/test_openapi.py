"""The OpenAPI documents name all routes and problems, and schemathesis finds no deviation from them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.applications import Starlette
from starlette.routing import Route
from tests.service.system import System
from tests.service.test_issuer import build as build_issuer

from hubbub.service.analyzer.http import delivery_app, evaluation_app, results_app
from hubbub.service.issuer import issuer_app
from hubbub.service.runtime.http import KINDS, PREFIX, App, Receive, Scope, Send
from hubbub.service.shuffler.http import UploadApp, Writer, documents_app

schemathesis.serializer.alias("application/hubbub-bundle", "application/octet-stream")
schemathesis.serializer.alias("application/private-token-request", "application/octet-stream")
schemathesis.serializer.alias("application/hubbub-evaluation", "application/octet-stream")

FOLDER = Path(__file__).parents[2] / "docs" / "openapi"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def routes(*apps: App) -> set[tuple[str, str]]:
    found = set()
    for app in apps:
        assert isinstance(app, Starlette)
        for route in app.routes:
            assert isinstance(route, Route)
            found |= {(method, route.path) for method in (route.methods or set()) - {"HEAD"}}
    return found


@dataclass
class Services:
    system: System
    apps: dict[str, App]
    routes: dict[str, set[tuple[str, str]]]
    token: str
    batch: str


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Both services with a counted batch; the analyzer's two interfaces are combined into one application."""
    system = System(tmp_path_factory.mktemp("system"))
    client = system.client
    system.upload(*(client.seal("1") for _ in range(100)))
    (batch,) = system.next_epoch()
    system.deliver()
    issued = build_issuer(tmp_path_factory.mktemp("issuer"))
    issuing = issuer_app(issued[0])
    writer = Writer(system.shuffler.uploads.accept_all)
    documents, linked, read, evaluating = (
        documents_app(system.shuffler.tasks),
        delivery_app(system.analyzer, lambda: None),
        results_app(system.analyzer),
        evaluation_app(system.analyzer),
    )

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope.get("path", ""), scope.get("method")
        listing = path == "/v1/tasks" or path.endswith("/batches")
        reading = listing or (method == "GET" and path.startswith("/v1/batches/") and path.count("/") == 3)
        app = evaluating if path.endswith("/evaluations") else read if reading else linked
        await app(scope, receive, send)

    yield Services(
        system,
        {
            "shuffler": UploadApp(system.shuffler, writer, system.workers, documents),
            "analyzer": both,
            "issuer": issuing,
        },
        {
            "shuffler": routes(documents) | {("POST", "/v1/tasks/{task}/bundles")},
            "analyzer": routes(linked, read, evaluating),
            "issuer": routes(issuing),
        },
        system.analyzer.store.add_token("all", "read:*", now=0, expires=1e12),
        batch,
    )
    writer.close()
    system.shut()
    issued[1].shut()


@pytest.mark.parametrize("name", ["shuffler", "analyzer", "issuer"])
def test_all_routes_and_problems_are_documented(name: str, services: Services) -> None:
    content = document(name)
    documented = {(method.upper(), path) for path, methods in content["paths"].items() for method in methods}
    assert documented == services.routes[name]
    assert content["components"]["schemas"]["Problem"]["properties"]["type"]["enum"] == [
        PREFIX + kind for kind in KINDS
    ]


def explore(name: str, services: Services, examples: int) -> None:
    schema = schemathesis.openapi.from_dict(document(name))
    schema.app = services.apps[name]
    known = {"task": services.system.contract.id, "batch": services.batch}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        @given(case=operation.as_strategy(), known_ids=st.booleans(), with_token=st.booleans())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )
        def call(case: Any, known_ids: bool, with_token: bool) -> None:
            if known_ids:
                case.path_parameters = {**(case.path_parameters or {}), **known} if case.path_parameters else {}
            headers = {"authorization": f"Bearer {services.token}"} if with_token else {}
            case.call_and_validate(headers=headers, checks=CHECKS)

        call()


@pytest.mark.parametrize("name", ["shuffler", "analyzer", "issuer"])
def test_schemathesis(name: str, services: Services) -> None:
    explore(name, services, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shuffler", "analyzer"])
def test_schemathesis_at_length(name: str, services: Services) -> None:
    explore(name, services, 1500)
