"""Options and types of values that several commands share."""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from hubbub.errors import InvalidInput
from hubbub.io.documents import names_file, read_labels, read_schema
from hubbub.io.surveys import read_survey
from hubbub.model.privacy import TRUST_MODELS, Budget, TrustModel
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema

R = TypeVar("R")
Command = Callable[..., R]


class WholeNumber(click.ParamType[int]):
    """A whole number as people write it: 1000000, 1,000,000, 1_000_000 or 1e6.

    >>> [WHOLE.convert(text, None, None) for text in ("1000000", "1,000,000", "1_000_000", "1e6", "2.5e3")]
    [1000000, 1000000, 1000000, 1000000, 2500]
    """

    name = "integer"
    _GROUPED = re.compile(r"[+-]?\d{1,3}((,\d{3})+|(_\d{3})+)")
    _PLAIN = re.compile(r"([+-]?\d+)(?:\.(\d+))?(?:[eE]\+?(\d{1,3}))?")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with the accepted forms."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if self._GROUPED.fullmatch(text):
            return int(text.replace(",", "").replace("_", ""))
        if match := self._PLAIN.fullmatch(text):
            whole, decimals, power = match[1], (match[2] or "").rstrip("0"), int(match[3] or 0)
            if len(decimals) <= power:
                return int(whole + decimals + "0" * (power - len(decimals)))
        return self.fail(f"{text!r} is not a valid whole number, such as 1000000, 1,000,000 or 1e6", param, ctx)


class Fraction(click.ParamType[float]):
    """A share or relative error, as a number or a percentage: 0.001 or 0.1%.

    >>> FRACTION.convert("0.1%", None, None), FRACTION.convert("0.25", None, None)
    (0.001, 0.25)
    """

    name = "fraction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with the accepted forms."""
        text = str(value).strip()
        try:
            # Divided as text, so that 0.1% is the float 0.001.
            return float(f"{text[:-1].strip()}e-2") if text.endswith("%") else float(text)
        except ValueError:
            return self.fail(f"{text!r} is not a valid share, such as 0.001 or 0.1%", param, ctx)


WHOLE, FRACTION = WholeNumber(), Fraction()
FORMS = click.Choice(["csv", "tsv", "jsonl", "parquet"])
RELEASES = click.Choice(["records", "bits", "category", "strings"])
LABELS = "a number, a file with one label per line, or labels separated by commas"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
people_option = click.option("-n", "n", type=WHOLE, required=True, metavar="PEOPLE", help="Minimum batch size.")
plan_option = click.option(
    "--plan", "plan_path", required=True, metavar="FILE", help="Plan to use; - for standard input."
)
HONEST_HELP = "Fraction of users that follow the protocol."
honest_option = click.option(
    "--honest", "honest_fraction", type=FRACTION, default=1.0, metavar="SHARE", help=HONEST_HELP
)


def combined(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator that adds all options, in this order."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


def output_option(what: str, *, required: bool = False) -> Callable[[Command[R]], Command[R]]:
    """Return the option ``-o FILE``; ``what`` describes it. Required output goes to standard output by default."""
    default = "-" if required else None
    text = f"{what}; - for standard output."
    return click.option("-o", "--output", metavar="FILE", default=default, show_default=required, help=text)


STRINGS_HELP = "One string that nobody listed, of at most this many bytes; needs --trust shuffler-noise."
_SCHEMAS = ("bits", "one_hot", "at_most", "string_bytes", "schema_path")
"""Parameters of the options that give a schema, but for surveys."""


def schema_options(command: Command[R], *, required: bool = True) -> Command[R]:
    """Add the ways to give a schema; the command gets a ``schema``, or None if none is given or required."""

    @click.option("--bits", metavar="LABELS", help=f"Any bits may be set. LABELS: {LABELS}.")
    @click.option("--one-hot", metavar="LABELS", help="Exactly one bit is set: one choice out of several.")
    @click.option("--at-most", nargs=2, metavar="K LABELS", help="At most K bits are set.")
    @click.option("--strings", "string_bytes", type=WHOLE, metavar="BYTES", help=STRINGS_HELP)
    @click.option("--cut", is_flag=True, help="With --strings: cut longer strings instead of refusing them.")
    @click.option("--schema", "schema_path", metavar="FILE", help="JSON file with the schema.")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        bits: str | None,
        one_hot: str | None,
        at_most: tuple[str, str] | None,
        string_bytes: int | None,
        cut: bool,
        schema_path: str | None,
        **rest: Any,
    ) -> R:
        number = sum(option is not None for option in (bits, one_hot, at_most, string_bytes, schema_path))
        if number > 1 or (required and not number):
            limit = "exactly" if required else "at most"
            raise click.UsageError(f"give {limit} one of --bits, --one-hot, --at-most, --strings and --schema")
        if cut and string_bytes is None:
            raise click.UsageError("--cut needs --strings")
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
        elif string_bytes is not None:
            with _option("--strings"):
                schema = Schema.strings(string_bytes, cut=cut)
        elif schema_path is not None:
            schema = read_schema(schema_path)
        return command(*args, schema=schema, **rest)

    return wrapped


