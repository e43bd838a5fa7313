"""Verdicts of the checker, computed with a progress bar and kept for the pages of plans that were checked before."""

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hubbub import checker
from hubbub.checker import Part, State, Verdict
from hubbub.cli import screen
from hubbub.errors import WireError


@dataclass(frozen=True, slots=True)
class Known:
    """The parts of a verdict that are kept."""

    state: State
    parts: tuple[Part, ...]


def check(text: str | bytes) -> Verdict:
    """Return the verdict on a plan, always computed, and keep it."""
    try:
        with screen.progressing() as progress:
            verdict = checker.verify(
                text,
                watch=lambda done, total: progress("re-deriving the claim of the plan, %", 100 * done // total, 100),
            )
    except checker.WireError as error:  # a class of its own, because the checker shares no code
        raise WireError(str(error)) from None
    _keep(verdict)
    return verdict


def known(text: str, plan: str) -> tuple[Known, str]:
    """Return the verdict on a plan and the day on which it was reached; it is computed only if none is kept."""
    with contextlib.suppress(OSError, RuntimeError, ValueError, KeyError, TypeError):
        path = _path(plan)
        if _private(path):
            kept = json.loads(path.read_text(encoding="utf-8"))
            parts = tuple(Part(name, State(state), reason) for name, state, reason in kept["parts"])
            day = datetime.fromisoformat(kept["day"]).date().isoformat()
            if kept["plan"] == plan and parts:
                return Known(State(kept["state"]), parts), day
    verdict = check(text)
    return Known(verdict.state, verdict.parts), _today()


def _keep(verdict: Verdict) -> None:
    """Write the verdict to the user's cache; without one, nothing is kept."""
    document = {
        "plan": verdict.plan,
        "day": _today(),
        "state": verdict.state,
        "parts": [(part.name, part.state, part.reason) for part in verdict.parts],
    }
    with contextlib.suppress(OSError, RuntimeError):
        path = _path(verdict.plan)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)  # readable and writable by the user alone
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False)
        Path(name).replace(path)


def _private(path: Path) -> bool:
    """Return True if nobody but this user can have written the file."""
    own, folder = path.lstat(), path.parent.lstat()
    return all(one.st_uid == os.getuid() and not one.st_mode & 0o022 for one in (own, folder))


def _path(plan: str) -> Path:
    """Return the file for a plan and this very checker: its name has the digest of the checker's source."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    source = hashlib.sha256()
    for file in sorted(Path(checker.__file__).parent.glob("*.py")):
        source.update(file.read_bytes())
    return Path(root) / "hubbub" / "verdicts" / f"{plan}-{source.hexdigest()[:16]}.json"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
