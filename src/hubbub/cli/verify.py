"""``verify``: check the privacy claim of a plan with the second implementation, :mod:`hubbub.checker`."""

import math

import click

from hubbub.checker import State, Verdict
from hubbub.cli import screen, verdicts
from hubbub.cli.errors import CORRUPT, UNCONFIRMED
from hubbub.cli.options import json_option
from hubbub.io.files import naming, read_text

CODES = {State.CONFIRMED: 0, State.NOT_CONFIRMED: UNCONFIRMED, State.FALSE: CORRUPT}
UNCHECKED = "the points of the curve; stderr, lower_bound, basis and method, which are no part of the privacy claim"


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
    rows = [("plan", f"{verdict.plan[:8]}…"), ("verdict", verdict.state.value)]
    rows += [(part.name, f"{part.state.value}: {part.reason}") for part in verdict.parts]
    screen.show(_record(verdict), [*rows, ("not checked", UNCHECKED)], as_json=as_json)
    ctx.exit(CODES[verdict.state])


def _record(verdict: Verdict) -> dict[str, object]:
    return {
        "plan": verdict.plan,
        "verdict": verdict.state.value,
        "epsilon": "inf" if math.isinf(verdict.epsilon) else verdict.epsilon,
        "delta": verdict.delta,
        "n": verdict.n,
        "bound": verdict.bound,
        "method": verdict.method,
        "assumptions": {"honest": verdict.honest, "shuffler": verdict.shuffler, "fakes": verdict.fakes},
        "parts": {part.name: {"verdict": part.state.value, "reason": part.reason} for part in verdict.parts},
        "not_checked": ["curve", "stderr", "lower_bound", "basis", "method"],
    }
