"""The JavaScript package: its own tests, its types, and its installation into an empty project."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.clients.conftest import CHECK_NODE

CLIENT = Path(__file__).parents[2] / "clients" / "js"
CORE_LIMIT, PACKAGE_LIMIT = 11_300, 22_400
FORBIDDEN = re.compile(r"\beval\b|new Function|innerHTML|document\.write|Math\.random|\bprocess\.")
"""Not under a strict policy, not in a browser, or not random enough."""


def run(*words: str, folder: Path = CLIENT) -> str:
    done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.name for path in (CLIENT / "test").glob("*.test.js")))
def test_in_node(node: str, name: str) -> None:
    output = run(node, "--test", "--test-reporter=tap", f"test/{name}")
    passed = re.search(r"^# pass (\d+)$", output, re.MULTILINE)
    skipped = re.search(r"^# skipped (\d+)$", output, re.MULTILINE)
    assert passed
    assert skipped
    assert int(passed[1]) + int(skipped[1]) > 0


@pytest.mark.parametrize(
    ("version", "found"), [("", "found none"), ("v18.19.0", "found v18.19.0"), ("x", "found x"), ("v20.0.0", "")]
)
def test_a_missing_or_old_node_is_named(tmp_path: Path, version: str, found: str) -> None:
    """Regression: an old Node failed somewhere in the middle of the tests."""
    if version:
        (tmp_path / "node").write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / "node").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(CHECK_NODE)], check=False, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode == 2) == bool(found)
    assert found in done.stderr
    assert ("Node 20 or newer" in done.stderr) == bool(found)


def test_types() -> None:
    compiler = CLIENT / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("needs TypeScript: npm install in clients/js")
    run(str(compiler), "-p", ".")


def test_no_dependencies_and_nothing_that_a_strict_policy_forbids() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    assert list(package["peerDependenciesMeta"]) == ["@noble/curves", "@noble/post-quantum"]
    for path in sorted((CLIENT / "src").glob("*.js")):
        text = path.read_text("utf-8")
        assert not FORBIDDEN.search(text), path.name
        imported = set(re.findall(r"from '([^'.][^']*)'", text))
        allowed = {
            "node.js": {"node:fs/promises"},
            "slots.js": {"@noble/curves/ed25519.js"},
            "strings.js": {"@noble/curves/ed25519.js", "@noble/curves/nist.js"},
            "xwing.js": {"@noble/post-quantum/hybrid.js"},
        }
        assert imported == allowed.get(path.name, set()), path.name
        assert text.count("\n") <= 400, path.name


@pytest.mark.long
def test_the_package_installs_and_runs_the_readme(node: str, tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm")
    archive = run(npm, "pack", "--silent", "--pack-destination", str(tmp_path)).split()[-1]
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    run(npm, "install", "--silent", "--offline", "--no-audit", "--no-fund", str(tmp_path / archive), folder=project)
    code = re.search(r"```js program\n(.*?)```", (CLIENT / "README.md").read_text("utf-8"), re.DOTALL)
    assert code
    lines = [line for line in code[1].splitlines() if line]
    assert len(lines) <= 10
    vectors = Path(__file__).parents[2] / "src" / "hubbub" / "vectors"
    contracts = json.loads((vectors / "contracts.json").read_text("utf-8"))
    document = json.loads((vectors / "uploads.json").read_text("utf-8"))[0]
    (project / "contract.json").write_text(next(one["contract"] for one in contracts if one["why"] == "by ticket"))
    # A shuffler that stores everything, at the time of the vectors.
    (project / "before.mjs").write_text(
        f"Date.now = () => {1000 * document['now']};\n"
        f"process.env.TICKET = {document['ticket']!r};\n"
        f"const keys = {json.dumps(document['documents'][0])};\n"
        "globalThis.fetch = async (url) =>\n"
        "  url.endsWith('/keys') ? new Response(keys) : new Response(null, {status: 201});\n"
    )
    (project / "main.mjs").write_text(code[1])
    output = run(node, "--import", "./before.mjs", "main.mjs", folder=project)
    assert output.strip().endswith("stored")


def modules(entry: str) -> set[Path]:
    """Return the modules that an entry loads."""
    found, left = set(), [CLIENT / "src" / entry]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += [
                path.parent / name for name in re.findall(r"(?:from|import) '\./([^']+)'", path.read_text("utf-8"))
            ]
    return found


def stripped_size(paths: set[Path]) -> int:
    """Return the bytes of modules after gzip, without comments and indentation; names are not shortened."""
    text = "".join(path.read_text("utf-8") for path in sorted(paths))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = (re.sub(r"(^|\s)// .*", "", line).strip() for line in text.splitlines())
    return len(gzip.compress("\n".join(line for line in lines if line).encode(), 9))


def test_the_size_of_core_and_package() -> None:
    """A minifier, which this test does without, takes a quarter off; ``size.test.js`` holds 8 650 and 16 750 bytes."""
    core, everything = modules("core.js"), modules("index.js")
    assert core < everything
    assert not {"questions.js", "fakes.js", "tokens.js", "ledger.js", "wire.js"} & {path.name for path in core}
    assert stripped_size(core) < CORE_LIMIT
    assert stripped_size(everything) < PACKAGE_LIMIT
