"""The command line: thin click commands over the public verbs; no mathematics here.

Commands are imported when they are called, so that ``hubbub --help`` and completion need no numpy.
"""

import importlib

import click

from hubbub import __version__
from hubbub.cli.errors import EPILOG, Careful

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "plan": ("plan", "Choose the protocol with the smallest error that meets a budget."),
    "frontier": ("plan", "Show every protocol that meets a budget, side by side."),
    "account": ("plan", "Compute the guarantee that given parameters give."),
    "calibrate": ("plan", "Find the least noise, or the least crowd, that meets a budget."),
    "randomize": ("collect", "Turn people's values into randomized reports."),
    "shuffle": ("collect", "Put the reports of a batch in random order, and add the shuffler's fakes."),
    "estimate": ("collect", "Estimate how many people have each label, with error bars."),
    "joint": ("collect", "Estimate how many people have each combination of labels."),
    "inspect": ("inspect", "Say what a plan or a file of reports holds, and check it."),
    "vectors": ("inspect", "Print the test vectors of the wire format, or check a file of them."),
    "send": ("send", "Randomize people's values, seal them, and send them to a shuffler."),
    "serve": ("serve", "Run a shuffler and an analyzer as services, or set them up."),
    "notes": ("noting", "Recompute every statement of the research notes, and say what became of it."),
    "study": ("study", "Simulate protocols on populations: predicted against observed error, coverage and cost."),
    "attacks": ("attacks", "Show what goes wrong: small batches, repeated questions, liars, owned users."),
    "audit": ("audit", "Attack a client as a black box, and hold what it shows against its plan."),
    "demo": ("demo", "Run a whole collection on synthetic people, and write a report."),
}
"""Where each command is, and what the list of commands says about it."""


class Lazy(Careful):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of a collection."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None for a name that there is not."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"hubbub.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """Collect sensitive answers so that each person hides in the crowd.

    plan → randomize → shuffle → estimate: every command reads files and writes files, and "-" stands for a pipe.
    """
