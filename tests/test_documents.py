"""The codec: frozen dataclasses as JSON objects, written, read and refused by the types of their fields."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import pytest

from hubbub.documents import OPTIONAL, Document, Json, Whole, canonical, check_fields, parse
from hubbub.errors import PROBABILITY, Interval, InvalidInput, WireError, reject


class Side(StrEnum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Part(Document):
    WHAT = "a part"
    size: Annotated[int, Whole(1, 9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing(Document):
    share: Annotated[float, PROBABILITY]
    bound: Annotated[float, Interval(0.0, math.inf)]
    count: Annotated[int, Whole(2)]
    name: str
    good: bool
    colour: Literal["red", "blue"]
    side: Side
    key: Annotated[bytes, 2]
    part: Part
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    numbers: tuple[Annotated[int, Whole()], ...]
    missing: Part | None = None
    extra: Annotated[bool, OPTIONAL] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.name == self.colour:
            reject("name", "not be the colour", self.name)


THING = Thing(
    share=1,
    bound=math.inf,
    count=2,
    name="x",
    good=True,
    colour="red",
    side=Side.LEFT,
    key=b"\x01\xff",
    part=Part(3),
    parts=(Part(1), Part(2)),
    names=("a", "b"),
    numbers=(0, 7),
)
TEXT = (
    '{"bound":"inf","colour":"red","count":2,"good":true,"key":"01ff","missing":null,"name":"x","names":["a","b"],'
    '"numbers":[0,7],"part":{"size":3},"parts":[{"size":1},{"size":2}],"share":1,"side":"left"}'
)


def test_a_document_is_a_function_of_its_fields() -> None:
    assert canonical(THING.to_document()).decode() == TEXT
    found = Thing.from_document(parse(TEXT, "the thing"))
    assert found == THING
    assert (type(found.share), type(found.side), found.parts[1]) == (float, Side, Part(2))
    assert type(THING.share) is float  # stored as the field says, not as it was given
    assert all(type(value) is str for value in (THING.to_document()["side"], THING.to_document()["key"]))


def test_optional_entries_are_written_only_where_they_say_something() -> None:
    document = {**THING.to_document(), "extra": True}
    assert Thing.from_document(document).to_document() == document
    with pytest.raises(WireError, match=r"^in the thing: extra must be left out for its default, got False$"):
        Thing.from_document({**document, "extra": False})


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("share", "1", "'share' of the thing must be a number"),
        ("share", True, "'share' of the thing must be a number"),
        ("share", 1.5, "in the thing: share must be in [0, 1], got 1.5"),
        ("share", "inf", "'share' of the thing must be a number"),
        ("bound", -1, "in the thing: bound must be at least 0, got -1.0"),
        ("count", 2.0, "'count' of the thing must be a whole number"),
        ("count", 1, "in the thing: count must be a whole number of at least 2, got 1"),
        ("name", None, "'name' of the thing must be a string"),
        ("name", "red", "in the thing: name must not be the colour, got 'red'"),
        ("good", 1, "'good' of the thing must be true or false"),
        ("colour", "green", "in the thing: colour must be 'red' or 'blue', got 'green'"),
        ("side", "up", "in the thing: side must be 'left' or 'right', got 'up'"),
        ("key", "01FF", "the key of the thing must have 4 lower-case hexadecimal digits"),
        ("key", "01", "the key of the thing must have 4 lower-case hexadecimal digits"),
        ("part", None, "the part of the thing must be an object with exactly the keys size"),
        ("part", {"size": 10}, "in the part of the thing: size must be a whole number in [1, 9], got 10"),
        ("parts", {}, "'parts' of the thing must be a list"),
        ("parts", [{"size": 0}], "in a part: size must be a whole number in [1, 9], got 0"),
        ("names", ["a", 1], "'names' of the thing must be a list of strings"),
        ("numbers", [True], "'numbers' of the thing must be a list of whole numbers"),
        ("numbers", [-1], "in the thing: numbers must be a whole number of at least 0, got -1"),
        ("missing", {"size": "1"}, "'size' of the missing of the thing must be a whole number"),
        ("other", 1, f"the thing must be an object with exactly the keys {', '.join(THING.to_document())}"),
    ],
)
def test_what_is_refused(entry: str, value: Json, message: str) -> None:
    with pytest.raises(WireError, match=f"^{re.escape(message)}$"):
        Thing.from_document({**THING.to_document(), entry: value})


def test_constructors_check_the_same() -> None:
    with pytest.raises(InvalidInput, match=r"^size must be a whole number in \[1, 9\], got 0$"):
        Part(0)
    entries = {one: getattr(THING, one) for one in Thing.__slots__}
    for key in ("01ff", b"1"):
        with pytest.raises(InvalidInput, match=r"^key must have 2 bytes$"):
            Thing(**{**entries, "key": key})
