"""Bearer tokens of readers: named, expiring and revocable; only a hash of each is stored."""

import hashlib
import re
import secrets
from dataclasses import dataclass

from hubbub.errors import InvalidInput, reject
from hubbub.service.runtime.store import Store

TOKENS_TABLE = """tokens (name TEXT PRIMARY KEY, digest {blob} UNIQUE, scope TEXT NOT NULL, created BIGINT NOT NULL,
       expires BIGINT NOT NULL, revoked BIGINT)"""


@dataclass(frozen=True, slots=True)
class ReaderToken:
    """The description of a token; times are seconds since 1970."""

    name: str
    scope: str
    created: int
    expires: int
    state: str
    """``valid``, ``expired`` or ``revoked``."""


class TokenStore(Store):
    """The part of the analyzer's store that holds the tokens."""

    def add_token(self, name: str, scope: str, *, now: float, expires: float) -> str:
        """Create a token and return it; the name of an expired or revoked token can be used again."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
            reject("the name of a token", "have 1 to 64 letters, digits, dots, hyphens or underscores", name)
        token = secrets.token_urlsafe(32)
        with self._writer.transaction():
            known = "SELECT 1 FROM tokens WHERE name = ? AND revoked IS NULL AND expires > ?"
            if self._writer.rows(known, name, int(now)):
                raise InvalidInput(f"a token with the name {name} exists; revoke it first, or choose another name")
            self._writer.run("DELETE FROM tokens WHERE name = ?", name)
            statement = "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL)"
            self._writer.run(statement, name, _digest(token), scope, int(now), int(expires))
        return token

    def revoke_token(self, name: str, *, now: float) -> bool:
        """Revoke a token, forget its hash, and return True if it was not revoked before."""
        statement = "UPDATE tokens SET revoked = ?, digest = NULL WHERE name = ? AND revoked IS NULL"
        return self._writer.run(statement, int(now), name) > 0

    def reader_tokens(self, *, now: float) -> list[ReaderToken]:
        """Return all tokens, by name."""
        rows = self._writer.rows("SELECT name, scope, created, expires, revoked FROM tokens ORDER BY name")
        found = []
        for name, scope, created, expires, revoked in rows:
            state = "revoked" if revoked is not None else "valid" if now < expires else "expired"
            found.append(ReaderToken(name, scope, created, expires, state))
        return found

    def scope(self, token: str, *, now: float) -> str | None:
        """Return the scope of a valid token; looked up by its hash, so the time reveals nothing about other tokens."""
        query = "SELECT scope FROM tokens WHERE digest = ? AND revoked IS NULL AND expires > ?"
        rows = self._reader.rows(query, _digest(token), int(now))
        return rows[0][0] if rows else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
