"""What the book prints from the code itself, anew for every build: commands, errata, benchmarks, pictures.

Everything goes to ``docs/_generated``, which pages include. A part that cannot be made fails the build.
"""

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from research.notes import formulas
from research.notes.figures import Figure, figures
from research.notes.readings import readings
from research.notes.statements.everything import STATEMENTS, judge

import hubbub
from docs import drawings
from docs.notes import errata
from hubbub import lab
from hubbub.cli import COMMANDS, main
from hubbub.pages import Chart

__all__ = ["generate"]

DOCS = Path(__file__).resolve().parent
API = DOCS / "api"
STREET = (
    "data",
    "privacy",
    "protocol",
    "batches",
    "client",
    "device",
    "shuffler",
    "analyzer",
    "estimates",
    "tables",
    "errors",
    "canonical",
)


def generate(folder: Path) -> None:
    """Write all generated parts; files that would not change are not touched, so that builds stay incremental."""
    folder.mkdir(exist_ok=True)
    drawn = list(figures())
    parts = {
        "commands.md": commands(),
        "errata.md": errata(judge(STATEMENTS), readings(), drawn),
        "benchmarks.md": benchmarks(sorted((DOCS / "benchmarks").glob("*.json"))),
        "names.md": names(),
        **dict(_files(pictures(drawn))),
    }
    for name, text in parts.items():
        _write(folder / name, text)
    pages = rooms()
    for name, text in pages.items():
        _write(API / f"{name}.md", text)
    for stale in {file.stem for file in API.glob("*.md")} - {*pages, "index"}:
        (API / f"{stale}.md").unlink()


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


# The public names, and a page for every room.


def names() -> str:
    """A table of all that ``import hubbub`` gives: where it is, and the first sentence of what it says."""
    lines = ["| name | |", "|---|---|"]
    for name in sorted(hubbub.__all__, key=str.lower):
        value = getattr(hubbub, name)
        role = "class" if isinstance(value, type) else "func"
        first = (inspect.getdoc(value) or "").split("\n\n")[0].split(". ")[0]
        lines.append(f"| {{py:{role}}}`~{value.__module__}.{name}` | {_sentence(first)} |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """A first sentence without its markup."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split())).replace("``", "")
    return _cell(text.rstrip(":.")) + "."


def rooms() -> dict[str, str]:
    """A page for the modules of the street, and one for every package but the command line, which has its own."""
    top = sorted(found.name for found in pkgutil.iter_modules(hubbub.__path__) if not found.ispkg)
    packages = sorted(found.name for found in pkgutil.iter_modules(hubbub.__path__) if found.ispkg)
    street = ["# The street", "", "Nouns, verbs and errors, in the order in which a collection meets them.", ""]
    order = [*STREET, *(name for name in top if name not in STREET)]
    pages = {"street": "\n".join([*street, *(_module(f"hubbub.{name}") for name in order)])}
    for name in packages:
        if name != "cli":
            package = importlib.import_module(f"hubbub.{name}")
            pages[name] = _package(name, package)
    pages["notes"] = _package("research.notes", formulas)
    return pages


def _package(title: str, package: Any) -> str:
    """A page with a section per module of a package."""
    first, *inner = [module.__name__ for module in _modules(package)]
    parts = [_module(one, one.removeprefix(f"{first}.")) for one in inner]
    return "\n".join([f"# {title}", "", _described(first), *parts])


def _module(name: str, heading: str = "") -> str:
    return f"(module-{name})=\n## {heading or name}\n\n{_described(name)}"


def _described(name: str) -> str:
    """A module and what is its own: what it only passes on is described where it is at home."""
    module = importlib.import_module(name)
    values = {one: getattr(module, one) for one in module.__all__} if hasattr(module, "__all__") else {}
    own = [one for one, value in values.items() if not _has_home(value) or value.__module__ == name]
    members = f"   :members: {', '.join(own)}\n" if own else ""
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{members}```\n"


def _has_home(value: object) -> bool:
    return isinstance(value, type) or (inspect.isroutine(value) and not inspect.isbuiltin(value))


# The commands.


def commands() -> str:
    """Every command, and every command of a group, with its usage, its text and its options, as click has them."""
    context = click.Context(main, info_name="hubbub")
    return "\n".join(_command(name, main, context, "##") for name in COMMANDS)


def _command(name: str, group: click.Group, parent: click.Context, level: str) -> str:
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path.removeprefix("hubbub ")
    usage = command.get_usage(context).removeprefix("Usage: ")
    text, shown = _help(command.help or "")
    options = [one for one in command.params if isinstance(one, click.Option)]  # the usage has the arguments
    rows = [record for option in options if (record := option.get_help_record(context)) is not None]
    parts = [
        f"(command-{path.replace(' ', '-')})=",
        f"{level} {path}",
        "",
        "```text",
        " ".join(usage.split()),
        "```",
        "",
        text,
        "",
        *(("```sh", *shown, "```", "") if shown else ()),
        *(("| option | meaning |", "|---|---|") if rows else ()),
        *(f"| {_options(_cell(left))} | {_options(_cell(right))} |" for left, right in rows),
        "",
    ]
    if isinstance(command, click.Group):
        parts += [_command(inner, command, context, f"{level}#") for inner in command.commands]
    return "\n".join(parts)


