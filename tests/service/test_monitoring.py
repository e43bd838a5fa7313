"""Alerts and dashboard name metrics that the services export; status and logs say what an operator needs."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.cli.conftest import call
from tests.service.asgi import one
from tests.service.live import LiveSystem, http, wait_until

from hubbub.cli.serve import warnings
from hubbub.errors import AnalyzerUnreachable, Problem
from hubbub.service.provision import ROLES
from hubbub.service.runtime.certificates import Authority
from hubbub.service.runtime.http import problem_of
from hubbub.service.runtime.metrics import LatencyHistogram, Metrics, TaskMetrics, operations_app
from hubbub.service.runtime.process import PeriodicTask

ROOT = Path(__file__).parents[2]
ALERTS: list[dict[str, Any]] = YAML(typ="safe").load(ROOT / "deploy" / "alerts.yml")["groups"][0]["rules"]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana.json").read_text("utf-8"))
NAME = re.compile(r"\bhubbub_\w+")
DAY = 86_400


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    tls = {"certificate": "link.pem", "certificate_key": "link.key"}
    folder = tmp_path_factory.mktemp("live")
    with LiveSystem(folder, min_batch_size=100, entries={"analyzer": tls}).running() as system:
        yield system


def exported(live: LiveSystem) -> set[str]:
    """Return the names of all metrics of both services."""
    texts = [http.get(live.address(role, "operations") + "/metrics").text for role in ROLES]
    return {name for text in texts for name in re.findall(r"^(hubbub_\w+)", text, re.MULTILINE)}


def test_alerts_and_dashboard_name_metrics_that_exist(live: LiveSystem) -> None:
    assert live.pour([[bundle] for bundle in live.seal([1] * 250)]) == {201: 250}
    wait_until(lambda: "hubbub_uploads_total" in exported(live), "the counts of an epoch")
    names = exported(live)
    expressions = [rule["expr"] for rule in ALERTS]
    expressions += [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in NAME.findall(expression)}
    assert used - names == set()
    # Every metric is on the dashboard, except the number of successful runs and commits.
    shown = {name for panel in BOARD["panels"] for target in panel["targets"] for name in NAME.findall(target["expr"])}
    assert {name for name in names - shown if not name.endswith(("_done", "_commits_total"))} == {"hubbub_draining"}


def test_every_alert_is_explained_in_the_run_book() -> None:
    text = (ROOT / "docs" / "howto" / "run-book.md").read_text("utf-8")
    headings = re.findall(r"^#+ (Hubbub\w+)$", text, re.MULTILINE)
    assert headings == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/howto/run-book.md#{rule['alert'].lower()}"


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_certificates_and_keys_have_a_time_of_expiry(live: LiveSystem) -> None:
    for role in ROLES:
        text = http.get(live.address(role, "operations") + "/metrics").text
        found = {name: float(value) for name, value in re.findall(r"^(hubbub_\w+) (\S+)$", text, re.MULTILINE)}
        days = [
            (found[f"hubbub_{name}_timestamp_seconds"] - time.time()) / DAY
            for name in ("link_certificate_expires", "link_authority_expires", "key_due")
        ]
        assert [round(one) for one in days] == [825, 3650, 7]


def upload_metrics(epoch: int, histogram: LatencyHistogram, metrics: Metrics) -> dict[str, float]:
    task = TaskMetrics(epoch=epoch, min_batch_size=1000, bundles={}, error=0)
    metrics.update({"aa": task}, {}, {"upload": histogram})
    text = one(operations_app(metrics, lambda: True), "GET", "/metrics").body.decode()
    return {bound: float(value) for bound, value in re.findall(r'upload_seconds_bucket\{le="(.*)"\} (.*)', text)}


def test_latencies_reveal_no_single_upload() -> None:
    histogram, metrics = LatencyHistogram(), Metrics()
    for number in range(250):
        histogram.observe(0.02 if number < 150 else 3.0)
    before = upload_metrics(1, histogram, metrics)
    assert before == {"0.01": 0, "0.05": 100, "0.25": 100, "1.0": 100, "5.0": 200, "+Inf": 200}
    for _ in range(1000):
        histogram.observe(0.001)
    assert upload_metrics(1, histogram, metrics) == before
    assert upload_metrics(2, histogram, metrics)["0.01"] == 1000


def test_logs_have_the_message_of_errors_of_hubbub_only(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: logs named exception classes without their safe messages."""
    failures: list[Exception] = [AnalyzerUnreachable("the analyzer responded 503"), KeyError("an answer")]
    left = list(failures)

    async def work() -> float:
        raise left.pop(0)

    async def scenario() -> None:
        for name in ("delivery", "tick"):
            waiting = len(left)
            task = asyncio.create_task(PeriodicTask(name, work).run())
            while len(left) == waiting:
                await asyncio.sleep(0.001)
            task.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
        assert problem_of(KeyError("an answer")).name == "unavailable"
        assert problem_of(AnalyzerUnreachable("no route")).name == "unavailable"
        assert isinstance(problem_of(Problem("busy")), Problem)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:2] == [
        "delivery failed (1 in a row): AnalyzerUnreachable: the analyzer responded 503",
        "tick failed (1 in a row): KeyError",
    ]
    assert "AnalyzerUnreachable: no route" in caplog.text
    assert "an answer" not in caplog.text


