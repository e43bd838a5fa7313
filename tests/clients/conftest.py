"""Node, which the tests of the browser client need."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECK_NODE = Path(__file__).parents[2] / "tools" / "check_node.sh"


@pytest.fixture(scope="session")
def node() -> str:
    """The program ``node``; if it is missing or old, the tests are skipped, but in continuous integration they fail."""
    found = subprocess.run([CHECK_NODE], check=False, capture_output=True, text=True)
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip())
    return str(shutil.which("node"))
