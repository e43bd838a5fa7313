"""Digits do not depend on the processor: functions against the C library, and ids recomputed with other kernels."""

import ast
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hubbub
from hubbub.numeric import portable

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
SOURCE = Path(hubbub.__file__).parent
ROOT = SOURCE.parents[1]
BY_PROCESSOR = {
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "tan", "arctan", "arctan2", "sinh", "cosh", "tanh",
    "power", "float_power", "cbrt", "geomspace", "logspace", "convolve", "correlate", "dot", "vdot", "inner", "matmul",
    "tensordot", "arccos", "arcsin", "arcsinh", "arccosh", "arctanh", "linalg",
}  # fmt: skip
"""Functions of NumPy whose digits depend on the processor, or on BLAS."""


def test_certified_values_use_no_function_that_depends_on_the_processor() -> None:
    found = []
    packages = [SOURCE / name for name in ("numeric", "accountant", "mechanisms", "model", "planner")]
    assert all(package.is_dir() for package in packages)
    for path in (path for package in packages for path in package.rglob("*.py")):
        if path.name == "portable.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.MatMult):
                found.append(f"{path.relative_to(SOURCE)}: @")
            if isinstance(node, ast.ImportFrom) and any(one.name == "logsumexp" for one in node.names):
                found.append(f"{path.relative_to(SOURCE)}: logsumexp")
            if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "np":
                continue
            line = path.read_text().splitlines()[node.lineno - 1]
            if node.attr in BY_PROCESSOR or (node.attr == "argsort" and 'kind="stable"' not in line):
                found.append(f"{path.relative_to(SOURCE)}: np.{node.attr}")
    assert found == []


@given(arrays(np.float64, 20, elements=st.floats(-700, 700)))
def test_functions_are_those_of_the_c_library(x: Floats) -> None:
    assert portable.exp(x).tolist() == [math.exp(one) for one in x]
    assert portable.log(np.abs(x) + 1e-9).tolist() == [math.log(abs(one) + 1e-9) for one in x]
    for mine, other in ((portable.expm1(x), np.expm1(x)), (portable.sin(x), np.sin(x))):
        np.testing.assert_allclose(mine, other, rtol=4e-16, atol=5e-324)
    np.testing.assert_allclose(portable.log1p(np.abs(x)), np.log1p(np.abs(x)), rtol=4e-16, atol=5e-324)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
