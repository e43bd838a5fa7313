"""The demonstration of the browser client: both services on this machine, a page with one question, a simulated crowd.

``python -m tools.demo_browser`` prints the address of the page, and runs until it is interrupted. Not for people's
data: one machine runs both operators.
"""

import argparse
import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import hubbub as hb
from hubbub.pipeline.device import encode
from hubbub.service.journal import Journal
from hubbub.service.provision import CONTRACT, provision_all, reader_token, serve_role, ticket_key_path
from hubbub.service.task.admission import TicketKey
from hubbub.service.task.contract import Contract
from hubbub.service.transport import HttpTransport
from hubbub.service.uploader import Uploader
from tools.page_server import PageServer, as_json

CLIENT = Path(__file__).parents[1] / "clients" / "js"
PAGE = "/client/demo/index.html"
LABELS = ("search", "news", "video", "mail", "empty page")
SHARES = (0.4, 0.25, 0.15, 0.1, 0.1)
PEOPLE = 300
EPOCH = 5


@dataclass(frozen=True, slots=True)
class Demo:
    """The running demonstration."""

    server: PageServer
    contract: Contract

    @property
    def address(self) -> str:
        """The address of the page."""
        return self.server.origin + PAGE


@contextlib.contextmanager
def running(folder: Path, *, port: int = 0, people: int = PEOPLE) -> Iterator[Demo]:
    """Run the services and the page; a crowd answers in the background."""
    plan = hb.plan_from(hb.Schema.one_hot(LABELS), people // 2, hb.Protocol(0.2), delta=1e-4)
    contract = provision_all(folder, plan, {"epoch": EPOCH, "min_batch_size": max(100, plan.n)})
    tickets = TicketKey.load(ticket_key_path(folder))
    with serve_role(folder, "analyzer") as analyzer, serve_role(folder, "shuffler") as shuffler:
        token, results, uploads = (
            reader_token(folder, analyzer),
            analyzer.addresses["results"],
            shuffler.addresses["uploads"],
        )
        documents = {
            "/contract.json": (folder / CONTRACT).read_bytes,
            "/operators.json": lambda: as_json(
                {"analyzer": contract.analyzer.hex(), "shuffler": contract.shuffler.hex()}
            ),
            # A real backend gives a ticket to the account of the session; here, everyone who asks is new.
            "/ticket.json": lambda: as_json({"ticket": tickets.mint(contract.task, os.urandom(16)).hex()}),
            "/results.json": lambda: as_json(last_result(results, token, contract)),
        }
        server = PageServer({"/client": CLIENT}, documents, {"/relay": uploads}, port=port)
        with server.running():
            crowd = threading.Thread(target=send_crowd, args=(contract, uploads, tickets, people), daemon=True)
            crowd.start()
            yield Demo(server, contract)
            crowd.join()


def send_crowd(contract: Contract, url: str, tickets: TicketKey, people: int) -> None:
    """Let simulated people answer, as the Python device does."""
    schema = contract.plan.schema
    values = [label for label, share in zip(LABELS, SHARES, strict=True) for _ in range(round(share * people))]
    with (
        contextlib.closing(HttpTransport(url)) as transport,
        contextlib.closing(Journal(":memory:", contract)) as journal,
    ):
        uploader = Uploader(contract, transport, journal)
        uploader.prepare(
            (encode(value, schema) for value in values), lambda: tickets.mint(contract.task, os.urandom(16))
        )
        uploader.send()


def last_result(url: str, token: str, contract: Contract) -> dict[str, Any]:
    """Return the last released batch, or an empty object."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        batches = client.get(f"/v1/tasks/{contract.id}/batches").json()["batches"]
        found = [client.get(f"/v1/batches/{one['batch']}").json() for one in batches]
    released = [one for one in found if one.get("state") == "committed"]
    return released[-1] if released else {}


def main() -> None:
    """Run the demonstration until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8700, help="port of the page")
    port = parser.parse_args().port
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(KeyboardInterrupt),
        running(Path(folder), port=port) as demo,
    ):
        print(
            f"Open {demo.address} and answer; {PEOPLE} simulated people answer as well. Stop with Ctrl-C.", flush=True
        )
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
