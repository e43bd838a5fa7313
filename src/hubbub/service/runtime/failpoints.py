"""Named points at which a test can kill the process as a power cut would: ``HUBBUB_FAILPOINT=name`` or ``name:3``.

The process dies by SIGKILL when it reaches the armed point (for ``name:3``, the third time). Nothing is flushed, closed
or answered. Without the variable, a point costs one comparison.
"""

import os
import signal

from hubbub.errors import reject

VARIABLE = "HUBBUB_FAILPOINT"
"""The environment variable that arms one point."""
POINTS = {
    # the shuffler's HTTP interface
    "upload-read": "an upload was read; nothing was opened",
    "upload-opened": "an upload was opened and waits for the writer",
    "upload-committed": "uploads are durable; no response was sent",
    "upload-answered": "the response to an upload was handed to the socket",
    # the shuffler's store
    "accept-begun": "a transaction of uploads has begun; nothing is written",
    "accept-spent": "the admissions of uploads are spent, not committed",
    "accept-inserted": "the rows of uploads are written, not committed",
    "accept-committed": "a transaction of uploads is committed; its caller does not know yet",
    "release-begun": "an epoch ended and the pool is large enough; nothing is changed",
    "release-permuted": "the batch is permuted and in the outbox, the pool is not yet empty; nothing is committed",
    "release-committed": "the batch is in the outbox durably",
    "expire-deleted": "bundles below the minimum batch size are deleted, not committed",
    "expire-committed": "bundles below the minimum batch size are deleted durably",
    # delivery
    "deliver-chunk": "a chunk is about to be sent",
    "deliver-chunk-sent": "the analyzer has a chunk; the shuffler has not recorded that",
    "deliver-manifest": "the manifest is about to be sent",
    "deliver-receipt": "the receipt arrived; nothing is erased",
    "deliver-erased": "the batch is erased, not committed",
    "deliver-committed": "the batch is erased durably",
    # the analyzer
    "chunk-stored": "a chunk is written, not committed",
    "chunk-committed": "a chunk is durable; no response was sent",
    "manifest-stored": "the manifest is durable; no response was sent",
    "batch-opened": "the slots of a batch are opened; nothing is written",
    "batch-counted": "the result of a batch is written, not committed",
    "batch-committed": "the result of a batch is durable; no response was sent",
    "receipt-answered": "the receipt is about to be sent",
    # the issuer of tokens
    "issue-recorded": "a token request is recorded, not committed",
    "issue-committed": "a token request is recorded durably; no response was sent",
    # keys
    "rotate-after-secret": "the secret of a new key is written, its record is not",
    "rotate-after-record": "a new key is pending",
    "rotate-after-activation": "a new key is active",
    "destroy-after-record": "an old key is recorded as destroyed; its secret still exists",
    "destroy-after-erasure": "the secret of an old key is erased durably",
    # secret files
    "file-before-write": "a file is about to be written",
    "file-before-sync": "the temporary file is written, not synced",
    "file-before-rename": "the temporary file is synced",
    "file-before-folder-sync": "the file is in place; the folder is not synced",
    "file-before-unlink": "the file is overwritten and about to be removed",
}
"""Every point and the state in which it is reached."""


def _armed(setting: str) -> tuple[str, int]:
    name, _, count = setting.partition(":")
    if name and name not in POINTS:
        reject(VARIABLE, "name one of the failpoints", name)
    if count and not (count.isascii() and count.isdigit() and int(count)):
        reject(VARIABLE, "count from 1, as in name:3", count)
    return name, int(count or 1)


_name, _left = _armed(os.environ.get(VARIABLE, ""))


def reach(name: str) -> None:
    """Kill the process if this point is armed.

    >>> reach("accept-inserted")
    """
    if name == _name:
        _count()


def _count() -> None:
    global _left  # noqa: PLW0603 - visits are counted per process
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
