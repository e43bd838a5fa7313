"""Strings count exactly once however often relay, shuffler and analyzer are killed, on SQLite and on PostgreSQL."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.service.crash import STRING_POINTS
from tests.service.postgres_server import PostgresServer
from tests.service.string_deaths import ANALYZER_ENDS, KILL, SHUFFLER_ENDS, StringDeaths


def later(points: Sequence[str]) -> list[str]:
    """Return deaths at points among kills: evaluations come first, and batches only after a part of the people."""
    first = [one for one in points if one.startswith("evaluation")]
    return [*first, *[KILL] * 8, *[one for one in points if one not in first], *[KILL] * 16]


def test_all_points_of_strings_are_among_the_ends() -> None:
    """Under load, one of the shuffler may become an ordinary kill; ``test_string_batches`` reaches each for sure."""
    assert set(STRING_POINTS) <= {*SHUFFLER_ENDS, *ANALYZER_ENDS}


@pytest.mark.long
def test_a_few_deaths(tmp_path: Path) -> None:
    ends = {"relay": [KILL] * 3, "shuffler": ["shuffle-subtracted", KILL], "analyzer": ["evaluation-made", KILL]}
    figures = StringDeaths(tmp_path, ends, people=300).run()
    assert figures["deaths"] == 7
    # Under load the point of the shuffler may become an ordinary kill, as above.
    assert figures["at_evaluation-made"] == 1


@pytest.mark.slow
def test_a_hundred_deaths_on_sqlite(tmp_path: Path) -> None:
    ends = {
        "relay": [KILL] * 40,
        "shuffler": later(SHUFFLER_ENDS),
        "analyzer": later(ANALYZER_ENDS),
    }
    figures = StringDeaths(tmp_path, ends, people=2000).run()
    print(figures)
    assert figures["deaths"] >= 100
    assert min(figures["deaths_by_process"].values()) >= 30
    assert figures["at_evaluations-reserved"] == figures["at_evaluation-made"] == 1


@pytest.mark.slow
@pytest.mark.postgres
def test_a_hundred_deaths_on_postgresql(tmp_path: Path, postgres_server: PostgresServer) -> None:
    intake = [one for one in SHUFFLER_ENDS if one.startswith(("accept-", "upload-"))]
    worker = [one for one in SHUFFLER_ENDS if one not in intake]
    ends = {
        "relay": [KILL] * 30,
        "intake-1": later(intake),
        "worker-1": later(worker),
        "analyzer": later(ANALYZER_ENDS),
    }
    figures = StringDeaths(tmp_path, ends, people=2000, server=postgres_server).run()
    print(figures)
    assert figures["deaths"] >= 100
    assert figures["at_evaluations-reserved"] == figures["at_evaluation-made"] == 1
