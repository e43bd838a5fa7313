"""The ledger of a population: which rounds of a contract were released, and what they cost each person so far.

Both services keep one, as a table to which rows are only added: one per batch. A round is charged when its first batch
is sealed, at the analyzer when it is announced; further batches of the round hold other people, because everyone
answers once per round, and cost nothing more. Charged rounds are also recorded in the fence of the credential folder,
so that a restored store does not forget any: what counts is the union of both.
"""

from hubbub.errors import Problem
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.database import Database
from hubbub.service.task.contract import Contract, Spending

LEDGER_TABLE = """ledger (task {blob}, bucket BIGINT, round BIGINT NOT NULL, epoch BIGINT NOT NULL, plan TEXT NOT NULL,
    rounds BIGINT NOT NULL, epsilon DOUBLE PRECISION NOT NULL, delta DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, bucket))"""


class RoundLedger:
    """The rounds that were charged to the people of each task."""

    def __init__(self, database: Database, credentials: Credentials) -> None:
        self._database, self._credentials = database, credentials

    def rounds(self, task: bytes) -> frozenset[int]:
        """Return the rounds of a task that were ever charged."""
        rows = self._database.rows("SELECT DISTINCT round FROM ledger WHERE task = ?", task)
        return frozenset(number for (number,) in rows) | self._credentials.fence().charged.get(task.hex(), frozenset())

    def check(self, contract: Contract, number: int) -> Spending:
        """Return what is spent with this round; raise ``series-ended`` if that is more than the contract allows.

        Call it before the transaction of :meth:`charge`: the first composition for a number of rounds takes a second.
        """
        total = contract.total
        if not 1 <= number <= total.rounds:
            raise Problem("series-ended", f"round {number} is not one of the {total.rounds} rounds of the contract")
        charged = self.rounds(contract.task) | {number}
        spent = contract.spending(len(charged))
        if len(charged) > total.rounds or spent.epsilon > total.epsilon:
            raise Problem("series-ended", f"round {number} would cost more than the total of the contract allows")
        return spent

    def charge(self, contract: Contract, bucket: int, number: int, epoch: int) -> None:
        """Charge the round of a batch, in the caller's transaction; a batch is charged once."""
        spent = self.check(contract, number)
        row = (contract.task, bucket, number, epoch, contract.plan.id, spent.rounds, spent.epsilon, spent.delta)
        values = ", ".join("?" * len(row))
        self._database.run(f"INSERT INTO ledger VALUES ({values}) ON CONFLICT (task, bucket) DO NOTHING", *row)

    def fence(self, contract: Contract, number: int) -> None:
        """Record a charged round where no restore can rewind it."""
        self._credentials.raise_fence(charged={contract.id: [number]})

    def spent(self, contract: Contract) -> Spending:
        """Return what all charged rounds cost each person together."""
        return contract.spending(len(self.rounds(contract.task)))

    def spent_at(self, contract: Contract, bucket: int) -> Spending:
        """Return what was spent when a batch was charged."""
        query = "SELECT rounds, epsilon, delta FROM ledger WHERE task = ? AND bucket = ?"
        rows = self._database.rows(query, contract.task, bucket)
        return Spending(*rows[0]) if rows else self.spent(contract)
