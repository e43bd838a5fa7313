"""``studio``: choose a collection on a page in the browser."""

import webbrowser

import click

from hubbub.cli.options import WHOLE
from hubbub.extras import load_extra

PORT_HELP = "Port on 127.0.0.1; 0 takes any free one."


@click.command()
@click.option("--port", type=WHOLE, default=8600, help=PORT_HELP)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
def studio(port: int, no_open: bool) -> None:
    """Choose a collection on a page in the browser.

    Sliders for people, ε, trust and rounds; certified protocols, their precision and their odds; simulated collections;
    the choice as a command, as Python, as plan.json or as a link. The page is served to this machine only, loads
    nothing from elsewhere, and stores nothing.

    \b
    Example: hubbub studio
    Example: hubbub studio --port 0 --no-open
    """
    server = load_extra("hubbub.studio.server", "studio", "The studio")

    def ready(address: str) -> None:
        click.echo(f"studio: {address} (Ctrl-C to stop)")
        if not no_open:
            webbrowser.open(address)

    server.run(port, ready)
