"""``verify``: check the privacy claim of a plan with the second implementation, :mod:`hubbub.checker`."""

import click

from hubbub.cli import screen, verdicts
from hubbub.cli.options import json_option
from hubbub.io.files import naming, read_text


@click.command()
@click.argument("file")
@json_option
@click.pass_context
def verify(ctx: click.Context, file: str, as_json: bool) -> None:
    """Check the privacy claim of a plan with a second, independent implementation.

    Re-derives an upper bound on the plan's delta in integer arithmetic, without code of the accountant. Exits with code
    0 if the whole claim is confirmed, 7 if a part of it cannot be confirmed here, and 4 if it is false or the plan is
    damaged.

    \b
    Example: hubbub verify plan.json
    """
    with naming(file):
        verdict = verdicts.check(read_text(file))
    screen.show(verdict.to_document(), verdict.rows(), as_json=as_json)
    ctx.exit(verdict.state.code)
