"""``LedgerFile``: a ledger in an append-only file, for operators and, without numpy, for devices.

``docs/data-model.md`` specifies the file and its anchor.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from hubbub.accountant.charges import Charge, check_name
from hubbub.documents import Fields, Json, legal
from hubbub.errors import LedgerDamaged, WireError, check_type
from hubbub.io.chains import Anchor, Chain, FileAnchor, create_chain, open_chain, repair_chain
from hubbub.model.curves import NO_PRIVACY
from hubbub.model.plans import Plan
from hubbub.model.privacy import Budget

FORMAT = "hubbub ledger file 1"


class AnyLedger(Protocol):
    """The part of :class:`hubbub.Ledger` and :class:`hubbub.accountant.device_ledger.DeviceLedger` that files use."""

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges, in order."""

    def add(self, charge: Charge) -> Self:
        """Return the ledger with one more charge, or raise."""


_L = TypeVar("_L", bound=AnyLedger)


class LedgerFile(Generic[_L]):
    """A ledger in a file: every charge is durable before :meth:`charge` returns.

    ``kind`` is :class:`hubbub.Ledger`, or the numpy-free :class:`hubbub.accountant.device_ledger.DeviceLedger`.
    ``anchor`` is kept outside the file, by default in ``NAME.anchor`` beside it, which detects changes of the file
    alone. To detect that a backup was restored, keep it where the backup does not reach.
    """

    def __init__(self, path: str | Path, kind: type[_L], *, anchor: Anchor | None = None) -> None:
        self._path, self._kind = Path(path), kind
        self._anchor = anchor or FileAnchor(self._path.with_name(f"{self._path.name}.anchor"))

    def create(self, budget: Budget) -> _L:
        """Create the file of a new ledger with this budget."""
        check_type("budget", budget, Budget)
        create_chain(self._path, self._anchor, {"format": FORMAT, "budget": budget.to_document()})
        return self.read()

    def read(self) -> _L:
        """Return the ledger; raise :class:`~hubbub.errors.LedgerDamaged` if charges may be missing."""
        with self._opened() as (_, ledger):
            return ledger

    def charge(self, plan: Plan, *, collection: str, rounds: int = 1, again: bool = False) -> _L:
        """Charge a collection of a plan, and return the ledger; call it before anything is asked or answered.

        Raises :class:`~hubbub.errors.BudgetExceeded` beyond the budget. A collection that is charged already raises
        :class:`~hubbub.errors.AlreadyCharged`, or is left as it is with ``again``, for retries.
        """
        check_name(collection)
        charge = Charge.of(plan, rounds=rounds, collection=collection)
        with self._opened() as (chain, ledger):
            if again and charge in ledger.charges:
                return ledger
            after = ledger.add(charge)
            chain.append(charge.to_document())
            return after

    def recover(self, lost: Sequence[tuple[Plan, int]] = ()) -> _L:
        """Accept a damaged or rewound file after charging the ``lost`` rounds of plans that it may not show.

        Without any, it is charged an unknown collection, after which no budget allows another one. List every round
        that may have been charged after the file was written: what is missing here is missing from all totals.
        """

        def missing(number: int, begun: Json) -> Json:
            found = [(plan.curve, rounds) for plan, rounds in lost] or [(NO_PRIVACY, 1)]
            if begun is not None:
                with contextlib.suppress(WireError):
                    # A charge that was interrupted counts, although its line is lost.
                    charge = Charge.from_document(begun)
                    found.append((charge.curve, charge.rounds))
            charges = [
                Charge(name=f"recovered/{number}.{i}", rounds=rounds, curve=curve)
                for i, (curve, rounds) in enumerate(found, start=1)
            ]
            return [charge.to_document() for charge in charges]

        repair_chain(self._path, self._anchor, missing)
        return self.read()

    @contextmanager
    def _opened(self) -> Iterator[tuple[Chain, _L]]:
        with open_chain(self._path, self._anchor) as chain:
            yield chain, self._ledger(chain.entries)

    def _ledger(self, entries: list[Json]) -> _L:
        try:
            fields = Fields(entries[0], "the first entry", "format", "budget")
            if fields.text("format") != FORMAT:
                raise WireError(f"the format of the ledger must be {FORMAT!r}")
            with legal("the ledger"):
                budget = Budget.from_document(fields["budget"])
                # The entry of a recovery is a list of charges.
                found = [one for entry in entries[1:] for one in (entry if isinstance(entry, list) else [entry])]
                charges = tuple(Charge.from_document(one) for one in found)
                return self._kind(budget=budget, charges=charges)  # type: ignore[call-arg]
        except WireError as error:
            raise LedgerDamaged(f"the file is not a ledger: {error}") from None