def test_products_and_convolutions(rows: int, columns: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    a, b, c = draw.random((rows, columns)), draw.random((columns, 3)), draw.random(columns)
    np.testing.assert_allclose(portable.dot(a, b), a @ b, rtol=1e-14)
    np.testing.assert_allclose(portable.dot(a, c), a @ c, rtol=1e-14)
    np.testing.assert_allclose(portable.dot(c, b), c @ b, rtol=1e-14)
    np.testing.assert_allclose(portable.convolve(a[0], b[:, 0]), np.convolve(a[0], b[:, 0]), rtol=1e-14)
    z = a[0] + 1j * c
    np.testing.assert_allclose(portable.times(z, z[::-1]), z * z[::-1], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(portable.power(z, 5), z**5, rtol=1e-12, atol=1e-13)


PROGRAM = """
import json
import hubbub as hb
from hubbub import Protocol, Schema
from tests.checker import plans, test_surveys
from tests.vectors import write

found = {}
for setting in plans.SHORT + plans.LONG + plans.UNKNOWN:
    found[setting[0]] = plans.make(setting).id
for setting in test_surveys.SETTINGS + test_surveys.LONG:
    found["survey: " + setting[0]] = test_surveys.make(setting).id
for name, schema, protocol, _ in write.CASES:
    found["vector: " + name] = hb.plan_from(schema, 100, protocol, epsilon=3.0).id
for one in write.surveys():
    found["vector: " + one["name"]] = one["id"]
for name, schema, n, protocol in (
    ("one-hot", Schema.one_hot(20), 10**4, Protocol(0.05)),
    ("bits", Schema.bits(5), 5000, Protocol(0.2)),
    ("at most", Schema.at_most(2, 8), 2000, Protocol(0.15)),
    ("copies", Schema.one_hot(5), 2000, Protocol(0.2, 2)),
    ("fakes", Schema.one_hot(6), 1000, Protocol(0.1, 1, 500)),
    ("drawn", Schema.bits(4), 500, Protocol(0.1, 1, hb.Fakes.poisson(2.0))),
):
    found["records: " + name] = hb.plan_from(schema, n, protocol, delta=1e-6).id
for name, schema, protocol, asked in (  # whose ε or attack depended on the processor, or on a rounding
    ("fakes of users", Schema.bits(3), Protocol(0.1, 1, 500), {"delta": 1e-6}),
    ("attack on two of eight", Schema.at_most(2, 8), Protocol(0.03), {"epsilon": 0.7}),
    ("attack on three of forty", Schema.at_most(3, 40), Protocol(0.1), {"epsilon": 0.7}),
):
    known = hb.account(protocol, schema, 200, **asked)
    found["account: " + name] = repr((known.epsilon, known.delta, known.lower_bound))
asked = Schema.survey({"a": hb.Flag(), "b": hb.Choice(list("vwxyz")), "c": hb.Scale(0, 64, buckets=16)})
for trust in ("shuffler-noise", "shuffling"):
    chosen = hb.plan(asked, 10**4, epsilon=1.0, delta=1e-6, trust=trust, weights={"a": 1.0, "b": 3.0, "c": 0.7})
    found["weights, " + trust] = chosen.id
    found["coverage, " + trust] = repr(hb.planner.coverage(chosen, 0.1, 0.05))
print(json.dumps(found))
"""


FUNCTIONS = """
import hashlib
import json
import numpy as np
from hubbub.numeric import portable

draw = np.random.default_rng(1)
a, b, c = draw.normal(size=(40, 300)), draw.normal(size=(300, 50)), draw.normal(size=300)
z = a[0] + 1j * c
found = {name: getattr(portable, name)(a) for name in ("exp", "expm1", "sin")}
found |= {name: getattr(portable, name)(abs(a)) for name in ("log", "log1p")}
found |= {"angle": portable.arctan2(a[0], c), "modulus": portable.modulus(z), "convolve": portable.convolve(a[0], c)}
found |= {"times": portable.times(z, z[::-1]), "power": portable.power(z, 7)}
found |= {"dots": portable.dot(a, c), "products": portable.dot(a, b), "row": portable.dot(c, b)}
print(json.dumps({name: hashlib.sha256(each.tobytes()).hexdigest() for name, each in found.items()}))
"""


def other_kernels() -> list[dict[str, str]]:
    """Return environments in which NumPy and BLAS compute as on other processors."""
    known = importlib.import_module("numpy._core._multiarray_umath")
    names = [name for name in known.__cpu_dispatch__ if known.__cpu_features__[name]]
    others = [{"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott"}]
    if names:
        others[1]["NPY_DISABLE_CPU_FEATURES"] = " ".join(names)
    return others


def test_functions_are_the_same_with_other_kernels() -> None:
    here = ids(FUNCTIONS)
    assert [name for name, digest in ids(FUNCTIONS, **other_kernels()[1]).items() if here[name] != digest] == []


def ids(program: str = PROGRAM, **environment: str) -> dict[str, str]:
    """All ids, recomputed in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    found: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.long
def test_ids_are_the_same_with_other_kernels() -> None:
    here = ids()
    for environment in other_kernels():
        there = ids(**environment)
        assert [name for name in here if here[name] != there[name]] == [], environment


@pytest.mark.long
def test_stored_ids_are_those_of_this_machine() -> None:
    here = ids()
    folder = SOURCE / "vectors"
    for file in ("good.json", "surveys.json"):
        for vector in json.loads((folder / file).read_text()):
            assert here["vector: " + vector["name"]] == vector["id"], vector["name"]