def _help(text: str) -> tuple[str, list[str]]:
    """The prose of a help text, and the commands that it gives as examples."""
    paragraphs, shown = [], []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        if lines[0].startswith("Example: "):
            shown += [line.removeprefix("Example: ") for line in lines]
        else:
            paragraphs.append(_options(_prose(" ".join(lines))))
    return "\n\n".join(paragraphs), shown


def _options(text: str) -> str:
    """Options as code: two dashes would be printed as one long one."""
    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"`\1`", text)


def _prose(text: str) -> str:
    return text.replace("*", r"\*").replace("<", r"\<")


def _cell(text: str) -> str:
    return _prose(text).replace("|", r"\|").replace("\n", " ")


# The benchmarks.

FIGURES = {
    "bits": {
        "randomize_vs_numpy": ("flip a million records of 40 bits", "the usual numpy lines, insecure randomness", "×"),
        "randomize_vs_multi_freq_ldpy": ("the same", "multi-freq-ldpy, one record at a time", "×"),
        "randomize_vs_pure_ldp": ("the same", "pure-ldp, one record at a time", "×"),
        "randomize_vs_opendp": ("the same", "OpenDP, `make_randomized_response_bitvec`", "×"),
        "randomize_keystream_fraction": ("the same", "raw AES-256-CTR for the bytes that it draws", "of the limit"),
        "threads_2_speedup": ("the same in two threads", "one thread", "×"),
        "limit_threads_2_speedup": ("raw AES-256-CTR in two threads", "one thread: the limit of the row above", "×"),
        "sparse_vs_dense": ("flip records of 100,000 bits with q = 10⁻⁵ by gaps", "coin by coin", "×"),
        "counts64_vs_unpackbits": ("count the bits of a million records of 64", "`np.unpackbits(…).sum(axis=0)`", "×"),
        "counts1024_vs_unpackbits": ("count those of 100,000 records of 1,024", "`np.unpackbits(…).sum(axis=0)`", "×"),
        "inverse20_vs_butterfly": ("invert a joint table of 20 bits", "the textbook butterfly in numpy", "×"),
        "permute_ns_plain": ("secure permutation of ten million records", "", "ns a record"),
        "permute_ns_fast": ("the same with numba", "", "ns a record"),
        "permute_ns_insecure": ("`numpy.random.Generator.shuffle`, not secure", "", "ns a record"),
        "single_us": ("one record on a device, in plain Python", "", "µs"),
        "single_vs_opendp": ("the same", "OpenDP, one record", "×"),
        "limit_aes_ctr_gb_s": ("AES-256-CTR of this machine", "", "GB/s"),
        "limit_memcpy_gb_s": ("copying memory", "", "GB/s"),
        "limit_read_gb_s": ("reading memory", "", "GB/s"),
        "limit_urandom_gb_s": ("the operating system's generator", "", "GB/s"),
    },
    "pipeline": {
        "records_per_s": ("ten million records of 40 bits from randomizing to the estimate", "", "records/s"),
        "vs_numpy": ("the same, in CPU time", "plain numpy on bytes, insecure randomness, all in memory", "×"),
        "vs_pure_ldp": ("the same, in CPU time", "pure-ldp, one record at a time", "×"),
        "vs_multi_freq_ldpy": ("the same, in CPU time", "multi-freq-ldpy, one record at a time", "×"),
        "peak_gib": ("most memory that the process ever held", "", "GiB"),
    },
    "accountant": {
        "bit_gap_max": ("single bits, all crowds of 10³ … 10⁹: widest gap", "the best attack, in ε", "%"),
        "bit_median_ms": ("certified ε of a single bit, median", "", "ms"),
        "bit_max_ms": ("the same, slowest", "", "ms"),
        "copies_max_ms": ("sup δ of k copies to 1 %, slowest of n up to 10⁹", "", "ms"),
        "clear_fake_max_ms": ("exact δ among uniform fakes, slowest of d up to 10⁵, m up to 10⁷", "", "ms"),
        "engine_gap_max": ("the engine's brackets: widest", "its own lower end, in δ", "%"),
        "engine_median_ms": ("the engine, median", "", "ms"),
        "engine_40_bits_s": ("the engine for 40 bits and ten million people, slowest", "", "s"),
        "split_one_hot_s": ("certified ε of split one-hot records from nothing, slowest", "", "s"),
        "calibrate_max_s": ("`calibrate` at (1, 10⁻⁶) for every protocol and kind of schema, slowest", "", "s"),
    },
    "study": {
        "processors": ("processors that it used", "", ""),
        "plan_s": ("finding twenty protocols at (1, 10⁻⁶) for a million people", "", "s"),
        "counts_s": ("fifty repetitions of each, by the law of the counts", "", "s"),
        "counts_cpu_s": ("the same, processor time", "", "s"),
        "records_s": ("the same with every record randomized, shuffled and counted", "", "s"),
        "records_cpu_s": ("the same, processor time", "", "s"),
        "records_per_s": ("the same", "", "records/s"),
        "copies_s": ("one repetition of 32 copies of a million records", "", "s"),
        "billion_s": ("fifty repetitions of a billion people by counts, a plan on average", "", "s"),
        "billion_worst_s": ("the same, slowest plan", "", "s"),
    },
    "services": {
        "bundle_bytes": ("size of a bundle", "", "bytes"),
        "singles_per_s": ("bundles stored, one per request", "", "bundles/s"),
        "p50_ms": ("latency of such a request, median", "", "ms"),
        "p99_ms": ("latency of such a request, 99th percentile", "", "ms"),
        "hundreds_per_s": ("bundles stored, 100 per request", "", "bundles/s"),
        "overload_status_201": ("a thousand connections: requests accepted", "", ""),
        "overload_status_429": ("a thousand connections: requests told to retry later", "", ""),
        "overload_stored_share": ("bundles stored per second under that load", "without it", "×"),
        "other_statuses": ("responses other than 201 without overload", "", ""),
        "acknowledged": ("bundles acknowledged in total", "", ""),
        "accepted": ("bundles in the shuffler's store afterwards", "", ""),
        "conservation_error": ("accepted − pool − outbox − committed − expired", "", ""),
        "copies_bundle_bytes": ("size of a bundle of four copies", "", "bytes"),
        "copies_bundles_per_s": ("bundles of four copies stored, 100 per request", "", "bundles/s"),
        "copies_reports_per_s": ("the same in reports", "", "reports/s"),
        "slots": ("slots of one batch at the analyzer", "", ""),
        "commit_s": ("time to open, count and commit it, with two processes", "", "s"),
        "opened_per_s": ("the same", "", "slots/s"),
        "people": ("people counted", "", ""),
    },
}


