"""The command line: thin click commands over the public verbs; no mathematics here."""

import click

from hubbub import __version__
from hubbub.cli.demo import demo

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """Collect sensitive answers so that each person hides in the crowd."""


main.add_command(demo)
