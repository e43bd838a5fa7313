"""Serve an application on a socket of this process."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from hubbub.service.runtime.server import Listener, Server, address_of, bind


@contextlib.contextmanager
def served(listener: Listener) -> Iterator[str]:
    """Serve a listener in a thread and return its address."""
    bound = bind(listener.address)
    server = Server(listener)
    thread = threading.Thread(target=asyncio.run, args=(server.serve([bound]),))
    thread.start()
    try:
        yield address_of(listener, bound)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
