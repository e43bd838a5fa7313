"""Under overload, the pauses that clients are told grow with their number, so that refusing them stays cheap."""

import heapq
import random

from hubbub.service.runtime.http import RetryPauses


def refused(clients: int, seconds: int) -> list[int]:
    """Return the refusals in each second if every client repeats its request after the pause that it is told."""
    pauses, counts = RetryPauses(), [0] * seconds
    chance = random.Random(1)
    waiting = [chance.random() for _ in range(clients)]
    heapq.heapify(waiting)
    while waiting[0] < seconds:
        now = heapq.heappop(waiting)
        counts[int(now)] += 1
        heapq.heappush(waiting, now + pauses.after(now))
    return counts


def test_a_thousand_clients_are_refused_a_hundred_times_per_second() -> None:
    counts = refused(1000, 60)
    assert counts[0] == 1000
    assert sum(counts[10:]) / 50 < 200


def test_a_few_clients_are_told_to_return_at_once() -> None:
    assert refused(50, 20) == [50] * 20


def test_pauses_shrink_when_the_overload_ends() -> None:
    pauses = RetryPauses()
    for step in range(5000):
        pauses.after(step / 1000)
    assert max(pauses.after(5.0) for _ in range(100)) > 3
    for second in range(7, 12):
        pauses.after(float(second))
    assert {pauses.after(12.0) for _ in range(100)} == {1}
