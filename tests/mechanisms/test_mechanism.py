"""The mechanism of a column: one per way to hide answers, drawn alike for one person and for many."""

import numpy as np
import pytest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.mechanisms.flip import Flip
from hubbub.mechanisms.mechanism import Mechanism, label_mechanisms, mechanisms
from hubbub.mechanisms.response import Response
from hubbub.mechanisms.threshold import Threshold
from hubbub.model.protocol import GRID
from hubbub.model.questions import Column

LAPLACE = hb.Fakes.laplace(2.0, 25)
N = 20_000


@pytest.mark.parametrize(
    ("schema", "protocol", "kinds"),
    [
        (hb.Schema.one_hot(3), hb.Protocol(0.1), [Flip]),
        (hb.Schema.bits(3), hb.Protocol(0.1, 2, 30, release="bits"), [Flip]),
        (hb.Schema.one_hot(3), hb.Protocol(0.1, release="category"), [Response]),
        (hb.Schema.strings(), hb.Protocol(0.0, m=LAPLACE, release="strings"), [Threshold]),
        (
            hb.Schema.survey({"a": hb.Flag(), "b": hb.Flag()}),
            hb.Protocol.survey([hb.Noise(0.1), hb.Noise(m=LAPLACE)]),
            [Flip, Flip],
        ),
        (
            hb.Schema.survey({"a": hb.Flag(), "b": hb.Flag()}),
            hb.Protocol.survey([hb.Noise(0.1)] * 2, "category"),
            [Response, Response],
        ),
    ],
)
def test_every_column_has_one(schema: hb.Schema, protocol: hb.Protocol, kinds: list[type[Mechanism]]) -> None:
    found = mechanisms(protocol, schema)
    assert [type(one) for one in found] == kinds
    assert [one.column for one in found] == list(schema.columns)
    assert label_mechanisms(protocol, schema) == [one for one in found if not isinstance(one, Threshold)]


@pytest.mark.parametrize("q", [0.05, 0.2])
def test_responses_of_one_and_of_many_have_one_distribution(q: float) -> None:
    """Rare changes are drawn by their positions, others by a coin each; a fifth more changes would be seen."""
    one, entropy = Response(Column("", 7, 4), hb.Noise(q)), SeededStreamNotForPeople(3)
    assert (2 * one.change < GRID) == (q == 0.05)
    many = one.sample(np.full(N, 9, np.uint32), entropy)
    single = np.array([one.sample_one(0b100, 0, entropy)[0] for _ in range(N)])
    for seen in (many, single):
        counts = np.bincount(seen - 7, minlength=4)
        expected = N * np.array([q, q, 1 - 3 * q, q])
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
        assert abs(counts[2] - N * (1 - 3.6 * q)) > 5 * np.sqrt(N * 3 * q * (1 - 3 * q))


def test_clear_answers_draw_nothing_but_fakes() -> None:
    def refuse(_: int) -> bytes:
        raise AssertionError("no entropy is needed")

    assert Flip(Column("", 2, 3), hb.Noise(m=LAPLACE), 1, False).sample_one(0b010, 0, refuse) == [3]
