"""Bad input to the public functions and types: the error names the argument, what it must be, and never people's data.

``CASES`` lists every argument of every public callable with at least one wrong value and the exact message, or its
beginning if " …" follows; a new argument without a case fails :func:`test_every_argument_has_a_case`. Beyond the list,
every argument is given every value of ``POISON``.
"""

import dataclasses
import inspect
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from enum import EnumType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import string_subjects, survey_subjects
from tests.survey_subjects import Subject, fields

import hubbub as hb
from hubbub.errors import (
    BatchTooSmall,
    EntropyFailure,
    FalseClaim,
    HubbubError,
    Infeasible,
    InvalidInput,
    InvalidRecord,
    PlanMismatch,
    TooLarge,
    WireError,
)
from hubbub.pipeline.records import Packed, SetBits
from hubbub.planner import Constraints

NAN, INF = math.nan, math.inf
HUGE = 10**400

SCHEMA = hb.Schema.one_hot(["red", "green", "blue"])
BITS = hb.Schema.bits(["a", "b"])
FEW = hb.Schema.at_most(1, ["a", "b", "c"])
BUDGET = hb.Budget(1.0, 1e-6)
FLIP = hb.Protocol(0.1)
PLAN = hb.plan_from(SCHEMA, 3, FLIP, epsilon=9.0)
OTHER = hb.plan_from(SCHEMA, 4, FLIP, epsilon=9.0)
SPLIT = hb.plan_from(BITS, 3, hb.Protocol(0.1, release="bits"), epsilon=9.0)
FAKES = hb.plan_from(SCHEMA, 3, hb.Protocol(0.1, m=2), epsilon=9.0)
SHARED = hb.plan_from(SCHEMA, 3, hb.Protocol(0.1, m=7), epsilon=9.0, honest_fraction=0.5)
CROWDED = hb.plan_from(SCHEMA, 3, hb.Protocol(0.1, m=10**11), epsilon=9.0)
POISSON = hb.plan_from(SCHEMA, 3, hb.Protocol(0.1, m=hb.Fakes.poisson(0.5)), epsilon=9.0)
LAPLACE = hb.plan_from(SCHEMA, 3, hb.Protocol(0.0, m=hb.Fakes.laplace(2.0, 40)), delta=1e-6)
COLLECTION = hb.Collection.from_values(["red", "blue", "red"], SCHEMA)
REPORTS = hb.randomize(COLLECTION, PLAN)
SHUFFLED = hb.shuffle(REPORTS)
TALLY = hb.tally(SHUFFLED)
RESULT = hb.estimate(TALLY, PLAN)
ESTIMATE: hb.LabelView = RESULT.question
JOINT = hb.joint(SHUFFLED, PLAN, ["red", "blue"])
LEDGER = hb.Ledger(budget=hb.Budget(9.0, 1e-6)).charge_protocol(FLIP, SCHEMA, 100)
ONCE = hb.plan_from(SCHEMA, 1000, FLIP, delta=1e-6)
CHARGE = hb.Charge.of(ONCE, collection="week 1")
CELL = JOINT["red"]
SINGLE = dataclasses.replace(
    ESTIMATE, labels=("red",), **{name: getattr(ESTIMATE, name)[:1] for name in ("values", "stderr", "unbiased")}
)
SECOND = hb.estimate(TALLY, PLAN).question
COMPARISON = hb.compare(ESTIMATE, SECOND)
SWAPPED, TWO_PLANS = f"{OTHER.id[:8]}… and {PLAN.id[:8]}…", f"{PLAN.id[:8]}… and {OTHER.id[:8]}…"
ROWS = np.array([[1], [4]], np.uint8)


def claiming(**claims: object) -> str:
    """Return the JSON of a plan that claims another guarantee or error than it has, under the right id."""
    guarantee = dataclasses.replace(PLAN.guarantee, **{k: v for k, v in claims.items() if k != "stderr"})  # type: ignore[arg-type]
    return hb.Plan(**{**fields(PLAN), "guarantee": guarantee, "stderr": claims.get("stderr", PLAN.stderr)}).to_json()


REQUEST = {
    "schema": SCHEMA,
    "n": 1000,
    "budget": BUDGET,
    "epsilon": None,
    "delta": None,
    "trust": "shuffler-noise",
    "clear": False,
    "max_collusion_epsilon": INF,
    "honest_fraction": 1.0,
    "joint": False,
    "max_messages": 100.0,
    "max_bytes": 1e5,
    "max_client_weight": 1e5,
    "min_q": 0.0,
    "rounds": 1,
    "weights": {},
}
OUTLINE: dict[str, Any] = {
    "key": "flip",
    "name": "flipped records",
    "trust": "shuffling",
    "clear": False,
    "error": 5.0,
    "by_epsilon": ((1.0, 5.0),),
    "by_people": ((100.0, 5.0),),
}
FLIP_ARGUMENTS = {"q": 0.1, "k": 1, "m": 0, "release": "records"}
GOAL = {"share": 0.3, "within": 0.5, "level": 0.9}
LAPLACE_FAKES = {"distribution": "laplace", "scale": 2.0, "shift": 3}