def benchmarks(files: Iterable[Path]) -> str:
    """A table of each stored run: what was measured, against whom, and by how much."""
    lines: list[str] = []
    for file in files:
        run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        name, about = run["benchmark"], run["machine"]
        told = FIGURES.get(name, {})
        peers = ", ".join(f"{peer} {version}" for peer, version in run["versions"].items())
        lines += [
            f"## {name}",
            "",
            f"Measured on {run['date']} on {about['cores']} cores of an {about['processor']} with "
            f"{about['memory_gib']} GiB, {about['system']}, Python {about['python']}, at a load of {about['load']:g} "
            f"before it started; {peers}. To run it again: `{run['command']}`.",
            "",
            "| what | against | measured |",
            "|---|---|---:|",
        ]
        for figure, value in run["figures"].items():
            what, against, unit = told.get(figure, (figure.replace("_", " "), "", ""))
            lines.append(f"| {what} | {against} | {_figure(value, unit)} |")
        lines.append("")
    return "\n".join(lines)


def _figure(value: Any, unit: str) -> str:
    if value is None:
        return "peer not installed"
    value = value * 100 if unit == "%" else value
    return f"{f'{value:,.0f}' if value >= 100 else f'{value:.3g}'} {unit}".strip()


# The pictures.


def pictures(drawn: Iterable[Figure]) -> Iterator[tuple[str, Chart]]:
    """Yield the charts of the theory and of the notes, and those that modules of the laboratory draw, by name."""
    yield from drawings.pictures().items()
    yield from ((f"notes-{one.name}", one.picture) for one in drawn)
    for module in _modules(lab):
        if hasattr(module, "pictures"):
            yield from module.pictures().items()


def _files(charts: Iterable[tuple[str, Chart]]) -> Iterator[tuple[str, str]]:
    """Yield every chart as an SVG file, and as the part of a page that replaces it in the HTML book."""
    for name, chart in charts:
        yield f"{name}.svg", chart.standalone()
        yield f"{name}.html", chart.html()


def _modules(package: Any) -> list[Any]:
    names = sorted(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    return [package, *(importlib.import_module(name) for name in names if not name.endswith(".__main__"))]
