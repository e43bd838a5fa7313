"""Node and Chromium, which the tests of the browser client need."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
    """The program ``node``; without it the tests are skipped, but in continuous integration they fail."""
    program = shutil.which("node")
    if not program:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs Node 20 or newer")
    return program
