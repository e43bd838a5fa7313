"""Estimates of choices, flags and cross-tables: counted directly, or combined from several tables by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hubbub.mechanisms.design import factorial, tables
from hubbub.model.questions import Choice, Cross, Flag, Number
from hubbub.model.questions.cross import cell_labels
from hubbub.model.schema import Schema
from hubbub.numeric.effects import Factorial
from hubbub.numeric.population import CountNoise
from hubbub.results.answers import AnswerCounts, summed_noise
from hubbub.results.counts import Estimate
from hubbub.results.cross import CrossEstimate

Array = NDArray[np.float64]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a table, with an axis for each of its questions."""

    values: Array
    stderr: Array
    noise: CountNoise
    direct: bool
    """True if no other table counts the same people by one of its questions."""


def table_cells(names: Names, counts: Sequence[AnswerCounts], schema: Schema, n: int) -> Cells:
    """Return the estimated cells of a table; of one attribute alone, or of all that observe its effects."""
    measured = tables(schema)
    seen = [table for table in measured if set(table) & set(names)]
    model = factorial(schema, [1 / one.mean_variance for one in counts])
    if seen == [names]:
        own = counts[measured[names]]
        values = own.values.reshape([model.sizes[name] for name in names])
        variance = own.noise.variance + own.noise.growth * np.clip(values, 0, n)
        return Cells(values, np.sqrt(np.maximum(variance, 0.0)), own.noise, direct=True)
    given = {
        table: counts[place].values.reshape([model.sizes[name] for name in table]) for table, place in measured.items()
    }
    values = model.estimate(given, names, n)
    variance, noise = _error(model, names, {table: counts[place] for table, place in measured.items()}, values)
    return Cells(values, np.sqrt(variance), noise, direct=False)


def _error(
    model: Factorial, names: Names, counts: dict[Names, AnswerCounts], values: Array
) -> tuple[Array, CountNoise]:
    """Return the variance of each cell, and the error of one."""
    fixed, growth, parts, gain = 0.0, 0.0, [], 1.0
    varying = np.zeros_like(values)
    people = np.maximum(values, 0.0)
    for one in model.cell_weights(names):
        own = counts[one.table]
        fixed += own.variance * one.weight**2 * one.copies
        gain = min(gain, own.noise.gain)
        parts += [(own.variance * one.weight**2, own.excess)] * min(one.copies, 64)
        if own.growth:
            varying = varying + own.growth * one.weight**2 * np.maximum(one.people(people, names), 0.0)
            growth += own.growth * one.weight**2 * (one.agreed == one.shared == names)
    variance = fixed + np.maximum(varying, 0.0)
    if growth:
        return variance, CountNoise(variance=float((variance - growth * people).max()), growth=growth, gain=gain)
    found = summed_noise(fixed, parts)
    return variance, found if found.distribution is not None else replace(found, gain=gain)


def choice_estimate(
    name: str, question: Choice | Flag, counts: Sequence[AnswerCounts], schema: Schema, n: int, plan: str | None
) -> Estimate:
    """Return the estimate of the labels of a choice or a flag."""
    found = table_cells((name,), counts, schema, n)
    crosses = ", ".join(map(repr, schema.questions.crosses(name)))
    derived = name in schema.questions.derived
    remark = "unbiased" if found.direct else f"unbiased, {'from' if derived else 'combined with'} {crosses}"
    return _estimate(question.attributes[0], found, n, remark, plan)


def cross_estimate(
    name: str, question: Cross, counts: Sequence[AnswerCounts], schema: Schema, n: int, plan: str | None
) -> CrossEstimate:
    """Return the estimate of the cells of a cross-table."""
    sides = [schema.questions[side] for side in question.names]
    axes = tuple(side.attributes[-1] for side in sides if not isinstance(side, Cross | Number))
    found = table_cells(question.names, counts, schema, n)
    cells = _estimate(cell_labels(axes), found, n, "unbiased", plan)
    return CrossEstimate(name=name, names=question.names, axes=axes, cells=cells, direct=found.direct)


def _estimate(labels: tuple[str, ...], found: Cells, n: int, remark: str, plan: str | None) -> Estimate:
    values, stderr = (np.ascontiguousarray(array).reshape(-1).copy() for array in (found.values, found.stderr))
    for array in (values, stderr):
        array.setflags(write=False)
    return Estimate(
        labels=labels,
        values=values,
        stderr=stderr,
        n=n,
        one_choice=True,
        unbiased=values,
        noise=found.noise,
        remark=remark,
        plan=plan,
    )
