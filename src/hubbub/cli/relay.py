"""``hubbub serve relay``: run the relay between clients and both services."""

from pathlib import Path

import click

from hubbub.service import provision


@click.command()
@click.argument("settings", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def relay(settings: Path) -> None:
    """Run the relay of a settings file until SIGTERM or Ctrl-C.

    A collection of strings needs a relay, because equal strings have equal bytes: a shuffler that also sees addresses
    learns who sent equal strings. The relay passes requests on without addresses and without any header of the client,
    and stores nothing. Its operator is neither that of the shuffler nor that of the analyzer.

    \b
    Example: hubbub serve relay /var/lib/hubbub-relay/settings.toml
    """
    provision.run_role(provision.RELAY, settings)
