"""The shuffler with a fake analyzer, in one process with a simulated clock."""

from dataclasses import dataclass

from tests.service import system
from tests.service.fake_analyzer import FakeAnalyzer
from tests.service.system import EPOCH, START, Client, clear_plan, plan_of

from hubbub.service.task.contract import Contract

__all__ = ["EPOCH", "START", "Client", "System", "clear_plan", "plan_of"]


@dataclass
class System(system.System):
    """The shuffler with its store and credentials in a folder, and a fake analyzer that survives its restarts."""

    def start_analyzer(self) -> None:
        if not hasattr(self, "analyzer"):
            ages = {"lifetime": self.lifetime, "grace": self.grace}
            self.analyzer = FakeAnalyzer(self.folder, self.identities["analyzer"], self.clock, **ages)
            self.link = self.analyzer

    def shut_analyzer(self) -> None:
        self.analyzer.keyring.close()

    def serve_analyzer(self, contract: Contract, signed: bytes) -> None:
        del signed
        self.analyzer.contracts[contract.task] = contract

    def count(self) -> None:
        """Do nothing: the fake counts at once."""