SUBJECTS = {
    "Assumptions": Subject(hb.Assumptions, fields(PLAN.guarantee.assumptions)),
    "Assumptions.sentences": Subject(PLAN.guarantee.assumptions.sentences, {"rounds": 1}),
    "Assumptions.described_collusion": Subject(PLAN.guarantee.assumptions.described_collusion, {"rounds": 1}),
    "Assumptions.from_document": Subject(
        hb.Assumptions.from_document, {"value": PLAN.guarantee.assumptions.to_document()}
    ),
    "Basis": Subject(hb.Basis, {"value": "exact"}),
    "Batch": Subject(hb.Batch, {"header": SHUFFLED.header, "blocks": [SHUFFLED.messages]}),
    "BatchHeader": Subject(hb.BatchHeader, fields(SHUFFLED.header)),
    "BatchHeader.check": Subject(SHUFFLED.header.check, {"plan": PLAN}),
    "BatchHeader.of": Subject(
        hb.BatchHeader.of,
        {"plan": PLAN, "messages": 3, "n": 3, "fakes": 0, "shuffled": False, "certified": 0, "slots": 0},
    ),
    "Budget": Subject(hb.Budget, {"epsilon": 1.0, "delta": 1e-6}),
    "Budget.from_document": Subject(hb.Budget.from_document, {"value": {"epsilon": 1.0, "delta": 1e-6}}),
    "Calibrated": Subject(hb.Calibrated, {"protocol": FLIP, "n": 3, "guarantee": PLAN.guarantee}),
    "Charge": Subject(hb.Charge, fields(CHARGE)),
    "Charge.from_document": Subject(hb.Charge.from_document, {"value": CHARGE.to_document()}),
    "Charge.of": Subject(hb.Charge.of, {"plan": ONCE, "rounds": 1, "collection": "week 1"}),
    "Collection": Subject(hb.Collection, fields(COLLECTION)),
    "Collection.blocks": Subject(lambda size: list(COLLECTION.blocks(size)), {"size": 1}),
    "Collection.concatenate": Subject(hb.Collection.concatenate, {"parts": [COLLECTION, COLLECTION]}),
    "Collection.from_packed": Subject(hb.Collection.from_packed, {"rows": ROWS, "schema": SCHEMA}),
    "Collection.from_values": Subject(
        hb.Collection.from_values, {"values": ["red"], "schema": SCHEMA, "entropy": os.urandom}
    ),
    "Collection.ones": Subject(COLLECTION.ones, {"start": 0, "stop": 1}),
    "Collection.rows": Subject(COLLECTION.rows, {"start": 0, "stop": 1}),
    "LabelComparison": Subject(hb.LabelComparison, fields(COMPARISON)),
    "LabelComparison.columns": Subject(COMPARISON.columns, {"level": 0.9}),
    "LabelComparison.plot": Subject(COMPARISON.plot, {"top": 3}),
    "ConditionalTable": Subject(hb.ConditionalTable, fields(JOINT.conditional({"red": True}))),
    "ConditionalTable.interval": Subject(JOINT.conditional({"red": True}).interval, {"level": 0.9}),
    "Cost": Subject(hb.Cost, fields(hb.cost(PLAN))),
    "LabelView": Subject(hb.LabelView, fields(ESTIMATE)),
    "LabelView.columns": Subject(ESTIMATE.columns, {"level": 0.9, "simultaneous": False}),
    "LabelView.interval": Subject(ESTIMATE.interval, {"level": 0.9, "simultaneous": False, "of": "people"}),
    "LabelView.population": Subject(ESTIMATE.population, {"level": 0.9, "simultaneous": False}),
    "LabelView.to_arrow": Subject(ESTIMATE.to_arrow, {"level": 0.9}),
    "LabelView.to_pandas": Subject(ESTIMATE.to_pandas, {"level": 0.9}),
    "LabelView.to_polars": Subject(ESTIMATE.to_polars, {"level": 0.9}),
    "LabelView.plot": Subject(ESTIMATE.plot, {"level": 0.9, "top": 3, "simultaneous": False}),
    "Fakes": Subject(hb.Fakes, dict(LAPLACE_FAKES)),
    "Fakes.binomial": Subject(hb.Fakes.binomial, {"trials": 2, "probability": 0.5}),
    "Fakes.from_document": Subject(hb.Fakes.from_document, {"value": LAPLACE_FAKES, "what": "the fakes"}),
    "Fakes.gaussian": Subject(hb.Fakes.gaussian, {"scale": 2.0, "shift": 3}),
    "Fakes.laplace": Subject(hb.Fakes.laplace, {"scale": 2.0, "shift": 3}),
    "Fakes.poisson": Subject(hb.Fakes.poisson, {"rate": 0.5}),
    "Guarantee": Subject(hb.Guarantee, fields(PLAN.guarantee)),
    "Guarantee.from_document": Subject(hb.Guarantee.from_document, {"value": PLAN.guarantee.to_document()}),
    "Guarantee.meets": Subject(PLAN.guarantee.meets, {"budget": BUDGET}),
    "Joint": Subject(hb.Joint, fields(JOINT)),
    "Joint.columns": Subject(JOINT.columns, {"level": 0.9}),
    "Joint.to_arrow": Subject(JOINT.to_arrow, {"level": 0.9}),
    "Joint.to_pandas": Subject(JOINT.to_pandas, {"level": 0.9}),
    "Joint.to_polars": Subject(JOINT.to_polars, {"level": 0.9}),
    "JointCell": Subject(hb.JointCell, fields(CELL)),
    "JointCell.interval": Subject(CELL.interval, {"level": 0.9}),
    "Joint.conditional": Subject(JOINT.conditional, {"given": {"red": True}}),
    "Joint.interval": Subject(JOINT.interval, {"level": 0.9, "simultaneous": False}),
    "Joint.marginal": Subject(JOINT.marginal, {"labels": ["red"]}),
    "Ledger": Subject(hb.Ledger, fields(LEDGER)),
    "Ledger.basic": Subject(LEDGER.basic, {"delta": 1e-6}),
    "Ledger.add": Subject(LEDGER.add, {"charge": CHARGE}),
    "Ledger.charge": Subject(LEDGER.charge, {"plan": ONCE, "rounds": 1, "collection": "week 1"}),
    "Ledger.charge_protocol": Subject(
        hb.Ledger().charge_protocol,
        {"protocol": FLIP, "schema": SCHEMA, "n": 100, "rounds": 1, "honest_fraction": 1.0, "trust": "shuffling"},
    ),
    "Ledger.delta": Subject(LEDGER.delta, {"epsilon": 1.0}),
    "Ledger.epsilon": Subject(LEDGER.epsilon, {"delta": 1e-6}),
    "Ledger.forecast": Subject(LEDGER.forecast, {"plan": ONCE, "rounds": 2, "delta": 1e-6}),
    "Ledger.from_json": Subject(hb.Ledger.from_json, {"text": LEDGER.to_json()}),
    "Ledger.remaining": Subject(hb.Ledger().remaining, {"plan": ONCE, "budget": BUDGET}),
    "Ledger.total": Subject(LEDGER.total, {"delta": 1e-6}),
    "Plan": Subject(hb.Plan, fields(PLAN)),
    "Plan.from_json": Subject(hb.Plan.from_json, {"text": PLAN.to_json()}),
    "PrivacyCurve": Subject(hb.PrivacyCurve, {"points": ((0.0, 0.1), (1.0, 0.0))}),
    "PrivacyCurve.delta": Subject(ONCE.curve.delta, {"epsilon": 0.5}),
    "PrivacyCurve.from_document": Subject(hb.PrivacyCurve.from_document, {"value": [[0, 0.1]]}),
    "Protocol": Subject(hb.Protocol, FLIP_ARGUMENTS),
    "Protocol.changed": Subject(FLIP.changed, FLIP_ARGUMENTS),
    "Protocol.from_document": Subject(hb.Protocol.from_document, {"value": FLIP.to_document()}),
    "Reports": Subject(hb.Reports, fields(REPORTS)),
    "Reports.__add__": Subject(REPORTS.__add__, {"other": REPORTS}),
    "Schema": Subject(hb.Schema, {"questions": SCHEMA.questions}),
    "Schema.at_most": Subject(hb.Schema.at_most, {"max_set": 1, "labels": 3}),
    "Schema.bits": Subject(hb.Schema.bits, {"labels": 3}),
    "Schema.from_document": Subject(hb.Schema.from_document, {"value": SCHEMA.to_document()}),
    "Schema.one_hot": Subject(hb.Schema.one_hot, {"labels": 3}),
    "Tally": Subject(hb.Tally, fields(TALLY)),
    "Tally.__add__": Subject(TALLY.__add__, {"other": dataclasses.replace(TALLY)}),
    "Total": Subject(hb.Total, {"epsilon": 1.0, "delta": 1e-6}),
    "Total.from_document": Subject(hb.Total.from_document, {"value": {"epsilon": "inf", "delta": 1}}),
    "account": Subject(
        hb.account,
        {
            "protocol": FLIP,
            "schema": SCHEMA,
            "n": 100,
            "epsilon": None,
            "delta": 1e-6,
            "honest_fraction": 1.0,
            "trust": "shuffling",
        },
    ),
    "achieved_guarantee": Subject(hb.achieved_guarantee, {"tally": TALLY, "plan": PLAN}),
    "calibrate": Subject(
        hb.calibrate,
        {
            "schema": SCHEMA,
            "n": 1000,
            "budget": BUDGET,
            "q": None,
            "m": 0,
            "k": 1,
            "release": "records",
            "honest_fraction": 1.0,
            "trust": "shuffling",
            "max_q": 0.5,
        },
    ),
    "compare": Subject(hb.compare, {"a": ESTIMATE, "b": SECOND, "level": 0.9, "correction": "none"}),
    "compare_power": Subject(
        hb.compare_power,
        {"plan": PLAN, "share_a": 0.1, "share_b": 0.2, "n_a": 100, "n_b": None, "significance": 0.05},
    ),
    "cost": Subject(hb.cost, {"plan": PLAN, "suite": 1}),
    "estimate": Subject(hb.estimate, {"tally": TALLY, "plan": PLAN}),
    "FamilyPlan": Subject(hb.FamilyPlan, {"key": "flip", "plan": None, "reason": "too few people", "late": False}),
    "frontier": Subject(hb.frontier, {**REQUEST, "deadline": None}),
    "frontier_by_family": Subject(hb.frontier_by_family, {**REQUEST, "deadline": None}),
    "Odds": Subject(hb.Odds, fields(PLAN.odds)),
    "Odds.from_document": Subject(hb.Odds.from_document, {"value": PLAN.odds.to_document()}),
    "Outline": Subject(hb.Outline, OUTLINE),
    "outline": Subject(hb.outline, {**REQUEST, "epsilons": [1.0], "people": [100]}),
    "joint": Subject(hb.joint, {"reports": SHUFFLED, "plan": PLAN, "labels": ["red"]}),
    "Survey": Subject(hb.Survey, {"schema": hb.Schema.survey({"a": hb.Flag()}), "weights": {"a": 2.0}}),
    "Survey.from_toml": Subject(hb.Survey.from_toml, {"text": '[questions.a]\nkind = "flag"'}),
    "load_plan": Subject(hb.load_plan, {"text": PLAN.to_json()}),
    "plan": Subject(hb.plan, {**REQUEST, "family": None}),
    "solve": Subject(
        hb.solve,
        {
            **{k: v for k, v in REQUEST.items() if k not in ("n", "budget")},
            **GOAL,
            **dict.fromkeys(("n", "margin", "points", "stderr", "precision")),
            "epsilon": 1.0,
            "delta": 1e-6,
        },
    ),
    "plan_from": Subject(
        hb.plan_from,
        {
            "schema": SCHEMA,
            "n": 100,
            "protocol": FLIP,
            "epsilon": None,
            "delta": 1e-6,
            "honest_fraction": 1.0,
            "trust": "shuffling",
            "rounds": 1,
            "total_delta": None,
        },
    ),
    "pool": Subject(hb.pool, {"results": [ESTIMATE, SECOND]}),
    "randomize": Subject(hb.randomize, {"collection": COLLECTION, "plan": PLAN, "fakes": None, "entropy": os.urandom}),
    "shuffle": Subject(hb.shuffle, {"reports": REPORTS, "plan": PLAN, "entropy": os.urandom, "fast": False}),
    "tally": Subject(hb.tally, {"reports": SHUFFLED}),
}
SUBJECTS |= survey_subjects.SUBJECTS | string_subjects.SUBJECTS

