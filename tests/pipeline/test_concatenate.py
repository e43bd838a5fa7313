"""``Collection.concatenate`` joins the parts that ``Collection.blocks`` makes."""

import numpy as np
import pytest

import hubbub as hb
from hubbub.errors import InvalidInput


@pytest.mark.parametrize("schema", [hb.Schema.bits(11), hb.Schema.one_hot(5), hb.Schema.at_most(2, 9)], ids=str)
def test_concatenate_is_the_inverse_of_blocks(schema: hb.Schema) -> None:
    rows = np.eye(schema.width, dtype=np.uint8)[np.arange(23) % schema.width]
    if not schema.exclusive:
        rows[::4] = 0
    people = hb.Collection.from_values(rows, schema)
    joined = hb.Collection.concatenate(list(people.blocks(7)))
    assert len(joined) == 23
    assert (joined.rows(0, 23) == people.rows(0, 23)).all()
    twice = hb.Collection.concatenate([people, people])
    assert (twice.rows(23, 46) == people.rows(0, 23)).all()


def test_concatenate_needs_one_schema() -> None:
    one, two = (hb.Collection.from_values(np.zeros((1, n), np.uint8), hb.Schema.bits(n)) for n in (2, 3))
    for parts in ([], [one, two]):
        with pytest.raises(InvalidInput, match="all of the same schema"):
            hb.Collection.concatenate(parts)