SURVEY_HELP = "Survey file (TOML) with the questions; `hubbub survey` writes an example."


def survey_options(command: Command[R]) -> Command[R]:
    """Add the ways to give a schema, and a survey file; the command gets a ``schema`` and ``weights`` of questions."""
    inner = schema_options(command, required=False)

    @click.option("--survey", "survey_path", metavar="FILE", help=SURVEY_HELP)
    @functools.wraps(inner)
    def wrapped(*args: Any, survey_path: str | None, **rest: Any) -> R:
        others = [rest[name] is not None for name in _SCHEMAS]
        if sum(others) + (survey_path is not None) != 1:
            raise click.UsageError("give exactly one of --bits, --one-hot, --at-most, --strings, --schema and --survey")
        if survey_path is None:
            return inner(*args, **rest)
        if rest["cut"]:
            raise click.UsageError("--cut needs --strings")
        survey = read_survey(survey_path)
        given = {name: value for name, value in rest.items() if name not in (*_SCHEMAS, "cut")}
        return command(*args, schema=survey.schema, weights=survey.weights, **given)

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
    @click.option("--k", type=WHOLE, default=1, help="Copies of each record.")
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


TRUST_HELP = (
    "Who must be honest: nobody; a shuffler that mixes, with users who add noise; or a shuffler that also draws fakes "
    "correctly and secretly."
)
CLEAR_HELP = "With --trust shuffling: also allow records in the clear among users' fakes."
COLLUSION_HELP = "Largest ε that remains over all rounds if shuffler and analyzer collude."


def trust_option(default: TrustModel | None) -> Callable[[Command[R]], Command[R]]:
    """Return the option ``--trust``; without a default, all kinds of trust are compared."""
    shown = TRUST_HELP if default else f"{TRUST_HELP}  [default: all of them]"
    return click.option("--trust", type=click.Choice(TRUST_MODELS), default=default, show_default=True, help=shown)


def _limit(name: str, default: float, text: str) -> Any:
    return click.option(name, type=float, default=default, show_default=False, metavar="NUMBER", help=text)


constraint_options = combined(
    click.option("--allow-clear", "clear", is_flag=True, help=CLEAR_HELP),
    _limit("--max-collusion-epsilon", math.inf, COLLUSION_HELP),
    honest_option,
    click.option("--joint", is_flag=True, help="Require whole records, which joint tables need."),
    _limit("--max-messages", math.inf, "Largest number of messages per user, as sealed by the services."),
    _limit("--max-bytes", math.inf, "Largest upload per user in bytes, as sealed by the services."),
    _limit("--max-client-weight", math.inf, "Largest number of people that one device may count for on a label."),
    _limit("--min-q", 0.0, "Smallest flip probability that a policy allows."),
    click.option("--rounds", type=WHOLE, default=1, help="Number of collections that share the budget."),
)
"""The constraints of ``plan`` and ``frontier`` besides the trust, which get them as ``**constraints``."""


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
