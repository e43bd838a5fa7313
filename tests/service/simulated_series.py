"""The series of the simulation: the same people answer once in every round, and try to answer more often."""

import random
from collections import Counter
from typing import Any

from tests.service.admissions import TICKET_KEY
from tests.service.system import EPOCH, Client, System

from hubbub.errors import Problem
from hubbub.model.privacy import Budget
from hubbub.pipeline import device
from hubbub.service.task.contract import Contract, Series
from hubbub.service.task.manifest import Manifest

ROUNDS, ROUND_EPOCHS, ACCOUNTS = 3, 720, 14
OVER = ("closed-round", "series-ended", "closed-task")
"""Problems of bundles whose round is over."""


class SimulatedSeries:
    """A contract with rounds of half a day; the value of a report is the number of its account."""

    def __init__(self, system: System, rng: random.Random) -> None:
        self.system, self.random = system, rng
        start = int(system.clock.now()) // EPOCH - ROUND_EPOCHS // 2
        series = Series(ROUNDS, ROUND_EPOCHS, Budget(ROUNDS * 101.0, 0.0))
        self.contract: Contract = system.new_contract(series=series, task_start=start, task_end=start + series.epochs)
        system.serve(self.contract)
        self.answered: set[tuple[int, int]] = set()
        """Round and account of every report that may have been stored."""
        self.bundles: dict[tuple[int, int], bytes] = {}
        self.spent: dict[str, frozenset[int]] = dict.fromkeys(("shuffler", "analyzer"), frozenset())
        self.results: dict[str, dict[str, Any]] = {}
        self.forged = 0

    @property
    def number(self) -> int:
        """The round by the clock."""
        return self.contract.round_of(self.contract.epoch_at(self.system.clock.now()))

    @property
    def over(self) -> bool:
        """True if all rounds are over by the clock."""
        return self.contract.epoch_at(self.system.clock.now()) >= self.contract.task_end

    @property
    def is_open(self) -> bool:
        """True if the task is neither over nor closed."""
        return not self.over and self.system.shuffler.tasks.find(self.contract.task).row.state == "open"

    def ticket(self, number: int, account: int) -> bytes:
        return TICKET_KEY.mint(self.contract.context_of(number), f"account {account}")

    def seal(self, client: Client, number: int, account: int) -> bytes:
        payloads = device.payloads(str(account), self.contract.plan)
        return client.bundle(client.slots(payloads), self.ticket(number, account))

    def answer(self, client: Client, account: int) -> str:
        """Let an account answer in the current round unless it has; return the problem, if any."""
        number = self.number
        if (number, account) in self.answered:
            return ""
        bundle = self.seal(client, number, account)
        try:
            self.system.upload(bundle, contract=self.contract)
        except Problem as problem:
            if problem.name == "uncertain":
                self.answered.add((number, account))
            return problem.name
        assert not self.over, "a bundle was accepted after the last round"
        self.answered.add((number, account))
        self.bundles[number, account] = bundle
        return ""

    def repeat(self, client: Client) -> None:
        """Answer a second time in the current round, with the ticket of it and of the round before."""
        number, row = self.number, self.system.shuffler.tasks.find(self.contract.task).row
        done = [account for where, account in self.answered if where == number == row.round]
        if not done or row.state != "open" or self.over:
            return
        account = self.random.choice(done)
        found = self.refusal(self.seal(client, number, account))
        assert found in ("token-spent", "outdated-keys", "unavailable", *OVER), f"answered twice in a round: {found!r}"
        if number > 1:
            old = client.bundle(
                client.slots(device.payloads("0", self.contract.plan)), self.ticket(number - 1, account)
            )
            assert self.refusal(old), "the ticket of another round was accepted"

    def late(self, client: Client) -> None:
        """Send an answer of an earlier round that was never sent."""
        row = self.system.shuffler.tasks.find(self.contract.task).row
        if row.round > 1:
            missing = [a for a in range(ACCOUNTS) if (row.round - 1, a) not in self.answered]
            if missing:
                old = Client(self.contract, client.keys, client.now, row.round - 1)
                found = self.refusal(self.seal(old, row.round - 1, missing[0]))
                assert found in ("outdated-keys", "unavailable", *OVER), (
                    f"a bundle of a round that is over was accepted: {found!r}"
                )

    def refusal(self, bundle: bytes) -> str:
        try:
            self.system.upload(bundle, contract=self.contract)
        except Problem as problem:
            return problem.name
        return ""

    def forge(self) -> None:
        """A shuffler announces a round beyond the series."""
        self.forged += 1
        manifest = Manifest(
            task=self.contract.task, bucket=10_000 + self.forged, epoch=0, round=ROUNDS + self.random.randrange(1, 3),
            key_id=1, key_list="00" * 32, bundles=self.contract.min_batch_size,
            slots=self.contract.min_batch_size * self.contract.slots, chunks=("00" * 32,),
            sizes=(self.contract.min_batch_size * self.contract.slots,),
        )  # fmt: skip
        document = manifest.sign(self.system.identities["shuffler"])
        try:
            self.system.analyzer.put_manifest(manifest.batch, document)
        except Problem as problem:
            assert problem.name in ("series-ended", "forbidden"), problem.name

    def check(self) -> None:
        """Check what was spent, and that nobody is counted twice in a round."""
        analyzer, shuffler = self.system.analyzer, self.system.shuffler
        assert shuffler.totals(check=True)[self.contract.id].error == 0
        rounds = {"shuffler": shuffler._buckets.ledger, "analyzer": analyzer.ledger}
        for role, ledger in rounds.items():
            charged = ledger.rounds(self.contract.task)
            assert charged <= set(range(1, ROUNDS + 1)), "rounds beyond the contract's were spent"
            # A round of which nothing has left the shuffler may be taken back, with the store that charged it.
            left = ledger._credentials.fence().charged.get(self.contract.id, frozenset())
            assert self.spent[role] <= left <= charged, "what was spent is forgotten"
            self.spent[role] = left
            assert ledger.spent(self.contract).epsilon <= self.contract.total.epsilon
        counted: Counter[tuple[int, int]] = Counter()
        for name, result in self._read().items():
            assert len(result["rejected"]) == 0, f"reports of honest people were rejected in {name}"
            assert 1 <= result["round"] <= ROUNDS and result["spent"]["rounds"] <= ROUNDS
            assert result["spent"]["epsilon"] <= result["total"]["epsilon"]
            for account, value in enumerate(result.get("table", {}).get("value", [])):
                if value > 0.5:
                    assert round(value) == 1, "a person is twice in a batch"
                    counted[result["round"], account] += 1
        assert max(counted.values(), default=0) <= 1, "a person is counted twice in a round"
        assert set(counted) <= self.answered, "a report is counted in a round that it was not made for"

    def _read(self) -> dict[str, dict[str, Any]]:
        import json

        for batch in self.system.analyzer.batches(self.contract.task):
            name = str(batch["batch"])
            if name not in self.results:
                text = self.system.analyzer.store.result(name)
                assert text is not None
                self.results[name] = json.loads(text)
        return self.results
