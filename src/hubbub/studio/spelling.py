"""An inquiry as a command, as Python and as a survey file: all of them repeat the plan that the page shows."""

import json

from hubbub.model.questions import Choice, Flag, Number, Question, Scale
from hubbub.model.schema import Schema
from hubbub.planner import FAMILIES
from hubbub.studio.inquiry import Inquiry


def command(inquiry: Inquiry, family: str) -> str:
    """Return the command that writes the plan of a family, after the survey file that it reads, if any."""
    schema = inquiry.schema
    options = [
        *_schema_option(schema),
        f"-n {inquiry.n}",
        f"--epsilon {inquiry.epsilon!r}",
        f"--delta {inquiry.delta!r}",
        f"--trust {_trust(inquiry, family)}",
        *(["--allow-clear"] if _clear(inquiry, family) else []),
        *([f"--honest {inquiry.honest_fraction!r}"] if inquiry.compromised else []),
        *(["--joint"] if inquiry.joint else []),
        *([f"--rounds {inquiry.rounds}"] if inquiry.rounds > 1 else []),
        f"--choose {family}",
        "-o plan.json",
    ]
    line = f"hubbub plan {' '.join(options)}"
    if not schema.named:
        return line
    return f"cat > survey.toml <<'END'\n{survey_file(schema)}END\n{line}"


def python(inquiry: Inquiry, family: str) -> str:
    """Return the Python code that makes the plan of a family."""
    keywords = [
        f"epsilon={inquiry.epsilon!r}",
        f"delta={inquiry.delta!r}",
        f'trust="{_trust(inquiry, family)}"',
        *(["clear=True"] if _clear(inquiry, family) else []),
        *([f"honest_fraction={inquiry.honest_fraction!r}"] if inquiry.compromised else []),
        *(["joint=True"] if inquiry.joint else []),
        *([f"rounds={inquiry.rounds}"] if inquiry.rounds > 1 else []),
        f'family="{family}"',
    ]
    made = f"schema = {_schema_code(inquiry.schema)}"
    return f"import hubbub as hb\n\n{made}\nplan = hb.plan(schema, {inquiry.n:_}, {', '.join(keywords)})\nprint(plan)\n"


def survey_file(schema: Schema) -> str:
    """Return the questions of a survey as TOML, as ``hubbub plan --survey`` reads them."""
    return "\n".join(
        f"[questions.{_text(name)}]\n" + "".join(f"{key} = {value}\n" for key, value in _keys(one).items())
        for name, one in schema.questions.items
    )


def _keys(question: Question) -> dict[str, str]:
    match question:
        case Choice():
            return {"kind": '"choice"', "labels": f"[{', '.join(map(_text, question.labels))}]"}
        case Flag():
            return {"kind": '"flag"'}
        case Number():
            return {"kind": '"number"', "low": _number(question.low), "high": _number(question.high)}
        case Scale():
            ends = {"low": _number(question.edges[0]), "high": _number(question.edges[-1])}
            return {"kind": '"scale"', **ends, "buckets": str(question.buckets)}
    raise AssertionError("an inquiry has no other questions")


def _schema_option(schema: Schema) -> list[str]:
    if schema.named:
        return ["--survey survey.toml"]
    if schema.text is not None:
        return [f"--strings {schema.text.max_bytes}"]
    if schema.exclusive:
        return [f"--one-hot {schema.width}"]
    return [f"--bits {schema.width}"] if schema.dense else [f"--at-most {schema.max_set} {schema.width}"]


def _schema_code(schema: Schema) -> str:
    if schema.named:
        lines = "".join(f"    {_text(name)}: {_code(one)},\n" for name, one in schema.questions.items)
        return f"hb.Schema.survey({{\n{lines}}})"
    if schema.text is not None:
        return f"hb.Schema.strings({schema.text.max_bytes})"
    if schema.exclusive:
        return f"hb.Schema.one_hot({schema.width})"
    if schema.dense:
        return f"hb.Schema.bits({schema.width})"
    return f"hb.Schema.at_most({schema.max_set}, {schema.width})"


def _code(question: Question) -> str:
    keys = _keys(question)
    match question:
        case Choice():
            return f"hb.Choice({keys['labels']})"
        case Number():
            return f"hb.Number({keys['low']}, {keys['high']})"
        case Scale():
            return f"hb.Scale({keys['low']}, {keys['high']}, buckets={keys['buckets']})"
    return "hb.Flag()"


def _text(value: str) -> str:
    """Return a string as TOML and Python both read it, which know no pairs of surrogates."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(value: float) -> str:
    """Return a bound without loss, as TOML and Python both read it."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _trust(inquiry: Inquiry, family: str) -> str:
    """Return the trust of the inquiry, or the trust that the family needs if that is more."""
    own = FAMILIES[family]
    return inquiry.trust if inquiry.allows(own.trust, clear=False) else own.trust


def _clear(inquiry: Inquiry, family: str) -> bool:
    return FAMILIES[family].clear and _trust(inquiry, family) == "shuffling"
