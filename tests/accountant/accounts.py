"""The stored table of accounts: cases over all mechanisms, with the exact figures of each in ``accounts.json``.

A case is plain data, so that the table outlives changes to the classes: :func:`schema_of`, :func:`protocol_of`,
:func:`figures_of` and :func:`plan_figures` are the only places that know them. ``python -m tests.accountant.accounts``
adds the figures of new cases and removes those of cases that are gone. It never overwrites a stored figure: to change
one on purpose, delete its line first, so that a review sees it.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import hubbub as hb
from hubbub.model.questions import Question

TABLE = Path(__file__).with_name("accounts.json")
Case = dict[str, Any]
"""The schema, the mechanism and the settings of one account."""
Fakes = int | list[Any]
"""A fixed number of fakes, or the name, scale and shift of the distribution of a random one."""

LISTED = ("bits 1", "bits 3", "one_hot 2", "one_hot 5", "at_most 2 7", "at_most 3 4")
WIDE = ("bits 13", "one_hot 40", "one_hot 300", "at_most 5 60")
ONE_HOT = ("one_hot 2", "one_hot 5", "one_hot 19")
STRINGS = ("strings 8", "strings 64")
SURVEYS: dict[str, dict[str, Question]] = {
    "flags": {"a": hb.Flag(), "b": hb.Flag(), "c": hb.Flag()},
    "mixed": {
        "colour": hb.Choice(["red", "green", "blue"], missing=True),
        "dark mode": hb.Flag(),
        "load": hb.Scale(0, 8, buckets=4),
    },
    "numbers": {
        "memory": hb.Number(0, 15, digits=[4, 4], variance=True),
        "a": hb.Flag(),
        "b": hb.Flag(),
        "both": hb.Cross("a", "b"),
    },
    "single": {"colour": hb.Choice(["red", "green", "blue"])},
}
ASSUMED: Case = {"k": 1, "honest_fraction": 1.0, "trust": "shuffler-noise"}
"""Settings that a case leaves out."""


def alike(q: float, m: Fakes = 0, k: int = 1, release: str = "records") -> Case:
    """Return a mechanism that treats all bits of a record alike."""
    return {"noise": [[q, m]], "release": release, **({"k": k} if k > 1 else {})}


def each(*noise: tuple[float, Fakes], release: str = "bits") -> Case:
    """Return the mechanism of a survey whose attributes take turns with the given noise."""
    return {"noise": [list(one) for one in noise], "release": release}


def combine(mechanisms: Iterable[Case], schemas: Iterable[str], settings: Iterable[Case]) -> list[Case]:
    """Return the cases of all combinations."""
    every = itertools.product(list(mechanisms), list(schemas), list(settings))
    return [{"schema": schema, **mechanism, **setting} for mechanism, schema, setting in every]


LAPLACE, GAUSSIAN = ["laplace", 3.0, 30], ["gaussian", 6.0, 40]
BINOMIAL, POISSON = ["binomial", 0.3, 2], ["poisson", 0.5, 0]
FEW: list[Case] = [
    {"n": 1000, "epsilon": 0.8},
    {"n": 7, "delta": 1e-6},
    {"n": 10**6, "epsilon": 0.01},
    {"n": 1000, "epsilon": 0.8, "honest_fraction": 0.3},
]
TRUSTED: list[Case] = [
    *FEW,
    {"n": 1000, "epsilon": 0.8, "trust": "shuffling"},
    {"n": 1000, "delta": 1e-6, "trust": "nobody"},
]
MANY: list[Case] = [
    *TRUSTED,
    {"n": 1, "epsilon": 2.0},
    {"n": 1000, "delta": 1e-6},
    {"n": 1000, "delta": 0.0},
    {"n": 10**6, "delta": 1e-9},
    {"n": 1000, "delta": 1e-6, "honest_fraction": 0.05},
]
ROUNDS: list[Case] = [
    {"n": 1000, "delta": 1e-8, "rounds": 52},
    {"n": 10**6, "epsilon": 0.2, "rounds": 7, "total_delta": 1e-6},
]

FLIPS = [alike(0.2), alike(0.45)]
COPIES = [alike(0.2, k=3), alike(0.4, k=2)]
BITS = [alike(0.01, release="bits"), alike(0.3, release="bits"), alike(0.01, k=2, release="bits")]
FIXED = [alike(0.2, 50), alike(0.2, 50, k=2), alike(0.01, 50, release="bits")]
CLEAR = [alike(0.0, 300), alike(0.0, 300, release="bits"), alike(0.0, 5000)]
USERS = [alike(0.0, BINOMIAL), alike(0.0, POISSON), alike(0.0, POISSON, release="bits")]
USERS_FLIPPED = [alike(0.2, POISSON), alike(0.01, BINOMIAL, release="bits")]
SHUFFLER = [alike(0.0, drawn, release=to) for drawn in (LAPLACE, GAUSSIAN) for to in ("records", "bits")]
SHUFFLER_FLIPPED = [alike(0.2, LAPLACE), alike(0.2, GAUSSIAN), alike(0.01, GAUSSIAN, release="bits")]
RESPONSE = [alike(0.05, release="category"), alike(0.002, release="category")]
SUBTRACTED = [
    alike(0.0, drawn, release="strings") for drawn in (["laplace", 2.0, 35], ["laplace", 0.5, 9], ["gaussian", 5.0, 30])
]
DRAWN: tuple[float, Fakes] = (0.0, ["laplace", 4.0, 54])
DRAWN_TOO: tuple[float, Fakes] = (0.0, ["gaussian", 9.0, 70])
ANSWERS_CLEAR = [
    each(DRAWN),
    each(DRAWN, (0.0, ["laplace", 7.0, 90])),
    each(DRAWN_TOO),
    each(DRAWN, DRAWN_TOO),
    each((0.0, ["poisson", 0.4, 0])),
    each((0.0, BINOMIAL), DRAWN),
]
ANSWERS_FLIPPED = [each((0.05, 0)), each((0.05, 0), (0.2, 0)), each((0.05, 0), DRAWN)]
ANSWERS_RESPONSE = [each((0.05, 0), release="category"), each((0.05, 0), (0.02, 0), release="category")]

GROUPS: dict[str, list[Case]] = {
    "flipped records": [
        *combine(FLIPS, LISTED, FEW),
        *combine([alike(0.02)], LISTED[:4], FEW),
        *combine(FLIPS[1:], WIDE, FEW[:2]),
    ],
    "copies": combine(COPIES, LISTED, FEW),
    "flipped bits": [*combine(BITS, LISTED, MANY), *combine(BITS[:1], WIDE, FEW)],
    "flipped among fixed fakes": [*combine(FIXED, LISTED[::2], FEW), *combine(FIXED[2:], LISTED, TRUSTED[4:])],
    "clear among fixed fakes": [*combine(CLEAR, LISTED, MANY), *combine(CLEAR, WIDE, FEW)],
    "clear among users' fakes": combine(USERS, LISTED, TRUSTED),
    "flipped among users' fakes": combine(USERS_FLIPPED, LISTED, FEW),
    "clear among shuffler's fakes": [*combine(SHUFFLER, LISTED, TRUSTED), *combine(SHUFFLER, WIDE, FEW)],
    "flipped among shuffler's fakes": combine(SHUFFLER_FLIPPED, LISTED, TRUSTED),
    "response": combine(RESPONSE, ONE_HOT, MANY),
    "strings": combine(SUBTRACTED, STRINGS, MANY),
    "surveys, clear": combine(ANSWERS_CLEAR, SURVEYS, TRUSTED),
    "surveys, flipped": combine(ANSWERS_FLIPPED, SURVEYS, FEW),
    "surveys, response": combine(ANSWERS_RESPONSE, SURVEYS, TRUSTED),
    "rounds": [
        *combine([*FLIPS[:1], *BITS[:1], *CLEAR[:1], *SHUFFLER[:2]], LISTED[:1] + LISTED[2:4], ROUNDS),
        *combine(RESPONSE[:1], ONE_HOT, ROUNDS),
        *combine(SUBTRACTED[:1], STRINGS[:1], ROUNDS),
        *combine([*ANSWERS_CLEAR[:2], ANSWERS_FLIPPED[0], ANSWERS_RESPONSE[0]], ("flags", "numbers"), ROUNDS),
    ],
}
"""All cases, by the mechanism that they are about."""


def schema_of(case: Case) -> hb.Schema:
    """Return the schema of a case."""
    name, *numbers = case["schema"].split()
    if name in SURVEYS:
        return hb.Schema.survey(SURVEYS[name])
    makers: dict[str, Callable[..., hb.Schema]] = {
        "bits": hb.Schema.bits,
        "one_hot": hb.Schema.one_hot,
        "at_most": hb.Schema.at_most,
        "strings": hb.Schema.strings,
    }
    return makers[name](*map(int, numbers))


def protocol_of(case: Case, schema: hb.Schema) -> hb.Protocol:
    """Return the protocol of a case."""
    noise = [
        hb.Noise(q, m if isinstance(m, int) else hb.Fakes(distribution=m[0], scale=m[1], shift=m[2]))
        for q, m in case["noise"]
    ]
    if case["schema"] in SURVEYS:
        return hb.Protocol.survey(itertools.islice(itertools.cycle(noise), len(schema.attributes)), case["release"])
    return hb.Protocol(noise[0].q, case["k"], noise[0].m, case["release"])


def figures_of(guarantee: hb.Guarantee) -> list[Any]:
    """Return everything that a guarantee states."""
    held = guarantee.assumptions
    return [
        *(guarantee.epsilon, guarantee.delta, guarantee.lower_bound, guarantee.basis.value, guarantee.method),
        *(held.trust, held.honest, held.collusion_epsilon, held.count_epsilon, held.relay, held.view),
    ]


def plan_figures(plan: hb.Plan) -> list[Any]:
    """Return what a plan of several rounds states beside its guarantee, with a digest of the points of its curve."""
    points, odds = plan.curve.points, plan.odds
    return [
        *(plan.total.epsilon, plan.total.delta, odds.round, odds.total, odds.local, odds.local_total),
        *(len(points), hashlib.sha256(repr(points).encode()).hexdigest()[:16]),
    ]


def figures(case: Case) -> str:
    """Return the figures of a case as JSON, in which every float has all its digits."""
    case = {**ASSUMED, **case}
    schema = schema_of(case)
    protocol = protocol_of(case, schema)
    asked = {key: case[key] for key in ("epsilon", "delta", "honest_fraction", "trust") if key in case}
    if "rounds" not in case:
        return spelled(figures_of(hb.account(protocol, schema, case["n"], **asked)))
    repeated = {key: case[key] for key in ("rounds", "total_delta") if key in case}
    plan = hb.plan_from(schema, case["n"], protocol, **asked, **repeated)
    return spelled([*figures_of(plan.guarantee), *plan_figures(plan)])


def spelled(values: object) -> str:
    """Return values as JSON, with ∞ as a string."""
    if isinstance(values, list):
        values = [str(value) if value == math.inf else value for value in values]
    return json.dumps(values, ensure_ascii=False)


def stored() -> dict[str, str]:
    """Return the stored figures by case, both as JSON."""
    if not TABLE.exists():
        return {}
    return {spelled(case): spelled(values) for case, values in json.loads(TABLE.read_text("utf-8"))}


def main() -> None:
    """Add what is missing to the table."""
    known = stored()
    rows = []
    for case in itertools.chain(*GROUPS.values()):
        key = spelled(case)
        rows.append(f"[{key}, {known.get(key) or figures(case)}]")
    TABLE.write_text("[\n" + ",\n".join(rows) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
