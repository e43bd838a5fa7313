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
    "release-begun": "an epoch ended; nothing is changed",
    "release-sealed": "the open bucket is sealed and the next one is open, not committed",
    "release-committed": "the open bucket is sealed durably",
    "turn-written": "the bucket of a round that is over expired and the next round is open, not committed",
    "turn-committed": "the next round is open durably",
    "expire-written": "a task is closed, not committed",
    "expire-committed": "a task is closed durably",
    "sweep-erased": "the secrets of an ended bucket are erased; its data still exists",
    "sweep-slice": "some of the data of an ended bucket is deleted durably",
    "restore-abandoned": "the store is known to be restored, and its keys are given up; nothing else is changed",
    "restore-written": "the repair of a restored store is written, not committed",
    "restore-committed": "the repair of a restored store is durable; the fence does not know yet",
    # the shuffle job
    "shuffle-fenced": "the fence knows the bucket; nothing is drawn",
    "shuffle-fakes": "a block of fakes is stored durably",
    "shuffle-fakes-stored": "all fakes are stored durably",
    "shuffle-subtracted": "what is left of every string's count is known; nothing is stored",
    "shuffle-chunk": "a chunk is stored durably",
    "shuffle-signed": "the manifest is written, not committed",
    "shuffle-committed": "the batch is in the outbox durably",
    # delivery
    "deliver-chunk": "a chunk is about to be sent",
    "deliver-chunk-sent": "the analyzer has a chunk; the shuffler has not recorded that",
    "deliver-manifest": "the manifest is about to be sent",
    "deliver-receipt": "the receipt arrived; nothing is erased",
    "deliver-erased": "the receipt is written, not committed",
    "deliver-committed": "the receipt is durable; the batch is not erased",
    "adopt-receipt": "a receipt from before the store was restored arrived; nothing is written",
    "fence-written": "a bucket is fenced, not committed",
    "fence-committed": "a bucket is fenced durably",
    # the analyzer
    "chunk-stored": "a chunk is written, not committed",
    "chunk-committed": "a chunk is durable; no response was sent",
    "manifest-stored": "the manifest is durable; no response was sent",
    "chunk-opened": "the slots of a chunk are opened; nothing is written",
    "chunk-spent": "the ids of the slots of a chunk are written, not committed",
    "chunk-counted": "the partial tally of a chunk is written, not committed",
    "chunk-tally-committed": "the partial tally of a chunk is durable",
    "batch-counted": "the result of a batch is written, not committed",
    "batch-committed": "the result of a batch is durable; no response was sent",
    "receipt-answered": "the receipt is about to be sent",
    "statement-stored": "a statement of the keys in use is durable; no response was sent",
    "evaluations-reserved": "evaluations are reserved durably; none was made",
    "evaluation-made": "blinded elements are evaluated; no response was sent",
    # the analyzer's lake
    "lake-cleared": "nothing is left of interrupted exports of a batch; nothing is written",
    "lake-block": "some messages of a batch are about to be written under a hidden name",
    "lake-written": "a directory is complete and durable under a hidden name",
    "lake-renamed": "a directory has its final name; the folder is not synced",
    "lake-durable": "a directory is durable; the store still has its messages",
    "export-erased": "the messages of an exported batch are deleted, not committed",
    "export-committed": "the messages of an exported batch are deleted durably",
    # the issuer of tokens
    "issue-recorded": "a token request is recorded, not committed",
    "issue-committed": "a token request is recorded durably; no response was sent",
    # keys
    "rotate-after-secret": "the secret of a new key exists, its record does not",
    "rotate-after-record": "a new key is pending",
    "rotate-after-activation": "a new key is active",
    "destroy-after-record": "an old key is recorded as destroyed; its secret still exists",
    "destroy-after-erasure": "the secret of an old key is erased durably",
    # the credential folder
    "secret-created": "a new secret is durable",
    "secret-erased": "a secret is erased durably",
    "fence-raised": "the fence is durable",
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
