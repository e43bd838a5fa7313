"""Options shared by several commands."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from hubbub.errors import InvalidInput
from hubbub.io.documents import names_file, read_labels, read_schema
from hubbub.privacy import Budget
from hubbub.protocol import Fakes, Protocol
from hubbub.schema import Schema

R = TypeVar("R")
Command = Callable[..., R]

FORMS = click.Choice(["csv", "tsv", "jsonl", "parquet"])
RELEASES = click.Choice(["records", "bits", "category"])
LABELS = "a number, a file with one label per line, or labels separated by commas"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
people_option = click.option("-n", "n", type=int, required=True, metavar="PEOPLE", help="Minimum batch size.")
plan_option = click.option(
    "--plan", "plan_path", required=True, metavar="FILE", help="Plan to use; - for standard input."
)
HONEST_HELP = "Fraction of users that follow the protocol."
honest_option = click.option("--honest", "honest_fraction", type=float, default=1.0, metavar="SHARE", help=HONEST_HELP)


def combined(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator that adds all options, in this order."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


def output_option(what: str, *, required: bool = False) -> Callable[[Command[R]], Command[R]]:
    """Return the option ``-o FILE``; ``what`` describes it. Required output goes to standard output by default."""
    default = "-" if required else None
    text = f"{what}; - for standard output."
    return click.option("-o", "--output", metavar="FILE", default=default, show_default=required, help=text)


def schema_options(command: Command[R], *, required: bool = True) -> Command[R]:
    """Add the four ways to give a schema; the command gets a ``schema``, or None if none is given or required."""

    @click.option("--bits", metavar="LABELS", help=f"Any bits may be set. LABELS: {LABELS}.")
    @click.option("--one-hot", metavar="LABELS", help="Exactly one bit is set: one choice out of several.")
    @click.option("--at-most", nargs=2, metavar="K LABELS", help="At most K bits are set.")
    @click.option("--schema", "schema_path", metavar="FILE", help="JSON file with the schema.")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        bits: str | None,
        one_hot: str | None,
        at_most: tuple[str, str] | None,
        schema_path: str | None,
        **rest: Any,
    ) -> R:
        number = sum(option is not None for option in (bits, one_hot, at_most, schema_path))
        if number > 1 or (required and not number):
            limit = "exactly" if required else "at most"
            raise click.UsageError(f"give {limit} one of --bits, --one-hot, --at-most and --schema")
        schema: Schema | None = None
        if bits is not None:
            with _option("--bits"):
                schema = Schema.bits(_labels("--bits", bits))
        elif one_hot is not None:
            with _option("--one-hot"):
                schema = Schema.one_hot(_labels("--one-hot", one_hot))
        elif at_most is not None:
            with _option("--at-most"):
                schema = Schema.at_most(_whole("--at-most", at_most[0]), _labels("--at-most", at_most[1]))
        elif schema_path is not None:
            schema = read_schema(schema_path)
        return command(*args, schema=schema, **rest)

    return wrapped


def _labels(option: str, text: str) -> list[str] | int:
    """Read labels, and say which it was if a single word may be a label or a file."""
    labels = read_labels(text)
    if text.isdecimal() or "," in text:
        return labels
    if not names_file(text):
        click.echo(f"note: {option} {text!r} is one label; there is no file of this name", err=True)
    elif not Path(text).suffix:
        click.echo(f"note: {option} {text!r} is a file of labels in this folder", err=True)
    return labels


def budget_options(command: Command[R]) -> Command[R]:
    """Add ``--epsilon`` and ``--delta``; the command gets a ``budget``."""

    @click.option("--epsilon", type=float, required=True, help="Privacy budget ε.")
    @click.option("--delta", type=float, required=True, help="Failure probability δ.")
    @functools.wraps(command)
    def wrapped(*args: Any, epsilon: float, delta: float, **rest: Any) -> R:
        return command(*args, budget=Budget(epsilon, delta), **rest)

    return wrapped


def protocol_options(command: Command[R]) -> Command[R]:
    """Add the parameters of a protocol; the command gets ``q`` (or None), ``k``, ``m`` (or None) and ``release``."""

    @click.option("--q", type=float, help="Flip probability of every bit.")
    @click.option("--k", type=int, default=1, help="Copies of each record.")
    @click.option("--m", "fakes", metavar="FAKES", help=FAKES_HELP)
    @click.option("--release", type=RELEASES, default="records", help="What a message contains.")
    @functools.wraps(command)
    def wrapped(*args: Any, fakes: str | None, **rest: Any) -> R:
        with _option("--m"):
            m = None if fakes is None else _fakes(fakes)
        return command(*args, m=m, **rest)

    return wrapped


FAKES_HELP = """Fakes: the total number; or binomial:TRIALS:PROBABILITY or poisson:RATE, drawn by each user; or
laplace:SCALE:SHIFT or gaussian:SCALE:SHIFT, drawn by the shuffler for each category."""


def _fakes(text: str) -> int | Fakes:
    distribution, *numbers = text.split(":")
    try:
        match distribution, numbers:
            case "binomial", [trials, chance]:
                return Fakes.binomial(int(trials), float(chance))
            case "poisson", [rate]:
                return Fakes.poisson(float(rate))
            case "laplace" | "gaussian", [scale, shift]:
                return Fakes(distribution=distribution, scale=float(scale), shift=int(shift))
            case number, []:
                return Protocol(0.25, m=int(number)).m
    except InvalidInput:
        raise
    except ValueError:
        pass
    raise click.UsageError("--m must be a number or a distribution with its parameters, such as laplace:2:25")


@contextlib.contextmanager
def _option(name: str) -> Iterator[None]:
    """Name the option in errors about its value."""
    try:
        yield
    except InvalidInput as error:
        raise click.UsageError(f"{name}: {error}") from None


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise click.UsageError(f"{name} must start with a whole number")
    return int(text)
