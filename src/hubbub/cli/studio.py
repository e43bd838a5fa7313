"""``studio``: choose a collection on a page in the browser."""

import os
import webbrowser
from pathlib import Path
from typing import Any

import click

from hubbub.cli.options import WHOLE, combined
from hubbub.cli.results import VARIABLE
from hubbub.errors import load_extra

PORT_HELP = "Port on 127.0.0.1; 0 takes any free one."
LIVE_HELP = "Running collection to follow: a folder of 'hubbub serve all', or an analyzer's address for readers."
OPERATIONS_HELP = "Operations address of the {}, for its health and alerts; default: that of the folder."
live_options = combined(
    click.option("--live", metavar="FOLDER|URL", help=LIVE_HELP),
    click.option(
        "--token-file", metavar="FILE", help=f"File with the bearer token; default: that of the folder, or ${VARIABLE}."
    ),
    click.option("--authority", metavar="FILE", help="Certificate authority to trust; default: those of the system."),
    click.option(
        "--contract", metavar="FILE", help="Contract of the collection, which says how many people a batch needs."
    ),
    click.option("--analyzer-operations", metavar="URL", help=OPERATIONS_HELP.format("analyzer")),
    click.option("--shuffler-operations", metavar="URL", help=OPERATIONS_HELP.format("shuffler")),
)
"""The options of the live page."""


@click.command()
@click.option("--port", type=WHOLE, default=8600, help=PORT_HELP)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@live_options
def studio(port: int, no_open: bool, live: str | None, **options: str | None) -> None:
    """Choose a collection on a page in the browser, and follow a running one.

    Sliders for people, ε, trust and rounds; certified protocols, their precision and their odds; simulated collections;
    the choice as a command, as Python, as plan.json or as a link. The page is served to this machine only, loads
    nothing from elsewhere, and stores nothing.

    \b
    Example: hubbub studio
    Example: hubbub studio --port 0 --no-open
    Example: hubbub studio --live here
    """
    server = load_extra("hubbub.studio.server", "studio", "The studio")
    source = _source(live, options)

    def ready(address: str) -> None:
        shown = address if source is None else f"{address}live"
        click.echo(f"studio: {shown} (Ctrl-C to stop)")
        if not no_open:
            webbrowser.open(shown)

    server.run(port, ready, live=source)


def _source(live: str | None, options: dict[str, str | None]) -> Any:
    """Return the source of the live page; None without one."""
    if live is None:
        given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
        if given:
            raise click.UsageError(f"{given[0]} needs --live")
        return None
    module = load_extra("hubbub.studio.live.source", "serve", "The live page")
    paths = {name: Path(str(options[name])) for name in ("token_file", "authority", "contract") if options[name]}
    is_address = live.startswith(("http://", "https://"))
    place = {"url": live} if is_address else {"folder": Path(live)}
    token = {"token": os.environ[VARIABLE].strip()} if is_address and os.environ.get(VARIABLE) else {}
    operations = {name: options[name] for name in ("analyzer_operations", "shuffler_operations")}
    source = module.LiveSource(**place, **token, **paths, **operations)
    source.check()
    return source
