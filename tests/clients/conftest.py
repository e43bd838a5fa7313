"""Node and Chromium, which the tests of the browser client need."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHECK_NODE = Path(__file__).parents[2] / "tools" / "check_node.sh"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; without it the tests are skipped, but in continuous integration they fail."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        reason = "needs Chromium: apt-get install -y --no-install-recommends chromium, or set CHROMIUM"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def node() -> str:
    """The program ``node``; if it is missing or old, the tests are skipped, but in continuous integration they fail."""
    found = subprocess.run([CHECK_NODE], check=False, capture_output=True, text=True)
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip())
    return str(shutil.which("node"))
