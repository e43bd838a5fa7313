"""``hubbub-verify PLAN.json``: the verdict on a plan, with the text and the exit codes of ``hubbub verify``."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from .fields import WireError
from .verdict import verify

USAGE, DAMAGED, UNREADABLE, INTERRUPTED = 2, 4, 5, 130
WIDTH = 160  # of lines that are not for a terminal
DESCRIPTION = """\
Check the privacy claim of a hubbub plan: re-derive an upper bound on its delta in integer arithmetic.

Exits with code 0 if the whole claim is confirmed, 7 if a part of it cannot be confirmed here, and 4 if it is false or
the plan is damaged.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.exit(_report(message, f"see `{self.prog} --help`", USAGE))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict on a plan, and return the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="hubbub-verify", description=DESCRIPTION, formatter_class=form)
    parser.add_argument("file", metavar="FILE", help="the plan, in JSON; - for standard input")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args(arguments)
    piped = given.file == "-"
    try:
        text = sys.stdin.buffer.read() if piped else Path(given.file).read_bytes()
        verdict = verify(text, watch=_progress)
        told = verdict.to_document()
        print(json.dumps(told, ensure_ascii=False, indent=1) if given.json else table(verdict.rows(), _width()))
    except WireError as error:
        hint = "the file is damaged, truncated or of another type; create or fetch it again"
        return _report(f"{'standard input' if piped else given.file}: {error}", hint, DAMAGED)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        return _report(f"{error.filename}: {reason}" if error.filename else reason, "check the file name", UNREADABLE)
    except KeyboardInterrupt:
        return INTERRUPTED
    return verdict.state.code


def table(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Return lines of text in two columns.

    >>> print(table([("plan", "21f0bd7f…"), ("verdict", "confirmed by all theorems")], 28))
    plan     21f0bd7f…
    verdict  confirmed by all
             theorems
    """
    each = list(rows)
    names = max(len(name) for name, _ in each) + 2
    lines = []
    for name, text in each:
        first, *rest = textwrap.wrap(text, max(width - names, 20), break_on_hyphens=False) or [""]
        lines += [f"{name:{names}}{first}", *(" " * names + line for line in rest)]
    return "\n".join(lines)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\r" if done < total else "\n"
        print(f"re-deriving the claim of the plan, {100 * done // total:3} %", end=end, file=sys.stderr, flush=True)


def _report(text: str, hint: str, code: int) -> int:
    print(f"error: {' '.join(text.split())}\nhint: {hint}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
