"""The examples of the how-to page run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import check_installed

from docs import examples

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "spark.md"
SCRIPT = """
import sys
from pathlib import Path
from docs import examples
examples.run(Path(sys.argv[1]), Path.cwd(), only="pyspark")
"""


def test_examples_run(tmp_path: Path) -> None:
    """In a process of their own: Spark takes relative paths from where its JVM was started."""
    check_installed()
    assert [example.needs for example in examples.examples(PAGE)] == ["pyspark"] * 2
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(PAGE)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "batch" / "_hubbub.json").exists()
