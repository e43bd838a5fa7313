"""Admissions for tests: tickets under one known key, so that every process of a test can mint them."""

import os

from hubbub.service.task.admission import Admission, TicketKey

ISSUER = "tests"
TICKET_KEY = TicketKey(b"a key that only tests may use..!")
BY_TICKET = Admission("ticket", ISSUER)
KEYS = {ISSUER: TICKET_KEY}


def new_ticket(task: bytes) -> bytes:
    """Return the ticket of an account that no other call uses."""
    return TICKET_KEY.mint(task, os.urandom(16))


def new_admission(task: bytes, size: int) -> bytes:
    """Return an admission of this size that a shuffler with :data:`KEYS` accepts."""
    assert size in (0, 32), "tokens need an issuer"
    return new_ticket(task) if size else b""
