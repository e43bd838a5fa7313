"""Generate the parts of the book that come from the code: commands, settings, API, errata, benchmarks, pictures.

Every build writes them to ``docs/_generated``, which pages include. A part that cannot be generated fails the build.
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
from hubbub.io.surveys import survey_keys
from hubbub.pages import Chart
from hubbub.service.runtime.reference import settings_page

__all__ = ["generate"]

DOCS = Path(__file__).resolve().parent
API = DOCS / "api"
PIPELINE = (
    "schema",
    "privacy",
    "protocol",
    "plans",
    "records",
    "reports",
    "client",
    "device",
    "shuffler",
    "analyzer",
    "kernels",
    "noise",
    "estimates",
    "tables",
    "frames",
    "extras",
    "errors",
    "canonical",
)


def generate(folder: Path) -> None:
    """Write all generated parts; unchanged files are not touched, so that builds stay incremental."""
    folder.mkdir(exist_ok=True)
    drawn = list(figures())
    parts = {
        "commands.md": commands(),
        "settings.md": settings_page(),
        "survey-keys.md": survey_keys(),
        "errata.md": errata(judge(STATEMENTS), readings(), drawn),
        "benchmarks.md": benchmarks(sorted((DOCS / "benchmarks").glob("*.json"))),
        "names.md": names(),
        **dict(_files(pictures(drawn))),
    }
    for name, text in parts.items():
        _write(folder / name, text)
    pages = packages()
    for name, text in pages.items():
        _write(API / f"{name}.md", text)
    for stale in {file.stem for file in API.glob("*.md")} - {*pages, "index"}:
        (API / f"{stale}.md").unlink()


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


# The public names, and a page for every package.


def names() -> str:
    """Return a table of the public names, each with the first sentence of its docstring."""
    lines = ["| name | |", "|---|---|"]
    for name in sorted(hubbub.__all__, key=str.lower):
        value = getattr(hubbub, name)
        role = "class" if isinstance(value, type) else "func"
        first = (inspect.getdoc(value) or "").split("\n\n")[0].split(". ")[0]
        lines.append(f"| {{py:{role}}}`~{value.__module__}.{name}` | {_sentence(first)} |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """Return the first sentence without its markup."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split())).replace("``", "")
    return _cell(text.rstrip(":.")) + "."


def packages() -> dict[str, str]:
    """Return a page for the modules of the pipeline, and one for each package except ``cli``, which has its own."""
    top = sorted(found.name for found in pkgutil.iter_modules(hubbub.__path__) if not found.ispkg)
    names = sorted(found.name for found in pkgutil.iter_modules(hubbub.__path__) if found.ispkg)
    head = ["# The pipeline", "", "Types, functions and errors, in the order in which a collection uses them.", ""]
    order = [*PIPELINE, *(name for name in top if name not in PIPELINE)]
    pages = {"pipeline": "\n".join([*head, *(_module(f"hubbub.{name}") for name in order)])}
    for name in names:
        if name != "cli":
            pages[name] = _package(name, importlib.import_module(f"hubbub.{name}"))
    pages["notes"] = _package("research.notes", formulas)
    return pages


def _package(title: str, package: Any) -> str:
    """Return a page with one section per module of a package."""
    first, *inner = [module.__name__ for module in _modules(package)]
    parts = [_module(one, one.removeprefix(f"{first}.")) for one in inner]
    return "\n".join([f"# {title}", "", _described(first), *parts])


def _module(name: str, heading: str = "") -> str:
    return f"(module-{name})=\n## {heading or name}\n\n{_described(name)}"


