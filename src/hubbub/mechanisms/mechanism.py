"""The mechanism of each column of a plan: the only place that reads it from the parameters of the protocol."""

from hubbub.mechanisms.flip import Flip
from hubbub.mechanisms.response import Response
from hubbub.mechanisms.threshold import Threshold
from hubbub.model.protocol import Noise, Protocol
from hubbub.model.questions import Column
from hubbub.model.schema import Schema

Mechanism = Flip | Response | Threshold


def mechanism(protocol: Protocol, column: Column, noise: Noise) -> Mechanism:
    """Return the mechanism that hides the answers of a column.

    >>> type(mechanism(Protocol(0.1, release="category"), Column("", 0, 4), Noise(0.1))).__name__
    'Response'
    """
    if protocol.sends_strings:
        return Threshold(column, noise)
    if protocol.sends_category:
        return Response(column, noise)
    return Flip(column, noise, protocol.k, protocol.sends_records)


def mechanisms(protocol: Protocol, schema: Schema) -> list[Mechanism]:
    """Return the mechanism of every column."""
    return [mechanism(protocol, column, noise) for column, noise in zip(schema.columns, protocol.noise, strict=True)]


def label_mechanisms(protocol: Protocol, schema: Schema) -> list[Flip | Response]:
    """Return the mechanism of every column of labels; strings have none."""
    return [one for one in mechanisms(protocol, schema) if not isinstance(one, Threshold)]
