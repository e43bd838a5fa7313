"""Vectors of plans that a client must accept or refuse."""

import copy
import json

from tests.vectors.answers import surveys
from tests.vectors.common import Edit, Json, Vector, at, error_of, identified, small_plan, without

from hubbub.model.plans import Plan

FAKES = {"distribution": "poisson", "scale": 0.5, "shift": 0}
CURVES: list[Json] = [
    *([], [[0, 1]], [[0, 0.5], [1, 0.5]], [[0, 0.5], [0, 0.4]], [[0, 0.4], [1, 0.5]], [[-1, 0.5]]),
    *([[0, 1.5]], [["inf", 0]], [[0]], [[0, 0.5, 1]], [0, 0.5], [[True, 0]], {}, None),
]
PLAN_EDITS: list[tuple[str, Edit]] = [
    ("unchanged", lambda document: document),
    *[(f"without {key}", without(key)) for key in ("schema", "n", "protocol", "guarantee", "curve", "total", "rounds")],
    ("one key more", at("more", 1)),
    ("format 1", at("format", "hubbub plan 1")),
    ("format is a number", at("format", 2)),
    *[(f"n = {value}", at("n", value)) for value in (0, -1, 100.0, 101, 10**10 + 1, "100", True, None)],
    *[(f"honest_fraction = {value}", at("honest_fraction", value)) for value in (0, 0.5, 1, 1.5, -0.5, "1", True)],
    *[(f"stderr = {value}", at("stderr", value)) for value in (0, 1, 1e300, 2e300, -1, None)],
    *[(f"rounds = {value}", at("rounds", value)) for value in (0, 1, 10**6, 10**6 + 1, 1.0)],
    *[(f"ε of the total = {value}", at("total.epsilon", value)) for value in ("inf", "nan", -1, 0, None)],
    *[(f"δ of the total = {value}", at("total.delta", value)) for value in ("inf", 0, 1, 1.5, -0.5)],
    ("total with one key more", at("total.more", 0)),
    *[(f"curve {value}", at("curve", value)) for value in CURVES],
    ("64 points", at("curve", [[i, 0.5] for i in range(64)])),
    ("65 points", at("curve", [[i, 0.5] for i in range(65)])),
    *[(f"kind {value}", at("schema.kind", value)) for value in ("one-hot", "survey", "bits", "at_most", None, 1)],
    *[(f"max_set = {value}", at("schema.max_set", value)) for value in (0, 2, 3, 1.0, "1")],
    *[
        (f"labels {value}", at("schema.labels", value))
        for value in ([], ["red"], ["red", "red"], ["red", 1], "red", ["red", ""], ["é", "日本", "\U0001f600"])
    ],
    ("schema with one key more", at("schema.more", 0)),
    *[(f"flip = {value}", at("protocol.noise.0.flip", value)) for value in (0, 1, 2**47 - 1, 2**47, -1, 0.5, "1")],
    *[(f"m = {value}", at("protocol.noise.0.m", value)) for value in (1, 300, 10**12, 10**12 + 1, -1, 1.0, None)],
    ("m is a distribution", at("protocol.noise.0.m", FAKES)),
    *[
        (f"{name} with scale {scale} and shift {shift}", at("protocol.noise.0.m", {**FAKES, **fakes}))
        for name, scale, shift in (
            ("binomial", 0.5, 0),
            ("binomial", 0.5, 1),
            ("binomial", 1, 2**40),
            ("binomial", 1.5, 1),
            ("binomial", 0, 1),
            ("poisson", 2**30, 0),
            ("poisson", 2**31, 0),
            ("laplace", 2, 25),
            ("laplace", 2.0**-11, 25),
            ("gaussian", 2, 2**40 + 1),
            ("uniform", 2, 1),
        )
        for fakes in ({"distribution": name, "scale": scale, "shift": shift},)
    ],
    ("no noise", at("protocol.noise", [])),
    ("two entries of noise", at("protocol.noise", [{"flip": 1, "m": 0}, {"flip": 1, "m": 0}])),
    ("noise with one key more", at("protocol.noise.0.more", 0)),
    *[(f"k = {value}", at("protocol.k", value)) for value in (0, 2, 10**6, 10**6 + 1, 1.0)],
    *[(f"release {value}", at("protocol.release", value)) for value in ("bits", "category", "rows", None)],
    ("the protocol of version 1", at("protocol", {"flip": 1, "k": 1, "m": 0, "release": "records"})),
    (
        "a certain category",
        at("protocol", {"noise": [{"flip": 93824992236886, "m": 0}], "k": 1, "release": "category"}),
    ),
    ("clear copies", at("protocol", {"noise": [{"flip": 0, "m": 300}], "k": 2, "release": "records"})),
    (
        "copies among the shuffler's fakes",
        at(
            "protocol",
            {
                "noise": [{"flip": 1, "m": {"distribution": "laplace", "scale": 2, "shift": 25}}],
                "k": 2,
                "release": "records",
            },
        ),
    ),
    ("a category with fakes", at("protocol", {"noise": [{"flip": 1, "m": 300}], "k": 1, "release": "category"})),
    *[(f"ε = {value}", at("guarantee.epsilon", value)) for value in ("inf", -1, None, True)],
    *[(f"δ = {value}", at("guarantee.delta", value)) for value in (0, 1, 2, "inf")],
    *[(f"lower_bound = {value}", at("guarantee.lower_bound", value)) for value in ("inf", -1)],
    *[(f"basis {value}", at("guarantee.basis", value)) for value in ("exact", "conjectured", None)],
    *[(f"solved {value}", at("guarantee.solved", value)) for value in ("epsilon", "n")],
    ("guarantee for another n", at("guarantee.n", 101)),
    ("method is a number", at("guarantee.method", 1)),
    *[(f"honest = {value}", at("guarantee.assumptions.honest", value)) for value in (0, 1, 1.0)],
    *[(f"shuffler = {value}", at("guarantee.assumptions.shuffler", value)) for value in (False, 1)],
    *[(f"collusion ε = {value}", at("guarantee.assumptions.collusion_epsilon", value)) for value in ("inf", -1)],
    ("assumptions without view", without("guarantee.assumptions.view")),
]


