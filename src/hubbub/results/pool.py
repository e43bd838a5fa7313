"""``pool``: the results of batches of different people, added up."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import check_items, check_type, reject
from hubbub.mechanisms.noise import pooled_noise
from hubbub.model.privacy import Assumptions, Basis, Guarantee
from hubbub.model.schema import summarize_labels
from hubbub.results.answers import AnswerCounts, pooled_counts
from hubbub.results.cross import CrossView
from hubbub.results.labels import LabelView
from hubbub.results.numbers import NumberView
from hubbub.results.result import Result
from hubbub.results.scales import ScaleView
from hubbub.results.strings import StringView

Pooled = TypeVar("Pooled", Result, LabelView, ScaleView, NumberView, CrossView)


def pool(results: Iterable[Pooled]) -> Pooled:
    """Add the results of batches of different people, of one plan or of several, with the same labels or questions.

    Values, variances and numbers of people are added. The noise that is not close to normal is added as a distribution,
    so that intervals keep their coverage. Every person must be in one batch only: repeated answers of the same people
    are not more people, and their privacy losses add up (:class:`hubbub.Ledger`). The guarantee is that of the batch
    with the weakest one. Questions are pooled one by one, and combined as those of one batch are; those of a survey
    must have the same layout, as those of one plan have. Strings are not pooled: how many people hold one that a batch
    does not show is not known. The views of one question are pooled, too.

    >>> from hubbub.numeric.population import CountNoise
    >>> noise = CountNoise(variance=9.0)
    >>> three, one = np.array([3.0]), np.array([40.0])
    >>> part = LabelView(labels=("a",), values=one, stderr=three, n=100, one_choice=False, unbiased=one, noise=noise)
    >>> both = pool([part, replace(part, n=50)])
    >>> both.values.tolist(), both.n, round(float(both.stderr[0]), 4)
    ([80.0], 150, 4.2426)
    """
    if isinstance(results, Result):
        reject("results", "be a list of results, not a single one")
    parts: list[Any] = list(check_items("results", results, "be a list of results"))
    if not parts:
        reject("results", "contain at least one result")
    kind = next((one for one in _ADDED if isinstance(parts[0], one)), Result)
    for part in parts:
        check_type("every one of results", part, kind)
    if len({id(part) for part in parts}) != len(parts):
        reject("results", "be of different people, but one of them is given twice")
    found: Pooled = _ADDED[kind](parts)
    return found


def _pooled_results(parts: list[Result]) -> Any:
    first = parts[0]
    kinds = {type(part.counts[0]) for part in parts}
    if kinds == {LabelView}:
        # A label that people of one batch share with others is not exclusive in the sum.
        schema = next((part.schema for part in parts if not part.schema.exclusive), first.schema)
        order = [part for part in parts if part.schema is schema] + [
            part for part in parts if part.schema is not schema
        ]
        counts: Any = (pooled_labels([part.counts[0] for part in order]),)
    elif StringView in kinds:
        reject("results", "be of questions: a string that one of them does not show has no count there")
    else:
        schema = first.schema
        if any(part.schema != schema for part in parts):
            reject("results", "be of surveys with the same questions and layout, as those of one plan are")
        counts = _added([part.counts for part in parts], [part.n for part in parts])
    return Result(
        schema=schema,
        n=sum(part.n for part in parts),
        counts=counts,
        plan=first.plan if len({part.plan for part in parts}) == 1 else None,
        released=max((part.released for part in parts if part.released is not None), default=None),
        achieved=functools.partial(weakest, tuple(parts)),
    )


def _pooled_digits(parts: list[Any]) -> Any:
    first = parts[0]
    if any((part.name, part.question) != (first.name, first.question) for part in parts):
        reject("results", "be of one question with the same layout, as those of one plan are")
    attributes = _added([part.attributes for part in parts], [part.n for part in parts])
    return replace(first, n=sum(part.n for part in parts), attributes=attributes)


def _added(each: list[Any], people: list[int]) -> tuple[AnswerCounts, ...]:
    return tuple(pooled_counts(attribute, people) for attribute in zip(*each, strict=True))


def _pooled_cross(parts: list[CrossView]) -> Any:
    first = parts[0]
    if any((part.names, part.axes) != (first.names, first.axes) for part in parts):
        reject("results", "be of cross-tables of the same questions and labels")
    cells = pooled_labels([part.cells for part in parts])
    return replace(first, cells=cells, direct=all(part.direct for part in parts))


def pooled_labels(parts: list[Any]) -> Any:
    """Return the sum of the counts of different people."""
    first = parts[0]
    orders = [label_order(first, part, "results") for part in parts]
    values = sum(part.unbiased[order] for part, order in zip(parts, orders, strict=True))
    variance = sum(part.stderr[order] ** 2 for part, order in zip(parts, orders, strict=True))
    value, stderr = np.asarray(values, np.float64), np.sqrt(np.asarray(variance, np.float64))
    for array in (value, stderr):
        array.setflags(write=False)
    return LabelView(
        labels=first.labels,
        values=value,
        stderr=stderr,
        n=sum(part.n for part in parts),
        one_choice=all(part.one_choice for part in parts),
        unbiased=value,
        noise=pooled_noise([(part.n, part.noise) for part in parts]),
        remark="unbiased" if len(parts) == 1 else f"unbiased, the sum of {len(parts):,} batches",
    )


def label_order(one: LabelView, two: LabelView, name: str) -> NDArray[np.int64] | slice:
    """Return the places of the labels of one view in another, which must have the same labels."""
    if one.labels == two.labels:
        return slice(None)
    places = {label: place for place, label in enumerate(two.labels)}
    if places.keys() != set(one.labels):
        reject(name, f"have the same labels ({summarize_labels(one.labels)}; {summarize_labels(two.labels)})")
    return np.array([places[label] for label in one.labels], np.int64)


class Guaranteed(Protocol):
    """A result with a guarantee."""

    @property
    def plan(self) -> str | None:
        """Id of the plan, None for several."""

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the people that were counted."""


