"""Strings that the shuffler counts: devices send them unchanged, and a drawn number is subtracted from every count."""

from dataclasses import dataclass

from hubbub.model.protocol import Noise
from hubbub.model.questions import Column


@dataclass(frozen=True, slots=True)
class Threshold:
    """Send a string unchanged; the shuffler passes on its count less a drawn number, where that is positive."""

    column: Column
    noise: Noise