def _with_table(*names: str) -> Edit:
    """Return an edit that appends a cross-table and its noise."""

    def edit(document: Json) -> Json:
        document["schema"]["questions"].append({"name": "another table", "kind": "cross", "names": list(names)})
        document["protocol"]["noise"].append(document["protocol"]["noise"][-1])
        return document

    return edit


SURVEY_EDITS: list[tuple[str, Edit]] = [
    ("a survey", lambda document: document),
    *[(f"derived {value}", at("schema.derived", value)) for value in ([], ["age"], ["colour", "dark mode"], "colour")],
    ("derived twice", at("schema.derived", ["dark mode", "dark mode"])),
    ("derived not sorted", at("schema.derived", ["dark mode", "colour"])),
    ("no questions", at("schema.questions", [])),
    *[
        (f"name {value!r}", at("schema.questions.0.name", value))
        for value in ("dark mode", "", " ", "a\nb", 7, "x" * 201)
    ],
    *[(f"kind of question {value}", at("schema.questions.0.kind", value)) for value in ("flag", "text", None)],
    *[
        (f"labels of a choice {value}", at("schema.questions.0.labels", value))
        for value in (
            *(["red"], ["red", "red", "blue"], ["red", "no answer", "blue"], ["red", 1, "blue"]),
            *(["red", "", "blue"], ["red", " ", "blue"], ["red", "a\tb", "blue"], ["red", "a\u00a0b", "blue"]),
            *(["red", "a\u200bb", "blue"], ["red", "\ue000", "blue"], ["red: 1", "2 × 3", '"x"']),
        )
    ],
    *[
        (f"a label of {size} times {letter}", at("schema.questions.0.labels", ["red", letter * size, "blue"]))
        for letter in ("x", "\U0001f600")
        for size in (200, 201)
    ],
    ("missing is a number", at("schema.questions.1.missing", 0)),
    *[
        (f"levels {value}", at("schema.questions.2.levels", value))
        for value in ([], [5, 2, 1], [5], [1, 5], [10, 1], [4, 1])
    ],
    *[(f"buckets = {value}", at("schema.questions.2.buckets", value)) for value in (1, 2**16 + 1, 10.0)],
    *[(f"high = {value}", at("schema.questions.2.high", value)) for value in (0, -1, 1e151, "100")],
    *[(f"unit {value!r}", at("schema.questions.2.unit", value)) for value in ("x" * 21, "a\tb", 1)],
    *[
        (f"edges {value}", at("schema.questions.3.edges", value))
        for value in ([0, 1], [0, 1, 2, 3, 4], [0, 10, 1, 100, 1000], [0, 1, 10, 100, 2e150])
    ],
    ("edges with bounds", at("schema.questions.3.high", 5)),
    *[
        (f"digits {value}", at("schema.questions.4.digits", value))
        for value in ([], [1, 3], [4, 1025], [4.0, 3], [1024] * 5, [4, 3, 2], [2] * 41)
    ],
    ("variance is missing", without("schema.questions.4.variance")),
    *[
        (f"names of a cross-table {value}", at("schema.questions.6.names", value))
        for value in (["colour"], ["colour", "colour"], ["colour", "income"], ["colour", "unknown"])
    ],
    ("two cross-tables", _with_table("colour", "age")),
    ("two cross-tables of the same questions", _with_table("colour", "dark mode")),
    ("two cross-tables of the same questions in another order", _with_table("dark mode", "colour")),
    ("an attribute that is flipped among fakes", at("protocol.noise.0.m", FAKES)),
    ("an attribute in the clear", at("protocol.noise.0.flip", 0)),
    ("an attribute among fixed fakes", at("protocol.noise.0", {"flip": 0, "m": 300})),
    ("an attribute without noise", without("protocol.noise.0")),
    ("records of a survey", at("protocol.release", "records")),
    ("copies of a survey", at("protocol.k", 2)),
]


