"""``StringTally``: the strings that a shuffled batch shows, with the numbers of people that it passed on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.errors import WireError, check_type, check_whole, kind_of, reject
from hubbub.mechanisms.chances import drawn_by
from hubbub.model.plans import Plan
from hubbub.model.questions.text import NOTHING
from hubbub.model.schema import check_label_names
from hubbub.numeric.vectors import check_vector
from hubbub.pipeline.reports import MAX_DECLARED, Batch, Reports, check_plan
from hubbub.pipeline.rows import bodies, people


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StringTally:
    """The strings of one shuffled batch, most people first; :func:`tally_strings` returns one.

    Tallies of two batches are not added: how many people hold a string that a batch does not show is not known.
    """

    plan: str
    """The id of the plan."""
    n: int
    """People in the batch."""
    strings: tuple[str, ...]
    cut: tuple[bool, ...]
    """True for strings of which only the beginning is kept."""
    numbers: NDArray[np.int64]
    """Numbers of people, less what the shuffler subtracted: at least 1."""

    def __post_init__(self) -> None:
        check_type("plan", self.plan, str)
        check_whole("n", self.n, 1, MAX_DECLARED)
        check_label_names("strings", self.strings)
        if not isinstance(self.cut, tuple) or [type(one) for one in self.cut] != [bool] * len(self.strings):
            reject("cut", "be a tuple of True or False, one for each string")
        if len(set(zip(self.strings, self.cut, strict=True))) != len(self.strings):
            reject("strings", "be distinct")
        check_vector("numbers", self.numbers, np.int64, len(self.strings))
        if self.numbers.size and (self.numbers.min() < 1 or int(self.numbers.sum()) > self.n):
            reject("numbers", f"be at least 1 each, and at most n = {self.n:,} together")

    def __len__(self) -> int:
        return len(self.strings)

    def __repr__(self) -> str:
        return f"StringTally({len(self):,} strings of {self.n:,} people, plan {self.plan[:8]}…)"


def tally_strings(reports: Reports | Batch, plan: Plan) -> StringTally:
    """Return the strings that a shuffled batch shows; raise :class:`WireError` on rows that no shuffler sends.

    >>> from hubbub import Collection, Fakes, Protocol, Schema, plan_from, randomize, shuffle
    >>> plan = plan_from(Schema.strings(16), 40, Protocol(0, m=Fakes.laplace(0.5, 9), release="strings"), epsilon=4.0)
    >>> people = Collection.from_values(["oops"] * 39 + ["secret"], plan.schema)
    >>> tally_strings(shuffle(randomize(people, plan)), plan).strings
    ('oops',)
    """
    if not isinstance(reports, Reports | Batch):
        reject("reports", f"be Reports or a Batch, not {kind_of(reports)}")
    drawn_by(plan)
    check_plan(plan.id, reports.header.plan, "reports and plan")
    if not reports.header.shuffled:
        reject("the reports", "be shuffled, because the shuffler hides rare strings")
    found: dict[bytes, int] = {}
    for block in reports.blocks:
        for body, number in zip(bodies(block), people(block).tolist(), strict=True):
            if body in found or body[0] == NOTHING:
                raise WireError("a shuffled batch must show every string at most once, and no empty answer")
            found[body] = number
    rows = sorted((-number, *_text(plan, body)) for body, number in found.items())
    numbers = np.array([-row[0] for row in rows], np.int64)
    numbers.setflags(write=False)
    return StringTally(
        plan=plan.id,
        n=reports.header.n,
        strings=tuple(row[1] for row in rows),
        cut=tuple(row[2] for row in rows),
        numbers=numbers,
    )


def _text(plan: Plan, body: bytes) -> tuple[str, bool]:
    assert plan.schema.text is not None
    found = plan.schema.text.decode(body)
    assert found is not None
    return found
