"""``Desk``: answers the requests of the page, with worker processes for everything that takes time."""

import asyncio
import json
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from hubbub.documents import Fields, Json, legal
from hubbub.errors import HubbubError, Interval, InvalidInput, check_choice, check_real, check_whole, reject
from hubbub.planner import FAMILIES
from hubbub.planner.deadlines import until
from hubbub.studio import curves
from hubbub.studio.inquiry import Inquiry
from hubbub.studio.trials import SHAPES
from hubbub.studio.workers import Job, Workers

Answer = dict[str, Any]
V = TypeVar("V")
SECONDS = 2.5
"""Time for all certificates of a question; what is not certified by then is marked as late."""
PATIENCE = 20.0
"""Time for a simulation, a search for ε and a report."""
KEPT = 600
"""Certificates, and plans, that are kept for tabs that ask again."""
THREADS = 2
"""Curves that are computed at the same time: more of them would only wait for each other."""
MARGIN = Interval(1e-6, 1e9)
LAST_GENERATION = 2**53


class Recent(Generic[V]):
    """The values that were used last, by key."""

    def __init__(self, size: int) -> None:
        self._size, self._values = size, OrderedDict[Any, V]()

    def get(self, key: object) -> V | None:
        """Return a value, or None if it is not known any more."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: object, value: V) -> None:
        """Keep a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)


class Forgotten(Exception):
    """A plan that the studio does not know: the page asks for its certificate again."""