def plans() -> list[Vector]:
    """Plans that a client must accept or refuse; ids are right unless the text says otherwise."""
    base = json.loads(small_plan().to_json())
    survey = json.loads(surveys()[0]["plan"])
    texts = [(why, identified(edit(copy.deepcopy(base)))) for why, edit in PLAN_EDITS]
    texts += [(why, identified(edit(copy.deepcopy(survey)))) for why, edit in SURVEY_EDITS]
    good = small_plan().to_json()
    texts += [
        ("spaces and another order of keys", json.dumps(dict(reversed(base.items())), indent=2)),
        ("another id", good.replace(base["id"], "0" * 64)),
        ("an id in capitals", good.replace(base["id"], base["id"].upper())),
        ("a duplicate key", good.replace('"n":100,', '"n":100,"n":100,', 1)),
        ("escaped letters", good.replace('"red"', '"\\u0072ed"')),
        ("a lone surrogate", good.replace('"red"', '"\\ud800"')),
        ("a fraction for a whole number", good.replace('"k":1,', '"k":1.0,')),
        ("an exponent for a whole number", good.replace('"rounds":1,', '"rounds":1e0,')),
        ("a longer spelling of a real number", good.replace('"honest_fraction":1,', '"honest_fraction":1.000,')),
        ("a leading zero", good.replace('"rounds":1,', '"rounds":01,')),
        ("a leading zero of a fraction", good.replace('"honest_fraction":1,', '"honest_fraction":01.0,')),
        ("an infinite number", good.replace('"stderr":', '"stderr":1e999,"x":')),
        ("not a number", good.replace('"rounds":1,', '"rounds":NaN,')),
        ("a comma too many", good.replace('"rounds":1,', '"rounds":1,,')),
        ("a comment", good.replace('"rounds":1,', '/* */"rounds":1,')),
        ("something after the end", good + "{}"),
        ("a byte order mark", "\ufeff" + good),
        ("single quotes", good.replace('"red"', "'red'")),
        ("a control character", good.replace('"red"', '"r\x01d"')),
        ("an array", "[]"),
        ("nothing", ""),
        ("deep nesting", "[" * 5000 + "]" * 5000),
    ]
    return [{"why": why, "plan": text, "error": error_of(Plan.from_json, text)} for why, text in texts]
