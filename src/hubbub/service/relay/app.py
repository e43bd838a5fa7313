"""The relay as a program: its listeners, and its connections to shuffler and analyzer."""

import ssl
from pathlib import Path

import httpx

from hubbub.service.program import public_context
from hubbub.service.relay.http import relay_app
from hubbub.service.runtime.cors import allow_origins
from hubbub.service.runtime.metrics import Metrics, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.ratelimit import RateLimiter
from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.settings import RelayConfig

UPSTREAM_SECONDS = 30.0
"""Seconds after which a service that does not respond counts as unreachable."""
_UPSTREAM_CONNECTIONS = 100


def connection(url: str, authority: Path | None) -> httpx.AsyncClient:
    """Return the connections to a service: the same headers for everybody, no cookies, no settings of the machine."""
    verify = ssl.create_default_context(cafile=authority) if url.startswith("https:") else True
    return httpx.AsyncClient(
        base_url=url.rstrip("/"),
        verify=verify,
        timeout=httpx.Timeout(UPSTREAM_SECONDS, connect=5.0),
        limits=httpx.Limits(max_connections=_UPSTREAM_CONNECTIONS, keepalive_expiry=60.0),
        headers={"user-agent": ""},
        trust_env=False,
    )


class RelayProgram:
    """The relay with the given settings; it has no store, no keys and no periodic tasks."""

    def __init__(self, config: RelayConfig) -> None:
        self.config, self.common = config, config.common
        self._folder = ServiceFolder(config.common.folder, "relay")
        self._draining = False

    def listeners(self) -> list[Listener]:
        """Return the listeners for clients and for operators."""
        config = self.config
        urls = {"shuffler": config.shuffler, "analyzer": config.analyzer}
        clients = {name: connection(url, config.authority) for name, url in urls.items()}
        limiter = RateLimiter(rate=config.rate, burst=config.burst, header=config.address_header)
        app = allow_origins(relay_app(clients, limiter if config.rate else None), config.origins, "content-type")
        public = public_context(config.certificate, config.certificate_key)
        metrics = Metrics(lambda: {"draining": float(self._draining)})
        return [
            Listener("requests", app, config.listen, context=public, connections=self.common.connections),
            Listener("operations", operations_app(metrics, self.ready), config.operations),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return no periodic tasks."""
        return []

    def ready(self) -> bool:
        """Return True if requests are forwarded; that the services respond is for their own operators to watch."""
        return not self._draining

    def drain(self) -> None:
        """Report that no more requests are wanted."""
        self._draining = True

    def close(self) -> None:
        """Unlock the folder; the connections belong to the event loop, and end with the process."""
        self._folder.close()
