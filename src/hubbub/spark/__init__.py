"""The pipeline on Apache Spark: randomize, shuffle and tally collections that live in a cluster (the extra ``spark``).

A row of a data frame is one person. Tasks that Spark repeats make the same reports, so that nobody is lost, counted
twice, or randomized twice (``docs/theory/spark.md``). Only the DataFrame API is used, so that Spark Connect works too.
"""

from hubbub.spark.engine import randomize, shuffle, simulate, tally
from hubbub.spark.sessions import session

__all__ = ["randomize", "session", "shuffle", "simulate", "tally"]