def test_status_is_for_people(live: LiveSystem) -> None:
    for role, columns in (("shuffler", ("accepted", "committed")), ("analyzer", ("arriving", "withheld"))):
        shown = call("serve", "status", str(live.folder / role))
        assert shown.exit_code == 0, shown.stderr
        assert "{" not in shown.stdout
        for word in (role, live.contract.id, "link_certificate", "UTC (+825 days)", "active", *columns):
            assert word in shown.stdout, word
        machine = json.loads(call("serve", "status", str(live.folder / role), "--json").stdout)
        assert machine["role"] == role
        assert live.contract.id in machine["tasks"]
        (rounds,) = machine["rounds"]
        assert (rounds["task"], rounds["round"]) == (live.contract.id, "1 of 1")
        assert rounds["spent_epsilon"] in (0, live.contract.plan.guarantee.epsilon)
        assert rounds["total_epsilon"] == live.contract.plan.guarantee.epsilon
    tokens = call("serve", "admin", str(live.folder / "analyzer"), "tokens").stdout
    assert "tokens: none" in tokens
    created = call("serve", "admin", str(live.folder / "analyzer"), "token", "board", "read:*", "--expires", "7")
    assert "UTC (+7 days)" in created.stdout
    assert "board" in call("serve", "admin", str(live.folder / "analyzer"), "tokens").stdout


def test_warnings_name_what_to_do() -> None:
    def certificate(days: float) -> dict[str, Any]:
        return {"certificates": [{"file": "link_certificate", "expires": days * DAY}]}

    assert warnings({"good": True, "key_due": 0, **certificate(31)}, 0.0) == []
    assert warnings(certificate(29), 0.0) == ["The link certificate expires in 29 days: renew it."]
    assert warnings(certificate(-1), 0.0) == ["The link certificate has expired."]
    assert "lost or counted twice" in warnings({"good": False}, 0.0)[0]
    assert "more than a day ago" in warnings({"key_due": 0}, 1.1 * DAY)[0]


@pytest.mark.long
def test_a_certificate_that_is_about_to_expire_is_shown(tmp_path: Path) -> None:
    live = LiveSystem(tmp_path)
    folder = tmp_path / "analyzer"
    (folder / "link.pem").write_bytes(Authority.load(folder).renew((folder / "link.pem").read_bytes(), days=5))
    try:
        live.start("analyzer")
        shown = call("serve", "status", str(folder)).stdout
    finally:
        live.kill("analyzer")
    assert "The link certificate expires in 5 days: renew it." in shown
