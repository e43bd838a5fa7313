"""The studio with a running collection behind it: both services, and synthetic people whose answers drift.

``python -m tools.demo_studio`` opens the studio in the browser, and runs until Ctrl-C or SIGTERM. Explore and Live are
in one server. Not for people's data: one machine plays both operators.
"""

import argparse
import contextlib
import math
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import hubbub as hb
from hubbub.errors import HubbubError
from hubbub.pipeline.device import encode
from hubbub.service.journal import Journal
from hubbub.service.provision import provision_all, reader_token, serve_role, ticket_key_path
from hubbub.service.task.admission import TicketKey
from hubbub.service.task.contract import Contract
from hubbub.service.transport import HttpTransport
from hubbub.service.uploader import Uploader
from hubbub.studio.live.source import LiveSource
from hubbub.studio.server import DEFAULT_PORT, bound, run

LABELS = ("search", "news", "video", "mail", "empty page")
N, PEOPLE = 1000, 1100
"""People that a batch is planned for, and people who answer in an epoch."""
STRIDE = 617
"""A prime that divides no number of people, so that its multiples visit everybody."""
EPOCH, ROUND_EPOCHS, ROUNDS = 5, 24, 30
"""Seconds between two releases, epochs per round, and rounds: an hour in all."""


def drift(wave: int) -> list[float]:
    """Return the shares of the answers in a wave: search grows, video shrinks, and news goes up and down."""
    weights = (
        0.34 + 0.16 * math.tanh(wave / 30 - 0.5),
        0.22 + 0.07 * math.sin(wave / 6),
        0.24 - 0.12 * math.tanh(wave / 25 - 0.5),
        0.12,
        0.08 + 0.03 * math.sin(wave / 11 + 2),
    )
    return [weight / sum(weights) for weight in weights]


def answers(wave: int, people: int = PEOPLE) -> list[str]:
    """Return the answers of a wave of people, whose shares are those of :func:`drift`, in a mixed order.

    A wave that falls into two epochs must not be divided by its answers.

    >>> all(abs(answers(9).count(label) / PEOPLE - share) < 1e-3 for label, share in zip(LABELS, drift(9), strict=True))
    True
    """
    ends = [round(people * sum(drift(wave)[: place + 1])) for place in range(len(LABELS))]
    ordered = [LABELS[next(place for place, end in enumerate(ends) if person < end)] for person in range(people)]
    return [ordered[(person * STRIDE) % people] for person in range(people)]


class Crowd:
    """People who answer: a wave of them in every epoch, each account once per round."""

    def __init__(self, contract: Contract, url: str, tickets: TicketKey) -> None:
        self._contract, self._url, self._tickets = contract, url, tickets
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Let people answer in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Let nobody answer any more."""
        self._stopped.set()

    def _run(self) -> None:
        contract, wave = self._contract, 0
        while not self._stopped.is_set() and contract.accepts_at(time.time()):
            epoch = contract.epoch_at(time.time())
            with contextlib.suppress(HubbubError):
                self._send(wave, epoch)
                wave += 1
            self._stopped.wait(max(0.0, (epoch + 1) * contract.epoch + 0.2 - time.time()))

    def _send(self, wave: int, epoch: int) -> None:
        contract, first = self._contract, PEOPLE * ((epoch - self._contract.task_start) % ROUND_EPOCHS)
        number = contract.round_of(epoch)
        accounts = (self._tickets.mint(contract.context_of(number), f"account {first + one}") for one in range(PEOPLE))
        with (
            contextlib.closing(HttpTransport(self._url)) as transport,
            contextlib.closing(Journal(":memory:", contract, number)) as journal,
        ):
            uploader = Uploader(contract, transport, journal, pause=self._pause)
            uploader.prepare((encode(value, contract.plan.schema) for value in answers(wave)), accounts)
            sent = uploader.send()
        if sent.refused:
            print(f"the shuffler refused answers: {', '.join(sent.refused)}", flush=True)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise HubbubError("the demonstration stops")


@contextlib.contextmanager
def collecting(folder: Path) -> Iterator[Contract]:
    """Run both services and a crowd until the end of the block."""
    plan = hb.plan(hb.Schema.one_hot(LABELS), N, hb.Budget(1.0, 1e-6), family="response")
    terms = {"epoch": EPOCH, "rounds": ROUNDS, "round_epochs": ROUND_EPOCHS, "total_delta": 1e-5}
    contract = provision_all(folder, plan, terms)
    tickets = TicketKey.load(ticket_key_path(folder))
    with serve_role(folder, "analyzer") as analyzer, serve_role(folder, "shuffler") as shuffler:
        reader_token(folder, analyzer)
        crowd = Crowd(contract, shuffler.addresses["uploads"], tickets)
        crowd.start()
        try:
            yield contract
        finally:
            crowd.stop()
            # Both at once, so that neither waits for the other.
            for service in (shuffler, analyzer):
                service.process.terminate()


def check_port(port: int) -> None:
    """Exit with an error unless the studio can listen: the services take longer to start than this takes."""
    try:
        bound(port).close()
    except OSError as error:
        told = f"error: {error.filename}: {(error.strerror or 'cannot listen').lower()}"
        sys.exit(f"{told}\nhint: stop what listens there, or take any free port with make studio ARGS='--port 0'")
    except HubbubError as error:
        sys.exit(f"error: {error}")


def main() -> None:
    """Run the demonstration until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port of the studio on 127.0.0.1")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    given = parser.parse_args()
    check_port(given.port)
    # Until the studio serves and listens to signals itself, nothing would remove the folder with the keys.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("Starting both services, and synthetic people who answer …", flush=True)

    def ready(address: str) -> None:
        print(f"studio: {address}live follows the collection, {address} plans one (Ctrl-C to stop)", flush=True)
        if not given.no_open:
            webbrowser.open(f"{address}live")

    with tempfile.TemporaryDirectory() as folder, collecting(Path(folder)) as contract:
        print(f"A batch of at least {contract.min_batch_size:,} people every {contract.epoch} s.", flush=True)
        run(given.port, ready, live=LiveSource(folder=Path(folder)))


if __name__ == "__main__":
    main()
