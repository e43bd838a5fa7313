"""The locked requirements install with pip as well as with uv, also after newer versions have been published."""

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = sorted((Path(__file__).parents[2] / "requirements").glob("*.txt"))
LINE = re.compile(r"^([A-Za-z0-9][^\s;\\]*==[^\s;\\]+)", re.MULTILINE)


def locked(text: str) -> dict[str, set[str]]:
    """The packages of a lock, each with the extras it is locked with."""
    pins = [Requirement(line) for line in LINE.findall(text)]
    return {canonicalize_name(pin.name): pin.extras for pin in pins}


def missing_extras(pins: dict[str, set[str]]) -> set[str]:
    """Extras that a locked package asks another one for, and that the other one is not locked with.

    pip looks for the newest version of `name[extra]` where the lock has only `name`, and rejects it for want of a pin
    as soon as it is newer than the locked one.
    """
    missing = set()
    for name, extras in pins.items():
        try:
            asked = map(Requirement, requires(name) or [])
        except PackageNotFoundError:
            continue
        for need in asked:
            applies = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras})
            wanted = canonicalize_name(need.name)
            if applies and wanted in pins and not need.extras <= pins[wanted]:
                missing.add(f"{name} needs {need.name}[{','.join(sorted(need.extras - pins[wanted]))}]")
    return missing


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_extras_are_locked(path: Path) -> None:
    pins = locked(path.read_text())
    assert pins
    assert missing_extras(pins) == set()


def test_an_extra_that_is_not_locked_is_noticed() -> None:
    assert missing_extras({"pytest-cov": set(), "coverage": set()}) == {"pytest-cov needs coverage[toml]"}
    assert missing_extras({"pytest-cov": set(), "coverage": {"toml"}}) == set()
