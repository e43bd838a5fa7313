"""Simulated collections under a plan, on a chosen or a pasted distribution; nothing that was pasted is kept."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hubbub.bits.entropy import system
from hubbub.errors import InvalidInput, InvalidRecord, check_whole, reject
from hubbub.lab.answers import decoded, draw_answers, encoded, results, true_figures
from hubbub.lab.populations import Population
from hubbub.lab.simulation import left_of, tallies_by_counts
from hubbub.mechanisms.chances import drawn_by, table
from hubbub.model.plans import Plan
from hubbub.model.questions import Flag, Number, Scale
from hubbub.model.schema import Schema
from hubbub.numeric.shown import conditional_interval
from hubbub.pipeline.records import Collection
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import View
from hubbub.results.scales import ScaleView

Numbers = NDArray[np.int64]
Panel = dict[str, Any]
SHAPES = {"even": 0.0, "few": 1.0, "rare": 2.0}
"""Distributions to choose from, as exponents of Zipf's law."""
DRAWS = 24
"""Further collections, whose estimates are shown beside the first."""
SHOWN = 16
"""Labels of one panel, the most frequent ones."""
SAMPLED = 20_000
"""People that stand for all others in a survey."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
STRINGS, EVENLY = 10_000, 200
"""Strings of a synthetic population, and people for each of them if all are held evenly."""
PASTED = 20_000
TRUTHS = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}


def trials(plan: Plan, shape: str, shares: Sequence[float], rows: str) -> list[Panel]:
    """Return a panel for each question: the truth, the estimate with its interval, and other collections."""
    if plan.protocol.sends_strings:
        return [_strings(plan, _held(shape, plan.n, shares))]
    if plan.schema.named:
        counts, truth = _survey(plan, _pasted(rows, plan.schema) if rows else _drawn(shape, plan))
    else:
        counts = true_counts(plan, shares or _shares(shape, plan.schema))
        truth = {"": counts.astype(np.float64)}
    found = [results(one, plan) for one in tallies_by_counts(counts, plan.n, plan, 1 + DRAWS, entropy=system)]
    return [_panel(name, [one[name] for one in found], true) for name, true in truth.items()]


def _held(shape: str, n: int, shares: Sequence[float]) -> Numbers:
    """Return how many people hold each string: as given, or of some thousand strings by Zipf's law."""
    if shares:
        if not (all(math.isfinite(one) and one >= 0 for one in shares) and 0 < sum(shares) < math.inf):
            reject("shares", "be numbers of at least 0 with a sum above 0")
        return _apportioned(np.array(shares, np.float64), n)
    exponent = SHAPES[shape]
    number = STRINGS if exponent else max(1, min(STRINGS, n // EVENLY))
    return _apportioned(np.arange(1, number + 1, dtype=np.float64) ** -exponent, n)


def _strings(plan: Plan, held: Numbers) -> Panel:
    """Return the most frequent strings that are shown, and how many there are; ``others`` are of those that show it."""
    drawn = drawn_by(plan)
    first, *further = left_of(held, plan, 1 + DRAWS, system)
    chances = table(drawn)
    rows = []
    for place in np.argsort(-held, kind="stable")[:SHOWN].tolist():
        if not first[place]:
            continue
        low, high = conditional_interval(chances, int(first[place]), 0.95)
        others = [float(left[place] + drawn.mean) for left in further if left[place]]
        ends = {"low": float(low), "high": float(high), "others": others}
        rows.append(
            {"label": str(place), "truth": float(held[place]), "estimate": float(first[place] + drawn.mean), **ends}
        )
    return {"name": "", "unit": "people", "rows": rows, "shown": int((first > 0).sum()), "held": int((held > 0).sum())}


def _shares(shape: str, schema: Schema) -> list[float]:
    odds = np.arange(1, schema.width + 1) ** -SHAPES[shape]
    return list((odds / odds.sum()).tolist() if schema.exclusive else (odds / 2).tolist())


def true_counts(plan: Plan, shares: Sequence[float]) -> Numbers:
    """Return numbers of people with these shares, which add up to the batch if everyone has exactly one answer.

    >>> from hubbub import Protocol, plan_from
    >>> true_counts(plan_from(Schema.one_hot(3), 10, Protocol(0.1), delta=1e-2), [1, 1, 1]).tolist()
    [4, 3, 3]
    """
    schema, n = plan.schema, plan.n
    if len(shares) != schema.width or not all(math.isfinite(one) and one >= 0 for one in shares):
        reject("shares", f"be {schema.width} numbers of at least 0")
    given = np.array(shares, np.float64)
    if schema.exclusive:
        if not 0 < given.sum() < math.inf:
            reject("shares", "have a sum above 0")
        return _apportioned(given, n)
    given = np.minimum(given, 1.0)
    counts: Numbers = np.floor(given * min(1.0, schema.max_set / max(given.sum(), 1e-300)) * n).astype(np.int64)
    return counts


def _apportioned(weights: NDArray[np.float64], n: int) -> Numbers:
    """Return whole numbers in proportion to weights, with the sum n, by largest remainders."""
    exact = weights / weights.sum() * n
    whole: Numbers = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: n - int(whole.sum())]] += 1
    return whole


