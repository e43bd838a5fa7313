"""The examples of the how-to page run."""

from pathlib import Path
from typing import Any

from docs import examples

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


def test_examples_run(spark: Any, tmp_path: Path) -> None:
    assert [example.needs for example in examples.examples(PAGE)] == ["pyspark"] * 2
    examples.run(PAGE, tmp_path, only="pyspark")
    assert (tmp_path / "batch" / "_hubbub.json").exists()
