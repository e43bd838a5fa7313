"""Admissions for tests: tickets under one known key, so that every process of a test can mint them, and tokens."""

import os

from cryptography.hazmat.primitives.asymmetric import rsa

from hubbub.service.issuer import TokenKey
from hubbub.service.task.admission import Admission, TicketKey
from hubbub.service.task.tokens import PendingToken

ISSUER = "tests"
TICKET_KEY = TicketKey(b"a key that only tests may use..!")
BY_TICKET = Admission("ticket", ISSUER)
KEYS = {ISSUER: TICKET_KEY}
TOKEN_KEY = TokenKey(rsa.generate_private_key(65537, 2048))
"""A new key for every process."""


def new_ticket(task: bytes) -> bytes:
    """Return the ticket of an account that no other call uses."""
    return TICKET_KEY.mint(task, os.urandom(16))


def new_admission(task: bytes, size: int) -> bytes:
    """Return an admission of this size that a shuffler with :data:`KEYS` accepts."""
    assert size in (16, 32), "tokens need an issuer"
    return new_ticket(task) if size == 32 else os.urandom(size)


def issued(key: TokenKey, challenged: bytes) -> bytes:
    """Return a new token of a key."""
    pending = PendingToken.generate(key.public)
    return pending.finalize(key.public, challenged, key.signer().sign(pending.request(key.public, challenged)[3:]))
