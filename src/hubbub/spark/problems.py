"""Errors that cross from a task to the driver: hubbub's own as they are, all others without their text.

An exception of a task arrives as text inside that of Spark, which its logs keep. Those of hubbub contain no data; those
of Arrow or Spark may quote a value, so that only their kind is kept.
"""

import base64
import contextlib
import errno
import functools
import importlib
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

from hubbub import errors
from hubbub.errors import HubbubError, InvalidRecord, WorkerFailure

P = ParamSpec("P")
_MARK = re.compile(r"\[hubbub:([A-Za-z0-9_=-]+)\]")
_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.BatchTooSmall,
        errors.EntropyFailure,
        errors.InvalidInput,
        errors.PlanMismatch,
        errors.TooLarge,
        errors.WireError,
    )
}


class TaskFailure(Exception):
    """An error of a task, with a description that the driver reads from its text."""


def reporting(task: Callable[P, Iterator[Any]]) -> Callable[P, Iterator[Any]]:
    """Wrap the generator of a task so that its errors are described for the driver, and contain no data."""

    @functools.wraps(task)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
        try:
            yield from task(*args, **kwargs)
        except HubbubError as error:
            raise TaskFailure(f"{error} {_described(error)}") from None
        except (TaskFailure, MemoryError):
            raise
        except Exception as error:
            raise TaskFailure(f"a task failed with an error of the kind {type(error).__name__}") from None

    return wrapped


def _described(error: HubbubError) -> str:
    record: dict[str, Any] = {"kind": type(error).__name__, "text": str(error)}
    if isinstance(error, InvalidRecord):
        record["record"] = [error.record, error.problem, error.column, error.kind]
    record["notes"] = list(getattr(error, "__notes__", []))
    return f"[hubbub:{base64.urlsafe_b64encode(json.dumps(record).encode()).decode()}]"


@contextlib.contextmanager
def unwrapping() -> Iterator[None]:
    """Raise the errors of tasks as those of hubbub, and failures of Spark without the text, which may quote data."""
    try:
        yield
    except HubbubError:
        raise
    except Exception as error:
        kinds = _spark_errors()
        if not isinstance(error, kinds):
            raise
        raise _unwrapped(error) from None


def _spark_errors() -> tuple[type[Exception], ...]:
    found = [importlib.import_module("pyspark.errors").PySparkException]
    with contextlib.suppress(ImportError):
        found.append(importlib.import_module("py4j.protocol").Py4JError)
    return tuple(found)


def _unwrapped(error: Exception) -> Exception:
    text = str(error)
    if match := _MARK.search(text):
        return _restored(json.loads(base64.urlsafe_b64decode(match[1])))
    if "org.apache.hadoop.fs.ChecksumException" in text:
        return errors.WireError("the manifest or a part of the batch is damaged: its checksum does not match")
    condition = _condition(error)
    if condition == "PATH_NOT_FOUND":
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if condition == "PATH_ALREADY_EXISTS":
        return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if re.search(r"ModuleNotFoundError: No module named '(hubbub|pyarrow|numpy|cryptography|scipy)", text):
        must = "the Python of the workers must have hubbub with the extra 'spark'; PYSPARK_PYTHON names it"
        return WorkerFailure(must)
    about = f" ({condition})" if condition else ""
    return WorkerFailure(f"Spark failed with {type(error).__name__}{about}; its own log says more")


def _condition(error: Exception) -> str:
    """Return Spark's name of the kind of an error, which contains no data."""
    for name in ("getCondition", "getErrorClass"):
        with contextlib.suppress(Exception):
            if found := getattr(error, name)():
                return str(found)
    return ""


def _restored(record: dict[str, Any]) -> HubbubError:
    if "record" in record:
        error: HubbubError = InvalidRecord(*record["record"])
    else:
        error = _KINDS.get(record["kind"], WorkerFailure)(record["text"])
    for note in record["notes"]:
        error.add_note(note)
    return error
