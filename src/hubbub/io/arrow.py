"""Arrow record batches and tables as collections, without a Python object for any record; needs the extra ``frames``.

The engines that hubbub does not contain call this for every batch of rows: each row is one person.
"""

from typing import Any

from hubbub.bits.entropy import Entropy, check_entropy, system
from hubbub.errors import check_type, kind_of, reject
from hubbub.model.schema import Schema
from hubbub.pipeline.encoding.answers import encode_answers
from hubbub.pipeline.encoding.arrays import arrow
from hubbub.pipeline.encoding.columns import encode_column, encode_table
from hubbub.pipeline.encoding.encoded import Encoded
from hubbub.pipeline.encoding.strings import encode_strings
from hubbub.pipeline.records import Collection, stored


def collection(batch: Any, schema: Schema, column: str | None = None, *, entropy: Entropy = system) -> Collection:
    """Return the rows of a record batch or table as records of the schema.

    ``column`` has a label in each row, or a list of labels if several may be set. Without it, the table has such a
    column and no other, or a column of booleans, or of 0 and 1, for every label. Surveys have a column for every
    question, and their numbers are rounded at random, which is what ``entropy`` is for; strings that nobody listed have
    one column. The first invalid record raises
    :class:`~hubbub.errors.InvalidRecord`, with its number in the batch, counted from 1, and no data.

    >>> import pyarrow as pa
    >>> collection(pa.table({"colour": ["red", "blue"], "age": [31, 24]}), Schema.one_hot(["red", "blue"]), "colour")
    Collection(2 records of Schema.one_hot(2 labels))
    """
    check_type("schema", schema, Schema)
    return Collection(schema, stored(encode_batch(batch, schema, column, entropy=entropy), schema))


def encode_batch(batch: Any, schema: Schema, column: str | None = None, *, entropy: Entropy = system) -> Encoded:
    """Encode the rows of a record batch or table, and find all invalid records; see :func:`collection`."""
    library = arrow()
    if not isinstance(batch, library.RecordBatch | library.Table):
        reject("batch", f"be a record batch or a table of Arrow, not {kind_of(batch)}")
    check_entropy(entropy)
    names = list(batch.schema.names)
    if len(set(names)) != len(names):
        reject("the columns of the batch", "have distinct names")
    if column is not None:
        check_type("column", column, str)
        if schema.named:
            reject("column", "be None for a survey, which has a column for every question")
        if column not in names:
            reject("column", "be the name of a column of the batch", column)
    if schema.text is not None:
        if column is None and len(names) != 1:
            reject("the batch", "have one column of strings; choose one by column", len(names))
        place = 0 if column is None else names.index(column)
        return encode_strings(batch.column(place).to_pylist(), schema.text, column)
    if column is not None:
        return encode_column(batch.column(names.index(column)), schema, name=column)
    if schema.named:
        return encode_answers(batch, schema, entropy=entropy)
    if set(schema.labels) <= set(names):
        return encode_table([batch.column(names.index(label)) for label in schema.labels], schema)
    if len(names) != 1:
        reject("the batch", "have one column, or a column for every label; choose one by column", len(names))
    return encode_column(batch.column(0), schema)
