"""Vendored scripts are the files that were recorded, with their licences, and nothing else."""

import hashlib
import re

from hubbub.studio.site import STATIC

VENDOR = STATIC / "vendor"


def test_digests() -> None:
    listed = dict(
        re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE)
    )
    assert listed == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "README.md"
    }
    assert sum(name.endswith("LICENSE.txt") for name in listed) == 2


def test_pages_load_own_files_only() -> None:
    for path in STATIC.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"""\b(?:src|href|action|data|srcset)\s*=\s*["']?([^"'\s>]*)""", text)
        assert loaded and all(re.match(r"/static/|#", one) for one in loaded), path.name
        assert not re.search(r"<(style|iframe|object|base)\b|http-equiv", text), path.name
    for path in [*STATIC.glob("*.css"), *STATIC.glob("*.js")]:
        assert not re.search(r"https?://|//cdn|@import|url\(", path.read_text(encoding="utf-8")), path.name