class Desk:
    """The answers of one studio."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._certificates: Recent[Answer] = Recent(KEPT)
        self._plans: Recent[str] = Recent(KEPT)
        self._outlines: Recent[Answer] = Recent(KEPT)
        self._first: Recent[str] = Recent(KEPT)
        self._threads = ThreadPoolExecutor(THREADS)

    async def outline(self, body: Json) -> Answer:
        """Return the uncertified curves of an inquiry; each axis is computed once.

        A question that nobody can ask, as people may type it, is no fault of the page: the answer says what is wrong.
        """
        try:
            inquiry = Inquiry.from_document(body)
        except HubbubError as error:
            return {"problem": str(error)}
        found: list[Answer] = []
        for axis in curves.AXES:
            key = axis.key(inquiry)
            known = self._outlines.get(key)
            if known is None:
                known = await self._computed(axis.outline, inquiry)
                self._outlines.put(key, known)
            found.append(known)
        return await self._computed(curves.merged, inquiry, *found)

    async def _computed(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Run a function in one of few threads; if its reader hangs up, it ends at the next point of a curve."""
        left = threading.Event()

        def compute() -> Answer:
            with until(left.is_set):
                return function(*arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, compute)
        finally:
            left.set()

    async def preliminary(self, body: Json) -> Answer:
        """Return the certificate of the family that the page shows first if it is known, or a preliminary one.

        The page asks for it together with the curves, and for all certificates after it: it must not wait for them.
        """
        read = Fields(body, "the request", "tab", "inquiry")
        tab = _tab(read)
        try:
            inquiry = Inquiry.from_document(read["inquiry"])
        except HubbubError:
            return {}  # the answer to the outline says why
        known = self._certificates.get((inquiry, self._first.get(inquiry)))
        if known is not None:
            self._keep(known)
            return known
        self._workers.drop(tab, f"attack {tab}", f"simulate {tab}", f"{tab} late")
        found = await self._ask("preliminary", tab, {"inquiry": inquiry}, urgent=True)
        if "family" in found:
            self._first.put(inquiry, found["family"])
        return found

    async def certify(self, body: Json) -> AsyncIterator[str]:
        """Yield one line of JSON for each family, as soon as it is certified or time is up.

        A patient request asks again for families that were late, and has more time.
        """
        read = Fields(body, "the request", "tab", "generation", "inquiry", "families", "patient")
        inquiry = Inquiry.from_document(read["inquiry"])
        families = [key for key in read.texts("families") if key in FAMILIES]
        tab, generation = _tab(read), _generation(read)
        patient = read.truth("patient")
        if not patient:
            self._workers.drop(f"attack {tab}", f"simulate {tab}", f"preliminary {tab}", f"{tab} late")
        slot = self._workers.newest(f"{tab} late" if patient else tab, generation)
        return self._lines(inquiry, families, slot, generation, patient=patient)

    async def _lines(
        self, inquiry: Inquiry, families: list[str], slot: int, generation: int, *, patient: bool
    ) -> AsyncIterator[str]:
        await self._workers.ready()
        end = time.monotonic() + (PATIENCE if patient else SECONDS)

        async def one(family: str) -> Answer:
            known = self._certificates.get((inquiry, family))
            if known is not None:
                self._keep(known)
                return known
            arguments = {"inquiry": inquiry, "family": family}
            job = Job(
                task="certify", arguments=arguments, slot=slot, generation=generation, deadline=end, patient=patient
            )
            found = await self._workers.run(job)
            if found.get("state") in ("certified", "none"):
                self._certificates.put((inquiry, family), found)
            self._keep(found)
            return found

        tasks = {asyncio.ensure_future(one(family)): family for family in dict.fromkeys(families)}
        waiting = set(tasks)
        try:
            while waiting:
                left = end - time.monotonic()
                done, waiting = await asyncio.wait(
                    waiting, timeout=max(0.0, left) + 0.2, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                for task in done:
                    found = task.result()
                    if not found.get("stale"):
                        told = {"state": "late", "reason": "not certified in time"} if found.get("late") else found
                        yield json.dumps({"family": tasks[task], **told}, allow_nan=False) + "\n"
            for task in waiting:
                about = {"state": "late", "reason": "not certified in time"}
                yield json.dumps({"family": tasks[task], **about}) + "\n"
        finally:
            self._workers.leave(slot, generation)
            for task in waiting:
                task.cancel()

    def _keep(self, found: Answer) -> None:
        """Keep the plan of a certificate that is told to a page, which may choose it."""
        if found.get("state") == "certified":
            self._plans.put(found["id"], found["plan"])

    async def simulate(self, body: Json) -> Answer:
        """Return simulated collections under a plan."""
        read = Fields(body, "the request", "tab", "plan", "shape", "shares", "rows")
        shape, shares = check_choice("shape", read.text("shape"), tuple(SHAPES)), read.reals("shares")
        arguments = {"shape": shape, "shares": shares, "rows": read.text("rows"), "plan": self._plan(read)}
        return await self._ask("simulate", _tab(read), arguments)

    async def attack(self, body: Json) -> Answer:
        """Return what attackers of growing power learn, and what dropouts change."""
        read = Fields(body, "the request", "tab", "plan", "compromised", "dropped")
        with legal("the request"):
            compromised = check_whole("compromised", read.whole("compromised"), 0, 99)
            dropped = check_whole("dropped", read.whole("dropped"), 0, 99)
        return await self._ask(
            "attack", _tab(read), {"plan": self._plan(read), "compromised": compromised, "dropped": dropped}
        )

    async def solve(self, body: Json) -> Answer:
        """Return the smallest ε for a margin."""
        read = Fields(body, "the request", "tab", "inquiry", "margin")
        with legal("the request"):
            margin = check_real("margin", read.real("margin"), MARGIN)
        inquiry = Inquiry.from_document(read["inquiry"])
        return await self._ask("solve", _tab(read), {"inquiry": inquiry, "margin": margin}, patient=True)

    async def report(self, body: Json) -> Answer:
        """Return the report on a plan, beside others that were certified."""
        read = Fields(body, "the request", "tab", "plan", "others")
        known = [self._plans.get(one) for one in dict.fromkeys(read.texts("others"))]
        arguments = {"plan": self._plan(read), "others": [one for one in known if one]}
        return await self._ask("report", _tab(read), arguments)

    def _plan(self, read: Fields) -> str:
        """Return the JSON of a plan that this studio has certified: no other one is shown as certified."""
        found = self._plans.get(read.text("plan"))
        if found is None:
            raise Forgotten
        return found

    async def _ask(
        self, task: str, tab: str, arguments: Answer, *, urgent: bool = False, patient: bool = False
    ) -> Answer:
        """Run a task that a newer one of the same tab replaces."""
        generation = time.monotonic_ns()
        slot = self._workers.newest(f"{task} {tab}", generation)
        await self._workers.ready(urgent=urgent)
        end = time.monotonic() + (SECONDS if urgent else PATIENCE)
        job = Job(
            task=task,
            arguments=arguments,
            slot=slot,
            generation=generation,
            deadline=end,
            urgent=urgent,
            patient=patient,
        )
        try:
            return await self._workers.run(job)
        finally:
            self._workers.leave(slot, generation)  # nobody waits for it any more


def _tab(read: Fields) -> str:
    tab = read.text("tab")
    if not 0 < len(tab) <= 40:
        reject("tab", "have 1 to 40 characters")
    return tab


def _generation(read: Fields) -> int:
    with legal("the request"):
        return check_whole("generation", read.whole("generation"), 0, LAST_GENERATION)


PROBLEMS = (InvalidInput, Forgotten)
"""Errors that the page is told."""
