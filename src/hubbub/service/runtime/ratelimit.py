"""Rate limiting by sender address, without storing addresses, and the pauses of clients under overload."""

import hashlib
import ipaddress
import os
import secrets

from hubbub.service.runtime.http import Scope


class RateLimiter:
    """A token bucket of bundles per second and address, keyed by a hash whose key is discarded every hour.

    IPv6 addresses are grouped by their first 64 bits, except those that stand for an IPv4 address. A peer on this
    machine is a proxy: only a configured header can then name the sender, and without it nobody is limited. Senders
    whose address the header does not name are limited together.

    >>> limiter = RateLimiter(rate=1, burst=2)
    >>> [limiter.take("192.0.2.1", 1, now=100.0) for _ in range(3)]
    [True, True, False]
    """

    KEY_SECONDS = 3600.0
    MAX_ADDRESSES = 200_000

    def __init__(self, *, rate: float, burst: float, header: str = "") -> None:
        self.rate, self.burst, self.header = rate, burst, header.lower().encode()
        self._reset(0.0)

    def _reset(self, now: float) -> None:
        self._key = os.urandom(16)
        self._buckets: dict[bytes, tuple[float, float]] = {}
        self._key_expires = now + self.KEY_SECONDS

    def address(self, scope: Scope) -> str | None:
        """Return the address that a request counts for; None if it came through no socket, empty if none is named."""
        if self.header:
            values = [value for name, value in scope["headers"] if name == self.header]
            # The nearest proxy appends its entry; everything before it is the sender's own claim.
            return values[-1].decode("latin-1").rpartition(",")[2].strip() if values else ""
        client = scope.get("client")
        return client[0] if client else None

    def take(self, address: str, count: int, *, now: float) -> bool:
        """Count bundles of an address and return True, or return False if they exceed its rate."""
        parsed = _parsed(address)
        if parsed is not None and parsed.is_loopback and not self.header:
            return True
        if now > self._key_expires or len(self._buckets) >= self.MAX_ADDRESSES:
            self._reset(now)
        prefix = b"" if parsed is None else parsed.packed[:8]
        name = hashlib.blake2b(prefix, key=self._key, digest_size=8).digest()
        left, when = self._buckets.get(name, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.rate)
        if left < count:
            return False
        self._buckets[name] = (left - count, now)
        return True


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in one of the forms that proxies write, or None.

    >>> [str(_parsed(one)) for one in ("192.0.2.1", "192.0.2.1:4711", "::ffff:192.0.2.1", "[2001:db8::1]:4711", '"x"')]
    ['192.0.2.1', '192.0.2.1', '192.0.2.1', '2001:db8::1', 'None']
    """
    text = text.strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        # A zone names an interface of this machine, not a sender.
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


class RetryPauses:
    """Chooses ``Retry-After`` under overload, so that about a hundred requests per second are refused.

    Refusing costs time that storing needs: if every client repeats its request each second, a thousand clients take a
    fifth of the throughput. The pause therefore grows with the number of clients, and is random, so that they do not
    come back together.

    >>> pauses = RetryPauses()
    >>> pauses.after(0.0), max(pauses.after(0.5) for _ in range(1000)), 1 <= pauses.after(1.0) <= 19
    (1, 1, True)
    >>> pauses.after(60.0)
    1
    """

    PER_SECOND = 100
    LONGEST = 30

    def __init__(self) -> None:
        self._pause, self._since, self._refused = 1.0, 0.0, 0

    def after(self, now: float) -> int:
        """Return the seconds after which a request that is refused now should be repeated."""
        elapsed = now - self._since
        if elapsed >= 1.0:
            rate = self._refused / elapsed
            self._pause = min(max(self._pause * rate / self.PER_SECOND, 1.0), self.LONGEST)
            self._since, self._refused = now, 0
        self._refused += 1
        # Uniform with this mean; as precise as whole seconds allow.
        return 1 + secrets.randbelow(max(round(2 * self._pause) - 1, 1))