CASES: list[tuple[str, dict[str, Any], type[HubbubError], str]] = [
    # Schemas
    ("Schema", {"questions": 7}, InvalidInput, "questions must be of type Questions, not int"),
    (
        "Schema.bits",
        {"labels": None},
        InvalidInput,
        "labels must be a list of strings or the number of labels, not None",
    ),
    (
        "Schema.bits",
        {"labels": True},
        InvalidInput,
        "labels must be a list of strings or the number of labels, not bool",
    ),
    (
        "Schema.bits",
        {"labels": 0},
        InvalidInput,
        "the number of labels must be a whole number in [1, 10,000,000], got 0",
    ),
    (
        "Schema.bits",
        {"labels": HUGE},
        InvalidInput,
        "the number of labels must be a whole number in [1, 10,000,000], got a number of more than 128 bits",
    ),
    ("Schema.bits", {"labels": []}, InvalidInput, "the number of labels must be a whole number of at least 1, got 0"),
    (
        "Schema.bits",
        {"labels": "red"},
        InvalidInput,
        "labels must be a list of strings or the number of labels, not str",
    ),
    (
        "Schema.bits",
        {"labels": {"red", "green"}},
        InvalidInput,
        "labels must be a list of strings or the number of labels, not set",
    ),
    ("Schema.bits", {"labels": ["red", "red"]}, InvalidInput, "labels must be distinct"),
    (
        "Schema.bits",
        {"labels": ["red", "\ud800"]},
        InvalidInput,
        "labels must be valid Unicode text, without lone surrogates",
    ),
    ("Schema.one_hot", {"labels": 1}, InvalidInput, "the number of labels must be a whole number of at least 2, got 1"),
    (
        "Schema.one_hot",
        {"labels": np.array([[0.5, 2.0]])},
        InvalidInput,
        "labels must be strings, but label 1 is of type ndarray",
    ),
    ("Schema.at_most", {"max_set": 0}, InvalidInput, "max_set must be a whole number in [1, 3], got 0"),
    ("Schema.at_most", {"max_set": 1.0}, InvalidInput, "max_set must be a whole number in [1, 3], got 1.0"),
    (
        "Schema.at_most",
        {"labels": 1.5},
        InvalidInput,
        "labels must be a list of strings or the number of labels, not float",
    ),
    (
        "Schema.from_document",
        {"value": []},
        WireError,
        "the schema must be an object with exactly the keys kind, labels, max_set",
    ),
    (
        "Schema.from_document",
        {"value": {"kind": 3, "labels": ["a"], "max_set": 1}},
        WireError,
        "'kind' of the schema must be a string",
    ),
    (
        "Schema.from_document",
        {"value": {"kind": "bits", "labels": ["a", 1], "max_set": 1}},
        WireError,
        "'labels' of the schema must be a list of strings",
    ),
    (
        "Schema.from_document",
        {"value": {"kind": "bits", "labels": ["a", "b"], "max_set": 1}},
        WireError,
        "in the schema: max_set must be 2 for this kind of schema, got 1",
    ),
    (
        "Schema.from_document",
        {"value": {"kind": "bits", "labels": ["a", "b"], "max_set": True}},
        WireError,
        "'max_set' of the schema must be a whole number",
    ),
    # Protocols
    (
        "Fakes",
        {"distribution": "cauchy"},
        InvalidInput,
        "distribution must be 'binomial', 'poisson', 'laplace' or 'gaussian', got 'cauchy'",
    ),
    ("Fakes", {"scale": NAN}, InvalidInput, "scale must be in [2^-10, 2^30], got nan"),
    ("Fakes", {"shift": 1.5}, InvalidInput, "shift must be a whole number in [0, 1,099,511,627,776], got 1.5"),
    ("Fakes.binomial", {"trials": 0}, InvalidInput, "trials must be a whole number in [1, 1,099,511,627,776], got 0"),
    ("Fakes.binomial", {"probability": 1.5}, InvalidInput, "probability must be in (0, 1], got 1.5"),
    ("Fakes.poisson", {"rate": "0.5"}, InvalidInput, "rate must be a number in (0, 2^30], got '0.5'"),
    ("Fakes.poisson", {"rate": HUGE}, InvalidInput, "rate must be in (0, 2^30], got a number of more than 128 bits"),
    ("Fakes.laplace", {"scale": 0}, InvalidInput, "scale must be in [2^-10, 2^30], got 0.0"),
    ("Fakes.laplace", {"shift": -1}, InvalidInput, "shift must be a whole number in [0, 1,099,511,627,776], got -1"),
    ("Fakes.gaussian", {"scale": INF}, InvalidInput, "scale must be in [2^-10, 2^30], got inf"),
    (
        "Fakes.gaussian",
        {"shift": None},
        InvalidInput,
        "shift must be a whole number in [0, 1,099,511,627,776], got None",
    ),
    (
        "Fakes.from_document",
        {"value": {"distribution": "laplace"}},
        WireError,
        "the fakes must be an object with exactly the keys distribution, scale, shift",
    ),
    (
        "Fakes.from_document",
        {"value": {**LAPLACE_FAKES, "scale": "2"}},
        WireError,
        "'scale' of the fakes must be a number",
    ),
    (
        "Fakes.from_document",
        {"value": {**LAPLACE_FAKES, "shift": -3}},
        WireError,
        "in the fakes: shift must be a whole number in [0, 1,099,511,627,776], got -3",
    ),
    ("Protocol", {"q": 0.7}, InvalidInput, "q must be in [0, 1/2), got 0.7"),
    ("Protocol", {"q": "0.1"}, InvalidInput, "q must be a number in [0, 1/2), got '0.1'"),
    ("Protocol", {"q": True}, InvalidInput, "q must be a number in [0, 1/2), got True"),
    ("Protocol", {"q": 0}, InvalidInput, "q must be in (0, 1/2) if no fakes are added, got 0.0"),
    ("Protocol", {"q": np.array([0.1, 0.2])}, InvalidInput, "q must be a number in [0, 1/2), not ndarray"),
    ("Protocol", {"k": 0}, InvalidInput, "k must be a whole number in [1, 1,000,000], got 0"),
    (
        "Protocol",
        {"k": HUGE},
        InvalidInput,
        "k must be a whole number in [1, 1,000,000], got a number of more than 128 bits",
    ),
    (
        "Protocol",
        {"k": 2, "m": hb.Fakes.laplace(2.0, 9)},
        InvalidInput,
        "k must be 1 if the shuffler draws the fakes, got 2",
    ),
    ("Protocol", {"q": 0, "k": 2, "m": 5}, InvalidInput, "k must be 1 if records are sent in the clear, got 2"),
    ("Protocol", {"m": -1}, InvalidInput, "m must be a whole number in [0, 1,000,000,000,000], got -1"),
    (
        "Protocol",
        {"m": 0.5},
        InvalidInput,
        "m must be a number of fakes, or a distribution such as Fakes.poisson(0.5), got 0.5",
    ),
    (
        "Protocol",
        {"m": 3, "release": "category"},
        InvalidInput,
        "k and m must be 1 and 0 for a category, which is sent once and without fakes, got (1, 3)",
    ),
    (
        "Protocol",
        {"release": "everything"},
        InvalidInput,
        "release must be 'records', 'bits', 'category' or 'strings', got 'everything'",
    ),
    (
        "Protocol.from_document",
        {"value": None},
        WireError,
        "the protocol must be an object with exactly the keys noise, k, release",
    ),
    (
        "Protocol.from_document",
        {"value": {**FLIP.to_document(), "noise": [{"flip": -1, "m": 0}]}},
        WireError,
        "in the noise of the protocol: flip must be a whole number in [0, 140,737,488,355,327], got -1",
    ),
    (
        "Protocol.from_document",
        {"value": {**FLIP.to_document(), "noise": [{"flip": 0, "m": "many"}]}},
        WireError,
        "the fakes of the noise of the protocol must be an object with exactly the keys distribution, scale, shift",
    ),
    ("Protocol.changed", {"q": 0.7}, InvalidInput, "q must be in [0, 1/2), got 0.7"),
    ("Protocol.changed", {"k": 0}, InvalidInput, "k must be a whole number in [1, 1,000,000], got 0"),
    ("Protocol.changed", {"m": -1}, InvalidInput, "m must be a whole number in [0, 1,000,000,000,000], got -1"),
    (
        "Protocol.changed",
        {"release": "all"},
        InvalidInput,
        "release must be 'records', 'bits', 'category' or 'strings', got 'all'",
    ),
    # Budgets and guarantees
    ("Budget", {"epsilon": -1}, InvalidInput, "epsilon must be finite and at least 0, got -1.0"),
    ("Budget", {"epsilon": NAN}, InvalidInput, "epsilon must be finite and at least 0, got nan"),
    ("Budget", {"epsilon": INF}, InvalidInput, "epsilon must be finite and at least 0, got inf"),
    (
        "Budget",
        {"epsilon": HUGE},
        InvalidInput,
        "epsilon must be finite and at least 0, got a number of more than 128 bits",
    ),
    ("Budget", {"epsilon": None}, InvalidInput, "epsilon must be a finite number of at least 0, got None"),
    ("Budget", {"delta": 1}, InvalidInput, "delta must be in [0, 1), got 1.0"),
    ("Budget", {"delta": np.float64(NAN)}, InvalidInput, "delta must be in [0, 1), got nan"),
    ("Budget", {"delta": [1e-6]}, InvalidInput, "delta must be a number in [0, 1), not list"),
    ("Basis", {"value": "guessed"}, InvalidInput, "value must be 'exact' or 'proven', got 'guessed'"),
    *(
        (f"Assumptions.{name}", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0")
        for name in ("sentences", "described_collusion")
    ),
    ("Assumptions", {"honest": 0}, InvalidInput, "honest must be a whole number of at least 1, got 0"),
    ("Assumptions", {"shuffler": "yes"}, InvalidInput, "shuffler must be True or False, got 'yes'"),
    ("Assumptions", {"fakes": 1}, InvalidInput, "fakes must be True or False, got 1"),
    ("Assumptions", {"view": None}, InvalidInput, "view must be of type str, not None"),
    ("Assumptions", {"collusion_epsilon": -1.0}, InvalidInput, "collusion_epsilon must be at least 0, got -1.0"),
    ("Assumptions", {"relay": 1}, InvalidInput, "relay must be True or False, got 1"),
    ("Assumptions", {"count_epsilon": NAN}, InvalidInput, "count_epsilon must be at least 0, got nan"),
    (
        "Assumptions.from_document",
        {"value": {}},
        WireError,
        "the assumptions must be an object with exactly the keys honest, shuffler, …",
    ),
    ("Guarantee", {"epsilon": "1"}, InvalidInput, "epsilon must be a number of at least 0, got '1'"),
    ("Guarantee", {"delta": 2}, InvalidInput, "delta must be in [0, 1], got 2.0"),
    ("Guarantee", {"lower_bound": NAN}, InvalidInput, "lower_bound must be at least 0, got nan"),
    ("Guarantee", {"solved": "n"}, InvalidInput, "solved must be 'epsilon' or 'delta', got 'n'"),
    ("Guarantee", {"basis": "exact"}, InvalidInput, "basis must be of type Basis, not str"),
    ("Guarantee", {"method": None}, InvalidInput, "method must be of type str, not None"),
    ("Guarantee", {"n": 0}, InvalidInput, "n must be a whole number of at least 1, got 0"),
    ("Guarantee", {"unshuffled": -1}, InvalidInput, "unshuffled must be a whole number of at least 0, got -1"),
    ("Guarantee", {"assumptions": None}, InvalidInput, "assumptions must be of type Assumptions, not None"),
    (
        "Guarantee.from_document",
        {"value": []},
        WireError,
        "the guarantee must be an object with exactly the keys epsilon, delta, …",
    ),
    (
        "Guarantee.from_document",
        {"value": {**PLAN.guarantee.to_document(), "delta": 2}},
        WireError,
        "in the guarantee: delta must be in [0, 1], got 2.0",
    ),
    (
        "Guarantee.meets",
        {"budget": (1.0, 1e-6)},
        InvalidInput,
        "budget must be of type Budget, not tuple; for example Budget(1.0, 1e-6)",
    ),
    # Plans
    (
        "Plan",
        {"schema": ["red"]},
        InvalidInput,
        "schema must be of type Schema, not list; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    (
        "Plan",
        {"schema": BITS, "protocol": hb.Protocol(0.1, release="category")},
        InvalidInput,
        "schema must be one-hot if a category is released, got Schema.bits(2 labels)",
    ),
    ("Plan", {"n": 4}, InvalidInput, "the guarantee must be for n = 4, got 3"),
    ("Plan", {"n": 1e3}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 1000.0"),
    (
        "Plan",
        {"protocol": 0.1},
        InvalidInput,
        "protocol must be of type Protocol, not float; for example Protocol(0.1)",
    ),
    (
        "Plan",
        {"protocol": hb.Protocol(0.375, release="category")},
        InvalidInput,
        "q must be below 1/3 for 3 categories, got 0.375",
    ),
    (
        "Plan",
        {"guarantee": BUDGET},
        InvalidInput,
        "guarantee must be of type Guarantee, not Budget; hubbub.account returns one",
    ),
    ("Plan", {"stderr": 0}, InvalidInput, "stderr must be in (0, 1e+300], got 0.0"),
    ("Plan", {"honest_fraction": 0}, InvalidInput, "honest_fraction must be in (0, 1], got 0.0"),
    ("Plan.from_json", {"text": None}, InvalidInput, "text must be the JSON of a plan as str or bytes, not None"),
    ("Plan.from_json", {"text": ""}, WireError, "the plan must be JSON in UTF-8"),
    ("Plan.from_json", {"text": b"\xff\xfe"}, WireError, "the plan must be JSON in UTF-8"),
    (
        "Plan.from_json",
        {"text": "[]"},
        WireError,
        "the plan must be an object with exactly the keys format, id, …",
    ),
    ("Plan.from_json", {"text": PLAN.to_json()[:-20]}, WireError, "the plan must be JSON in UTF-8"),
    (
        "Plan.from_json",
        {"text": PLAN.to_json().replace('"n":3,"odds"', '"n":9,"odds"')},
        WireError,
        "in the plan: the guarantee must be for n = 9, got 3",
    ),
    (
        "Plan.from_json",
        {"text": PLAN.to_json().replace("plan 3", "plan 2")},
        WireError,
        "the format of the plan must be 'hubbub plan 3'",
    ),
    (
        "Plan.from_json",
        {"text": PLAN.to_json().replace('"k":1', '"k":2')},
        WireError,
        "the id of the plan must be the digest of its content",
    ),
    (
        "Plan.from_json",
        {"text": PLAN.to_json().replace('"k":1', '"k":1e999')},
        WireError,
        "the plan must not have a number that is infinite, NaN or out of range",
    ),
    (
        "Plan.from_json",
        {"text": PLAN.to_json().replace('"k":1', '"k":1,"k":1')},
        WireError,
        "the plan must not have a duplicate key",
    ),
    ("Survey", {"schema": SCHEMA}, InvalidInput, "schema must be that of a survey, got Schema.one_hot(3 labels)"),
    ("Survey", {"weights": {"b": 2.0}}, InvalidInput, "weights must name questions of the survey"),
    ("Survey", {"weights": [2]}, InvalidInput, "weights must be a mapping from questions to numbers, not list"),
    ("Survey", {"weights": {"a": NAN}}, InvalidInput, "weights['a'] must be in [1e-06, 1,000,000], got nan"),
    ("Survey.from_toml", {"text": 7}, InvalidInput, "text must be a survey file as str or bytes, not int"),
    ("Survey.from_toml", {"text": "[questions"}, InvalidInput, "a survey file must be TOML: …"),
    ("load_plan", {"text": PLAN}, InvalidInput, "text must be the JSON of a plan as str or bytes, not Plan"),
    (
        "load_plan",
        {"text": claiming(epsilon=0.01)},
        FalseClaim,
        "the plan claims (0.01, 0)-DP as proven, which its parameters do not give if 1 user is honest …",
    ),
    (
        "load_plan",
        {"text": claiming(stderr=0.5)},
        FalseClaim,
        "the plan claims a standard error of 0.5, but it is 0.53033",
    ),
    (
        "plan_from",
        {"schema": 5},
        InvalidInput,
        "schema must be of type Schema, not int; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    ("plan_from", {"n": -1}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got -1"),
    (
        "plan_from",
        {"protocol": 0.1},
        InvalidInput,
        "protocol must be of type Protocol, not float; for example Protocol(0.1)",
    ),
    (
        "plan_from",
        {"epsilon": 1.0},
        InvalidInput,
        "exactly one of epsilon and delta must be given, to solve for the other, got both",
    ),
    ("plan_from", {"delta": 1.5}, InvalidInput, "delta must be in [0, 1), got 1.5"),
    ("plan_from", {"honest_fraction": 2}, InvalidInput, "honest_fraction must be in (0, 1], got 2.0"),
    ("plan_from", {"trust": "no"}, InvalidInput, "trust must be …"),
    *[
        (verb, case, error, message)
        for verb in ("plan", "frontier", "frontier_by_family", "outline", "solve")
        for case, error, message in (
            (
                {"schema": 5},
                InvalidInput,
                "schema must be of type Schema, not int; create one with Schema.one_hot, .bits, .at_most, .survey or "
                ".strings",
            ),
            ({"n": 0}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 0"),
            ({"n": (10, 5)}, InvalidInput, "n must be a range with low ≤ high, got (10, 5)"),
            ({"n": (1, 2, 3)}, InvalidInput, "n must be a number of people or a range (low, high), got (1, 2, 3)"),
            ({"budget": 1.0}, InvalidInput, "budget must be of type Budget, not float; for example Budget(1.0, 1e-6)"),
            ({"honest_fraction": NAN}, InvalidInput, "honest_fraction must be in (0, 1], got nan"),
            ({"epsilon": 1.0}, InvalidInput, "epsilon must be omitted if a budget is given"),
            ({"delta": 1e-6}, InvalidInput, "delta must be omitted if a budget is given"),
            (
                {"budget": None, "epsilon": 1.0},
                InvalidInput,
                "delta must be given if no budget is given",
            ),
            (
                {"trust": "shuffler"},
                InvalidInput,
                "trust must be 'nobody', 'shuffling' or 'shuffler-noise', got 'shuffler'",
            ),
            ({"clear": 1}, InvalidInput, "clear must be True or False, got 1"),
            ({"max_collusion_epsilon": 0.0}, InvalidInput, "max_collusion_epsilon must be above 0, got 0.0"),
            ({"joint": "yes"}, InvalidInput, "joint must be True or False, got 'yes'"),
            ({"max_messages": 0.5}, InvalidInput, "max_messages must be at least 1, got 0.5"),
            ({"max_client_weight": 0}, InvalidInput, "max_client_weight must be at least 1, got 0.0"),
            ({"max_bytes": "1 KB"}, InvalidInput, "max_bytes must be a number of at least 157, got '1 KB'"),
            ({"min_q": 0.5}, InvalidInput, "min_q must be in [0, 1/2), got 0.5"),
            ({"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
            (
                {"rounds": HUGE},
                InvalidInput,
                "rounds must be a whole number in [1, 1,000,000], got a number of more than 128 bits",
            ),
            ({"share": 0.0}, InvalidInput, "share must be in (0, 1], got 0.0"),
            ({"share": None}, InvalidInput, "share must be given together with within"),
            ({"within": None}, InvalidInput, "within must be given together with share"),
            ({"within": "10%"}, InvalidInput, "within must be a number in (0, 1], got '10%'"),
            ({"within": 10.0}, InvalidInput, "within must be in (0, 1], got 10.0"),
            ({"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
        )
        if set(case) <= set(SUBJECTS[verb].arguments)
        and not (verb == "solve" and set(case) & {"n", "epsilon", "delta"})
    ],
    *(
        (verb, {"deadline": wrong}, InvalidInput, message)
        for verb in ("frontier", "frontier_by_family")
        for wrong, message in (
            (0, "deadline must be finite and above 0, got 0.0"),
            ("soon", "deadline must be a finite number above 0, got 'soon'"),
        )
    ),
    ("plan", {"family": "flips"}, InvalidInput, "family must be 'local-flip', …"),
    (
        "plan",
        {"family": "clear-user-fakes", "trust": "shuffling"},
        Infeasible,
        "no protocol of the family clear-user-fakes meets the request: it sends records in the clear; …",
    ),
    ("outline", {"epsilons": 1.0}, InvalidInput, "epsilons must be numbers, not float"),
    ("outline", {"epsilons": [0.0]}, InvalidInput, "each of epsilons must be finite and above 0, got 0.0"),
    ("outline", {"people": [0]}, InvalidInput, "each of people must be a whole number in [1, 10,000,000,000], got 0"),
    ("outline", {"people": [5] * 1001}, InvalidInput, "people must be at most 1,000 numbers, got 1,001"),
    ("Outline", {"key": "flips"}, InvalidInput, "key must be 'local-flip', …"),
    ("Outline", {"name": 5}, InvalidInput, "name must be …"),
    ("Outline", {"trust": "all"}, InvalidInput, "trust must be …"),
    ("Outline", {"clear": 1}, InvalidInput, "clear must be True or False, got 1"),
    ("Outline", {"error": NAN}, InvalidInput, "error must be finite and at least 0, got nan"),
    ("Outline", {"by_epsilon": [(1.0, 5.0)]}, InvalidInput, "by_epsilon must be a tuple of pairs of numbers"),
    (
        "Outline",
        {"by_people": ((1.0, -5.0),)},
        InvalidInput,
        "each number of by_people must be finite and at least 0, got -5.0",
    ),
    ("FamilyPlan", {"key": "flips"}, InvalidInput, "key must be 'local-flip', …"),
    ("FamilyPlan", {"plan": hb.Outline(**OUTLINE)}, InvalidInput, "plan must be of type Plan, not Outline; …"),
    ("FamilyPlan", {"reason": ""}, InvalidInput, "reason must be given if there is no plan, and only then, got ''"),
    ("FamilyPlan", {"plan": PLAN, "late": True, "reason": ""}, InvalidInput, "late must be False if …"),
    ("solve", {"n": 0, "epsilon": None}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 0"),
    ("solve", {"n": 100}, InvalidInput, "n or epsilon must be given, and the other one omitted: it is found"),
    ("solve", {"epsilon": None}, InvalidInput, "n or epsilon must be given, and the other one omitted: it is found"),
    ("solve", {"n": 100, "epsilon": None, "delta": 1}, InvalidInput, "delta must be in (0, 1), got 1.0"),
    ("solve", {"delta": 1}, InvalidInput, "delta must be in [0, 1), got 1.0"),
    *(
        ("solve", case, InvalidInput, "one goal must be given: share and within, margin, points, stderr or precision")
        for case in ({"precision": 0.1}, {"stderr": 5.0}, {"share": None, "within": None})
    ),
    *(
        ("solve", {"share": None, "within": None, **case}, InvalidInput, message)
        for case, message in (
            ({"points": 2.0}, "points must be in (0, 1), got 2.0"),
            ({"precision": "1%"}, "precision must be a number in (0, 1), got '1%'"),
            ({"stderr": 0.0}, "stderr must be finite and above 0, got 0.0"),
            ({"margin": 0.0}, "margin must be finite and above 0, got 0.0"),
            (
                {"stderr": 5.0},
                "stderr must be given with a number of people; to find that, precision takes a share of it instead",
            ),
            (
                {"margin": 5.0},
                "margin must be given with a number of people; to find that, points takes a share of it instead",
            ),
        )
    ),
    (
        "solve",
        {"n": 100, "epsilon": None, "share": 0.001},
        Infeasible,
        "100 people cannot measure a label held by 0.1% of the people within ±50% at the 90% level: …",
    ),
    *(
        (name, {"weights": wrong}, InvalidInput, f"weights must {must}")
        for name in ("frontier", "frontier_by_family", "outline", "plan", "solve")
        for wrong, must in (
            (7, "be a mapping from questions to numbers, not int"),
            ({"colour": 1.0}, "be given for surveys only"),
        )
    ),
    (
        "plan",
        {"budget": hb.Budget(0.0, 0.0)},
        Infeasible,
        "no protocol meets Budget(epsilon=0.0, delta=0.0) for Schema.one_hot(3 labels) at n = 1,000; …",
    ),
    (
        "cost",
        {"plan": "plan.json"},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    ("cost", {"suite": 3}, InvalidInput, "suite must be a whole number in [1, 2], got 3"),
    ("Cost", {"messages": 0}, InvalidInput, "messages must be a whole number of at least 1, got 0"),
    ("Cost", {"bytes": 1.5}, InvalidInput, "bytes must be a whole number of at least 1, got 1.5"),
    ("Cost", {"payload_messages": -1.0}, InvalidInput, "payload_messages must be finite and at least 0, got -1.0"),
    ("Cost", {"payload_bytes": None}, InvalidInput, "payload_bytes must be a finite number of at least 0, got None"),
    ("Cost", {"not_offered": None}, InvalidInput, "not_offered must be of type str, not None"),
    # The accountant
    (
        "account",
        {"protocol": None},
        InvalidInput,
        "protocol must be of type Protocol, not None; for example Protocol(0.1)",
    ),
    (
        "account",
        {"schema": "bits"},
        InvalidInput,
        "schema must be of type Schema, not str; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    ("account", {"n": True}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got True"),
    ("account", {"n": 10**11}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 100000000000"),
    (
        "account",
        {"epsilon": 1.0},
        InvalidInput,
        "exactly one of epsilon and delta must be given, to solve for the other, got both",
    ),
    ("account", {"epsilon": -1.0, "delta": None}, InvalidInput, "epsilon must be finite and at least 0, got -1.0"),
    (
        "account",
        {"delta": None},
        InvalidInput,
        "exactly one of epsilon and delta must be given, to solve for the other, got neither",
    ),
    ("account", {"delta": "1e-6"}, InvalidInput, "delta must be a number in [0, 1), got '1e-6'"),
    ("account", {"honest_fraction": 0}, InvalidInput, "honest_fraction must be in (0, 1], got 0.0"),
    ("account", {"trust": None}, InvalidInput, "trust must be …"),
    (
        "account",
        {"schema": BITS, "protocol": hb.Protocol(0.1, release="category")},
        InvalidInput,
        "schema must be one-hot if a category is released, got Schema.bits(2 labels)",
    ),
    (
        "calibrate",
        {"schema": None},
        InvalidInput,
        "schema must be of type Schema, not None; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    (
        "calibrate",
        {"n": None},
        InvalidInput,
        "exactly one of q, m and n must be None: the parameter to find, got (None, 0, None)",
    ),
    ("calibrate", {"n": 2.5}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 2.5"),
    (
        "calibrate",
        {"budget": (1.0, 1e-6)},
        InvalidInput,
        "budget must be of type Budget, not tuple; for example Budget(1.0, 1e-6)",
    ),
    ("calibrate", {"q": 0.6}, InvalidInput, "q must be in [0, 1/2), got 0.6"),
    (
        "calibrate",
        {"q": 0.1},
        InvalidInput,
        "exactly one of q, m and n must be None: the parameter to find, got (0.1, 0, 1000)",
    ),
    (
        "calibrate",
        {"m": "many"},
        InvalidInput,
        "m must be a number of fakes, or a distribution such as Fakes.poisson(0.5), got 'many'",
    ),
    ("calibrate", {"k": 0}, InvalidInput, "k must be a whole number in [1, 1,000,000], got 0"),
    (
        "calibrate",
        {"release": "all"},
        InvalidInput,
        "release must be 'records', 'bits', 'category' or 'strings', got 'all'",
    ),
    ("calibrate", {"honest_fraction": -1}, InvalidInput, "honest_fraction must be in (0, 1], got -1.0"),
    ("calibrate", {"trust": 0}, InvalidInput, "trust must be …"),
    ("calibrate", {"max_q": 0}, InvalidInput, "max_q must be in (0, 1/2], got 0.0"),
    (
        "calibrate",
        {"max_q": 0.1, "schema": hb.Schema.bits(1), "n": 10},
        Infeasible,
        "Budget(epsilon=1.0, delta=1e-06) needs a flip probability above 0.1 at n = 10; with …",
    ),
    (
        "Calibrated",
        {"protocol": None},
        InvalidInput,
        "protocol must be of type Protocol, not None; for example Protocol(0.1)",
    ),
    ("Calibrated", {"n": 0}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 0"),
    (
        "Calibrated",
        {"guarantee": None},
        InvalidInput,
        "guarantee must be of type Guarantee, not None; hubbub.account returns one",
    ),
    (
        "Ledger",
        {"charges": None},
        InvalidInput,
        "charges must be the charges of another ledger; start with Ledger() and call charge()",
    ),
    ("Ledger", {"charges": (CHARGE, CHARGE)}, InvalidInput, "charges must have distinct names"),
    (
        "Ledger",
        {"budget": 2.0},
        InvalidInput,
        "budget must be of type Budget, not float; for example Budget(1.0, 1e-6)",
    ),
    ("Ledger.add", {"charge": ONCE}, InvalidInput, "charge must be of type Charge, not Plan"),
    (
        "Ledger.charge",
        {"plan": FLIP},
        InvalidInput,
        "plan must be of type Plan, not Protocol; hubbub.plan and hubbub.load_plan return one",
    ),
    ("Ledger.charge", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
    (
        "Ledger.charge",
        {"collection": "a\nb"},
        InvalidInput,
        "collection must be a name of 1 to 256 printable characters",
    ),
    (
        "Ledger.forecast",
        {"plan": None},
        InvalidInput,
        "plan must be of type Plan, not None; hubbub.plan and hubbub.load_plan return one",
    ),
    ("Ledger.forecast", {"rounds": 1.5}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 1.5"),
    ("Ledger.forecast", {"delta": 1}, InvalidInput, "delta must be in [0, 1), got 1.0"),
    ("Ledger.from_json", {"text": "{}"}, WireError, "the ledger must be an object with exactly the keys …"),
    (
        "Ledger.remaining",
        {"plan": 7},
        InvalidInput,
        "plan must be of type Plan, not int; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "Ledger.remaining",
        {"budget": None},
        InvalidInput,
        "budget must be of type Budget, not None; for example Budget(1.0, 1e-6)",
    ),
    ("Ledger.total", {"delta": -1}, InvalidInput, "delta must be in [0, 1), got -1.0"),
    ("Charge", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    ("Charge", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
    ("Charge", {"curve": None}, InvalidInput, "curve must be of type PrivacyCurve, not None"),
    ("Charge.from_document", {"value": {}}, WireError, "the charge must be an object with exactly the keys …"),
    (
        "Charge.of",
        {"plan": "plan"},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    ("Charge.of", {"rounds": -1}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got -1"),
    ("Charge.of", {"collection": 7}, InvalidInput, "collection must be a name of 1 to 256 printable characters"),
    ("PrivacyCurve", {"points": ()}, InvalidInput, "points must have between 1 and 64 pairs, got 0"),
    ("PrivacyCurve", {"points": 7}, InvalidInput, "points must be pairs (ε, δ) with ε increasing and δ not, not int"),
    (
        "PrivacyCurve",
        {"points": ((1.0, 0.1), (0.5, 0.0))},
        InvalidInput,
        "points must be pairs (ε, δ) with ε increasing and δ not",
    ),
    ("PrivacyCurve", {"points": ((0.0, 2.0),)}, InvalidInput, "delta of points must be in [0, 1], got 2.0"),
    ("PrivacyCurve.delta", {"epsilon": -1}, InvalidInput, "epsilon must be finite and at least 0, got -1.0"),
    ("PrivacyCurve.from_document", {"value": [[0]]}, WireError, "the curve must be a list of pairs of numbers"),
    ("Total", {"epsilon": -1}, InvalidInput, "epsilon must be at least 0, got -1.0"),
    ("Total", {"delta": 2}, InvalidInput, "delta must be in [0, 1], got 2.0"),
    ("Total.from_document", {"value": 1}, WireError, "the total must be an object with exactly the keys …"),
    ("Budget.from_document", {"value": 1}, WireError, "the budget must be an object with exactly the keys …"),
    ("Plan", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
    ("Plan", {"total": BUDGET}, InvalidInput, "total must be of type Total, not Budget"),
    ("Plan", {"curve": 7}, InvalidInput, "curve must be of type PrivacyCurve, not int"),
    ("Plan", {"odds": 0.6}, InvalidInput, "odds must be of type Odds, not float"),
    *(("Odds", {name: 0.4}, InvalidInput, f"{name} must be in [1/2, 1], got 0.4") for name in PLAN.odds.to_document()),
    ("Odds.from_document", {"value": 1}, WireError, "the odds must be an object with exactly the keys …"),
    (
        "Odds.from_document",
        {"value": {**PLAN.odds.to_document(), "total": 2}},
        WireError,
        "in the odds: total must be in [1/2, 1], got 2.0",
    ),
    ("plan_from", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
    ("plan_from", {"total_delta": 1}, InvalidInput, "total_delta must be in [0, 1), got 1.0"),
    (
        "Ledger.charge_protocol",
        {"protocol": 0.1},
        InvalidInput,
        "protocol must be of type Protocol, not float; for example Protocol(0.1)",
    ),
    (
        "Ledger.charge_protocol",
        {"schema": 3},
        InvalidInput,
        "schema must be of type Schema, not int; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    ("Ledger.charge_protocol", {"n": 0}, InvalidInput, "n must be a whole number in [1, 10,000,000,000], got 0"),
    ("Ledger.charge_protocol", {"rounds": 0}, InvalidInput, "rounds must be a whole number in [1, 1,000,000], got 0"),
    (
        "Ledger.charge_protocol",
        {"rounds": HUGE},
        InvalidInput,
        "rounds must be a whole number in [1, 1,000,000], got a number of more than 128 bits",
    ),
    ("Ledger.charge_protocol", {"honest_fraction": 1.5}, InvalidInput, "honest_fraction must be in (0, 1], got 1.5"),
    ("Ledger.charge_protocol", {"trust": "no"}, InvalidInput, "trust must be …"),
    ("Ledger.delta", {"epsilon": -0.1}, InvalidInput, "epsilon must be finite and at least 0, got -0.1"),
    ("Ledger.epsilon", {"delta": 0}, InvalidInput, "delta must be in (0, 1), got 0.0"),
    ("Ledger.basic", {"delta": None}, InvalidInput, "delta must be a number in (0, 1), got None"),
    # Records
    (
        "Collection",
        {"schema": None},
        InvalidInput,
        "schema must be of type Schema, not None; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    (
        "Collection",
        {"records": ["red"]},
        InvalidInput,
        "records must be Packed or SetBits, not list; use Collection.from_values",
    ),
    (
        "Collection",
        {"records": Packed(ROWS)},
        InvalidInput,
        "records must be stored as SetBits for Schema.one_hot(3 labels)",
    ),
    ("Collection", {"records": SetBits(np.array([7], np.uint32))}, InvalidInput, "indices must be below 3"),
    ("Collection", {"records": SetBits(np.array([0.5]))}, InvalidInput, "indices must be a vector of type uint32"),
    ("Collection", {"schema": BITS}, InvalidInput, "records must be stored as Packed for Schema.bits(2 labels)"),
    ("Collection.from_values", {"entropy": 7}, InvalidInput, "entropy must be a function …"),
    (
        "Collection.from_values",
        {"values": None},
        InvalidInput,
        "values must be a list, an array, a series or a data frame, not None",
    ),
    (
        "Collection.from_values",
        {"values": "red"},
        InvalidInput,
        "values must be a list, an array, a series or a data frame, not str",
    ),
    (
        "Collection.from_values",
        {"values": ["red", "secret"]},
        InvalidRecord,
        "record 2 has a label that is not in the schema (3 labels: red, green, …)",
    ),
    (
        "Collection.from_values",
        {"values": ["red", None]},
        InvalidRecord,
        "record 2 must have a value, but it is missing",
    ),
    ("Collection.from_values", {"values": np.array([0, 3])}, InvalidRecord, "record 2 has an index outside [0, 2]"),
    (
        "Collection.from_values",
        {"values": np.array([0.5])},
        InvalidInput,
        "values must be an array of labels or of their indices, not of type float64",
    ),
    (
        "Collection.from_values",
        {"values": np.array(["red", "secret"])},
        InvalidRecord,
        "record 2 has a label that is not in the schema (3 labels: red, green, …)",
    ),
    (
        "Collection.from_values",
        {"values": np.array([b"red"])},
        InvalidInput,
        "values must be an array of labels or of their indices, not of type |S3",
    ),
    (
        "Collection.from_values",
        {"values": np.array([1, 2]), "schema": hb.Schema.one_hot(["1", "2"])},
        InvalidInput,
        "values must be strings, because the labels are numbers that differ from their indices",
    ),
    (
        "Collection.from_values",
        {"values": np.ma.array([0, 1], mask=[False, True])},
        InvalidInput,
        "values must have no masked entries; fill them first",
    ),
    (
        "Collection.from_values",
        {"values": {"secret": ["red"]}},
        InvalidInput,
        "values must be a list, an array, a series or a data frame, not dict",
    ),
    (
        "Collection.from_values",
        {"values": [{"a": False}], "schema": BITS},
        InvalidRecord,
        "record 1 must be a list of labels, not dict",
    ),
    (
        "Collection.from_values",
        {"values": pa.array([{"secret": 1}])},
        InvalidInput,
        "values must be labels, not of the Arrow type struct",
    ),
    (
        "Collection.from_values",
        {"values": pa.table({"x": ["red"], "y": ["red"]})},
        InvalidInput,
        "values must have one column, or a column for every label; select the column of labels first, got 2",
    ),
    (
        "Collection.from_values",
        {"values": pa.table({"red": ["secret"], "green": [1], "blue": [True]})},
        InvalidRecord,
        "record 1 (column 'red') must be 0, 1, true or false",
    ),
    (
        "Collection.from_values",
        {"values": np.zeros((2, 2), bool)},
        InvalidInput,
        "values must be an array of shape (n, 3), got (2, 2)",
    ),
    (
        "Collection.from_values",
        {"values": np.full((2, 3), 2)},
        InvalidRecord,
        "record 1 (column 'red') must be 0, 1, true or false",
    ),
    (
        "Collection.from_values",
        {"values": np.zeros((2, 3))},
        InvalidInput,
        "values must be an array of 0 and 1 or of booleans, not of type float64",
    ),
    (
        "Collection.from_values",
        {"values": np.zeros((2, 3), bool)},
        InvalidRecord,
        "record 1 must have exactly one label",
    ),
    (
        "Collection.from_values",
        {"values": ["a"], "schema": BITS},
        InvalidRecord,
        "record 1 must be a list of labels, not str",
    ),
    (
        "Collection.from_values",
        {"values": [["a"], ["a", "a"]], "schema": BITS},
        InvalidRecord,
        "record 2 has a label twice",
    ),
    (
        "Collection.from_values",
        {"values": [["a"], ["secret"]], "schema": BITS},
        InvalidRecord,
        "record 2 has a label that is not in the schema (2 labels: a, b)",
    ),
    (
        "Collection.from_values",
        {"values": [[], ["a", "b"]], "schema": FEW},
        InvalidRecord,
        "record 2 has more labels than max_set = 1 allows",
    ),
    (
        "Collection.from_values",
        {"schema": ["red"]},
        InvalidInput,
        "schema must be of type Schema, not list; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    (
        "Collection.from_packed",
        {"rows": [[1]]},
        InvalidInput,
        "rows must be a C-contiguous uint8 array of shape (n, 1), not list",
    ),
    (
        "Collection.from_packed",
        {"rows": np.zeros((2, 2), np.uint8)},
        InvalidInput,
        "rows must be a C-contiguous uint8 array of shape (n, 1), not uint8 of shape (2, 2)",
    ),
    ("Collection.from_packed", {"rows": np.array([[8]], np.uint8)}, InvalidInput, "rows must have zero padding bits"),
    (
        "Collection.from_packed",
        {"rows": np.array([[1], [3]], np.uint8)},
        InvalidRecord,
        "record 2 must have exactly one label",
    ),
    (
        "Collection.from_packed",
        {"schema": 3},
        InvalidInput,
        "schema must be of type Schema, not int; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    (
        "Collection.concatenate",
        {"parts": []},
        InvalidInput,
        "parts must be at least one collection, all of the same schema",
    ),
    ("Collection.concatenate", {"parts": COLLECTION}, InvalidInput, "parts must be a list of collections"),
    (
        "Collection.concatenate",
        {"parts": [COLLECTION, hb.Collection.from_values([["a"]], BITS)]},
        InvalidInput,
        "parts must be at least one collection, all of the same schema",
    ),
    ("Collection.rows", {"start": -1}, InvalidInput, "start must be a whole number of at least 0, got -1"),
    ("Collection.rows", {"stop": 1.0}, InvalidInput, "stop must be a whole number of at least 0, got 1.0"),
    ("Collection.ones", {"start": None}, InvalidInput, "start must be a whole number of at least 0, got None"),
    ("Collection.ones", {"stop": "end"}, InvalidInput, "stop must be a whole number of at least 0, got 'end'"),
    ("Collection.blocks", {"size": 0}, InvalidInput, "size must be a whole number of at least 1, got 0"),
    # Reports
    (
        "randomize",
        {"collection": ["red"]},
        InvalidInput,
        "collection must be of type Collection, not list; create one with Collection.from_values",
    ),
    (
        "randomize",
        {"plan": "plan.json"},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "randomize",
        {"plan": SPLIT},
        PlanMismatch,
        "the collection must have the schema of the plan, Schema.bits(2 labels), got Schema.one_hot(3 labels)",
    ),
    (
        "randomize",
        {"fakes": 5},
        InvalidInput,
        "fakes must be omitted, because this plan does not fix the total number of fakes, got 5",
    ),
    ("randomize", {"plan": FAKES, "fakes": 5}, InvalidInput, "fakes must be a whole number in [0, 2], got 5"),
    (
        "randomize",
        {"plan": SHARED, "fakes": 5},
        InvalidInput,
        "fakes must be at least 6 for 3 users, because the plan counts on an equal share of the 7 fakes from every "
        "honest user, got 5",
    ),
    (
        "randomize",
        {"plan": FAKES, "fakes": "all"},
        InvalidInput,
        "fakes must be a whole number of at least 0, got 'all'",
    ),
    (
        "randomize",
        {"plan": POISSON, "fakes": 5},
        InvalidInput,
        "fakes must be omitted, because this plan does not fix the total number of fakes, got 5",
    ),
    (
        "randomize",
        {"entropy": 7},
        InvalidInput,
        "entropy must be a function that returns the requested number of random bytes, such as os.urandom, not int",
    ),
    ("randomize", {"entropy": lambda size: b""}, EntropyFailure, "the entropy source returned 0 of 8 bytes"),
    (
        "randomize",
        {"entropy": lambda size: "0" * size},
        EntropyFailure,
        "the entropy source must return bytes, not str",
    ),
    (
        "shuffle",
        {"reports": SHUFFLED.messages},
        InvalidInput,
        "reports must be of type Reports, not ndarray; hubbub.randomize returns them",
    ),
    (
        "shuffle",
        {"reports": hb.randomize(hb.Collection.from_values(["red"], SCHEMA), PLAN)},
        BatchTooSmall,
        "a batch must have at least 3 people, got 1",
    ),
    (
        "shuffle",
        {"reports": hb.randomize(COLLECTION, FAKES, fakes=1), "plan": FAKES},
        BatchTooSmall,
        "a batch must have at least 2 fakes, got 1",
    ),
    (
        "shuffle",
        {"reports": hb.Reports(PLAN, ROWS, 3)},
        BatchTooSmall,
        "3 people with 0 fakes must send 3 messages, got 2",
    ),
    (
        "shuffle",
        {"plan": OTHER},
        PlanMismatch,
        f"reports and plan must belong to the same plan, got {TWO_PLANS}",
    ),
    (
        "shuffle",
        {"plan": "plan.json"},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "shuffle",
        {"entropy": None},
        InvalidInput,
        "entropy must be a function that returns the requested number of random bytes, such as os.urandom, not None",
    ),
    ("shuffle", {"fast": "yes"}, InvalidInput, "fast must be True or False, got 'yes'"),
    (
        "Reports",
        {"plan": PLAN.id},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    ("Reports", {"messages": [[1]]}, InvalidInput, "messages must be an array of type uint8, not list"),
    (
        "Reports",
        {"messages": np.zeros((2, 2), np.uint8)},
        InvalidInput,
        "messages must be a C-contiguous array of type uint8 and shape (2, 1), not of type uint8 and shape (2, 2)",
    ),
    (
        "Reports",
        {"messages": np.zeros((2, 1))},
        InvalidInput,
        "messages must be a C-contiguous array of type uint8 and shape (2, 1), not of type float64 and shape (2, 1)",
    ),
    ("Reports", {"messages": np.array([[8]], np.uint8)}, InvalidInput, "messages must each have zero padding bits"),
    (
        "Reports",
        {"plan": SPLIT, "messages": np.array([2], np.uint8)},
        InvalidInput,
        "messages must each be an index below 2",
    ),
    ("Reports", {"n": -1}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000], got -1"),
    ("Reports", {"n": 0, "shuffled": True}, InvalidInput, "n must be a whole number in [1, 1,000,000,000,000], got 0"),
    ("Reports", {"fakes": 0.5}, InvalidInput, "fakes must be a whole number in [0, 1,000,000,000,000], got 0.5"),
    ("Reports", {"shuffled": None}, InvalidInput, "shuffled must be True or False, got None"),
    (
        "Reports.__add__",
        {"other": hb.randomize(COLLECTION, OTHER)},
        PlanMismatch,
        f"added reports must belong to the same plan, got {SWAPPED}",
    ),
    (
        "Reports.__add__",
        {"other": SHUFFLED},
        InvalidInput,
        "reports must be added before they are shuffled; add the tallies of shuffled reports instead",
    ),
    ("BatchHeader", {"plan": "plan.json"}, InvalidInput, "plan must be the id of a plan, 64 hexadecimal digits"),
    (
        "BatchHeader",
        {"release": "all"},
        InvalidInput,
        "release must be 'records', 'bits', 'category' or 'strings', got 'all'",
    ),
    ("BatchHeader", {"width": 0}, InvalidInput, "width must be a whole number in [1, 10,000,000], got 0"),
    ("BatchHeader", {"payload": None}, InvalidInput, "payload must be a whole number in [1, 10,000,000], got None"),
    (
        "BatchHeader",
        {"messages": HUGE},
        InvalidInput,
        "messages must be a whole number in [0, 1,000,000,000,000,000,000], got a number of more than 128 bits",
    ),
    ("BatchHeader", {"n": 0}, InvalidInput, "n must be a whole number in [1, 1,000,000,000,000], got 0"),
    ("BatchHeader", {"fakes": -1}, InvalidInput, "fakes must be a whole number in [0, 1,000,000,000,000], got -1"),
    ("BatchHeader", {"shuffled": 1}, InvalidInput, "shuffled must be True or False, got 1"),
    (
        "BatchHeader",
        {"certified": -1},
        InvalidInput,
        "certified must be a whole number in [0, 1,000,000,000,000], got -1",
    ),
    ("BatchHeader", {"slots": 0.5}, InvalidInput, "slots must be a whole number in [0, 1,000,000,000,000], got 0.5"),
    (
        "BatchHeader.of",
        {"plan": PLAN.id},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "BatchHeader.of",
        {"messages": -1},
        InvalidInput,
        "messages must be a whole number in [0, 1,000,000,000,000,000,000], got -1",
    ),
    ("BatchHeader.of", {"n": "3"}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000], got '3'"),
    (
        "BatchHeader.of",
        {"fakes": None},
        InvalidInput,
        "fakes must be a whole number in [0, 1,000,000,000,000], got None",
    ),
    ("BatchHeader.of", {"shuffled": 0}, InvalidInput, "shuffled must be True or False, got 0"),
    ("BatchHeader.of", {"certified": 3}, InvalidInput, "certified must be 0 unless the batch is shuffled, got 3"),
    ("BatchHeader.of", {"slots": 2}, InvalidInput, "slots must be 0 unless the batch is shuffled, got 2"),
    (
        "BatchHeader.check",
        {"plan": None},
        InvalidInput,
        "plan must be of type Plan, not None; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "BatchHeader.check",
        {"plan": OTHER},
        PlanMismatch,
        f"batch and plan must belong to the same plan, got {TWO_PLANS}",
    ),
    ("Batch", {"header": None}, InvalidInput, "header must be of type BatchHeader, not None"),
    ("Batch", {"blocks": None}, InvalidInput, "blocks must be a list or an iterator of arrays of messages, not None"),
    # Estimates
    ("tally", {"reports": [SHUFFLED]}, InvalidInput, "reports must be Reports or a Batch, not list"),
    (
        "tally",
        {"reports": hb.Batch(SHUFFLED.header, [])},
        InvalidInput,
        "the batch must have the 3 messages of its header, got 0",
    ),
    ("Tally", {"plan": None}, InvalidInput, "plan must be the id of a plan, 64 hexadecimal digits"),
    ("Tally", {"n": -1}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000,000,000], got -1"),
    ("Tally", {"fakes": 1.5}, InvalidInput, "fakes must be a whole number in [0, 1,000,000,000,000,000,000], got 1.5"),
    (
        "Tally",
        {"messages": None},
        InvalidInput,
        "messages must be a whole number in [0, 1,000,000,000,000,000,000], got None",
    ),
    (
        "Tally",
        {"batches": "1"},
        InvalidInput,
        "batches must be a whole number in [0, 1,000,000,000,000,000,000], got '1'",
    ),
    (
        "Tally",
        {"smallest_batch": HUGE},
        InvalidInput,
        "smallest_batch must be a whole number in [0, 1,000,000,000,000,000,000], got a number of more than 128 bits",
    ),
    ("Tally", {"counts": [1, 2, 3]}, InvalidInput, "counts must be a vector of int64 values, not list"),
    ("Tally", {"unshuffled": -1}, InvalidInput, "unshuffled must be a whole number in [0, 3], got -1"),
    (
        "Tally",
        {"fewest_fakes": 0.5},
        InvalidInput,
        "fewest_fakes must be a whole number in [0, 1,000,000,000,000,000,000], got 0.5",
    ),
    ("Tally", {"slots": -1}, InvalidInput, "slots must be a whole number in [0, 1,000,000,000,000,000,000], got -1"),
    (
        "Tally",
        {"counts": np.ones(3)},
        InvalidInput,
        "counts must be a vector of int64 values, not float64 of shape (3,)",
    ),
    (
        "Tally.__add__",
        {"other": hb.tally(hb.randomize(COLLECTION, OTHER))},
        PlanMismatch,
        f"added tallies must belong to the same plan, got {SWAPPED}",
    ),
    (
        "estimate",
        {"tally": SHUFFLED},
        InvalidInput,
        "tally must be of type Tally, not Reports; hubbub.tally returns one",
    ),
    (
        "estimate",
        {"tally": dataclasses.replace(TALLY, messages=9)},
        InvalidInput,
        "the tally must have 3 messages of 3 people and 0 fakes, got 9",
    ),
    (
        "estimate",
        {"tally": hb.tally(hb.randomize(COLLECTION, LAPLACE)), "plan": LAPLACE},
        InvalidInput,
        "the reports must be shuffled, because the shuffler adds the fakes of this plan",
    ),
    (
        "estimate",
        {"plan": None},
        InvalidInput,
        "plan must be of type Plan, not None; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "estimate",
        {"plan": OTHER},
        PlanMismatch,
        f"tally and plan must belong to the same plan, got {TWO_PLANS}",
    ),
    (
        "achieved_guarantee",
        {"tally": None},
        InvalidInput,
        "tally must be of type Tally, not None; hubbub.tally returns one",
    ),
    (
        "achieved_guarantee",
        {"plan": PLAN.to_json()},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    (
        "achieved_guarantee",
        {"plan": OTHER},
        PlanMismatch,
        f"tally and plan must belong to the same plan, got {TWO_PLANS}",
    ),
    ("joint", {"reports": None}, InvalidInput, "reports must be Reports, a Batch or several of them, not None"),
    ("joint", {"reports": []}, InvalidInput, "reports must contain at least one batch"),
    ("joint", {"reports": [SHUFFLED, 1]}, InvalidInput, "reports must be Reports, a Batch or several of them, not int"),
    (
        "joint",
        {"plan": PLAN.id},
        InvalidInput,
        "plan must be of type Plan, not str; hubbub.plan and hubbub.load_plan return one",
    ),
    ("joint", {"plan": SPLIT}, InvalidInput, "the plan must release whole records for a joint table, got 'bits'"),
    (
        "joint",
        {"plan": OTHER},
        PlanMismatch,
        f"reports and plan must belong to the same plan, got {TWO_PLANS}",
    ),
    ("joint", {"labels": 3}, InvalidInput, "labels must be a list of labels of the schema, not int"),
    ("joint", {"labels": []}, InvalidInput, "the number of labels must be a whole number in [1, 20], got 0"),
    (
        "joint",
        {"labels": ["red", "mauve"]},
        InvalidInput,
        "labels must be distinct labels of the schema (3 labels: red, green, …)",
    ),
    (
        "joint",
        {"labels": ["red", "red"]},
        InvalidInput,
        "labels must be distinct labels of the schema (3 labels: red, green, …)",
    ),
    ("LabelView", {"labels": ["red"]}, InvalidInput, "labels must be a tuple of strings, not list"),
    ("LabelView", {"values": None}, InvalidInput, "values must be a vector of 3 float64 values, not None"),
    (
        "LabelView",
        {"stderr": np.ones(2)},
        InvalidInput,
        "stderr must be a vector of 3 float64 values, not float64 of shape (2,)",
    ),
    ("LabelView", {"n": -1}, InvalidInput, "n must be a whole number of at least 0, got -1"),
    ("LabelView", {"one_choice": 1}, InvalidInput, "one_choice must be True or False, got 1"),
    (
        "LabelView",
        {"unbiased": np.ones((3, 1))},
        InvalidInput,
        "unbiased must be a vector of 3 float64 values, not float64 of shape (3, 1)",
    ),
    ("LabelView", {"noise": "normal"}, InvalidInput, "noise must be of type CountNoise, not str"),
    *[
        (f"{name}.{method}", {"level": 2}, InvalidInput, "level must be in (0, 1), got 2.0")
        for name in ("LabelView", "Joint")
        for method in ("columns", "to_arrow", "to_pandas", "to_polars")
    ],
    ("LabelView.columns", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1"),
    ("LabelView.population", {"level": 95}, InvalidInput, "level must be in (0, 1), got 95.0"),
    ("LabelView.population", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1"),
    (
        "Result.from_json",
        {"text": RESULT.to_json().replace("result 3", "result 7")},
        WireError,
        "the format of the result must be 'hubbub result 3'",
    ),
    (
        "Result.from_json",
        {"text": RESULT.to_json().replace('"people": 3', '"people": -3')},
        WireError,
        "in the counts of attribute 1 of the result: n must be a whole number of at least 0, got -3",
    ),
    (
        "Result.from_json",
        {"text": RESULT.to_json().replace('"gain": ', '"gain": -')},
        WireError,
        "in the noise of the estimate: gain must be finite and above 0, got …",
    ),
    ("LabelView.interval", {"of": "world"}, InvalidInput, "of must be 'people' or 'population', got 'world'"),
    ("Figure", {"value": NAN}, InvalidInput, "value must be a finite number, got nan"),
    ("Figure", {"stderr": -1}, InvalidInput, "stderr must be finite and at least 0, got -1.0"),
    ("Figure", {"detectable": 1}, InvalidInput, "detectable must be True or False, got 1"),
    ("Figure.interval", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("Figure.interval", {"of": 1}, InvalidInput, "of must be 'people' or 'population', got 1"),
    ("pool", {"results": 5}, InvalidInput, "results must be a list of results, not int"),
    ("pool", {"results": []}, InvalidInput, "results must contain at least one result"),
    (
        "pool",
        {"results": [TALLY]},
        InvalidInput,
        "every one of results must be of type Result, not Tally; hubbub.estimate returns one",
    ),
    (
        "pool",
        {"results": [ESTIMATE, ESTIMATE]},
        InvalidInput,
        "results must be of different people, but one of them is given twice",
    ),
    (
        "pool",
        {"results": [ESTIMATE, SINGLE]},
        InvalidInput,
        "results must have the same labels (3 labels: red, green, …; 1 label: red)",
    ),
    ("compare", {"a": TALLY}, InvalidInput, "a must be of type Result, not Tally; hubbub.estimate returns one"),
    ("compare", {"b": None}, InvalidInput, "b must be of type LabelView, not None"),
    (
        "compare",
        {"b": ESTIMATE},
        InvalidInput,
        "a and b must be of different people, but they are the same result",
    ),
    ("compare", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("compare", {"correction": "bonferroni"}, InvalidInput, "correction must be 'none' or 'holm', got 'bonferroni'"),
    (
        "compare_power",
        {"plan": None},
        InvalidInput,
        "plan must be of type Plan, not None; hubbub.plan and hubbub.load_plan return one",
    ),
    ("compare_power", {"share_a": 2}, InvalidInput, "share_a must be in [0, 1], got 2.0"),
    ("compare_power", {"share_b": "10 %"}, InvalidInput, "share_b must be a number in [0, 1], got '10 %'"),
    ("compare_power", {"n_a": 0}, InvalidInput, "n_a must be a whole number in [1, 10,000,000,000], got 0"),
    ("compare_power", {"n_b": 1.5}, InvalidInput, "n_b must be a whole number in [1, 10,000,000,000], got 1.5"),
    ("compare_power", {"significance": 0}, InvalidInput, "significance must be in (0, 1), got 0.0"),
    ("LabelComparison", {"a": None}, InvalidInput, "a must be of type LabelView, not None"),
    ("LabelComparison", {"b": 7}, InvalidInput, "b must be of type LabelView, not int"),
    (
        "LabelComparison",
        {"adjusted": 0.5},
        InvalidInput,
        "adjusted must be a vector of 3 float64 values, not float",
    ),
    ("LabelComparison", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("LabelComparison", {"correction": None}, InvalidInput, "correction must be 'none' or 'holm', got None"),
    ("LabelComparison.columns", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Tally", {"strings": ["a"]}, InvalidInput, "strings must be a tuple of the bodies of strings"),
    ("LabelComparison.plot", {"top": 0}, InvalidInput, "top must be a whole number of at least 1, got 0"),
    ("Difference", {"stderr": -1}, InvalidInput, "stderr must be finite and at least 0, got -1.0"),
    ("ConditionalTable", {"labels": "blue"}, InvalidInput, "labels must be a tuple of strings, not str"),
    ("ConditionalTable", {"values": None}, InvalidInput, "values must be a vector of 2 float64 values, not None"),
    ("ConditionalTable", {"stderr": None}, InvalidInput, "stderr must be a vector of 2 float64 values, not None"),
    ("ConditionalTable.interval", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("JointCell", {"present": "red"}, InvalidInput, "present must be a tuple of strings, not str"),
    ("JointCell", {"absent": None}, InvalidInput, "absent must be a tuple of strings, not None"),
    ("JointCell", {"value": "3"}, InvalidInput, "value must be a finite number, got '3'"),
    ("JointCell", {"stderr": NAN}, InvalidInput, "stderr must be finite and at least 0, got nan"),
    ("JointCell", {"index": 4}, InvalidInput, "index must be a whole number in [0, 3], got 4"),
    ("JointCell", {"table": None}, InvalidInput, "table must be of type Joint, not None"),
    ("JointCell.interval", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("LabelView", {"remark": None}, InvalidInput, "remark must be of type str, not None"),
    ("LabelView.interval", {"level": 95}, InvalidInput, "level must be in (0, 1), got 95.0"),
    ("LabelView.interval", {"level": "95 %"}, InvalidInput, "level must be a number in (0, 1), got '95 %'"),
    ("LabelView.interval", {"simultaneous": "yes"}, InvalidInput, "simultaneous must be True or False, got 'yes'"),
    ("LabelView.plot", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("LabelView.plot", {"top": 0}, InvalidInput, "top must be a whole number of at least 1, got 0"),
    ("LabelView.plot", {"top": None}, InvalidInput, "top must be a whole number of at least 1, got None"),
    ("LabelView.plot", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1"),
    ("Joint", {"labels": "red"}, InvalidInput, "labels must be a tuple of strings, not str"),
    (
        "Joint",
        {"counts": np.ones(4)},
        InvalidInput,
        "counts must be a vector of 4 int64 values, not float64 of shape (4,)",
    ),
    ("Joint", {"n": None}, InvalidInput, "n must be a whole number of at least 0, got None"),
    ("Joint", {"q": 0.5}, InvalidInput, "q must be in [0, 1/2), got 0.5"),
    ("Joint", {"k": 0}, InvalidInput, "k must be a whole number of at least 1, got 0"),
    (
        "Joint",
        {"fakes": np.zeros(3)},
        InvalidInput,
        "fakes must be a vector of 4 float64 values, not float64 of shape (3,)",
    ),
    ("Joint", {"spread": -1}, InvalidInput, "spread must be finite and at least 0, got -1.0"),
    ("Joint.interval", {"level": INF}, InvalidInput, "level must be in (0, 1), got inf"),
    ("Joint.interval", {"simultaneous": None}, InvalidInput, "simultaneous must be True or False, got None"),
    (
        "Joint.marginal",
        {"labels": []},
        InvalidInput,
        "the number of labels must be a whole number of at least 1, got 0",
    ),
    (
        "Joint.marginal",
        {"labels": ["green"]},
        InvalidInput,
        "labels must be distinct labels of the table (2 labels: red, blue)",
    ),
    ("Joint.marginal", {"labels": None}, InvalidInput, "labels must be a list of labels of the table, not None"),
    (
        "Joint.conditional",
        {"given": {}},
        InvalidInput,
        "given must map some but not all labels of the table to True or False (2 labels: red, blue)",
    ),
    (
        "Joint.conditional",
        {"given": ["red"]},
        InvalidInput,
        "given must map some but not all labels of the table to True or False (2 labels: red, blue)",
    ),
    (
        "Joint.conditional",
        {"given": {"red": "no"}},
        InvalidInput,
        "every value of given must be True or False, got 'no'",
    ),
    (
        "Joint.conditional",
        {"given": {"red": True, "blue": True}},
        InvalidInput,
        "given must map some but not all labels of the table to True or False (2 labels: red, blue)",
    ),
    # More than memory holds
    ("randomize", {"plan": CROWDED}, TooLarge, "100,000,000,000 fakes needs 2235.2 GiB; the limit is 4.0 GiB"),
]

CASES += survey_subjects.CASES + string_subjects.CASES
ALIASES = {
    "names": r"names|cross-table|cells",
    "axes": r"cells",
    "digits": r"digits|radix|radices",
    "noise": r"noise|attributes|m must",
    "release": r"release|q must",
    "questions": r"questions?\b|cross-table|derived|survey",
    "low": r"low|high|scale",
    "high": r"high|scale",
    "buckets": r"buckets|scale",
    "log": r"log|low",
    "edges": r"edges?",
    "levels": r"levels?",
    "value": r"the \w+|value",
    "text": r"text|a survey file|the plan|the ledger|the (?:result|counts of .*|noise of the estimate)",
    "values": r"values|record \d",
    "rows": r"rows|record \d",
    "records": r"records|indices",
    "entropy": r"entropy",
    "reports": r"reports|batch|people",
    "tally": r"tally|the reports",
    "other": r"added reports|added tallies|reports",
    "budget": r"budget|Budget",
    "plan": r"plan|fakes|q must|collection",
    "protocol": r"protocol|schema|q must",
    "schema": r"schema|labels|records",
    "max_q": r"max_q|flip probability",
    "collection": r"collection",
}
"""Arguments that messages may call by another name, such as documents and single records."""
EXPECTATIONS = (
    r"\b(must|needs|meets|claims .* (?:but|which)|returned \d+ of|not in the schema|outside|other than|twice|allows)\b"
)
INTERNALS = r"<class|object at 0x|<function|Traceback|NoneType|np\.|array\(|unhashable|has no attribute|\bself\b"
PLACEHOLDERS = r"got '(others?|another|something else|nothing|none|more)'|TODO|\?\?"


def check_message(error: HubbubError, arguments: Iterator[str] | list[str]) -> None:
    """Assert that a message is one readable line that names one of the arguments and says what is expected."""
    text = str(error)
    names = "|".join(f"{re.escape(name)}|{ALIASES.get(name, re.escape(name))}" for name in arguments)
    assert re.search(rf"\b({names})", text), text
    assert re.search(EXPECTATIONS, text), text
    assert not re.search(f"{INTERNALS}|{PLACEHOLDERS}|secret", text), text
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize(("subject", "bad", "kind", "message"), CASES)
def test_listed(subject: str, bad: dict[str, Any], kind: type[HubbubError], message: str) -> None:
    call, arguments = SUBJECTS[subject]
    with pytest.raises(kind) as caught:
        call(**{**arguments, **bad})
    assert type(caught.value) is kind
    text = str(caught.value)
    assert text.startswith(message[:-1]) if message.endswith(" …") else text == message
    check_message(caught.value, list(bad))


class Odd:
    """An object of no use."""


POISON: dict[str, Any] = {
    "None": None,
    "text": "text",
    "empty text": "",
    "lone surrogate": "\ud800",
    "bytes": b"x",
    "empty list": [],
    "list": [None],
    "nested list": [[[]]],
    "tuple": (1, 2, 3),
    "dict": {"x": 1},
    "set": {1},
    "True": True,
    "fraction": 1.5,
    "nan": NAN,
    "inf": INF,
    "-1": -1,
    "huge": HUGE,
    "too many digits": 10**5000,
    "complex": 1j,
    "numpy nan": np.float64(NAN),
    "numpy integer": np.int64(-5),
    "array": np.array([[0.5, 2.0]]),
    "array of text": np.array(["a", "b"]),
    "array of objects": np.array([None, Odd()], object),
    "array without dimensions": np.array(3),
    "class": int,
    "function": lambda _: "no",
    "object": Odd(),
}
LEGAL = {("shuffle", "fast"), ("frontier", "joint"), ("frontier", "clear")}
"""Arguments for which True is legal, and slow."""


SEARCHES = {"frontier", "frontier_by_family", "solve"}
"""Searches of seconds; ``plan`` reads the same arguments."""


@pytest.mark.parametrize(
    "subject",
    [pytest.param(subject, marks=[pytest.mark.long] if subject in SEARCHES else []) for subject in SUBJECTS],
)
def test_poison(subject: str) -> None:
    """Every argument accepts a value, or raises an error of hubbub with a readable message."""
    call, arguments = SUBJECTS[subject]
    for argument in arguments:
        for bad in POISON.values():
            if (bad is True and (subject, argument) in LEGAL) or argument in UNCHECKED:
                continue
            if subject == "Basis" and isinstance(bad, int | np.ndarray):
                continue  # the enum module compares and prints the value before it asks hubbub
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(**{**arguments, argument: bad})
                except HubbubError as error:
                    check_message(error, [argument])


UNCHECKED = {"what", "coin", "read"}
"""Arguments that only appear in messages, or that hubbub itself passes on."""
INTERNAL = {
    "LabelView.from_document",
    "ScaleView.errors",
    "ScaleView.shares",
    "ScaleView.single_quantile",
    "StringView.from_document",
}
"""Methods for other modules of hubbub."""
EXCEPTIONS = {
    name for name in hb.__all__ if isinstance(getattr(hb, name), type) and issubclass(getattr(hb, name), Exception)
}


def surface() -> Iterator[tuple[str, set[str]]]:
    """Yield every public callable with the names of its arguments."""
    for name in sorted(set(hb.__all__) - EXCEPTIONS):
        value = getattr(hb, name)
        if isinstance(value, EnumType):
            yield name, {"value"}
            continue
        yield name, _arguments(value)
        if isinstance(value, type):
            for method in ("__add__", *(key for key in vars(value) if not key.startswith("_"))):
                if f"{name}.{method}" not in INTERNAL and callable(bound := getattr(value, method, None)):
                    yield f"{name}.{method}", _arguments(bound) - {"self"}


def _arguments(value: Callable[..., Any]) -> set[str]:
    found: set[str] = set()
    for parameter in inspect.signature(value).parameters.values():
        keywords = parameter.kind is inspect.Parameter.VAR_KEYWORD
        found |= set(Constraints.__annotations__) if keywords else {parameter.name}
    return found


def test_every_argument_has_a_case() -> None:
    listed: dict[str, set[str]] = {}
    for subject, bad, _, _ in CASES:
        listed.setdefault(subject, set()).update(bad)
    missing = {name: expected - UNCHECKED - listed.get(name, set()) for name, expected in surface()}
    assert not {name: arguments for name, arguments in missing.items() if arguments}
    assert set(listed) == set(SUBJECTS)
    for name, (_, arguments) in SUBJECTS.items():
        assert set(arguments) - UNCHECKED == listed[name], name


def test_legal_arguments_are_legal() -> None:
    """The control: without a wrong value nothing is raised."""
    for call, arguments in SUBJECTS.values():
        call(**arguments)
