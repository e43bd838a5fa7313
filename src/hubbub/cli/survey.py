"""``survey``: a starter survey file, or a check of one."""

import click

from hubbub.cli import screen
from hubbub.cli.options import json_option, output_option
from hubbub.io.files import write_text
from hubbub.io.surveys import STARTER, Survey, read_survey


@click.command()
@click.argument("file", required=False)
@output_option("Write the example to this file")
@json_option
def survey(file: str | None, output: str | None, as_json: bool) -> None:
    """Write a starter survey file, or check one.

    Without FILE, writes a commented example with every kind of question. With FILE, checks it and lists its questions.

    \b
    Example: hubbub survey -o survey.toml
    Example: hubbub survey survey.toml
    """
    if file is None:
        if as_json:
            raise click.UsageError("give FILE with --json: the example is TOML")
        write_text(output or "-", STARTER)
        return
    if output is not None:
        raise click.UsageError("give FILE or -o: only the example can be written")
    found = read_survey(file)
    if as_json:
        screen.print_json({"schema": found.schema.to_document(), "weights": dict(found.weights)})
    else:
        _show(found)


def _show(found: Survey) -> None:
    questions = found.schema.questions
    rows = [(name, repr(one), f"{found.weights.get(name, 1):g}") for name, one in questions.items]
    screen.console().print(screen.grid("", ["question", "kind", "weight"], rows, left=2))
