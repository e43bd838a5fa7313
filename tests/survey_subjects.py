"""Public callables of surveys with legal arguments, and wrong ones with their messages, for the tests of bad input."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import hubbub as hb
from hubbub.errors import HubbubError, InvalidInput, WireError
from hubbub.model.questions import Question

NAN, INF = math.nan, math.inf
HUGE = 10**400

QUESTIONS: dict[str, Question] = {
    "colour": hb.Choice(["red", "blue"]),
    "dark mode": hb.Flag(),
    "load": hb.Scale(0, 8, buckets=4),
    "memory": hb.Number(0, 15, digits=[4, 4], variance=True),
    "colour × dark mode": hb.Cross("colour", "dark mode"),
}
SURVEY = hb.Schema.survey(QUESTIONS)
NOISE = [hb.Noise(m=hb.Fakes.laplace(0.3, 12))] * len(SURVEY.attributes)
PLAN = hb.plan_from(SURVEY, 3, hb.Protocol.survey(NOISE), epsilon=90.0)
PEOPLE = [{"colour": "red", "dark mode": True, "load": 3.5, "memory": 7}] * 3
TALLY = hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values(PEOPLE, SURVEY), PLAN)))
ESTIMATE = hb.estimate(TALLY, PLAN)
LOAD, MEMORY, CROSS = ESTIMATE["load"], ESTIMATE["memory"], ESTIMATE["colour × dark mode"]
assert isinstance(LOAD, hb.ScaleView)
assert isinstance(MEMORY, hb.NumberView)
assert isinstance(CROSS, hb.CrossView)
MEAN = MEMORY.mean
ERROR = hb.question_errors(PLAN)[0]
SECOND = hb.estimate(hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values(PEOPLE, SURVEY), PLAN))), PLAN)
COMPARISON = hb.compare(ESTIMATE, SECOND)
ONLY = hb.plan_from(hb.Schema.bits(["a"]), 3, hb.Protocol(0.1), delta=1e-3)
ONLY_TALLY = hb.tally(hb.shuffle(hb.randomize(hb.Collection.from_values([["a"]] * 3, ONLY.schema), ONLY)))
NEXT_LOAD, NEXT_MEMORY = SECOND["load"], SECOND["memory"]
assert isinstance(NEXT_LOAD, hb.ScaleView)
assert isinstance(NEXT_MEMORY, hb.NumberView)
LOADS, MEMORIES = hb.compare(LOAD, NEXT_LOAD), hb.compare(MEMORY, NEXT_MEMORY)


class Subject(NamedTuple):
    """A public callable with legal arguments, each of which a case may replace."""

    call: Callable[..., Any]
    arguments: dict[str, Any]


def fields(value: Any) -> dict[str, Any]:
    """Return the arguments of the constructor of a dataclass."""
    return {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}


def cross(names: Any) -> hb.Cross:
    """Return a cross-table of a list of names, which are separate arguments; anything else is one argument."""
    return hb.Cross(*names) if isinstance(names, list | tuple) else hb.Cross(names)


def encoder(question: hb.Choice | hb.Flag | hb.Several | hb.Scale | hb.Number) -> Callable[..., Any]:
    """Return the encoder of a question, with a coin that never lands heads."""
    return lambda value: question.encode(value, lambda _: False)


LEVEL = {"level": 0.95}
NUMBER = {"low": 0, "high": 15, "missing": False, "variance": False, "unit": "", "digits": [4, 4]}
SCALE: dict[str, Any] = {
    "low": 0,
    "high": 8,
    "buckets": 4,
    "log": False,
    "edges": None,
    "missing": False,
    "unit": "",
    "levels": [],
}
TABLES = ("columns", "to_arrow", "to_pandas", "to_polars")
SUBJECTS: dict[str, Subject] = {
    "Choice": Subject(hb.Choice, {"labels": ["red", "blue"], "missing": False}),
    "Choice.unnamed": Subject(hb.Choice.unnamed, {"labels": ["red", "blue"]}),
    "Several": Subject(hb.Several, {"labels": ["red", "blue"], "at_most": 1}),
    "Several.encode": Subject(encoder(hb.Several(["red", "blue"], at_most=1)), {"value": ["red"]}),
    "Choice.encode": Subject(encoder(hb.Choice(["red", "blue"])), {"value": "red"}),
    "Cross": Subject(cross, {"names": ["colour", "dark mode"]}),
    "CrossView": Subject(hb.CrossView, fields(CROSS)),
    "CrossView.interval": Subject(CROSS.interval, {**LEVEL, "simultaneous": False, "of": "people"}),
    "CrossView.population": Subject(CROSS.population, {**LEVEL, "simultaneous": False}),
    "Difference": Subject(hb.Difference, fields(MEMORIES.mean)),
    "Difference.interval": Subject(MEMORIES.mean.interval, {**LEVEL, "of": "population"}),
    "Difference.to_document": Subject(MEMORIES.mean.to_document, LEVEL),
    "Flag": Subject(hb.Flag, {"missing": False}),
    "Flag.encode": Subject(encoder(hb.Flag()), {"value": True}),
    "Figure": Subject(hb.Figure, fields(MEAN)),
    "Figure.interval": Subject(MEAN.interval, {**LEVEL, "of": "people"}),
    "Figure.to_document": Subject(MEAN.to_document, LEVEL),
    "Noise": Subject(hb.Noise, {"q": 0.1, "m": 0}),
    "Noise.from_document": Subject(hb.Noise.from_document, {"value": hb.Noise(0.1).to_document(), "what": "the noise"}),
    "Number": Subject(hb.Number, NUMBER),
    "Number.encode": Subject(encoder(hb.Number(0, 15)), {"value": 7}),
    "Number.share": Subject(hb.Number(0, 15).share, {"value": 7}),
    "NumberView": Subject(hb.NumberView, fields(MEMORY)),
    "NumberComparison": Subject(hb.NumberComparison, fields(MEMORIES)),
    "Protocol.survey": Subject(hb.Protocol.survey, {"noise": NOISE, "release": "bits"}),
    "QuestionError": Subject(hb.QuestionError, fields(ERROR)),
    "Scale": Subject(hb.Scale, SCALE),
    "Scale.bucket": Subject(hb.Scale(0, 8, buckets=4).bucket, {"value": 3}),
    "Scale.encode": Subject(encoder(hb.Scale(0, 8, buckets=4)), {"value": 3}),
    "ScaleComparison": Subject(hb.ScaleComparison, fields(LOADS)),
    "ScaleComparison.band": Subject(LOADS.band, {**LEVEL, "of": "population"}),
    "ScaleComparison.quantile": Subject(LOADS.quantile, {"p": 0.5}),
    "ScaleView": Subject(hb.ScaleView, fields(LOAD)),
    "ScaleView.band": Subject(LOAD.band, {**LEVEL, "of": "people"}),
    "ScaleView.quantile": Subject(LOAD.quantile, {"p": 0.5}),
    "Schema.survey": Subject(hb.Schema.survey, {"questions": QUESTIONS, "derived": ["colour"]}),
    "Comparison": Subject(hb.Comparison, fields(COMPARISON)),
    "Comparison.columns": Subject(COMPARISON.columns, LEVEL),
    "NumberComparison.columns": Subject(MEMORIES.columns, LEVEL),
    "ScaleComparison.columns": Subject(LOADS.columns, LEVEL),
    "Result": Subject(hb.Result, fields(ESTIMATE)),
    "Result.from_document": Subject(hb.Result.from_document, {"value": ESTIMATE.to_document()}),
    "Result.from_json": Subject(hb.Result.from_json, {"text": ESTIMATE.to_json()}),
    "Result.plot": Subject(lambda level: hb.estimate(ONLY_TALLY, ONLY).plot(level=level), LEVEL),
    "Result.to_json": Subject(ESTIMATE.to_json, {**LEVEL, "simultaneous": False}),
    "question_errors": Subject(hb.question_errors, {"plan": PLAN}),
}
for kind, one in (
    ("CrossView", CROSS),
    ("NumberView", MEMORY),
    ("ScaleView", LOAD),
    ("Result", ESTIMATE),
):
    for method in (*TABLES, "plot" if one is not ESTIMATE else "to_document"):
        held = {"simultaneous": False} if one is ESTIMATE and method in ("columns", "to_document") else {}
        SUBJECTS[f"{kind}.{method}"] = Subject(getattr(one, method), {**LEVEL, **held})


CASES: list[tuple[str, dict[str, Any], type[HubbubError], str]] = [
    ("Choice", {"labels": "red"}, InvalidInput, "labels must be a list of strings, not str"),
    ("Choice", {"labels": ["red"]}, InvalidInput, "the number of labels must be a whole number of at least 2, got 1"),
    ("Choice", {"labels": ["red", "red"]}, InvalidInput, "labels must be distinct"),
    ("Choice", {"labels": ["red", 7]}, InvalidInput, "labels must be strings, but label 2 is of type int"),
    (
        "Choice",
        {"labels": ["red", "no answer"], "missing": True},
        InvalidInput,
        "labels must not contain 'no answer', which is the category for missing answers",
    ),
    ("Choice", {"missing": 1}, InvalidInput, "missing must be True or False, got 1"),
    ("Choice.unnamed", {"labels": {"red", "blue"}}, InvalidInput, "labels must be a list of strings or …"),
    ("Several", {"labels": []}, InvalidInput, "the number of labels must be a whole number of at least 1, got 0"),
    ("Several", {"at_most": 3}, InvalidInput, "at_most must be a whole number in [1, 2], got 3"),
    ("Several.encode", {"value": "red"}, InvalidInput, "the answer must be a list of labels, not of type str"),
    (
        "Several.encode",
        {"value": ["green"]},
        InvalidInput,
        "the answer must contain only labels of the schema (2 labels: red, blue)",
    ),
    ("Several.encode", {"value": ["red"] * 2}, InvalidInput, "the answer must contain each label at most once"),
    (
        "Several.encode",
        {"value": ["red", "blue"]},
        InvalidInput,
        "the answer must contain no more labels than max_set = 1 allows",
    ),
    ("Choice.encode", {"value": "green"}, InvalidInput, "the answer must be one of 2 labels: red, blue"),
    ("Choice.encode", {"value": ["red", "blue"]}, InvalidInput, "the answer must be one label, not of type list"),
    (
        "Choice.encode",
        {"value": None},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    (
        "Choice.encode",
        {"value": NAN},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    (
        "Cross",
        {"names": ["colour"]},
        InvalidInput,
        "the number of questions of a cross-table must be a whole number in [2, 8], got 1",
    ),
    ("Cross", {"names": ["colour", 7]}, InvalidInput, "the names of a cross-table must be strings, not int"),
    ("Cross", {"names": ["colour", "colour"]}, InvalidInput, "the names of a cross-table must be distinct"),
    ("CrossView", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    (
        "CrossView",
        {"names": ("colour",)},
        InvalidInput,
        "cells must have a label for every combination of the labels of the axes",
    ),
    (
        "CrossView",
        {"axes": ()},
        InvalidInput,
        "cells must have a label for every combination of the labels of the axes",
    ),
    (
        "CrossView",
        {"cells": None},
        InvalidInput,
        "cells must be of type LabelView, not None",
    ),
    ("CrossView", {"direct": 1}, InvalidInput, "direct must be True or False, got 1"),
    ("CrossView.interval", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    (
        "CrossView.interval",
        {"of": "everybody"},
        InvalidInput,
        "of must be 'people' or 'population', got 'everybody'",
    ),
    ("CrossView.interval", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1"),
    ("CrossView.population", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("CrossView.population", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1"),
    ("Flag", {"missing": "no"}, InvalidInput, "missing must be True or False, got 'no'"),
    ("Flag.encode", {"value": "yes"}, InvalidInput, "the answer must be True or False, not of type str"),
    ("Flag.encode", {"value": 1}, InvalidInput, "the answer must be True or False, not of type int"),
    (
        "Flag.encode",
        {"value": None},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    ("Figure", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    ("Figure", {"value": INF}, InvalidInput, "value must be a finite number, got inf"),
    ("Figure", {"stderr": -1}, InvalidInput, "stderr must be finite and at least 0, got -1.0"),
    ("Figure", {"unit": None}, InvalidInput, "unit must be of type str, not None"),
    ("Figure", {"ends": None}, InvalidInput, "ends must be a function of a level and of whom it covers, not None"),
    ("Figure", {"covers": "no"}, InvalidInput, 'covers must be a tuple of "people", "population" or both'),
    ("Figure", {"n": -1}, InvalidInput, "n must be a whole number of at least 0, got -1"),
    ("Figure", {"noise": 7}, InvalidInput, "noise must be of type CountNoise, not int"),
    ("Figure", {"detectable": 1}, InvalidInput, "detectable must be True or False, got 1"),
    ("Figure", {"sure": 7}, InvalidInput, "sure must be True or False, got 7"),
    ("Figure", {"cut": 7}, InvalidInput, "cut must be True or False, got 7"),
    ("Figure.interval", {"level": 2}, InvalidInput, "level must be in (0, 1), got 2.0"),
    ("Figure.interval", {"of": "all"}, InvalidInput, "of must be 'people' or 'population', got 'all'"),
    ("Figure.to_document", {"level": "95 %"}, InvalidInput, "level must be a number in (0, 1), got '95 %'"),
    ("Noise", {"q": 0.5}, InvalidInput, "q must be in [0, 1/2), got 0.5"),
    ("Noise", {"q": 0}, InvalidInput, "q must be in (0, 1/2) if no fakes are added, got 0.0"),
    ("Noise", {"m": -1}, InvalidInput, "m must be a whole number in [0, 1,000,000,000,000], got -1"),
    (
        "Noise",
        {"m": 0.5},
        InvalidInput,
        "m must be a number of fakes, or a distribution such as Fakes.poisson(0.5), got 0.5",
    ),
    ("Noise.from_document", {"value": {}}, WireError, "the noise must be an object with exactly the keys flip, m"),
    (
        "Noise.from_document",
        {"value": {"flip": -1, "m": 0}},
        WireError,
        "in the noise: flip must be a whole number in [0, 140,737,488,355,327], got -1",
    ),
    ("Number", {"low": "0"}, InvalidInput, "low must be a finite number, got '0'"),
    ("Number", {"low": NAN}, InvalidInput, "low must be a finite number of at most 1e150 in size, got nan"),
    ("Number", {"low": -INF}, InvalidInput, "low must be a finite number of at most 1e150 in size, got -inf"),
    ("Number", {"low": True}, InvalidInput, "low must be a finite number, got True"),
    ("Number", {"high": 0}, InvalidInput, "high must be above low = 0, got 0.0"),
    ("Number", {"high": 1e200}, InvalidInput, "high must be a finite number of at most 1e150 in size, got 1e+200"),
    ("Number", {"high": HUGE}, InvalidInput, "high must be a finite number, got a number of more than 128 bits"),
    ("Number", {"missing": 1}, InvalidInput, "missing must be True or False, got 1"),
    ("Number", {"variance": None}, InvalidInput, "variance must be True or False, got None"),
    ("Number", {"unit": 7}, InvalidInput, "unit must be of type str, not int"),
    ("Number", {"unit": "x" * 21}, InvalidInput, "unit must be at most 20 printable characters"),
    ("Number", {"digits": [1]}, InvalidInput, "a radix must be a whole number in [2, 1,024], got 1"),
    (
        "Number",
        {"digits": [2] * 39 + [4]},
        InvalidInput,
        "the product of the digits must be a whole number in [2, 1,099,511,627,776], got 2199023255552",
    ),
    ("Number", {"digits": [2] * 41}, InvalidInput, "the number of digits must be a whole number in [0, 40], got 41"),
    ("Number", {"digits": 4}, InvalidInput, "digits must be a list of radices, not int"),
    ("Number.encode", {"value": "7"}, InvalidInput, "the answer must be a number, not of type str"),
    ("Number.encode", {"value": True}, InvalidInput, "the answer must be a number, not of type bool"),
    (
        "Number.encode",
        {"value": NAN},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    (
        "Number.encode",
        {"value": None},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    ("Number.encode", {"value": [7, 8]}, InvalidInput, "the answer must be a number, not of type list"),
    ("Number.share", {"value": "7"}, InvalidInput, "the answer must be a number, not of type str"),
    ("NumberView", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    ("NumberView", {"question": QUESTIONS["load"]}, InvalidInput, "question must be of type Number, not Scale"),
    ("NumberView", {"n": -1}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000], got -1"),
    (
        "NumberView",
        {"attributes": ()},
        InvalidInput,
        "attributes must be the counts of every attribute of the question",
    ),
    (
        "Protocol.survey",
        {"noise": hb.Noise(0.1)},
        InvalidInput,
        "noise must be a list of the noise of each attribute, not Noise",
    ),
    (
        "Protocol.survey",
        {"noise": []},
        InvalidInput,
        "the number of attributes must be a whole number of at least 1, got 0",
    ),
    ("Protocol.survey", {"noise": [0.1]}, InvalidInput, "noise must be of type Noise, not float"),
    (
        "Protocol.survey",
        {"noise": [hb.Noise(0.1, 5)]},
        InvalidInput,
        "m must be the distribution of a random number of fakes in a survey, got 5",
    ),
    (
        "Protocol.survey",
        {"noise": [hb.Noise(0.1, hb.Fakes.poisson(1.0))]},
        InvalidInput,
        "m must be 0 for an attribute of a survey that is flipped",
    ),
    (
        "Protocol.survey",
        {"release": "records"},
        InvalidInput,
        "release must be 'bits' or 'category' for a survey, whose answers are not linked, got 'records'",
    ),
    (
        "Protocol.survey",
        {"release": "category"},
        InvalidInput,
        "q must be in (0, 1/2) for a category, which is sent once and without fakes, got 0.0",
    ),
    ("QuestionError", {"question": 7}, InvalidInput, "question must be of type str, not int"),
    ("QuestionError", {"people": -1}, InvalidInput, "people must be finite and at least 0, got -1.0"),
    ("QuestionError", {"stderr": NAN}, InvalidInput, "stderr must be finite and at least 0, got nan"),
    ("QuestionError", {"unit": 7}, InvalidInput, "unit must be of type str, not int"),
    ("QuestionError", {"measures": 7}, InvalidInput, "measures must be of type str, not int"),
    ("Scale", {"low": None}, InvalidInput, "a scale must be given low, high and buckets, or edges"),
    ("Scale", {"low": 9}, InvalidInput, "high must be above low = 9, got 8.0"),
    ("Scale", {"high": "8"}, InvalidInput, "high must be a finite number, got '8'"),
    ("Scale", {"buckets": 1}, InvalidInput, "buckets must be a whole number in [2, 65,536], got 1"),
    ("Scale", {"buckets": 2.5}, InvalidInput, "buckets must be a whole number in [2, 65,536], got 2.5"),
    ("Scale", {"buckets": 1000000}, InvalidInput, "buckets must be a whole number in [2, 65,536], got 1000000"),
    ("Scale", {"log": 1}, InvalidInput, "log must be True or False, got 1"),
    ("Scale", {"log": True}, InvalidInput, "low must be above 0 for logarithmic buckets, got 0.0"),
    ("Scale", {"edges": [0, 1]}, InvalidInput, "edges must be given without low, high, buckets and log"),
    (
        "Scale",
        {"low": None, "high": None, "buckets": None, "edges": [0, 1]},
        InvalidInput,
        "the number of edges must be a whole number in [3, 65,537], got 2",
    ),
    ("Scale", {"low": None, "high": None, "buckets": None, "edges": [0, 2, 1]}, InvalidInput, "edges must ascend"),
    (
        "Scale",
        {"low": None, "high": None, "buckets": None, "edges": [0, 1, INF]},
        InvalidInput,
        "an edge must be a finite number of at most 1e150 in size, got inf",
    ),
    ("Scale", {"missing": 1}, InvalidInput, "missing must be True or False, got 1"),
    ("Scale", {"unit": None}, InvalidInput, "unit must be of type str, not None"),
    (
        "Scale",
        {"levels": [2]},
        InvalidInput,
        "levels must descend from less than 4 to 1, each a multiple of the next, got (2,)",
    ),
    ("Scale", {"levels": 2}, InvalidInput, "levels must be a list of widths, not int"),
    ("Scale.bucket", {"value": "3"}, InvalidInput, "the answer must be a number, not of type str"),
    (
        "Scale.bucket",
        {"value": NAN},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    ("Scale.encode", {"value": "3"}, InvalidInput, "the answer must be a number, not of type str"),
    (
        "Scale.encode",
        {"value": None},
        InvalidInput,
        "the answer must be given; to allow none, create the question with missing=True",
    ),
    ("ScaleView", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    ("ScaleView", {"question": QUESTIONS["memory"]}, InvalidInput, "question must be of type Scale, not Number"),
    ("ScaleView", {"n": -1}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000], got -1"),
    ("ScaleView", {"attributes": ()}, InvalidInput, "attributes must be the counts of every level of the question"),
    ("ScaleView.band", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.band", {"of": "all"}, InvalidInput, "of must be 'people' or 'population', got 'all'"),
    ("ScaleView.quantile", {"p": 1.5}, InvalidInput, "p must be in [0, 1], got 1.5"),
    ("ScaleView.quantile", {"p": NAN}, InvalidInput, "p must be in [0, 1], got nan"),
    ("Schema.survey", {"questions": []}, InvalidInput, "questions must be a mapping from names to questions, not list"),
    (
        "Schema.survey",
        {"questions": {}},
        InvalidInput,
        "the number of questions must be a whole number in [1, 1,000], got 0",
    ),
    (
        "Schema.survey",
        {"questions": {"a": "choice"}},
        InvalidInput,
        "the question 'a' must be a Choice, Flag, Scale, Number or Cross, not str",
    ),
    (
        "Schema.survey",
        {"questions": {"": hb.Flag()}},
        InvalidInput,
        "the name of a question must be a printable text of 1 to 200 characters",
    ),
    (
        "Schema.survey",
        {"questions": {"a": hb.Flag(), "x": hb.Cross("a", "b")}},
        InvalidInput,
        "the cross-table of 'b' must name questions of the survey that are a Choice, a Flag or a Scale",
    ),
    ("Schema.survey", {"derived": "load"}, InvalidInput, "derived must be a list of the names of questions, not str"),
    (
        "Schema.survey",
        {"derived": ["memory"]},
        InvalidInput,
        "derived must name questions of the survey that are a Choice or a Flag in a cross-table, got 'memory'",
    ),
    ("Schema.survey", {"derived": ["colour", "colour"]}, InvalidInput, "derived must be distinct and sorted"),
    (
        "Result",
        {"schema": None},
        InvalidInput,
        "schema must be of type Schema, not None; create one with Schema.one_hot, .bits, .at_most, .survey or .strings",
    ),
    ("Result", {"n": -1}, InvalidInput, "n must be a whole number in [0, 1,000,000,000,000], got -1"),
    ("Result", {"counts": ()}, InvalidInput, "counts must be the counts of every attribute of the survey"),
    ("Result", {"released": -1}, InvalidInput, "released must be a whole number in [0, 253,402,300,799], got -1"),
    ("Result", {"plan": 7}, InvalidInput, "plan must be of type str, not int"),
    (
        "Result",
        {"achieved": 7},
        InvalidInput,
        "achieved must be of type Guarantee, not int; hubbub.account returns one",
    ),
    (
        "Result.from_json",
        {"text": 7},
        InvalidInput,
        "text must be the JSON of a result as str or bytes, not int",
    ),
    (
        "Result.from_json",
        {"text": "{}"},
        WireError,
        "the format of the result must be 'hubbub result 3'",
    ),
    ("Result.plot", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.to_json", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    (
        "question_errors",
        {"plan": 7},
        InvalidInput,
        "plan must be of type Plan, not int; hubbub.plan and hubbub.load_plan return one",
    ),
    ("Difference", {"name": 7}, InvalidInput, "name must be of type str, not int"),
    ("Difference", {"value_a": INF}, InvalidInput, "value_a must be a finite number, got inf"),
    ("Difference", {"value_b": "3"}, InvalidInput, "value_b must be a finite number, got '3'"),
    ("Difference", {"stderr": -1}, InvalidInput, "stderr must be finite and at least 0, got -1.0"),
    ("Difference", {"unit": None}, InvalidInput, "unit must be of type str, not None"),
    ("Difference", {"ends": 7}, InvalidInput, "ends must be a function of a level and of whom it covers, not int"),
    ("Difference", {"covers": ()}, InvalidInput, 'covers must be a tuple of "people", "population" or both'),
    *[
        (subject, {"adjusted": 2}, InvalidInput, "adjusted must be in [0, 1], got 2.0")
        for subject in ("Difference", "NumberComparison", "ScaleComparison")
    ],
    ("Difference.interval", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Difference.interval", {"of": "all"}, InvalidInput, "of must be 'people' or 'population', got 'all'"),
    ("Difference.to_document", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("NumberComparison", {"a": None}, InvalidInput, "a must be of type NumberView, not None"),
    ("NumberComparison", {"b": LOAD}, InvalidInput, "b must be of type NumberView, not ScaleView"),
    ("NumberComparison", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleComparison", {"a": None}, InvalidInput, "a must be of type ScaleView, not None"),
    ("ScaleComparison", {"b": MEMORY}, InvalidInput, "b must be of type ScaleView, not NumberView"),
    ("ScaleComparison", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleComparison.band", {"level": 0}, InvalidInput, "level must be in (0, 1), got 0.0"),
    ("ScaleComparison.band", {"of": "all"}, InvalidInput, "of must be 'people' or 'population', got 'all'"),
    ("ScaleComparison.quantile", {"p": 2}, InvalidInput, "p must be in [0, 1], got 2.0"),
    (
        "Comparison",
        {"questions": 7},
        InvalidInput,
        "questions must be pairs of questions and their comparisons, not int",
    ),
    ("Comparison", {"n_a": -1}, InvalidInput, "n_a must be a whole number of at least 1, got -1"),
    ("Comparison", {"n_b": -1}, InvalidInput, "n_b must be a whole number of at least 1, got -1"),
    ("Comparison", {"correction": 1}, InvalidInput, "correction must be 'none' or 'holm', got 1"),
    *[
        (f"{name}.columns", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0")
        for name in ("Comparison", "NumberComparison", "ScaleComparison")
    ],
    *[
        (f"Result.{name}", {"simultaneous": 1}, InvalidInput, "simultaneous must be True or False, got 1")
        for name in ("columns", "to_document", "to_json")
    ],
    ("Result.from_document", {"value": {}}, WireError, "the format of the result must be 'hubbub result 3'"),
    ("Comparison", {"level": 1}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Comparison", {"p_value": 0.5}, InvalidInput, "p_value must be a vector of float64 values, not float"),
    ("CrossView.columns", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("CrossView.to_arrow", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("CrossView.to_pandas", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("CrossView.to_polars", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("CrossView.plot", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("NumberView.columns", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("NumberView.to_arrow", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("NumberView.to_pandas", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("NumberView.to_polars", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("NumberView.plot", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.columns", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.to_arrow", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.to_pandas", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.to_polars", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("ScaleView.plot", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.columns", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.to_arrow", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.to_pandas", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.to_polars", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
    ("Result.to_document", {"level": 1.0}, InvalidInput, "level must be in (0, 1), got 1.0"),
]