def _drawn(shape: str, plan: Plan) -> Collection:
    population = Population(exponent=SHAPES[shape])
    answers = draw_answers(population, plan.schema, min(plan.n, SAMPLED), entropy=system)
    return encoded(answers, plan.schema, entropy=system)


def _pasted(rows: str, schema: Schema) -> Collection:
    """Return the records of pasted answers: a header with the questions, and a line for each person."""
    try:
        header, *lines = csv.reader(io.StringIO(rows.strip()), skipinitialspace=True)
    except (csv.Error, ValueError):
        raise InvalidInput("the pasted lines must be a header and lines of answers, separated by commas") from None
    names = [name.strip() for name in header]
    asked = dict(schema.questions.asked)
    if sorted(names) != sorted(asked):
        reject("the first pasted line", f"name the questions: {', '.join(asked)}")
    check_whole("the number of pasted lines", len(lines), 1, PASTED)
    columns: dict[str, list[object]] = {name: [] for name in names}
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise InvalidRecord(number, f"must have {len(names)} cells")
        for name, cell in zip(names, line, strict=True):
            columns[name].append(_answer(asked[name], cell.strip(), number))
    return Collection.from_values(columns, schema, entropy=system)


def _answer(question: object, cell: str, number: int) -> object:
    if isinstance(question, Flag):
        if cell.lower() not in TRUTHS:
            raise InvalidRecord(number, "must answer yes or no where that is asked")
        return TRUTHS[cell.lower()]
    if not isinstance(question, Number | Scale):
        return cell
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidRecord(number, "must answer with a number where one is asked")
    return value


def _survey(plan: Plan, people: Collection) -> tuple[Numbers, dict[str, NDArray[np.float64]]]:
    """Return the counts and the true figures of the whole batch, for which the people stand in proportion."""
    schema, factor, counts = plan.schema, plan.n / len(people), people.counts()
    parts = [_apportioned(counts[a.start : a.stop].astype(np.float64), plan.n) for a in schema.attributes]
    truth = {name: factor * each for name, each in true_figures(decoded(people), schema).items()}
    return np.concatenate(parts), truth


def _panel(name: str, found: list[View], truth: NDArray[np.float64]) -> Panel:
    first = found[0]
    if isinstance(first, NumberView):
        question = first.question
        mean = question.low + first.range * float(truth[0]) / first.n
        means = [one.mean for one in found if isinstance(one, NumberView)]
        return {"name": name, "unit": first.question.unit, "rows": [_measured("mean", mean, means)]}
    if isinstance(first, ScaleView):
        return {"name": name, "unit": first.question.unit, "rows": _quantiles(found, truth)}
    return _counted(name, "people", [one for one in found if isinstance(one, LabelView)], truth)


def _quantiles(found: list[View], below: NDArray[np.float64]) -> list[dict[str, Any]]:
    scales = [one for one in found if isinstance(one, ScaleView)]
    edges, n = scales[0].question.edges, scales[0].n
    reached = np.concatenate([[0.0], below / n, [1.0]])
    return [
        _measured(
            f"{100 * p:.0f} % are below", float(np.interp(p, reached, edges)), [one.quantile(p) for one in scales]
        )
        for p in QUANTILES
    ]


def _measured(label: str, truth: float, found: Sequence[Any]) -> dict[str, Any]:
    low, high = found[0].interval(0.95)
    others = [one.value for one in found[1:]]
    return {"label": label, "truth": truth, "estimate": found[0].value, "low": low, "high": high, "others": others}


def _counted(name: str, unit: str, found: list[LabelView], truth: NDArray[np.float64]) -> Panel:
    low, high = found[0].interval(0.95)
    shown = np.argsort(-truth, kind="stable")[:SHOWN].tolist()
    rows = [
        {
            "label": found[0].labels[place],
            "truth": float(truth[place]),
            "estimate": float(found[0].values[place]),
            "low": float(low[place]),
            "high": float(high[place]),
            "others": [float(one.values[place]) for one in found[1:]],
        }
        for place in shown
    ]
    return {"name": name, "unit": unit, "rows": rows, "left_out": int(truth.size) - len(rows)}
