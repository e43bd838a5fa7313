"""The columns of a plan, and the fakes of every kind: drawn numbers have the stated distribution."""

import numpy as np
import pytest

import hubbub as hb
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.lab.mechanisms import AnyFakes, FixedFakes, ShufflerFakes, UserFakes, columns, fakes_of, kinds_of
from hubbub.lab.populations import generator
from hubbub.model.protocol import Noise

N, TIMES = 200, 20_000
SOURCES: dict[str, AnyFakes] = {
    "fixed": FixedFakes(60),
    "binomial": UserFakes(hb.Fakes.binomial(2, 0.2)),
    "Poisson": UserFakes(hb.Fakes.poisson(0.4)),
    "shuffler": ShufflerFakes(hb.Fakes.laplace(2.0, 35)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_drawn_fakes_have_the_stated_distribution(name: str) -> None:
    """The number with a given label, and of all, for one-hot records in the clear."""
    schema, source = hb.Schema.one_hot(4), SOURCES[name]
    shown, number = source.draw(N, schema, TIMES, generator(SeededStreamNotForPeople(5)))
    stated = source.with_bit(N, schema.density)
    values = np.arange(stated.low, stated.high + 1)
    mean = float(values @ stated.pmf)
    variance = float((values - mean) ** 2 @ stated.pmf)
    assert shown.sum(axis=1).tolist() == number.tolist()
    assert abs(shown[:, 2].mean() - mean) < 5 * np.sqrt(variance / TIMES)
    assert abs(shown[:, 2].var() / variance - 1) < 0.08
    expected = source.expected(N, schema, "records")
    assert abs(number.mean() - expected) < 5 * max(number.std(), 1e-9) / np.sqrt(TIMES)


def test_legal_numbers_of_messages() -> None:
    """Of 50 out of 200 people who send 50 records."""
    legal = {name: [sent for sent in range(200) if one.legal(sent, 50, 50, N)[0]] for name, one in SOURCES.items()}
    assert legal["fixed"] == [65, 110]  # their share of the fakes, or all of them
    assert legal["binomial"] == list(range(50, 151))
    assert legal["Poisson"] == list(range(50, 200))
    assert legal["shuffler"] == [50]


def test_the_source_of_fakes_follows_from_the_noise() -> None:
    drawn = hb.Fakes.laplace(2.0, 35)
    assert fakes_of(Noise(0.1)) == FixedFakes(0)
    assert fakes_of(Noise(0.1, 7)) == FixedFakes(7)
    assert fakes_of(Noise(m=hb.Fakes.poisson(0.4))) == SOURCES["Poisson"]
    assert fakes_of(Noise(m=drawn)) == ShufflerFakes(drawn)
    among = {name: one.among for name, one in SOURCES.items()}
    assert among == {"fixed": True, "binomial": True, "Poisson": True, "shuffler": False}


def test_columns() -> None:
    bits = hb.plan_from(hb.Schema.at_most(2, 5), 9, hb.Protocol(0.1), delta=1e-6)
    (whole,) = columns(bits)
    assert (whole.schema, whole.start, whole.stop) == (bits.schema, 0, 5)
    schema = hb.Schema.survey({"colour": hb.Choice(["red", "green", "blue"]), "dark mode": hb.Flag()})
    survey = hb.plan_from(schema, 9, hb.Protocol.survey([Noise(0.1), Noise(0.2)]), delta=1e-6)
    assert [(one.schema.width, one.start, one.noise.q) for one in columns(survey)] == [
        (3, 0, Noise(0.1).q),
        (2, 3, Noise(0.2).q),
    ]
    assert columns(survey)[1].of(np.arange(5)).tolist() == [3, 4]
    assert (kinds_of(bits.schema, "records"), kinds_of(bits.schema, "bits")) == (16, 5)
