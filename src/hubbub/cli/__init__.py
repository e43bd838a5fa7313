"""The command line: thin click commands over the public functions, without mathematics of their own.

Commands are imported when they are called, so that ``hubbub --help`` and completion do not load numpy.
"""

import importlib

import click

from hubbub import __version__
from hubbub.cli.errors import EPILOG, ReportingGroup

SECTIONS = {
    "Plan a collection": {
        "survey": ("inspect", "Write a starter survey file, or check one."),
        "plan": ("plan", "Choose the protocol with the smallest error that meets a budget."),
        "frontier": ("frontier", "Compare all protocols that meet a budget, by the trust that they need."),
        "studio": ("studio", "Choose a collection on a page in the browser, and follow a running one."),
        "account": ("plan", "Compute the guarantee of given parameters, and the trust that it needs."),
        "calibrate": ("plan", "Find the least noise, or the smallest batch, that meets a budget."),
    },
    "Repeat a collection": {
        "ledger": ("ledger", "Keep the total of repeated collections in a file, within a budget."),
    },
    "Collect, file by file": {
        "randomize": ("collect", "Turn people's values into randomized reports."),
        "shuffle": ("collect", "Permute the reports of a batch and add the shuffler's fakes."),
        "estimate": ("estimate", "Estimate how many people have each label, with error bars."),
        "joint": ("estimate", "Estimate how many people have each combination of labels."),
        "compare": ("estimate", "Test whether two batches of different people differ, label by label."),
        "inspect": ("inspect", "Describe and check a plan, a contract or a file of reports."),
    },
    "Run as services": {
        "serve": ("serve", "Set up, run and administer a shuffler and an analyzer."),
        "send": ("send", "Randomize values, seal them, and upload them to a shuffler."),
        "results": ("results", "Read the results of an analyzer as a table, CSV, JSON or Parquet."),
    },
    "Verify and explain": {
        "verify": ("verify", "Check the privacy claim of a plan with a second, independent implementation."),
        "report": ("report", "Write one page about a plan and its results, for a lawyer, an analyst and an engineer."),
        "demo": ("demo", "Run a whole collection on synthetic people and write a report."),
        "study": ("study", "Simulate protocols on populations: predicted and observed error, coverage and cost."),
        "audit": ("audit", "Test a client or a shuffler against its plan as a black box."),
        "attacks": (
            "attacks",
            "Demonstrate attacks: small batches, repeated collections, malicious clients, compromised users.",
        ),
        "vectors": ("inspect", "Print the test vectors of the wire format, or check a file of them."),
    },
}
"""The commands by section: the module that defines each, and its summary."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class LazyGroup(ReportingGroup):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the help page."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None for an unknown name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"hubbub.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of commands without importing any."""
        del ctx
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="hubbub")
def main() -> None:
    """Collect sensitive answers so that each person hides in the crowd.

    plan → randomize → shuffle → estimate. Commands read and write files; "-" stands for standard input or output.
    """
