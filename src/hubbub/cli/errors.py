"""What a command says when it fails: one line, a hint, and a documented exit code; never a traceback."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from hubbub.errors import (
    BatchTooSmall,
    FalseClaim,
    HubbubError,
    Infeasible,
    InvalidInput,
    PlanMismatch,
    ProgramFailure,
    TooLarge,
    WireError,
)

EPILOG = """\b
Exit codes:
  0  done
  1  an error of hubbub itself, or of its randomness
  2  a wrong option, or values that are not legal
  3  infeasible: no protocol meets the budget, or the batch is too small
  4  a plan or a batch that is damaged, false, or of another plan
  5  a file or pipe that cannot be read or written, or a program that fails
  6  an audit found a violation
  130  interrupted

\b
Completion, for bash (zsh and fish likewise):
  eval "$(_HUBBUB_COMPLETE=bash_source hubbub)"
"""

INTERNAL, USAGE, INFEASIBLE, CORRUPT, IO, VIOLATION, INTERRUPTED = 1, 2, 3, 4, 5, 6, 130

# The first class that fits; the hint says what to do next.
_CODES: tuple[tuple[type[Exception], int, str], ...] = (
    (PlanMismatch, CORRUPT, "use the plan under which the reports were made; `hubbub inspect` shows its id"),
    (WireError, CORRUPT, "the file is damaged, cut short, or of another kind; make or fetch it again"),
    (FalseClaim, CORRUPT, "do not use this plan; `hubbub account` shows what its parameters give"),
    (BatchTooSmall, INFEASIBLE, "wait for more people, or plan for a smaller crowd with `hubbub plan -n`"),
    (Infeasible, INFEASIBLE, "ask for a larger epsilon or delta, more people, or fewer constraints"),
    (TooLarge, USAGE, "ask for less at once"),
    (InvalidInput, USAGE, "`hubbub` with the command and --help shows what it takes"),
    (ProgramFailure, IO, "run the program by hand; docs/audit.md says what it gets and what it must write"),
    (HubbubError, INTERNAL, "nothing was written; try again"),
    (BrokenPipeError, IO, "whoever reads the output stopped early"),
    (FileNotFoundError, IO, "check the name of the file"),
    (PermissionError, IO, "check the rights on the file and its folder"),
    (OSError, IO, "check the disk and the name of the file; nothing half-written was left"),
    (MemoryError, INTERNAL, "ask for less at once"),
)
_EXTRAS = {
    "'arrow'": "pip install 'hubbub[arrow]'",
    "'plot'": "pip install 'hubbub[plot]'",
    "'serve'": "pip install 'hubbub[serve]'",
}
_SERVE = {"httptools", "httpx", "prometheus_client", "starlette", "uvicorn", "uvloop"}


class Careful(click.Group):
    """A group whose errors are one line and a hint on standard error, with the codes of :data:`EPILOG`."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run a command and leave with its exit code."""
        options["standalone_mode"] = False
        try:
            code = super().main(args, *rest, **options)
            sys.stdout.flush()
        except (click.Abort, KeyboardInterrupt):
            code = _tell("interrupted", "", INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            code = USAGE
        except click.UsageError as error:
            code = _tell(_sentence(error.format_message()), _usage(error), USAGE)
        except click.ClickException as error:
            code = _tell(_sentence(error.format_message()), "", IO)
        except Exception as error:
            code = _judge(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a reader who left is judged here, because click itself would keep silent about him."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            ctx.exit(_judge(error))


def _judge(error: Exception) -> int:
    if os.environ.get("HUBBUB_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _SERVE:
        return _tell("this command needs the extra 'serve'", _EXTRAS["'serve'"], USAGE)
    for kind, code, hint in _CODES:
        if isinstance(error, kind):
            if isinstance(error, OSError):
                _abandon_output()
            text = _system(error) if isinstance(error, OSError) else str(error) or kind.__name__
            install = next((command for extra, command in _EXTRAS.items() if extra in text), hint)
            return _tell(text, install, code)
    # The message of an unforeseen error may contain data; its kind does not.
    return _tell(
        f"internal error: {type(error).__name__}", "HUBBUB_TRACEBACK=1 shows where; please report it", INTERNAL
    )


def _tell(text: str, hint: str, code: int) -> int:
    click.echo(f"error: {' '.join(text.split())}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


def _sentence(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def _usage(error: click.UsageError) -> str:
    return f"see `{error.ctx.command_path} --help`" if error.ctx else "see `hubbub --help`"


def _system(error: OSError) -> str:
    what = (error.strerror or type(error).__name__).lower()
    return f"{error.filename}: {what}" if error.filename else what


def _abandon_output() -> None:
    """Forget what standard output still holds back, so that it is not tried, and complained about, once more."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
