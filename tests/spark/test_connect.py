"""The engine through Spark Connect, whose client has no JVM: everything goes through the DataFrame API."""

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import check_installed

SCRIPT = """
import sys
import hubbub as hb
from hubbub import spark as hs
from hubbub.io.reports import read_reports
from hubbub.spark.sessions import is_connect
from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert is_connect(spark)
fakes = hb.Fakes.laplace(3.0, 60)
plan = hb.plan_from(hb.Schema.one_hot(["red", "green", "blue"]), 100, hb.Protocol(0.0, m=fakes), delta=1e-6)
frame = spark.range(0, 300, 1, 2).selectExpr("if(id % 3 = 0, 'red', 'blue') as colour")
hs.randomize(frame, plan, folder + "/reports")
header = hs.shuffle(spark, folder + "/reports", plan, folder + "/batch", files=2)
found, local = hs.tally(spark, folder + "/batch", plan), hb.tally(read_reports(folder + "/batch", plan))
assert header.n == 300 and found.counts.tolist() == local.counts.tolist(), (found, local)
assert hs.simulate(frame, plan).n == 300
try:
    hs.simulate(frame.selectExpr("concat(colour, 'x') as colour"), plan)
except hb.InvalidRecord as error:
    assert "has a label that is not in the schema" in str(error)
else:
    raise AssertionError
try:
    hs.randomize(frame, plan, folder + "/reports")
except FileExistsError:
    print("all is well")
spark.stop()
"""


def test_connect(tmp_path: Path) -> None:
    check_installed()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all is well" in done.stdout
