"""The example of crash signatures at reduced size, and the recomputed parameters of STAR and Nebula."""

import functools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from examples import crash_signatures
from hubbub.bits.entropy import SeededStreamNotForPeople


@functools.cache
def outcome() -> crash_signatures.Outcome:
    return crash_signatures.run(100_000, SeededStreamNotForPeople(7))


@pytest.mark.long
def test_the_methods_side_by_side() -> None:
    ours, nebula, star = outcome().methods
    assert ours.found > star.found > nebula.found
    assert ours.error < 3.5 < nebula.error
    assert star.error == 0.0
    assert (ours.half, ours.most) == (36, 41)
    assert outcome().covered > 0.9
    assert ours.delta <= 1e-8
    assert star.delta == 1.0


def test_the_parameters_of_nebula() -> None:
    """Its deployed threshold is far on the safe side of (1, 10⁻⁸); the least threshold at its rate is 11."""
    share = crash_signatures.NEBULA_SHARE
    assert crash_signatures.sampled_delta(share, 20, 1.0) == pytest.approx(6.5e-15, rel=0.1)
    assert crash_signatures.sampled_delta(share, 11, 1.0) <= 1e-8 < crash_signatures.sampled_delta(share, 10, 1.0)
    assert 180 < crash_signatures.sampled_count(0.5) < 200


@pytest.mark.long
def test_the_command(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = CliRunner().invoke(crash_signatures.main, ["--people", "20000", "--seed", "3", "--json", "-o", str(page)])
    assert found.exit_code == 0
    assert json.loads(found.output)["people"] == 20_000
    assert "Strings" in page.read_text()
    text = CliRunner().invoke(crash_signatures.main, ["--people", "20000", "--seed", "3"]).output
    assert "Nebula" in text