def weakest(parts: Sequence[Guaranteed]) -> Guarantee | None:
    """Return the largest ε and δ under what all parts assume, None if a part has none or no single one has both.

    Parts that were not shuffled have nothing in common with those of another plan that rely on a shuffler.
    """
    known = [found for part in parts if (found := part.guarantee) is not None]
    if len(known) < len(parts):
        return None
    worst = max(known, key=lambda one: (one.epsilon, one.delta))
    if any(one.delta > worst.delta for one in known):
        return None
    unshuffled = sum(one.unshuffled for one in known)
    if not unshuffled:
        basis = worst.basis if all(one.basis is worst.basis for one in known) else Basis.PROVEN
        return replace(worst, basis=basis, assumptions=_together([one.assumptions for one in known]))
    # What protects without a shuffler also protects shuffled people of the same plan.
    same = len({part.plan for part in parts}) == 1 and parts[0].plan is not None
    return replace(worst, unshuffled=unshuffled) if same and worst.unshuffled else None


def _together(held: Sequence[Assumptions]) -> Assumptions:
    """Return the conditions under which all of several guarantees hold."""
    return Assumptions(
        honest=max(one.honest for one in held),
        shuffler=any(one.shuffler for one in held),
        fakes=any(one.fakes for one in held),
        view=" and ".join(dict.fromkeys(one.view for one in held)),
        collusion_epsilon=max(one.collusion_epsilon for one in held),
        count_epsilon=max(one.count_epsilon for one in held),
        relay=any(one.relay for one in held),
    )


_ADDED: dict[type[Any], Callable[[list[Any]], Any]] = {
    Result: _pooled_results,
    LabelView: pooled_labels,
    ScaleView: _pooled_digits,
    NumberView: _pooled_digits,
    CrossView: _pooled_cross,
}
"""The function that adds each kind of result."""
