"""Counting of strings by the shuffler: it passes on the count of each, less a drawn number, where that is positive."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from numpy.typing import NDArray

from hubbub.bits.entropy import Entropy, system
from hubbub.bits.exact import Buffered
from hubbub.errors import WireError, reject
from hubbub.mechanisms.draws import draw_number
from hubbub.model.fakes import Fakes
from hubbub.model.plans import Plan
from hubbub.model.questions import Text
from hubbub.pipeline.rows import Rows, counted, from_counts, people

Cell = TypeVar("Cell")


def subtracted(
    counts: Iterable[tuple[Cell, int]], drawn: Fakes, *, entropy: Entropy = system
) -> Iterator[tuple[Cell, int]]:
    """Yield every cell with its count less a drawn number, where the difference is positive.

    Every count has a draw of its own. Counts are exact and secret: nothing else about them may leave the shuffler, not
    even how many cells there are.

    >>> list(subtracted([("many", 40), ("few", 20)], Fakes.laplace(0.001, shift=25)))
    [('many', 15)]
    """
    source = Buffered(entropy)
    for cell, count in counts:
        shown = count - draw_number(drawn, entropy=source)
        if shown > 0:
            yield cell, shown


def count_people(blocks: Iterable[NDArray[Any]]) -> Counter[bytes]:
    """Return how many people hold each string; raise unless every row is that of one person."""
    return counted(_single(blocks))


def _single(blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    for block in blocks:
        if len(block) and (people(block) != 1).any():
            reject("the reports", "have one person for each string before they are shuffled")
        yield block


def _holds_text(body: bytes, strings: Text) -> bool:
    """Return False for a body without a string, and for bytes that no honest device sends: they are never shown."""
    try:
        return strings.decode(body) is not None
    except WireError:
        return False


def released(counts: Counter[bytes], plan: Plan, *, entropy: Entropy = system) -> Rows:
    """Return the rows that leave the shuffler: strings that are shown, in the order of their bytes."""
    drawn, strings = plan.protocol.shuffler_fakes, plan.schema.text
    assert drawn is not None
    assert strings is not None
    held = ((body, count) for body, count in counts.items() if _holds_text(body, strings))
    return from_counts(subtracted(held, drawn, entropy=entropy), strings)
