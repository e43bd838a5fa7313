"""A session of Spark on two threads; without PySpark or Java, the tests are skipped."""

import importlib.util
import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from hubbub.spark import session


def check_installed() -> None:
    """Skip unless PySpark and Java are installed."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed; `make test-spark` installs it in an environment of its own")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed (apt-get install -y --no-install-recommends openjdk-17-jre-headless)")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two threads of this machine."""
    check_installed()
    settings = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = session("local[2]", settings)
    yield opened
    opened.stop()
