"""Error reporting of the command line: one line, one hint and a documented exit code, never a traceback."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from hubbub import errors

EPILOG = """\b
Exit codes:
  0    success
  1    internal error, or failure of the randomness source
  2    invalid option or invalid values
  3    infeasible: no protocol meets the budget, the batch is too small, or a ledger refuses a charge
  4    a plan, batch or ledger that is damaged, makes a false claim, or belongs to another plan
  5    a file, pipe or service that cannot be read or written, or a program that fails
  6    an audit found a violation
  7    the independent check does not confirm a plan
  130  interrupted

\b
Shell completion (bash; zsh and fish likewise):
  eval "$(_HUBBUB_COMPLETE=bash_source hubbub)"
"""

INTERNAL, USAGE, INFEASIBLE, CORRUPT, IO, VIOLATION, UNCONFIRMED, INTERRUPTED = 1, 2, 3, 4, 5, 6, 7, 130

# The first class that matches decides; the hint says what to do next.
_CODES: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.MissingExtra, USAGE, ""),
    (errors.PlanMismatch, CORRUPT, "use the plan that the reports were made with; `hubbub inspect` shows its id"),
    (errors.WireError, CORRUPT, "the file is damaged, truncated or of another type; create or fetch it again"),
    (errors.FalseClaim, CORRUPT, "do not use this plan; `hubbub account` shows the guarantee of its parameters"),
    (errors.LedgerDamaged, CORRUPT, "restore the newest copy and its anchor, or see `hubbub ledger recover --help`"),
    (errors.BudgetExceeded, INFEASIBLE, "`hubbub ledger forecast` shows how many rounds of a plan fit"),
    (errors.AlreadyCharged, INFEASIBLE, "give the collection a new name, or --again if this is a retry"),
    (errors.BatchTooSmall, INFEASIBLE, "wait for more people, or plan for a smaller batch with `hubbub plan -n`"),
    (errors.Infeasible, INFEASIBLE, "follow the advice in the message, or relax a constraint"),
    (errors.TooLarge, USAGE, "process less data at once"),
    (
        errors.InvalidRecord,
        USAGE,
        "correct the record, or see --on-error, --missing, --other and --rejects; records are counted from 1",
    ),
    (errors.InvalidInput, USAGE, "see `{command} --help`"),
    (errors.ProgramFailure, IO, "run the program by hand; docs/audit.md describes its input and output"),
    (errors.CommandRefused, IO, "see `hubbub serve admin --help`"),
    (errors.CommandFailure, IO, "check the address, that the service is running, and that you may use it"),
    (errors.WorkerFailure, IO, "see the log of the workers; a directory without a manifest is no batch"),
    (errors.StoreFailure, INTERNAL, "check the settings `store` and `credentials`; docs/howto/run-book.md has more"),
    (errors.HubbubError, INTERNAL, "nothing was written; try again"),
    (BrokenPipeError, IO, "the reader of the output stopped early"),
    (FileNotFoundError, IO, "check the file name"),
    (FileExistsError, IO, "a directory of reports is never overwritten: give the name of a new one"),
    (IsADirectoryError, IO, "give the name of a file, not of a folder"),
    (PermissionError, IO, "check the permissions of the file and its folder"),
    (OSError, IO, "check the disk and the file name; no partial file was left behind"),
    (MemoryError, INTERNAL, "process less data at once"),
)
_FILE_HINT = "correct the file; `{command} --help` describes what it must contain"
_SOCKET_HINTS = {
    errno.EADDRINUSE: "another program listens at this address: stop it, or choose another port (option or setting)",
    errno.EADDRNOTAVAIL: "this machine does not have this address: change it in the settings",
}
_SERVE = {"httptools", "httpx", "prometheus_client", "starlette", "uvicorn", "uvloop"}


class ReportingGroup(click.Group):
    """A group that reports errors as one line and a hint on standard error, with the exit codes of :data:`EPILOG`."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run a command and exit with its code."""
        options["standalone_mode"] = False
        try:
            code = super().main(args, *rest, **options)
            sys.stdout.flush()
        except (click.Abort, KeyboardInterrupt):
            code = _report("interrupted", "", INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            code = USAGE
        except click.UsageError as error:
            code = _report(_sentence(error.format_message()), _usage(error), USAGE)
        except click.ClickException as error:
            code = _report(_sentence(error.format_message()), "", IO)
        except Exception as error:
            code = _handle(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and report errors about its options; click itself would exit silently on a broken pipe."""
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, errors.InvalidInput) as error:
            name = ctx.invoked_subcommand or ""
            command = self.get_command(ctx, name)
            path = f"{ctx.command_path} {name}".strip()
            ctx.exit(_handle(error, path, command.params if command else ()))


def _handle(error: Exception, path: str = "hubbub", parameters: Sequence[click.Parameter] = ()) -> int:
    if os.environ.get("HUBBUB_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _SERVE:
        error = errors.MissingExtra("serve", "This command")
    for kind, code, hint in _CODES:
        if isinstance(error, kind):
            if isinstance(error, OSError):
                _abandon_output()
            text = _system(error) if isinstance(error, OSError) else str(error)
            if not isinstance(error, OSError | errors.InvalidRecord) and not text.startswith("question "):
                text = _with_options(text, parameters)  # the others are about columns and questions of a file
            advice = _SOCKET_HINTS.get(error.errno or 0, hint) if isinstance(error, OSError) else hint
            if files := getattr(error, "__notes__", ()):
                advice = _FILE_HINT if kind is errors.InvalidInput and "--" not in text else hint
                text = f"{files[0]}: {text}"
                if isinstance(error, errors.InvalidInput):
                    advice = next(iter(files[1:]), advice)  # the hint of those who read the file
            return _report(text or kind.__name__, advice.format(command=path), code)
    # The message of an unforeseen error may contain data; its type does not.
    return _report(
        f"internal error: {type(error).__name__}", "set HUBBUB_TRACEBACK=1 to locate it, and please report it", INTERNAL
    )


def _report(text: str, hint: str, code: int) -> int:
    click.echo(f"error: {' '.join(text.split())}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


def _with_options(text: str, parameters: Sequence[click.Parameter]) -> str:
    """Return the message with arguments of functions replaced by the options that they come from."""
    if " must " not in text:
        return text
    options: dict[str, str] = {}
    for one in parameters:
        if isinstance(one, click.Option):
            spelling = max(one.opts, key=len)
            options |= {one.name or "": spelling, spelling.lstrip("-").replace("-", "_"): spelling}
    subject, must, rest = text.partition(" must ")
    # Neither in options nor in file names.
    return re.sub(r"(?<![-./])\b\w+\b(?!\.\w)", lambda found: options.get(found[0], found[0]), subject) + must + rest


def _sentence(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def _usage(error: click.UsageError) -> str:
    return f"see `{error.ctx.command_path} --help`" if error.ctx else "see `hubbub --help`"


def _system(error: OSError) -> str:
    what = (error.strerror or type(error).__name__).lower()
    return f"{error.filename}: {what}" if error.filename else what


def _abandon_output() -> None:
    """Discard buffered output, so that the interpreter does not try to write it again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
