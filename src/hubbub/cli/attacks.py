"""``hubbub attacks``: four attacks, simulated, computed exactly and drawn."""

import dataclasses
from typing import Any

import click

from hubbub.bits.entropy import SeededStreamNotForPeople, system
from hubbub.cli import screen
from hubbub.cli.options import json_option
from hubbub.io.files import check_destination, write_text
from hubbub.lab.attacks import ATTACKS, demonstrate
from hubbub.lab.attacks.evidence import Attack, page
from hubbub.report import load_matplotlib


@click.command()
@click.option("--only", type=click.Choice(list(ATTACKS)), multiple=True, help="Run only this attack; may be repeated.")
@click.option("--trials", type=click.IntRange(100, 10**6), default=4000, help="Simulations per point.")
@click.option("--seed", type=click.IntRange(0), help="Seed of a repeatable run; all people are synthetic.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML report to this file; - for a pipe.")
@json_option
def attacks(only: tuple[str, ...], trials: int, seed: int | None, output: str | None, as_json: bool) -> None:
    """Demonstrate attacks: small batches, repeated collections, malicious clients, compromised users.

    Each attack is simulated through the real client and compared with its exact value.

    \b
    Example: hubbub attacks --only batches --trials 500 --seed 7 -o attacks.html
    """
    if output is not None:
        check_destination(output)
        load_matplotlib()  # fails before the work rather than after it
    entropy = system if seed is None else SeededStreamNotForPeople(seed)
    shown = []
    names = only or tuple(ATTACKS)
    with screen.progressing() as progress:
        for done, name in enumerate(names):
            progress(f"attacking: {name}", done, len(names))
            shown.append(demonstrate(name, trials=trials, entropy=entropy))
    if output is not None:
        write_text(output, page(shown))
    if as_json:
        screen.print_json([_record(one) for one in shown])
    elif output != "-":
        for one in shown:
            _print(one)


def _record(shown: Attack) -> dict[str, Any]:
    return {
        "name": shown.name,
        "title": shown.title,
        "sentences": list(shown.sentences),
        "x": shown.x,
        "y": shown.y,
        "readings": [{**dataclasses.asdict(one), "agrees": one.agrees} for one in shown.readings],
    }


def _print(shown: Attack) -> None:
    view = screen.console()
    view.print(f"\n[bold]{shown.title}.[/] {' '.join(shown.sentences)}")
    rows = [
        (r.series, f"{r.x:g}", f"{r.exact:.4f}", f"{r.seen:.4f}", f"{r.low:.4f} – {r.high:.4f}") for r in shown.readings
    ]
    table = screen.grid("", ["attack", shown.x, "exact", "simulated", "interval"], rows)
    table.caption = shown.y
    view.print(table)
