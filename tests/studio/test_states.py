"""Two hundred random states of the page: a sentence or a reason, no NaN, nothing logged, no request to elsewhere."""

import random
import re
from typing import Any

import pytest
from tests.studio.conftest import Running
from tests.studio.test_browser import PATIENCE, Visit

STATES, PARTS = 200, 20
ANSWERS = re.compile("in 95 of 100|Nothing can be learnt|No protocol meets|in time|need a shuffler")
WORDS = re.compile(r"NaN|undefined|Infinity|\[object|null")


def state(rng: random.Random) -> str:
    d = rng.choice([2, 3, 5, 12, 40, 100, 1000])
    given: dict[str, Any] = {
        "kind": rng.choice(["one", "few", "any", "number", "several", "strings"]),
        "d": d,
        "k": min(d, rng.choice([1, 2, 3, 8])),
        "n": rng.choice([10, 100, 1000, 20_000, 10**6, 10**9]),
        "eps": rng.choice([0.01, 0.05, 0.2, 1, 3, 8, 20]),
        "delta": rng.choice([3, 4, 6, 9, 12]),
        "trust": rng.choice(["nobody", "shuffling", "shuffler-noise"]),
        "clear": rng.choice([0, 1]),
        "compromised": rng.choice([0, 0, 10, 50, 90]),
        "drop": rng.choice([0, 30, 90]),
        "joint": rng.choice([0, 0, 1]),
        "rounds": rng.choice([1, 1, 1, 2, 5]),
        "shape": rng.choice(["even", "few", "rare", "own"]),
        "measure": rng.choice(["mean", "spread"]),
        "low": rng.choice([-5, 0, 0.5]),
        "high": rng.choice([1, 100, 1e6]),
        "family": rng.choice(["", "split", "nonesuch"]),
    }
    return "&".join(f"{key}={value}" for key, value in given.items())


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("part", range(PARTS))
def test_random_states(part: int, browser: Any, studio: Running) -> None:
    """In parts, so that a long run shows how far it is, and one bad state does not hide the others."""
    rng, visit = random.Random(f"states {part}"), Visit(browser, studio)
    for _ in range(STATES // PARTS):
        given = state(rng)
        visit.page.goto("about:blank")
        visit.page.goto(f"{studio.address}#{given}")
        visit.page.locator("main[aria-busy=false]").wait_for(timeout=2 * PATIENCE)
        text = visit.page.inner_text("main")
        assert not WORDS.search(text), given
        assert ANSWERS.search(text), given
        assert visit.page.locator("#problem").is_hidden(), given
        assert visit.said == [], given
    visit.check()
    visit.context.close()
