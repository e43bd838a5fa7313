"""Arrow kernels for engines that hubbub does not contain: record batches in, record batches or tallies out.

Any engine that hands over Arrow record batches, such as DuckDB, Polars, Ray, Dask or Beam, can randomize and count with
these functions (``docs/howto/engines.md``). A row is a person. Needs the extra ``frames``.

**Randomize each person once, and keep the result.** An engine that evaluates a lazy step again draws new noise for the
same person, and someone who sees both results learns more than the plan says. Either write what :func:`reports` returns
once and read it from there, or let nothing but the sum of the tallies leave.
"""

import importlib
from typing import Any

import numpy as np

from hubbub.bits.entropy import Entropy, system
from hubbub.errors import WireError, check_type, kind_of, reject
from hubbub.io import arrow as values
from hubbub.io.parquet import MESSAGES, PLAN_KEY, payloads
from hubbub.model.plans import Plan
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.arrays import arrow
from hubbub.pipeline.randomize import randomize
from hubbub.pipeline.records import Collection
from hubbub.pipeline.reports import MAX_DECLARED, Reports, Tally, check_plan, decode_payloads
from hubbub.pipeline.tally import tally as tally_reports

__all__ = ["collection", "decode", "reports", "reports_schema", "tally"]


def collection(
    batch: Any, schema: Schema | Plan, column: str | None = None, *, entropy: Entropy = system
) -> Collection:
    """Return the rows of a record batch or table as records of a schema, or of the schema of a plan.

    ``column`` has a label in each row, or a list of labels if several may be set. Without it, the table has such a
    column and no other, or a column of booleans, or of 0 and 1, for every label; a survey has a column for every
    question. The first invalid record raises :class:`~hubbub.errors.InvalidRecord` with its number in the batch.

    >>> import pyarrow as pa
    >>> collection(pa.table({"colour": ["red", "blue"]}), Schema.one_hot(["red", "blue"]))
    Collection(2 records of Schema.one_hot(2 labels))
    """
    if not isinstance(schema, Schema | Plan):
        reject("schema", f"be a Schema or a Plan, not {kind_of(schema)}")
    return values.collection(batch, schema.schema if isinstance(schema, Plan) else schema, column, entropy=entropy)


def reports_schema(plan: Plan) -> Any:
    """Return the Arrow schema of the record batches that :func:`reports` returns."""
    pa = arrow()
    metadata = {PLAN_KEY: check_type("plan", plan, Plan).id.encode()}
    columns = [pa.field(name, pa.int64(), nullable=False) for name in ("n", "fakes")]
    return pa.schema([*columns, pa.field(MESSAGES, pa.large_binary(), nullable=False, metadata=metadata)])


def reports(
    batch: Any, plan: Plan, column: str | None = None, *, fakes: int | None = None, entropy: Entropy = system
) -> Any:
    """Randomize the rows of a record batch or table, and return a record batch with one row.

    Its columns are the number of people ``n``, the number of ``fakes`` if the plan fixes their total, and ``messages``,
    the payloads of all messages in one binary value. The messages are in the order of the people: shuffle them before
    anyone else sees them. If the plan fixes the total number of fakes, ``fakes`` is the share of this batch.

    >>> import pyarrow as pa
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(2**-40), delta=1e-6)
    >>> reports(pa.table({"colour": ["red", "blue"]}), plan).to_pylist()
    [{'n': 2, 'fakes': 0, 'messages': b'\\x01\\x02'}]
    """
    pa = arrow()
    if check_type("plan", plan, Plan).protocol.fixed_fakes and fakes is None:
        must = f"be given, because the plan fixes {plan.protocol.fixed_fakes:,} fakes in total: the share of this batch"
        reject("fakes", must)
    found = randomize(collection(batch, plan, column, entropy=entropy), plan, fakes=fakes, entropy=entropy)
    ends = pa.py_buffer(np.array([0, found.messages.nbytes], np.int64))
    data = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(found.messages)])
    return pa.RecordBatch.from_arrays(
        [pa.array([found.n], pa.int64()), pa.array([found.fakes], pa.int64()), data], schema=reports_schema(plan)
    )


def decode(batch: Any, plan: Plan) -> Reports:
    """Return the reports in a record batch or table that :func:`reports` returned, checking every message.

    Metadata may be lost on the way, but if there is the id of a plan, it must be that of this one.

    >>> import pyarrow as pa
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(0.1), delta=1e-6)
    >>> decode(reports(pa.table({"colour": ["red", "blue"]}), plan), plan)
    Reports(2 messages of 2 people, not shuffled, plan ...)
    """
    pa = arrow()
    check_type("plan", plan, Plan)
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        reject("batch", f"be a record batch or a table of Arrow, not {kind_of(batch)}")
    if any(batch.schema.names.count(name) != 1 for name in ("n", "fakes", MESSAGES)):
        reject("batch", f"have the columns n, fakes and {MESSAGES}")
    metadata = batch.schema.field(MESSAGES).metadata or {}
    if PLAN_KEY in metadata:
        check_plan(plan.id, metadata[PLAN_KEY].decode(errors="replace"))
    n, fakes = (_declared(batch.column(name), name) for name in ("n", "fakes"))
    column = batch.column(MESSAGES)
    blocks = [payloads(chunk, plan.payload) for chunk in (column.chunks if isinstance(batch, pa.Table) else [column])]
    data = blocks[0] if len(blocks) == 1 else np.concatenate([np.empty(0, np.uint8), *blocks])
    return Reports(plan, decode_payloads(data, plan), n, fakes)


def tally(batch: Any, plan: Plan) -> Tally:
    """Count the messages of a record batch or table that :func:`reports` returned; tallies can be added.

    >>> import pyarrow as pa
    >>> from hubbub.planner import plan_from
    >>> from hubbub.model.protocol import Protocol
    >>> plan = plan_from(Schema.one_hot(["red", "blue"]), 2, Protocol(2**-40), delta=1e-6)
    >>> one, two = (tally(reports(pa.table({"colour": ["red", "red"]}), plan), plan) for _ in range(2))
    >>> (one + two).counts.tolist()
    [4, 0]
    """
    return tally_reports(decode(batch, plan))


def _declared(column: Any, name: str) -> int:
    compute = importlib.import_module("pyarrow.compute")
    if not arrow().types.is_integer(column.type) or column.null_count:
        raise WireError(f"the column {name!r} of reports must have whole numbers")
    lowest, highest = (one.as_py() for one in compute.min_max(column).values())
    if lowest is not None and (lowest < 0 or highest > MAX_DECLARED):
        raise WireError(f"the column {name!r} of reports must have numbers in [0, {MAX_DECLARED:,}]")
    return int(compute.sum(column).as_py() or 0)
