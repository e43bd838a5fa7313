"""How much one address may send, counted without keeping who sent."""

import hashlib
import ipaddress
import os

from hubbub.service.runtime.http import Scope


class Allowance:
    """So many bundles a second of one address: a token bucket, by a keyed hash whose key is forgotten every hour.

    Addresses of IPv6 count by their first 64 bits. A peer on this machine is a proxy: then only a configured header can
    say who asks, and without it nobody is limited.

    >>> allowance = Allowance(rate=1, burst=2)
    >>> [allowance.take("192.0.2.1", 1, now=100.0) for _ in range(3)]
    [True, True, False]
    """

    KEPT = 3600.0
    MOST = 200_000

    def __init__(self, *, rate: float, burst: float, header: str = "") -> None:
        self.rate, self.burst, self.header = rate, burst, header.lower().encode()
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._key = os.urandom(16)
        self._buckets: dict[bytes, tuple[float, float]] = {}
        self._until = now + self.KEPT

    def address(self, scope: Scope) -> str | None:
        """Whom to count a request for; None if that is not known."""
        if self.header:
            named = [value for name, value in scope["headers"] if name == self.header]
            # What the nearest proxy added stands last; all before it is the sender's own claim.
            return named[-1].decode("latin-1").rpartition(",")[2].strip() if named else None
        client = scope.get("client")
        return client[0] if client else None

    def take(self, address: str, count: int, *, now: float) -> bool:
        """Whether the address may send so many bundles now; if so, they are counted."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return True
        if parsed.is_loopback and not self.header:
            return True
        if now > self._until or len(self._buckets) >= self.MOST:
            self._begin(now)
        text = parsed.packed[:8] if parsed.version == 6 else parsed.packed
        name = hashlib.blake2b(text, key=self._key, digest_size=8).digest()
        left, when = self._buckets.get(name, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.rate)
        if left < count:
            return False
        self._buckets[name] = (left - count, now)
        return True
