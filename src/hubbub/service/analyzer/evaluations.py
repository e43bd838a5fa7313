"""The evaluation of blinded strings: the analyzer applies the tag key of a task without seeing what it is applied to.

Every evaluation tests one string against all slots of a key, so their number within an hour is capped, durably: a cap
for the whole life of a key would let whoever uses it up stop the collection until the next key. A block of evaluations
is reserved in the store before the first of them is made; a process that dies forfeits the rest of its block, never the
count of those that were made. Each admission has a cap of its own, for the life of a key. An element that is repeated,
because a response was lost, counts once; what is no element counts for nothing.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hubbub.errors import InvalidInput, Problem, WireError
from hubbub.oprf import check_elements, suite_named
from hubbub.service.runtime.clock import Clock, SystemClock
from hubbub.service.runtime.database import Database
from hubbub.service.runtime.failpoints import reach
from hubbub.service.task.admission import TicketKey, Verifier, verifier
from hubbub.service.task.contract import Contract
from hubbub.service.task.keylist import TagKeys, tag_key
from hubbub.service.task.keys import Keyring
from hubbub.service.task.strings import EvaluationRequest, write_evaluation

EVALUATION_TABLES = (
    """evaluations (task {blob}, key_id BIGINT, hour BIGINT NOT NULL, used BIGINT NOT NULL,
       PRIMARY KEY (task, key_id))""",
    """evaluated (task {blob}, key_id BIGINT, client {blob}, element {blob},
       PRIMARY KEY (task, key_id, client, element)) {clustered}""",
)
"""The evaluations reserved under each key in its last hour, and those of each admission."""
BLOCKS = 1000
"""Blocks into which the evaluations of an hour are divided, so that a crash forfeits a thousandth of them at most."""
MAX_BLOCK = 1000
HOUR = 3600
LIMIT_RETRY = 3600
"""Seconds after which a client asks again once the cap of its admission is reached: the next key has another."""
_DIGEST = 16
_Name = tuple[bytes, int]


class Evaluations:
    """Evaluates elements for all served tasks of strings; for any thread."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        contract: Callable[[bytes], Contract],
        ticket_keys: Mapping[str, TicketKey],
        clock: Clock | None = None,
    ) -> None:
        self._database, self._keyring, self._contract, self._ticket_keys = database, keyring, contract, ticket_keys
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._hour, self._left = -1, Counter[_Name]()

    def check(self, contract: Contract) -> None:
        """Raise unless the admissions of a contract for strings can be verified, and its tags computed, here."""
        self._verifier(contract)
        assert contract.strings is not None
        if not suite_named(contract.strings.group).available():
            raise InvalidInput(
                f"the contract {contract.id} has tags in {contract.strings.group}, which needs libsodium on this "
                "machine: install it, or agree on a contract in P256-SHA256"
            )

    def tag_keys(self, task: bytes) -> TagKeys:
        """Return the public tag keys of a task, one for each key of the analyzer that exists."""
        contract = self._strings(task)
        assert contract.strings is not None
        self._keyring.refresh()
        group, found = contract.strings.group, {}
        for key in self._keyring.public_keys():
            private = self._keyring.private(key.id) if key.suite == contract.suite else None
            if private is not None:
                found[key.id] = tag_key(group, private, task, key.id).public
        return TagKeys(task, group, found)

    def evaluate(self, task: bytes, body: bytes) -> bytes:
        """Return the evaluation of a request, with its proof; raise a problem if it is refused."""
        contract = self._strings(task)
        terms = contract.strings
        assert terms is not None
        try:
            request = EvaluationRequest.from_bytes(body, terms.group, contract.admission.shown)
        except InvalidInput as error:
            raise Problem("malformed", str(error)) from None
        clients = self._clients(contract, request)
        private = self._private(contract, request.key_id)
        try:
            # Before they are counted: what is no element must not use up the evaluations of others.
            check_elements(terms.group, request.elements)
        except WireError:
            raise Problem("malformed", "an element is not one of the contract's group") from None
        self._admit(contract, request, clients)
        reach("evaluations-reserved")
        made = tag_key(terms.group, private, task, request.key_id).evaluate(request.elements)
        reach("evaluation-made")
        return write_evaluation(made)

    def _strings(self, task: bytes) -> Contract:
        contract = self._contract(task)
        if contract.strings is None:
            raise Problem("not-found", "the task does not collect strings")
        return contract

    def _clients(self, contract: Contract, request: EvaluationRequest) -> list[bytes]:
        """Return the id of the admission of each element; none with open admission."""
        check = self._verifier(contract)
        for index, admission in enumerate(request.admissions):
            if not check.valid(admission):
                raise Problem("bad-token", index=index)
        return [check.token_id(admission) for admission in request.admissions]

    def _verifier(self, contract: Contract) -> Verifier:
        return verifier(contract.admission, contract.task, self._ticket_keys)

    def _private(self, contract: Contract, key_id: int) -> bytes:
        for attempt in (1, 2):
            keys = {key.id for key in self._keyring.public_keys() if key.suite == contract.suite}
            private = self._keyring.private(key_id) if key_id in keys else None
            if private is not None:
                return private
            if attempt == 1:
                # Another replica may have made the key.
                self._keyring.refresh()
        raise Problem("outdated-keys", "the analyzer has no such key")

    def _admit(self, contract: Contract, request: EvaluationRequest, clients: list[bytes]) -> None:
        """Count the evaluations of a request against both caps, or raise."""
        assert contract.strings is not None
        name, count = (contract.task, request.key_id), len(request.elements)
        with self._lock:
            now = self._clock.now()
            if self._hour != int(now // HOUR):
                # What is left of a block belongs to the hour in which it was reserved.
                self._hour, self._left = int(now // HOUR), Counter()
            left, block = self._left[name], 0
            if clients or left < count:
                with self._database.transaction():
                    # Both or neither: an element that was recorded is not counted again.
                    if clients:
                        count = self._spend(name, request.elements, clients, contract.strings.per_client)
                    if left < count:
                        block = self._reserve(name, count - left, contract.strings.evaluations, now)
            self._left[name] = left + block - count

    def _spend(self, name: _Name, elements: tuple[bytes, ...], clients: list[bytes], cap: int) -> int:
        """Record the elements of each admission, and return how many are new, in the caller's transaction."""
        digests = [hashlib.sha256(element).digest()[:_DIGEST] for element in elements]
        rows = sorted({(*name, client, digest) for client, digest in zip(clients, digests, strict=True)})
        # Two replicas that count at once would not see each other's rows.
        self._database.hold(clients)
        new = len(self._database.insert_new("evaluated", rows, "element"))
        query = "SELECT COUNT(*) FROM evaluated WHERE task = ? AND key_id = ? AND client = ?"
        for client in sorted(set(clients)):
            if self._database.rows(query, *name, client)[0][0] > cap:
                raise Problem(
                    "evaluation-limit", "the evaluations of an admission are used up", retry_after=LIMIT_RETRY
                )
        return new

    def _reserve(self, name: _Name, needed: int, cap: int, now: float) -> int:
        """Reserve a block of evaluations of this hour, in the caller's transaction, and return how many they are."""
        self._database.run("INSERT INTO evaluations VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING", *name, self._hour)
        query = f"SELECT hour, used FROM evaluations WHERE task = ? AND key_id = ?{self._database.for_update}"
        ((hour, used),) = self._database.rows(query, *name)
        # Of two clocks that differ a little, the one behind must not begin the hour again, and the one ahead after it.
        current = max(self._hour, hour) if hour <= self._hour + 1 else self._hour
        used = used if hour == current else 0
        block = min(max(needed, min(MAX_BLOCK, cap // BLOCKS)), cap - used)
        if block < needed:
            wait = (current + 1 - self._hour) * HOUR - int(now % HOUR)
            raise Problem("evaluation-limit", "the evaluations of a key are used up for this hour", retry_after=wait)
        statement = "UPDATE evaluations SET hour = ?, used = ? WHERE task = ? AND key_id = ?"
        self._database.run(statement, current, used + block, *name)
        return int(block)

    def used(self, task: bytes) -> dict[int, int]:
        """Return the evaluations reserved under each key of a task in this hour."""
        query = "SELECT key_id, used FROM evaluations WHERE task = ? AND hour = ? ORDER BY key_id"
        return dict(self._database.rows(query, task, int(self._clock.now() // HOUR)))

    def share(self, contracts: Iterable[Contract]) -> float:
        """Return the largest share of a key's evaluations of this hour that is reserved, rounded down to 1 %."""
        found = 0.0
        for contract in contracts:
            if contract.strings is not None:
                most = max(self.used(contract.task).values(), default=0)
                found = max(found, most / contract.strings.evaluations)
        return int(100 * found) / 100

    def forget(self) -> None:
        """Delete the counts of keys that no longer exist."""
        self._keyring.refresh()
        kept = {key.id for key in self._keyring.public_keys()}
        for (key_id,) in self._database.rows("SELECT DISTINCT key_id FROM evaluated"):
            if key_id not in kept:
                self._database.run("DELETE FROM evaluated WHERE key_id = ?", key_id)
