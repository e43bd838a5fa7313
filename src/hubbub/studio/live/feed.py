"""The feed of a live page: reads the services again and again, and tells every open tab that something has changed.

A tab is told only the newest state: one that reads slowly skips states, and nothing waits for it in memory. What was
read stays when a service does not answer, and the page says so.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from hubbub.errors import CommandFailure, HubbubError, WireError
from hubbub.studio.live.client import LiveClient
from hubbub.studio.live.figures import Alert, ServiceFigures, alerts, read_figures, waiting
from hubbub.studio.live.source import Addresses, LiveSource
from hubbub.studio.live.task import LiveTask

log = logging.getLogger("hubbub.studio")
CHUNK = 64
"""Results that are read before the page is told."""
SHORTEST, LONGEST = 0.5, 15.0
"""Bounds of the pause between two readings in seconds."""
TASKS_EVERY = 10
"""Readings after which the tasks are listed again."""
HEARTBEAT = 15.0
"""Seconds after which a silent stream says that it is alive."""
MAX_TABS, MAX_ALERTS = 64, 50
WITHHELD_SECONDS = 3600.0
"""Time for which a withheld batch is an alert."""


class LiveFeed:
    """The newest state of all tasks and services, with a version that grows with each change."""

    def __init__(
        self,
        source: LiveSource,
        client: LiveClient | None = None,
        *,
        now: Callable[[], float] = time.time,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.source, self._now, self._heartbeat = source, now, heartbeat
        self._client = client or LiveClient(source.authority)
        self.tasks: dict[str, LiveTask] = {}
        self.version = 0
        self._start = secrets.token_hex(4)
        self._services: dict[str, ServiceFigures | None] = {}
        self._problems: dict[str, tuple[str, int]] = {}
        self._tabs: set[asyncio.Event] = set()
        self._closing = False
        self._reads = 0
        self.as_of: int | None = None
        """When the analyzer was last read, in seconds since 1970."""

    @property
    def event_id(self) -> str:
        """The id of the newest state, which no other run of the studio has."""
        return f"{self._start}-{self.version}"

    async def run(self) -> None:
        """Read for ever; failures are shown on the page, and pauses grow."""
        failures = 0
        while not self._closing:
            good = await self.read()
            failures = 0 if good else failures + 1
            await asyncio.sleep(self._pause(failures))

    def _pause(self, failures: int) -> float:
        epochs = [task.epoch for task in self.tasks.values() if task.epoch]
        usual = min(max(min(epochs, default=5) / 5, SHORTEST), LONGEST)
        return usual if failures == 0 else min(LONGEST, max(usual, 0.5 * 2.0 ** min(failures, 6)))

    def end(self) -> None:
        """End all streams."""
        self._closing = True
        for tab in self._tabs:
            tab.set()

    async def close(self) -> None:
        """End all streams, and close the connections."""
        self.end()
        await self._client.close()

    async def read(self) -> bool:
        """Read everything that is new; return False if the analyzer could not be read."""
        before = self._state()
        good = False
        try:
            addresses = self.source.locate()
        except (HubbubError, OSError) as error:
            self._problem("analyzer", error)
            # Nobody can be asked: that a service was ready says nothing about now.
            self._services.clear()
        else:
            figures = asyncio.gather(self._figures("analyzer", addresses), self._figures("shuffler", addresses))
            good = await self._read_results(addresses)
            await figures
        self._show_waiting()
        if good:
            self.as_of = int(self._now())
        if self._state() != before:
            self._publish()
        return good

    async def _read_results(self, addresses: Addresses) -> bool:
        try:
            if self._reads % TASKS_EVERY == 0 or not self.tasks:
                await self._read_tasks(addresses)
            await self._read_each(addresses)
        except Exception as error:  # whatever an analyzer answers, the page goes on and says that it cannot be read
            self._problem("analyzer", error)
            self._reads = 0
            return False
        self._problems.pop("analyzer", None)
        self._reads += 1
        return True

    async def _read_each(self, addresses: Addresses) -> None:
        """Read all tasks; raise at the end if the answers about one are wrong, at once if there are none."""
        wrong: Exception | None = None
        for task in list(self.tasks.values()):
            try:
                await self._read_task(task, addresses)
            except CommandFailure:
                raise
            except Exception as error:  # one task must not keep the page from reading the others
                wrong = wrong or error
        if wrong is not None:
            raise wrong

    async def _read_tasks(self, addresses: Addresses) -> None:
        contracts = self.source.contracts()
        found = await self._client.tasks(addresses.results, addresses.token)
        self.tasks = {one: self.tasks.get(one) or LiveTask(one, contracts.get(one)) for one in found}

    async def _read_task(self, task: LiveTask, addresses: Addresses) -> None:
        task.check()
        after = task.listed_after
        listing = await self._client.listing(addresses.results, addresses.token, task.id, after=after, tag=task.tag)
        if listing is None:
            return
        task.check(listing.batches)
        task.gaps = listing.gaps
        # The newest first: a page that has just been opened shows what is going on before the whole past is read.
        new = sorted((one for one in listing.batches if one["bucket"] not in task.series), key=_bucket, reverse=True)
        task.listed = len(task.series) + len(new)
        wanted = [int(one["bucket"]) for one in new]
        refused: WireError | None = None
        for start in range(0, len(wanted), CHUNK):
            refused = await self._read_batches(task, wanted[start : start + CHUNK], addresses) or refused
        task.settle()
        # The version is that of a listing after the same bucket; what was refused is asked for again.
        task.tag = listing.tag if task.listed_after == after and refused is None else ""
        if refused is not None:
            raise refused

    async def _read_batches(self, task: LiveTask, wanted: list[int], addresses: Addresses) -> WireError | None:
        """Read the results of buckets, which descend, and show them; return why some cannot be shown.

        An answer may hold fewer results than were asked for.
        """
        found: dict[int, dict[str, Any]] = {}
        first, last, missing = wanted[-1], wanted[0], set(wanted)
        while missing:
            part = await self._client.results(addresses.results, addresses.token, task.id, first=first, last=last)
            found |= {one["bucket"]: one for one in part if one["bucket"] in missing}
            missing -= found.keys()
            reached = max((one["bucket"] for one in part), default=last)
            if not first <= reached < last:
                # Nothing is left to ask for, or the analyzer answers something else than it was asked.
                break
            first = reached + 1
        pooled, refused = task.add([found[one] for one in sorted(found)])
        if pooled:
            # Estimates of surveys take milliseconds each: other tabs are served meanwhile.
            task.pool = await asyncio.to_thread(task.pool.plus, pooled)
        self._publish()
        if missing:
            return WireError("the analyzer lists batches whose results it does not return")
        return refused

    async def _figures(self, role: str, addresses: Addresses) -> None:
        url = addresses.analyzer if role == "analyzer" else addresses.shuffler
        if url is None:
            self._services.pop(role, None)
            return
        try:
            ready, text = await asyncio.gather(self._client.ready(url), self._client.metrics(url))
            self._services[role] = read_figures(role, ready, text)
            self._problems.pop(f"{role} figures", None)
        except Exception as error:  # the same holds for its figures
            self._services[role] = None
            self._problem(f"{role} figures", error)

    def _show_waiting(self) -> None:
        shuffler = self._services.get("shuffler")
        for task in self.tasks.values():
            # The range is that of the last epoch; an older one would be passed off as that.
            needed = task.contract.min_batch_size if task.contract else None
            task.waiting = None if shuffler is None else waiting(shuffler, task.id, needed)

    def _problem(self, what: str, error: Exception) -> None:
        """Keep a problem with the time at which it began; messages of other errors than hubbub's are not shown."""
        text = str(error) if isinstance(error, HubbubError) else type(error).__name__
        since = self._problems.get(what, ("", int(self._now())))[1]
        if what not in self._problems:
            log.warning("reading the %s failed: %s", what, text)
        self._problems[what] = (text, since)

    def _state(self) -> tuple[Any, ...]:
        """Return what a change of which is told to the tabs."""
        tasks = tuple((one.id, len(one.series), one.gaps, one.waiting, one.listed) for one in self.tasks.values())
        return tasks, tuple(self._alerts()), tuple(sorted(self._problems.items())), tuple(self._ready().items())

    def _ready(self) -> dict[str, bool]:
        return {role: found is not None and found.ready for role, found in self._services.items()}

    def _alerts(self) -> list[Alert]:
        now, found = self._now(), list[Alert]()
        for role, figures in sorted(self._services.items()):
            if figures is None:
                found.append(Alert(role, "HubbubDown", "page", f"The {role} does not answer."))
            else:
                found += alerts(figures, now)
        for task in self.tasks.values():
            recent = [one for one in task.withheld.values() if now - one.released < WITHHELD_SECONDS]
            if recent:
                several = len(self.tasks) > 1
                many = "A batch" if len(recent) == 1 else f"{len(recent)} batches"
                whose = f" of collection {task.id[:8]}" if several else ""
                verb, where = "was" if len(recent) == 1 else "were", " if it is chosen" if several else ""
                text = f"{many}{whose} {verb} withheld in the last hour; the reason is below{where}."
                found.append(Alert("analyzer", "HubbubBatchWithheld", "ticket", text))
        if len(found) > MAX_ALERTS:
            left = found[MAX_ALERTS - 1 :]
            worst = min(left, key=lambda one: one.severity == "ticket")
            found[MAX_ALERTS - 1 :] = [replace(worst, text=f"{len(left):,} more alerts are not shown.")]
        return found

    def _publish(self) -> None:
        self.version += 1
        for tab in self._tabs:
            tab.set()

    def overview(self) -> dict[str, Any]:
        """Return the newest state of all tasks and services, as small as a message."""
        services: dict[str, Any] = dict(self._ready())
        return {
            "id": self.event_id,
            "source": self.source.name,
            "as_of": self.as_of,
            "tasks": [task.overview() for task in self.tasks.values()],
            "services": services,
            "alerts": [one.to_document() for one in self._alerts()],
            "problems": [
                {"what": what, "text": text, "since": since} for what, (text, since) in sorted(self._problems.items())
            ],
        }

    def task(self, name: str) -> LiveTask:
        """Return a task by its id; an empty name is the first one."""
        if not name and self.tasks:
            return next(iter(self.tasks.values()))
        if name not in self.tasks:
            raise CommandFailure("there is no such task")
        return self.tasks[name]

    @property
    def full(self) -> bool:
        """True if no more tabs are served."""
        return len(self._tabs) >= MAX_TABS

    async def events(self, seen: str = "") -> AsyncIterator[tuple[str, dict[str, Any]] | None]:
        """Yield the id and the content of each new state, None as a heartbeat; a tab that has seen the newest waits."""
        tab = asyncio.Event()
        self._tabs.add(tab)
        try:
            while not self._closing:
                if seen != self.event_id:
                    seen = self.event_id
                    yield seen, self.overview()
                    continue
                tab.clear()
                try:
                    await asyncio.wait_for(tab.wait(), self._heartbeat)
                except TimeoutError:
                    yield None
        finally:
            self._tabs.discard(tab)


def _bucket(one: Mapping[str, Any]) -> int:
    return int(one["bucket"])


@contextlib.asynccontextmanager
async def following(source: LiveSource) -> AsyncIterator[LiveFeed]:
    """Follow a source until the end of the block."""
    feed = LiveFeed(source)
    task = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        await feed.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
