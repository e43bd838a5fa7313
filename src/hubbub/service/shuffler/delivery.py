"""The delivery of batches to the analyzer; a batch is erased only when a valid receipt proves its result durable.

The number of a bucket is signed by both sides. If the analyzer has another manifest under the same number, this
shuffler was restored or runs twice. It adopts the other manifest if that is its own, of the same bundles, and complete;
otherwise its bucket is *fenced*: discarded, counted and named in a gap. It is never sent under another number, because
two batches of the same people reveal which slots are fakes.

For the same reason the shuffler does not rely on the analyzer to refuse a second batch. Sealing is randomized, so a
store that is restored to a time before the shuffle makes another batch of the same people. Before a batch is announced,
its digest is therefore *pinned* in the credential folder, where no restore rewinds it: no other batch of the bucket is
ever announced, and none once the bucket's secrets are erased.
"""

import hashlib

from hubbub.errors import AnalyzerUnreachable, FalseClaim, InvalidInput, Problem
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.runtime.failpoints import reach
from hubbub.service.runtime.leases import Lease, Leases, LostLease
from hubbub.service.shuffler.analyzer_client import AnalyzerClient
from hubbub.service.shuffler.blocks import batch_pin
from hubbub.service.shuffler.buckets import Buckets
from hubbub.service.shuffler.shuffle import Shuffles
from hubbub.service.shuffler.store import Bucket, ShufflerStore
from hubbub.service.shuffler.tasks import TaskRegistry
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import Counter, Manifest, Receipt


class Deliveries:
    """Delivers shuffled buckets; any number of processes may run this at once."""

    def __init__(
        self,
        store: ShufflerStore,
        tasks: TaskRegistry,
        buckets: Buckets,
        shuffles: Shuffles,
        leases: Leases,
        credentials: Credentials,
    ) -> None:
        self._store, self._tasks, self._buckets = store, tasks, buckets
        self._shuffles, self._leases, self._credentials = shuffles, leases, credentials

    def run(self, client: AnalyzerClient) -> bool:
        """Try once to deliver every waiting bucket, and return True if any is left.

        The buckets of a task are announced in their order. A task that fails does not hold up the others; the first
        failure is raised after all were tried.
        """
        failure: Exception | None = None
        stopped: set[int] = set()
        for bucket in self._waiting():
            if bucket.task.number in stopped:
                continue
            try:
                announced = self._leased(bucket, client)
            except Exception as error:
                announced, failure = False, failure or error
            if not announced:
                stopped.add(bucket.task.number)
        if failure is not None:
            raise failure
        return bool(self._waiting())

    def _waiting(self) -> list[Bucket]:
        rows = {task.row.number: task.row for task in self._tasks.reachable()}
        return self._store.buckets(rows, "sealed", "shuffled")

    def _leased(self, bucket: Bucket, client: AnalyzerClient) -> bool:
        """Deliver a bucket under a lease; return True if the analyzer knows it."""
        if bucket.state == "sealed" and self._shuffles.has_secrets(bucket):
            return False
        lease = self._leases.acquire(f"deliver {bucket.batch}")
        if lease is None:
            return False
        try:
            if self._may_leave(bucket):
                self._deliver(bucket, client, lease)
            else:
                self._take_receipt(bucket, client, lease)
        except LostLease:
            return False
        finally:
            self._leases.release(lease)
        return True

    def _may_leave(self, bucket: Bucket) -> bool:
        """Return True if no other batch of this bucket was ever announced; the first one is pinned.

        A bucket without its secrets ended before the store was restored.
        """
        if bucket.state != "shuffled" or bucket.manifest is None or not self._shuffles.has_secrets(bucket):
            return False
        shuffler = self._tasks.contract(bucket.task.id).shuffler
        manifest = Manifest.read(SignedDocument.from_json(bucket.manifest), shuffler)
        content = hashlib.sha256("".join(manifest.chunks).encode()).digest()
        return self._credentials.create(batch_pin(bucket.task.id, bucket.number), content) == content

    def _deliver(self, bucket: Bucket, client: AnalyzerClient, lease: Lease) -> None:
        manifest = bucket.manifest or b""
        try:
            reach("deliver-manifest")
            answer = client.put_manifest(bucket.batch, manifest)
            if isinstance(answer, list) and answer:
                for index in answer:
                    self._send(bucket, index, client, lease)
                answer = client.put_manifest(bucket.batch, manifest)
        except Problem as problem:
            if problem.name != "fenced":
                raise
            self._take_receipt(bucket, client, lease, refused=True)
            return
        if not isinstance(answer, list):
            self._end(bucket, manifest, answer, lease)

    def _send(self, bucket: Bucket, index: int, client: AnalyzerClient, lease: Lease) -> None:
        data = self._store.chunk(bucket, index)
        if data is None:
            raise AnalyzerUnreachable("the analyzer asked for a chunk that the batch does not have")
        reach("deliver-chunk")
        client.put_chunk(bucket.batch, index, data)
        reach("deliver-chunk-sent")
        with self._store.jobs.transaction():
            self._leases.confirm(lease)

    def _take_receipt(self, bucket: Bucket, client: AnalyzerClient, lease: Lease, *, refused: bool = False) -> None:
        """Settle a bucket that the analyzer ``refused``, or may have received before the store was restored."""
        theirs = client.manifest(bucket.batch)
        if theirs is None or not self._is_ours(bucket, theirs):
            self._check_evidence(bucket, client, refused)
            self._buckets.fence(bucket, lease)
            return
        answer = client.put_manifest(bucket.batch, theirs)
        if isinstance(answer, list):
            if answer:
                # Its chunks were lost when the store was restored: it can never be completed, nor replaced.
                self._buckets.fence(bucket, lease)
            return
        reach("adopt-receipt")
        self._end(bucket, theirs, answer, lease)

    def _check_evidence(self, bucket: Bucket, client: AnalyzerClient, refused: bool) -> None:
        """Raise unless the analyzer of the contract itself accounts for a bucket that is about to be discarded.

        A refusal is not signed, and may come from a proxy or from another analyzer; the counter is.
        """
        contract = self._tasks.contract(bucket.task.id)
        counter = Counter.read(client.counter(contract.id), contract.analyzer, bucket.task.id)
        if refused and counter.bucket < bucket.number:
            raise AnalyzerUnreachable("the analyzer refuses a batch that its signed counter does not include")

    def _is_ours(self, bucket: Bucket, document: bytes) -> bool:
        """Return True if a manifest is this shuffler's own, of the same bucket with the same bundles."""
        contract = self._tasks.contract(bucket.task.id)
        try:
            theirs = Manifest.read(SignedDocument.from_json(document), contract.shuffler)
            ours = bucket.manifest and Manifest.read(SignedDocument.from_json(bucket.manifest), contract.shuffler)
        except (InvalidInput, FalseClaim):
            return False
        same = (theirs.task, theirs.bucket, theirs.bundles, theirs.key_id, theirs.epoch, theirs.round) == (
            *(bucket.task.id, bucket.number, bucket.bundles),
            *(bucket.key_id, bucket.epoch, bucket.round),
        )
        # The number of fakes is a function of the seed.
        return same and (not ours or ours.slots == theirs.slots)

    def _end(self, bucket: Bucket, manifest: bytes, answer: bytes, lease: Lease) -> None:
        reach("deliver-receipt")
        analyzer = self._tasks.contract(bucket.task.id).analyzer
        receipt = Receipt.read(answer, analyzer, bucket.task.id, bucket.number)
        receipt.check(manifest)
        self._buckets.deliver(bucket, manifest, answer, receipt.state, lease)
