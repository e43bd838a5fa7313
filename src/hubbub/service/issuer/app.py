"""The issuer as a program: its listeners, its keys and its store."""

from pathlib import Path

from hubbub.errors import InvalidInput
from hubbub.service.issuer.core import Issuer, issued_tasks, read_codes
from hubbub.service.issuer.http import issuer_app
from hubbub.service.issuer.signer import TokenKey
from hubbub.service.issuer.store import IssuerStore
from hubbub.service.program import public_context
from hubbub.service.runtime.cors import allow_origins
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.metrics import Metrics, disk_free, operations_app
from hubbub.service.runtime.process import PeriodicTask, ServiceFolder
from hubbub.service.runtime.server import Listener
from hubbub.service.runtime.settings import IssuerConfig
from hubbub.service.task.contract import load_contract
from hubbub.service.task.tokens import truncated_key_id

KEY_PATTERN = "*.pem"
CORS_HEADERS = "authorization, content-type"
"""Headers of a token request that a page of another origin may set; the code of the account is in the first."""


def load_keys(folder: Path) -> list[TokenKey]:
    """Return the token keys in a folder."""
    return [TokenKey.load(path) for path in sorted(folder.glob(KEY_PATTERN))]


def add_key(folder: Path) -> TokenKey:
    """Generate a key for one more task and store it in a folder of token keys.

    The last byte of its id differs from those of the folder's other keys, because requests name a key by that byte.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = {truncated_key_id(key.public) for key in load_keys(folder)}
    if len(taken) == 256:
        raise InvalidInput("an issuer can have at most 256 keys; remove those of finished tasks")
    while True:
        key = TokenKey.generate()
        if truncated_key_id(key.public) not in taken:
            break
    key.save(folder / f"{truncated_key_id(key.public):02x}.pem")
    return key


class IssuerProgram:
    """The issuer with the given settings."""

    def __init__(self, config: IssuerConfig) -> None:
        self.config, self.common = config, config.common
        common = self.common
        self._folder = ServiceFolder(common.folder, "issuer")
        minimum = common.min_batch_size
        contracts = [load_contract(path.read_bytes(), min_batch_size=minimum).contract for path in common.contracts]
        tasks = issued_tasks(contracts, load_keys(config.token_keys))
        url = common.store or f"sqlite:{common.folder / 'issuer'}.db"
        try:
            self._store = IssuerStore(lambda: open_database(url))
        except BaseException:
            self._folder.close()
            raise
        self.issuer = Issuer(self._store, tasks, read_codes(config.codes) if config.codes else None)
        self._draining = False

    def listeners(self) -> list[Listener]:
        """Return the listeners for token requests and for operators."""
        config, common = self.config, self.common
        public = public_context(config.certificate, config.certificate_key)
        app = allow_origins(issuer_app(self.issuer, config.account_header), config.origins, CORS_HEADERS)
        metrics = Metrics(lambda: {"disk_free": disk_free(common.folder)})
        return [
            Listener("tokens", app, config.listen, context=public, connections=common.connections),
            Listener("operations", operations_app(metrics, self.ready), config.operations),
        ]

    def loops(self) -> list[PeriodicTask]:
        """Return no periodic tasks."""
        return []

    def ready(self) -> bool:
        """Return True if tokens are issued."""
        return not self._draining and self.issuer.ready()

    def drain(self) -> None:
        """Report that no more requests are wanted."""
        self._draining = True

    def close(self) -> None:
        """Close the store and free the keys."""
        self._store.shut()
        self.issuer.close()
        self._folder.close()
