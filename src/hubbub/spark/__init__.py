"""The pipeline on Apache Spark: randomize, shuffle and tally collections that live in a cluster (the extra ``spark``).

A row of a data frame is one person. Tasks that Spark repeats make the same reports, so that nobody is lost, counted
twice, or randomized twice (``docs/theory/spark.md``). Only the DataFrame API is used, so that Spark Connect works too.
Names load on first use, so that workers import what their tasks need, and no more.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from hubbub.spark.engine import randomize, shuffle, simulate, tally
    from hubbub.spark.sessions import session

__all__ = ["randomize", "session", "shuffle", "simulate", "tally"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'hubbub.spark' has no attribute {name!r}")
    return getattr(_importlib.import_module(f"hubbub.spark.{'sessions' if name == 'session' else 'engine'}"), name)
