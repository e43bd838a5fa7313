"""The issuer's store: a permanent record of the request it answered for each account, so that none gets two tokens.

A row holds digests only: of the account and of the request. The token itself never passes through the issuer.
"""

import hashlib

from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.store import Store

_TABLES = (
    """issued (task {blob}, account {blob}, request {blob} NOT NULL, PRIMARY KEY (task, account)) {clustered}""",
)
_ID_SIZE = 16
_REQUEST = "SELECT request FROM issued WHERE task = ? AND account = ?"


class IssuerStore(Store):
    """The requests that were answered."""

    role = "issuer"
    version = 1
    tables = _TABLES

    def claim(self, task: bytes, account: str, request: bytes) -> bool:
        """Record that an account's token is issued for a request; return False if it was issued for another one.

        Durable on return. The same request may be answered again: its signature is the same.
        """
        owner, digest = _owner(account), hashlib.sha256(request).digest()
        with self._writer.transaction():
            statement = "INSERT INTO issued VALUES (?, ?, ?) ON CONFLICT (task, account) DO NOTHING"
            self._writer.run(statement, task, owner, digest)
            known = bytes(self._writer.rows(_REQUEST, task, owner)[0][0])
            reach("issue-recorded")
        reach("issue-committed")
        return known == digest

    def issued_another(self, task: bytes, account: str, request: bytes) -> bool:
        """Return True if an account's token was issued for another request."""
        rows = self._reader.rows(_REQUEST, task, _owner(account))
        return bool(rows) and bytes(rows[0][0]) != hashlib.sha256(request).digest()

    def issued(self) -> int:
        """Return the number of tokens issued."""
        return int(self._reader.rows("SELECT COUNT(*) FROM issued")[0][0])


def _owner(account: str) -> bytes:
    return hashlib.sha256(b"hubbub/2 issuer account" + account.encode()).digest()[:_ID_SIZE]
