"""The check of a manifest against the contract of its task: nothing that the contract does not allow is accepted."""

from collections.abc import Mapping

from hubbub.errors import FalseClaim, InvalidInput, Problem
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import SignedDocument
from hubbub.service.task.manifest import CHUNK_SIZE, MAX_CHUNKS, Manifest, claimed_task
from hubbub.service.task.sealing import MAX_KEY_ID


def read_manifest(batch: str, document: bytes, contracts: Mapping[bytes, Contract]) -> BatchRow:
    """Return the batch that a manifest announces; raise a problem if its contract does not allow it."""
    try:
        signed = SignedDocument.from_json(document)
        contract = contracts.get(claimed_task(signed))
        if contract is None:
            raise Problem("unknown-task")
        manifest = Manifest.read(signed, contract.shuffler)
    except InvalidInput:
        raise Problem("malformed", "the document is not a valid manifest") from None
    except FalseClaim:
        raise Problem("forbidden", "the manifest is not signed by the contract's shuffler") from None
    if manifest.batch != batch:
        raise Problem("malformed", "the manifest is for another batch")
    _check_sizes(manifest, contract)
    if not 0 <= manifest.key_id <= MAX_KEY_ID:
        raise Problem("forbidden", f"a key id must be in [0, {MAX_KEY_ID}]")
    sizes = (manifest.bundles, manifest.slots, len(manifest.chunks))
    return BatchRow(batch, manifest.task, manifest.key_id, *sizes, document)


def _check_sizes(manifest: Manifest, contract: Contract) -> None:
    if manifest.bundles < contract.min_batch_size:
        raise Problem("forbidden", f"a batch of this task must have at least {contract.min_batch_size} bundles")
    sent, chunks = contract.slots * manifest.bundles, len(manifest.chunks)
    with_fakes = contract.plan.protocol.shuffler_fakes is not None
    if manifest.slots < sent or (manifest.slots > sent and not with_fakes):
        raise Problem("forbidden", "the number of slots does not match the number of bundles")
    if not 1 <= chunks <= MAX_CHUNKS:
        raise Problem("forbidden", f"a batch must have 1 to {MAX_CHUNKS} chunks")
    if manifest.slots > chunks * (CHUNK_SIZE // contract.slot_size):
        raise Problem("forbidden", "the slots do not fit into the chunks")
