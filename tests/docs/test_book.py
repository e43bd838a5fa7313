"""The book: every page is reachable, every name exists, every example runs, and the checks can fail."""

import importlib
import json
import re
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest
from research.notes.figures import DRAWN, densities_two
from research.notes.readings import readings
from research.notes.statements.catalogue import Evidence, Statement, Status
from research.notes.statements.everything import NOTES, STATEMENTS, Verdict, counts

from docs import examples, generate, links, notes
from hubbub.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "_generated" not in page.parts and (page.parent.name != "api" or page.stem == "index")
)
ROLE = re.compile(r"\{(?:py:)?(?:func|class|meth|attr|mod|data)\}`~?([\w.]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def name(page: Path) -> str:
    return str(page.relative_to(DOCS).with_suffix(""))


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = set()
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {name(DOCS / page.parent.relative_to(DOCS) / f"{entry}.md") for entry in entries}
    assert {name(page) for page in PAGES} - listed == {"index"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_page_begins_with_its_title(page: Path) -> None:
    """Regression: the page of settings was overwritten with its generated tables, and had no title or introduction."""
    assert re.match(r"# \S", page.read_text("utf-8"))


def found(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert [dotted for dotted in ROLE.findall(text) if not found(dotted)] == []
    # Generated files exist only after a build, which reports missing ones itself.
    targets = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("_generated/")]
    generated = {DOCS / "api" / f"{package}.md" for package in generate.packages()}
    missing = [one for one in targets if not (path := (page.parent / one).resolve()).exists() and path not in generated]
    assert missing == []


def test_names_that_do_not_exist_are_noticed() -> None:
    assert found("research.notes.formulas.bounds.local_flip")
    assert found("hubbub.results.labels.LabelView.interval")
    assert not found("research.notes.formulas.bounds.no_such_bound")
    assert not found("hubbub.no_such_package.verb")


def test_citations_are_of_notes_in_the_bibliography() -> None:
    notes = set(re.findall(r"^\| (\d{3}) \|", (DOCS / "bibliography.md").read_text(), re.MULTILINE))
    assert notes == {"000", "001", "002", "003", "004"}
    files = [*PAGES, ROOT / "README.md", *(ROOT / "src").rglob("*.py")]
    cited = {note for file in files for note in re.findall(r"\[(0\d\d)[ \]]", file.read_text())}
    assert cited <= notes
    assert len(cited) >= 4


def test_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    paths = LINK.findall(text) + re.findall(r"`((?:docs/[\w/.-]*|[A-Z]+\.(?:md|cff)))`", text)
    assert paths
    assert [path for path in paths if "://" not in path and not (ROOT / path).exists()] == []


LONG = {
    *("howto/choose", "howto/joint", "howto/precision", "howto/repeat", "howto/results", "howto/verify"),
    *("study", "theory/split", "tutorials/load-times"),
}
"""Pages whose examples take long."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] if name(page) in LONG else [])
        for page in PAGES
        if examples.examples(page)
    ],
    ids=name,
)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    examples.run(page, tmp_path, only="none")


ENGINES = ("duckdb", "polars", "ray", "dask", "apache_beam")


@pytest.mark.parametrize("package", ENGINES)
def test_examples_of_engines_run(package: str, tmp_path: Path) -> None:
    """Each engine alone, so that the ones that are not installed are reported as skipped."""
    page = DOCS / "howto" / "engines.md"
    assert package in {example.needs for example in examples.examples(page)}
    pytest.importorskip(package)
    examples.run(page, tmp_path, only=package)
    assert (tmp_path / package.removeprefix("apache_")).is_dir()


def test_examples_of_engines_are_short() -> None:
    found = [example for example in examples.examples(DOCS / "howto" / "engines.md") if example.needs]
    assert {example.needs for example in found} == set(ENGINES)
    assert all(example.text.count("\n") <= 15 for example in found)


def test_examples_without_their_package_are_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python needs nonesuch\nraise SystemExit\n```\n```python needs json\nassert False\n```\n")
    examples.run(page, tmp_path, only="nonesuch")
    with pytest.raises(AssertionError):
        examples.run(page, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "```pycon\n>>> 1 + 1\n3\n```\n",
        "```python\nassert False\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console varies\n$ echo 3 people\n4 crowds\n```\n",
        "- item\n\n  ```console\n  $ echo one\n  two\n  ```\n",
    ],
)
def test_examples_that_are_wrong_are_noticed(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError):
        examples.run(page, tmp_path)


def test_what_may_vary_may_vary(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console varies\n$ printf 'b 1,204 ██\\na 3 █\\n'\na 17\nb 9.5 ███\n```\n```console\n$ echo abc\na…c\n```\n"
    )
    examples.run(page, tmp_path)


def test_all_commands_and_their_options_are_described() -> None:
    text = generate.commands()
    assert [command for command in COMMANDS if f"## {command}\n" not in text] == []
    assert "`--precision` SHARE" in text
    assert "`--journal` FILE" in text
    inner = ["init", "certify", "contract", "sign", "shuffler", "analyzer", "all", "status", "ticket"]
    inner += ["key", "evaluation-key", "issuer", "relay", "admin"]
    assert re.findall(r"^### serve ([\w-]+)$", text, re.MULTILINE) == inner
    assert "Commands: status, check" not in "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))


def unknown(line: str) -> list[str]:
    """Words of a command line of hubbub that are no command, or no option of it."""
    words = shlex.split(line, comments=True)
    command: click.Command = main
    context = click.Context(main, info_name="hubbub")
    at = 1
    while isinstance(command, click.Group):
        found = command.get_command(context, words[at])
        if found is None:
            return [words[at]]
        command, at = found, at + 1
        if isinstance(command, click.Group):
            at += sum(isinstance(one, click.Argument) for one in command.params)
    end = next((i for i, word in enumerate(words) if word in ("--", "|", "<", ">", "||", "&&")), len(words))
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    return [word for word in words[at:end] if re.match("--?[a-zA-Z]", word) and word not in known]


SHOWN = [
    (page, line)
    for page in [*PAGES, ROOT / "README.md"]
    for fence in re.findall(r"```sh\n(.*?)```", page.read_text().replace("\\\n", " "), re.DOTALL)
    for line in re.findall(r"(?:^|\| *)(hubbub .*)", fence, re.MULTILINE)
]


def test_commands_that_are_only_shown_exist() -> None:
    assert len(SHOWN) >= 8
    assert [(page.name, line, bad) for page, line in SHOWN if (bad := unknown(line))] == []


def test_commands_that_do_not_exist_are_noticed() -> None:
    assert unknown("hubbub serve none here") == ["none"]
    assert unknown("hubbub serve all here --plan p.json --epoc 20") == ["--epoc"]
    assert unknown("hubbub audit --plan p.json -- python client.py --any  # thing") == []


def verdict(identity: str, agrees: bool = True) -> Verdict:
    evidence = Evidence(agrees, "2 < 3_000 * [x]")
    return Verdict(Statement(identity, "P[R > λ] ≤ η*", Status.WRONG, "the sign", lambda: evidence), evidence)


def test_errata_show_what_the_checks_computed() -> None:
    text = notes.errata([verdict("003-(9.9)")], (), ())
    assert "| [003](#note-003) | 1 | 0 | 1 | 0 | 0 | 0 |" in text
    assert r"2 \< 3\_000 \* \[x\]" in text
    assert "statement wrong" in text
    assert "[003-(9.9)](#statement-003-9-9)" in text


def test_unsupported_errata_fail() -> None:
    with pytest.raises(RuntimeError, match="does not support"):
        notes.errata([verdict("003-(9.9)", agrees=False)], (), ())


def test_all_statements_of_all_notes_are_in_the_errata() -> None:
    # research/notes tests the computations; here every statement must have an anchor.
    text = notes.errata([Verdict(one, Evidence(True, "so")) for one in STATEMENTS], readings(), ())
    assert re.findall(r"^\(note-(\w+)\)=$", text, re.MULTILINE) == ["000", "001", "002", "003", "004", "open"]
    assert list(NOTES) == ["000", "001", "002", "003", "004", "open"]
    places = re.findall(r"^:name: (.*)$", text, re.MULTILINE)
    assert len(set(places)) == len(places) == len(STATEMENTS)
    assert f"| all | {len(STATEMENTS)} | {counts(STATEMENTS)[Status.CONFIRMED]} |" in text
    assert "| q, printed | 0.2446 | 0.2109 | 0.1778 |" in text
    assert "**0.1963**" in text


def test_figures_stand_beside_the_statements_they_show() -> None:
    assert set(notes.BESIDE.values()) <= {one.id for one in STATEMENTS}
    assert len(notes.BESIDE) == len(DRAWN)
    drawn = densities_two()
    text = notes.errata([verdict("003-(9.9)"), verdict(notes.READINGS)], (), [drawn])
    assert text.index(notes.READINGS) < text.index(f"_generated/notes-{drawn.name}.svg")
    with pytest.raises(KeyError):
        notes.errata([], (), [replace(drawn, name="placeless")])


def test_stored_benchmarks_are_described() -> None:
    files = sorted((DOCS / "benchmarks").glob("*.json"))
    text = generate.benchmarks(files)
    assert {file.stem for file in files} >= {"bits", "pipeline", "accountant"}
    assert all(f"## {file.stem}" in text for file in files)
    assert "peer not installed" not in text


def test_every_figure_of_surveys_is_described() -> None:
    stored = json.loads((DOCS / "benchmarks" / "surveys.json").read_text())["figures"]
    assert stored.keys() == generate.FIGURES["surveys"].keys()
    limits = {"sum_ranges": 3.27, "sum_ranges_users": 4.85, "cdf64_rms": 8.7, "cdf256_rms": 12.8, "cdf1024_rms": 18.3}
    limits |= {"ten_questions": 16.95, "forty_flags": 26.8, "plan_max_s": 2.0}
    assert {name: stored[name] for name, limit in limits.items() if stored[name] > limit} == {}


def test_every_figure_of_the_services_is_described() -> None:
    stored = json.loads((DOCS / "benchmarks" / "services.json").read_text())["figures"]
    assert stored.keys() == generate.FIGURES["services"].keys()
    text = generate.benchmarks([DOCS / "benchmarks" / "services.json"])
    assert f"| without it | {stored['overload_share']:.3g} × |" in text


def test_the_page_says_how_stored_figures_were_measured() -> None:
    """Figures that were put together from several runs, or at an unknown load, are not shown as one quiet run."""
    run = json.loads((DOCS / "benchmarks" / "services.json").read_text())
    text = generate.benchmarks([DOCS / "benchmarks" / "services.json"])
    assert ("at an unrecorded load" in text) == (run["machine"]["load"] is None)
    assert run.get("remark", "") in text


def test_every_extra_is_described() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    page = (DOCS / "howto" / "install.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(extras)
    all_of = set(re.findall(r"[a-z]+", extras["all"][0].partition("[")[2]))
    (listed,) = re.findall(r"every extra except spark: (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert set(listed.split(", ")) == all_of


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">b</a><a href="#x">x</a><a href="https://e.org">e</a>'
    )
    (tmp_path / "b.html").write_text('<p id="y"><a href="a.html#z">a</a><a href="c.html">c</a>')
    assert links.broken_links(tmp_path) == ["b.html: a.html#z", "b.html: c.html"]


def test_files_of_a_page_are_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```toml a.toml\n[a]\n```\n```toml\n[b]\n```\n```console\n$ cat a.toml\n[a]\n$ ls *.toml\na.toml\n```\n"
    )
    examples.run(page, tmp_path)