def _described(name: str) -> str:
    """Return the directive for a module and the names it defines; re-exports are described where they are defined."""
    module = importlib.import_module(name)
    if hasattr(module, "__all__"):
        values = {one: getattr(module, one) for one in module.__all__}
        own = [one for one, value in values.items() if not _has_home(value) or value.__module__ == name]
        members = f"   :members: {', '.join(own)}\n" if own else ""
    else:
        members = "   :members:\n"
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{members}```\n"


def _has_home(value: object) -> bool:
    return isinstance(value, type) or (inspect.isroutine(value) and not inspect.isbuiltin(value))


# The commands.


def commands() -> str:
    """Return the reference of all commands and subcommands: usage, help text and options."""
    context = click.Context(main, info_name="hubbub", **main.context_settings)
    return "\n".join(_command(name, main, context, "##") for name in COMMANDS)


def _command(name: str, group: click.Group, parent: click.Context, level: str) -> str:
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path.removeprefix("hubbub ")
    usage = command.get_usage(context).removeprefix("Usage: ")
    text, shown = _help(command.help or "")
    options = [one for one in command.params if isinstance(one, click.Option)]  # arguments are in the usage line
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
    """Return the prose of a help text, and its example commands."""
    paragraphs, shown = [], []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        if lines[0].startswith("Example: "):
            shown += [line.removeprefix("Example: ") for line in lines]
        else:
            paragraphs.append(_options(_prose(" ".join(lines))))
    return "\n\n".join(paragraphs), shown


def _options(text: str) -> str:
    """Mark options as code: Markdown would turn two hyphens into a dash."""
    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"`\1`", text)


def _prose(text: str) -> str:
    return text.replace("*", r"\*").replace("<", r"\<")


def _cell(text: str) -> str:
    return _prose(text).replace("|", r"\|").replace("\n", " ")


# The benchmarks.

FIGURES = {
    "bits": {
        "randomize_vs_numpy": ("flip a million records of 40 bits", "plain numpy, insecure randomness", "×"),
        "randomize_vs_multi_freq_ldpy": ("the same", "multi-freq-ldpy, one record at a time", "×"),
        "randomize_vs_pure_ldp": ("the same", "pure-ldp, one record at a time", "×"),
        "randomize_vs_opendp": ("the same", "OpenDP, `make_randomized_response_bitvec`", "×"),
        "randomize_keystream_fraction": ("the same", "raw AES-256-CTR for the bytes drawn", "of the limit"),
        "threads_2_speedup": ("the same in two threads", "one thread", "×"),
        "limit_threads_2_speedup": ("raw AES-256-CTR in two threads", "one thread: the limit for the row above", "×"),
        "sparse_vs_dense": ("flip records of 100,000 bits at q = 10⁻⁵ by sampling gaps", "bit by bit", "×"),
        "counts64_vs_unpackbits": ("count the bits of a million 64-bit records", "`np.unpackbits(…).sum(axis=0)`", "×"),
        "counts1024_vs_unpackbits": (
            "count the bits of 100,000 1,024-bit records",
            "`np.unpackbits(…).sum(axis=0)`",
            "×",
        ),
        "inverse20_vs_butterfly": ("invert a joint table of 20 bits", "the textbook butterfly in numpy", "×"),
        "permute_ns_plain": ("secure permutation of ten million records", "", "ns a record"),
        "permute_ns_fast": ("the same with numba", "", "ns a record"),
        "permute_ns_insecure": ("`numpy.random.Generator.shuffle`, not secure", "", "ns a record"),
        "single_us": ("randomize one record on a device, in plain Python", "", "µs"),
        "single_vs_opendp": ("the same", "OpenDP, one record", "×"),
        "limit_aes_ctr_gb_s": ("AES-256-CTR on this machine", "", "GB/s"),
        "limit_memcpy_gb_s": ("memory copy", "", "GB/s"),
        "limit_read_gb_s": ("memory read", "", "GB/s"),
        "limit_urandom_gb_s": ("the random number generator of the operating system", "", "GB/s"),
    },
    "pipeline": {
        "records_per_s": ("ten million 40-bit records, from randomization to estimate", "", "records/s"),
        "vs_numpy": ("the same, in CPU time", "plain numpy on bytes, insecure randomness, all in memory", "×"),
        "vs_pure_ldp": ("the same, in CPU time", "pure-ldp, one record at a time", "×"),
        "vs_multi_freq_ldpy": ("the same, in CPU time", "multi-freq-ldpy, one record at a time", "×"),
        "peak_gib": ("peak memory of the process", "", "GiB"),
        "survey8_vs_bits40": ("a survey of eight questions, in CPU time", "a record of 40 bits", "×"),
        "survey_device_us": ("one record of eight attributes on a device, in CPU time", "", "µs"),
        "decode_one_hot_rows_per_s": ("Parquet to records: one label of 40 (strings), in CPU time", "", "rows/s"),
        "decode_booleans_rows_per_s": ("the same: 40 columns of booleans", "", "rows/s"),
        "decode_lists_rows_per_s": ("the same: lists of three labels on average", "", "rows/s"),
        "pipeline_lists_rows_per_s": ("Parquet lists to an estimate, reports in files, in CPU time", "", "rows/s"),
        "vs_duckdb_one_hot": ("read, randomize and count: one label", "DuckDB, insecure randomness", "×"),
        "vs_duckdb_booleans": ("the same: columns of booleans", "DuckDB, insecure randomness", "×"),
        "vs_duckdb_lists": ("the same: lists", "DuckDB, insecure randomness", "×"),
        "vs_polars_one_hot": ("the same: one label", "Polars and numpy, insecure randomness", "×"),
        "vs_polars_booleans": ("the same: columns of booleans", "Polars and numpy, insecure randomness", "×"),
    },
    "spark": {
        "rows": ("people; all figures in CPU time of driver, JVM and Python workers", "", ""),
        "randomize_tally_one_hot_rows_per_core_s": ("randomize and count in one pass: one label of 40", "", "rows/s"),
        "randomize_tally_booleans_rows_per_core_s": ("the same: 40 columns of booleans", "", "rows/s"),
        "randomize_tally_lists_rows_per_core_s": ("the same: lists of three labels on average", "", "rows/s"),
        "pipeline_one_hot_rows_per_core_s": ("randomize, shuffle and tally, in files: one label", "", "rows/s"),
        "pipeline_booleans_rows_per_core_s": ("the same: columns of booleans", "", "rows/s"),
        "pipeline_lists_rows_per_core_s": ("the same: lists", "", "rows/s"),
        "randomize_tally_rows_per_core_s": ("randomize and count in one pass, slowest input", "", "rows/s"),
        "pipeline_rows_per_core_s": ("randomize, shuffle and tally, slowest input", "", "rows/s"),
        "python_worker_mb": ("largest memory of a Python worker", "", "MB"),
        "vs_spark_rand": ("one pass over 40 booleans", "Spark's own `rand()` and sums, insecure randomness", "×"),
        "vs_spark_sums": ("cost of that pass", "Spark's sums without any noise", "×"),
        "heap_mb": ("heap of the JVM, driver and executor together", "", "MB"),
    },
    "strings": {
        "found_zipf_1e6": ("strings shown of 10⁶ people, Zipf, at (1, 10⁻⁸)", "", "strings"),
        "rms_zipf_1e6": ("error of their counts, root mean square", "", "people"),
        "release_us_per_row": ("release of one counted string, exact sampler, in CPU time", "", "µs"),
        "counted_people_per_s": ("people counted in memory, in CPU time", "", "people/s"),
        "shown_half": ("holders of a string that is shown with probability 50 %", "", "people"),
        "shown_most": ("the same with 95 %", "", "people"),
        "stderr": ("standard error of a count", "", "people"),
        "blind_us": ("a device blinds a string, in CPU time", "", "µs"),
        "finalize_us": ("it verifies the proof and computes the output", "", "µs"),
        "slot_us": ("it seals the slot", "", "µs"),
        "open_us": ("the analyzer opens a slot and makes it again", "", "µs"),
        "evaluations_per_s": ("evaluations with proofs, two cores, libsodium, in CPU time", "", "evaluations/s"),
        "evaluations_per_s_p256": ("the same with `cryptography` alone", "", "evaluations/s"),
    },
    "accountant": {
        "bit_gap_max": ("single bits, n = 10³ … 10⁹: widest gap", "the best known attack, in ε", "%"),
        "bit_median_ms": ("certified ε of a single bit, median", "", "ms"),
        "bit_max_ms": ("the same, slowest", "", "ms"),
        "copies_max_ms": ("sup δ of k copies to 1 %, slowest of n up to 10⁹", "", "ms"),
        "clear_fake_max_ms": ("exact δ among uniform fakes, slowest of d up to 10⁵, m up to 10⁷", "", "ms"),
        "engine_gap_max": ("quadrature brackets: widest", "their own lower end, in δ", "%"),
        "engine_median_ms": ("quadrature, median", "", "ms"),
        "engine_40_bits_s": ("quadrature for 40 bits and ten million people, slowest", "", "s"),
        "split_one_hot_s": ("certified ε of split one-hot records without caches, slowest", "", "s"),
        "calibrate_max_s": ("`calibrate` at (1, 10⁻⁶) for every protocol and kind of schema, slowest", "", "s"),
        "records_ratio_max": (
            "whole records at δ = 10⁻⁶, eight schemas up to 40 labels: largest certified ε",
            "the ε of the worst homogeneous crowd",
            "×",
        ),
        "grid_max_s": ("300 calls of `account`, `calibrate` and single families of `frontier`, slowest", "", "s"),
        "grid_wide_max_s": ("the same for whole records of more than five bits", "", "s"),
        "verify_max_s": ("`verify` for one plan of every kind that it confirms, slowest", "", "s"),
    },
    "study": {
        "processors": ("processors used", "", ""),
        "plan_s": ("planning twenty protocols at (1, 10⁻⁶) for a million people", "", "s"),
        "counts_s": ("fifty repetitions of each, drawn from the distribution of the counts", "", "s"),
        "counts_cpu_s": ("the same, processor time", "", "s"),
        "records_s": ("the same, with every record randomized, shuffled and counted", "", "s"),
        "records_cpu_s": ("the same, processor time", "", "s"),
        "records_per_s": ("the same", "", "records/s"),
        "copies_s": ("one repetition of 32 copies of a million records", "", "s"),
        "billion_s": ("fifty repetitions of a billion people by counts, mean over plans", "", "s"),
        "billion_worst_s": ("the same, slowest plan", "", "s"),
    },
    "surveys": {
        "sum_ranges": ("sum of numbers of 256 levels, standard error", "the shuffler's noise, (1, 10⁻⁶)", "ranges"),
        "sum_ranges_central": ("the same", "a trusted curator", "ranges"),
        "sum_ranges_local": ("the same", "local differential privacy, one question each", "ranges"),
        "sum_ranges_local_plan": ("the same", "hubbub's plan without trust, all questions each", "ranges"),
        "sum_ranges_messages": ("messages of every user with the shuffler's noise", "", ""),
        "cdf64_rms": (
            "people below an edge, 64 buckets, root mean square",
            "the shuffler's noise, (1, 10⁻⁶)",
            "people",
        ),
        "cdf64_rms_central": ("the same", "a trusted curator", "people"),
        "cdf64_rms_local": ("the same", "local differential privacy, one question each", "people"),
        "cdf64_rms_local_plan": ("the same", "hubbub's plan without trust, all questions each", "people"),
        "cdf64_rms_messages": ("messages of every user with the shuffler's noise", "", ""),
        "cdf256_rms": ("the same, 256 buckets", "the shuffler's noise, (1, 10⁻⁶)", "people"),
        "cdf256_rms_central": ("the same", "a trusted curator", "people"),
        "cdf256_rms_local": ("the same", "local differential privacy, one question each", "people"),
        "cdf256_rms_local_plan": ("the same", "hubbub's plan without trust, all questions each", "people"),
        "cdf256_rms_messages": ("messages of every user with the shuffler's noise", "", ""),
        "cdf1024_rms": ("the same, 1,024 buckets", "the shuffler's noise, (1, 10⁻⁶)", "people"),
        "cdf1024_rms_central": ("the same", "a trusted curator", "people"),
        "cdf1024_rms_local": ("the same", "local differential privacy, one question each", "people"),
        "cdf1024_rms_local_plan": ("the same", "hubbub's plan without trust, all questions each", "people"),
        "cdf1024_rms_messages": ("messages of every user with the shuffler's noise", "", ""),
        "ten_questions": ("one count of ten questions of five answers", "the shuffler's noise, (1, 10⁻⁶)", "people"),
        "ten_questions_central": ("the same", "a trusted curator", "people"),
        "ten_questions_local": ("the same", "local differential privacy, one question each", "people"),
        "ten_questions_local_plan": ("the same", "hubbub's plan without trust, all questions each", "people"),
        "ten_questions_messages": ("messages of every user with the shuffler's noise", "", ""),
        "forty_flags": ("one count of forty flags", "the shuffler's noise, (1, 10⁻⁶)", "people"),
        "forty_flags_central": ("the same", "a trusted curator", "people"),
        "forty_flags_local": ("the same", "local differential privacy, one question each", "people"),
        "forty_flags_local_plan": ("the same", "hubbub's plan without trust, all questions each", "people"),
        "forty_flags_messages": ("messages of every user with the shuffler's noise", "", ""),
        "sum_ranges_users": ("sum of numbers of 256 levels", "users' noise, (1, 10⁻⁶)", "ranges"),
        "sum_ranges_users_messages": ("messages of every user with users' noise", "", ""),
        "forty_flags_users": ("one count of forty flags", "users' noise, 40 messages", "people"),
        "plan_max_s": ("processor time of `plan` for these, slowest", "", "s"),
    },
    "services": {
        "bundle_bytes": ("size of a bundle", "", "bytes"),
        "sqlite_singles_per_s": ("SQLite: bundles stored, one per request, 256 connections", "", "bundles/s"),
        "p50_ms": ("latency of such a request, median", "", "ms"),
        "p99_ms": ("latency of such a request, 99th percentile", "", "ms"),
        "sqlite_hundreds_per_s": ("SQLite: bundles stored, 100 per request", "", "bundles/s"),
        "open_limit_per_s": ("bundles that two processes open if they do nothing else", "", "bundles/s"),
        "sqlite_hundreds_vs_open_limit": ("bundles stored, 100 per request", "this limit", "×"),
        "overload_status_201": ("a thousand connections: requests accepted", "", ""),
        "overload_status_429": ("a thousand connections: requests told to retry later", "", ""),
        "overload_share": ("bundles stored per second under that load", "without it", "×"),
        "other_statuses": ("responses other than 201 without overload", "", ""),
        "acknowledged": ("bundles acknowledged in total", "", ""),
        "accepted": ("bundles in the shuffler's store afterwards", "", ""),
        "conservation_error": ("bundles unaccounted for", "", ""),
        "copies_bundle_bytes": ("size of a bundle of four copies", "", "bytes"),
        "copies_bundles_per_s": ("bundles of four copies stored, 100 per request", "", "bundles/s"),
        "copies_reports_per_s": ("the same in reports", "", "reports/s"),
        "postgres_singles_per_s": ("PostgreSQL: bundles stored, one per request, 256 connections", "", "bundles/s"),
        "postgres_hundreds_per_s": ("PostgreSQL: bundles stored, 100 per request", "", "bundles/s"),
        "intake_1_singles_cpu_us": ("processor time per bundle, one intake process, one per request", "", "µs"),
        "intake_2_singles_cpu_us": ("the same, two processes", "", "µs"),
        "intake_2_singles_cpu_ratio": ("two intake processes, processor time", "one", "×"),
        "intake_1_hundreds_cpu_us": ("processor time per bundle, one intake process, 100 per request", "", "µs"),
        "intake_2_hundreds_cpu_us": ("the same, two processes", "", "µs"),
        "intake_2_hundreds_cpu_ratio": ("two intake processes, processor time", "one", "×"),
        "intake_2_cpu_ratio": ("the larger of both ratios", "", "×"),
        "intake_1_latency_per_s": ("one intake process, 5 ms longer commits, eight clients", "", "bundles/s"),
        "intake_2_latency_speedup": ("two intake processes with eight clients each", "one", "×"),
        "release_slots": ("slots of a bucket released under a load of 1 000 uploads per second", "", ""),
        "release_s": ("time of its release and shuffle", "", "s"),
        "release_quiet_p99_ms": ("latency of uploads before, 99th percentile", "", "ms"),
        "release_p99_ms": ("latency of uploads meanwhile, 99th percentile", "", "ms"),
        "release_p99_ratio": ("latency of uploads meanwhile", "before", "×"),
        "batch_1e7_slots": ("slots of a large batch", "", ""),
        "batch_1e7_s": ("time to release, shuffle, deliver and count it", "", "s"),
        "batch_1e7_peak_gib": ("largest memory of any process", "", "GiB"),
        "batch_1e7_people": ("people counted", "", ""),
        "cost_upload_us_1e5": ("processor time per upload, 10⁵ reports stored", "", "µs"),
        "cost_upload_us_1e7": ("the same, 10⁷ reports stored", "", "µs"),
        "cost_batch_us_1e5": ("processor time per slot from the release to the result, 10⁵ slots", "", "µs"),
        "cost_batch_us_1e7": ("the same, 10⁷ slots", "", "µs"),
        "cost_growth_1e5_1e7": ("processor time per report at 10⁷", "at 10⁵", "×"),
    },
}


def benchmarks(files: Iterable[Path]) -> str:
    """Return a table of each stored run: the quantity, the comparison and the figure."""
    lines: list[str] = []
    for file in files:
        run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        name, about = run["benchmark"], run["machine"]
        told = FIGURES.get(name, {})
        peers = ", ".join(f"{peer} {version}" for peer, version in run["versions"].items())
        load = "an unrecorded load" if about["load"] is None else f"a load of {about['load']:g} before it started"
        lines += [
            f"## {name}",
            "",
            f"Measured on {run['date']} on {about['cores']} cores of an {about['processor']} with "
            f"{about['memory_gib']} GiB, {about['system']}, Python {about['python']}, at {load}; "
            f"{peers}. To run it again: `{run['command']}`. {run.get('remark', '')}".rstrip(),
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
    """Yield the charts of the theory and of the notes, and those that modules of ``hubbub.lab`` draw, by name."""
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
