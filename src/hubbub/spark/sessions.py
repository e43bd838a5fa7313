"""Sessions of Spark: how to make one for hubbub, and which settings an existing one must have."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from hubbub.errors import check_type, kind_of, load_extra, reject

OLDEST = (4, 1)
"""The first version with a partition for every number that the shuffle chooses."""
ELSEWHERE = "spark.hubbub.encrypted"
"""The setting that says, by the value ``elsewhere``, that network and disks are encrypted by other means."""
NETWORK = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
"""Settings of which one must be true, so that nobody reads reports on their way between machines."""
SPILL = "spark.io.encryption.enabled"
"""The setting that must be true, so that nobody reads the temporary files of a shuffle."""
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.ui.enabled": "false",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    SPILL: "true",
}


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """Return a session with the settings that hubbub needs, and with further ``settings``.

    Without a master, it is that of ``spark-submit`` or of the environment. A session that exists keeps its own static
    settings. ``PYSPARK_PYTHON`` becomes this interpreter unless it is set.
    """
    if master is not None and (not isinstance(master, str) or not master):
        reject("master", "be the address of a Spark master, such as local[2] or spark://host:7077")
    if settings is not None and not isinstance(settings, Mapping):
        reject("settings", f"be a mapping from names to values, not {kind_of(settings)}")
    for name, value in (settings or {}).items():
        check_type(f"the setting {name}", value, str)
    load_extra("pyarrow", "spark", "The Spark engine")
    builder = load_extra("pyspark.sql", "spark", "The Spark engine").SparkSession.builder.appName("hubbub")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = dict(SETTINGS)
    if master is not None and master.startswith("sc://"):
        builder, chosen = builder.remote(master), {}
    elif master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_connect(spark: Any) -> bool:
    """Return True for a session of Spark Connect, which has no JVM of its own."""
    return ".connect." in type(spark).__module__


def check_session(spark: Any) -> Any:
    """Return the session if it is one of a new enough Spark, with encryption if it is of more than one machine."""
    kind = type(spark)
    if not (kind.__module__.startswith("pyspark.sql") and kind.__name__ == "SparkSession"):
        reject("spark", f"be a session of Spark, not {kind_of(spark)}")
    version = str(spark.version)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        reject("spark", "be a session of Spark 4.1 or newer", version)
    if not _setting(spark, "spark.master", "local").startswith("local") and _setting(spark, ELSEWHERE) != "elsewhere":
        if not any(_setting(spark, name) == "true" for name in NETWORK):
            must = f"have {NETWORK[0]} (with spark.authenticate) or {NETWORK[1]} set to true"
            reject("spark", f"{must}, or {ELSEWHERE} to 'elsewhere' if the network is encrypted by other means")
        if _setting(spark, SPILL) != "true":
            must = f"have {SPILL} set to true"
            reject("spark", f"{must}, or {ELSEWHERE} to 'elsewhere' if the disks are encrypted by other means")
    return spark


def _setting(spark: Any, name: str, default: str = "") -> str:
    return str(spark.conf.get(name, default) or default)
