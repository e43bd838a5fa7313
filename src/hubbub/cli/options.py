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
from hubbub.io.surveys import Survey, read_survey
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
SURVEY_HELP = "Survey file (TOML) with the questions; `hubbub survey` writes an example."


def _listed(option: str, make: Callable[..., Schema]) -> Callable[[Any], Survey | Schema]:
    """Return a function that makes a schema of the words after an option: the last are labels, others numbers."""

    def made(given: str | tuple[str, ...]) -> Schema:
        *numbers, labels = (given,) if isinstance(given, str) else given
        with _option(option):
            return make(*(_whole(option, one) for one in numbers), _labels(option, labels))

    return made


def _strings(given: tuple[int, bool]) -> Schema:
    with _option("--strings"):
        return Schema.strings(given[0], cut=given[1])


_SCHEMAS: dict[str, tuple[str, Callable[[Any], Survey | Schema]]] = {
    "bits": ("--bits", _listed("--bits", Schema.bits)),
    "one_hot": ("--one-hot", _listed("--one-hot", Schema.one_hot)),
    "at_most": ("--at-most", _listed("--at-most", Schema.at_most)),
    "string_bytes": ("--strings", _strings),
    "schema_path": ("--schema", read_schema),
    "survey_path": ("--survey", read_survey),
}
"""The options that give a schema, by parameter, and what each makes of its value."""


def schema_options(command: Command[R], *, required: bool = True, survey: bool = False) -> Command[R]:
    """Add the ways to give a schema; the command gets a ``schema``, or None if none is given or required.

    With ``survey``, a survey file is one of them; the command then also gets the ``weights`` of its questions.
    """
    known = {name: entry for name, entry in _SCHEMAS.items() if survey or name != "survey_path"}

    @click.option("--bits", metavar="LABELS", help=f"Any bits may be set. LABELS: {LABELS}.")
    @click.option("--one-hot", metavar="LABELS", help="Exactly one bit is set: one choice out of several.")
    @click.option("--at-most", nargs=2, metavar="K LABELS", help="At most K bits are set.")
    @click.option("--strings", "string_bytes", type=WHOLE, metavar="BYTES", help=STRINGS_HELP)
    @click.option("--cut", is_flag=True, help="With --strings: cut longer strings instead of refusing them.")
    @click.option("--schema", "schema_path", metavar="FILE", help="JSON file with the schema.")
    @functools.wraps(command)
    def wrapped(*args: Any, cut: bool, **rest: Any) -> R:
        given = {name: value for name in known if (value := rest.pop(name, None)) is not None}
        if len(given) > 1 or (required and not given):
            *others, last = (option for option, _ in known.values())
            limit = "exactly" if required else "at most"
            raise click.UsageError(f"give {limit} one of {', '.join(others)} and {last}")
        if "string_bytes" in given:
            given["string_bytes"] = given["string_bytes"], cut
        elif cut:
            raise click.UsageError("--cut needs --strings")
        found: Survey | Schema | None = None
        for name, value in given.items():
            found = known[name][1](value)
        if isinstance(found, Survey):
            return command(*args, schema=found.schema, weights=found.weights, **rest)
        return command(*args, schema=found, **rest)

    return click.option("--survey", "survey_path", metavar="FILE", help=SURVEY_HELP)(wrapped) if survey else wrapped


survey_options = functools.partial(schema_options, survey=True)
"""The ways to give a schema, and a survey file; the command gets a ``schema``, and ``weights`` of questions if any."""


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
