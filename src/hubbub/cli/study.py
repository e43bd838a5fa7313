"""``hubbub study``: simulate plans on populations and compare predicted with observed errors."""

import functools
from pathlib import Path
from typing import Any

import click

from hubbub.cli import screen
from hubbub.cli.options import FORMS, WHOLE, combined, json_option, schema_options
from hubbub.io.documents import read_plan
from hubbub.io.files import check_destination, same_file, write_text
from hubbub.io.values import Form, read_values
from hubbub.lab.cells import Level, Row, contradictions
from hubbub.lab.populations import GivenPopulation, Population, parse_population
from hubbub.lab.study import Grid, Results, names, processors, run, study_page, verdict
from hubbub.model.privacy import Budget
from hubbub.model.schema import Schema
from hubbub.pipeline.records import Collection
from hubbub.report import load_matplotlib

SCHEMAS = (Schema.one_hot(12), Schema.bits(8), Schema.at_most(2, 12))
SIZES = (10_000, 1_000_000)
POPULATIONS = ("zipf", "segments")

SIZES_HELP = "Number of people; may be repeated."
EPSILONS_HELP = "Privacy budget ε; may be repeated.  [default: 1]"
POPULATIONS_HELP = "uniform, zipf:EXPONENT or segments:NUMBER:LIFT; may be repeated.  [default: zipf, segments]"
VALUES_HELP = "Simulate the people of this file: CSV, JSON lines or Parquet."
LEVELS = click.Choice(["auto", "records", "counts"])
LEVEL_HELP = "Simulate every record, or only the counts; auto: records if they take about a second."

grid_options = combined(
    functools.partial(schema_options, required=False),
    click.option("-n", "sizes", type=WHOLE, multiple=True, metavar="PEOPLE", help=SIZES_HELP),
    click.option("--epsilon", "epsilons", type=float, multiple=True, help=EPSILONS_HELP),
    click.option("--delta", type=float, default=1e-6, help="Failure probability δ."),
    click.option("--plan", "plan_paths", multiple=True, metavar="FILE", help="Use this plan; may be repeated."),
    click.option("--population", "populations", multiple=True, metavar="NAME", help=POPULATIONS_HELP),
    click.option("--values", "values_path", metavar="FILE", help=VALUES_HELP),
    click.option("--format", "form", type=FORMS, help="Format of --values."),
    click.option("--column", help="Column, or entry, of --values with the labels."),
    click.option("--repetitions", type=WHOLE, default=50, help="Collections per cell."),
    click.option("--level", type=LEVELS, default="auto", help=LEVEL_HELP),
    click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the simulation."),
)
"""The options that define a grid."""


@click.command()
@grid_options
@click.option("--jobs", type=click.IntRange(1, 1024), help="Number of processes.  [default: one per processor]")
@click.option("-o", "--output", default="hubbub-study.html", metavar="FILE", help="HTML report; - for a pipe.")
@click.option("--results", metavar="FILE", help="Results as JSON lines.  [default: next to the report, .results.jsonl]")
@click.option("--resume/--no-resume", default=True, help="Reuse finished cells of --results.")
@json_option
def study(jobs: int | None, output: str, results: str | None, resume: bool, as_json: bool, **asked: Any) -> None:
    """Simulate protocols on populations: predicted and observed error, coverage and cost.

    Every protocol that meets a budget, or every given plan, is simulated repeatedly on every population. The default
    grid has 90 cells and takes about half a minute. After an interruption only unfinished cells are run; results of
    another grid, seed or version are never reused.

    \b
    Example: hubbub study --one-hot 4 -n 2000 --repetitions 20 --jobs 1
    Example: hubbub study --plan plan.json --population zipf:1.2 --level counts -n 1000000000
    Example: hubbub study --plan plan.json --values answers.csv --jobs 1 -o answers.html
    """
    if output == "-" and as_json:
        raise click.UsageError("-o - and --json cannot both write to standard output: give -o FILE")
    check_destination(output)
    load_matplotlib()  # fails before the work rather than after it
    place = _place(output, results, [asked["values_path"] or "-", *asked["plan_paths"]])
    grid = _grid(**asked)
    kept = Results.open(place, fresh=not resume)
    with screen.progressing() as progress:
        rows = run(grid, kept, jobs=jobs or processors(), progress=progress)
    write_text(output, study_page(rows, central=grid.references()))
    if as_json:
        wrong = [{"key": row.key, "prediction": what} for row, what in contradictions(rows)]
        screen.print_json({"rows": [row.record() for row in rows], "contradictions": wrong, "report": output})
    elif output != "-":
        view = screen.console()
        view.print(*study_tables(rows), LEGEND, "", sep="\n")
        for line in verdict(rows):
            view.print(screen.plain(line))
        view.print(f"\nReport: [bold]{Path(output).resolve().as_uri()}[/]")


def _place(output: str, results: str | None, inputs: list[str]) -> Path | None:
    """Return the path of the results, or None if the report goes to a pipe and no path is given."""
    if results == "-":
        raise click.UsageError("--results must be a file, because it is read again; use --json for a pipe")
    if results is None:
        results = None if output == "-" else str(Path(output).with_suffix(".results.jsonl"))
    if any(same_file(output, name) for name in inputs) or (results and Path(results) == Path(output)):
        raise click.UsageError("the report would overwrite an input: give another name to -o")
    return None if results is None else Path(results)


def _grid(
    schema: Schema | None,
    sizes: tuple[int, ...],
    epsilons: tuple[float, ...],
    delta: float,
    plan_paths: tuple[str, ...],
    populations: tuple[str, ...],
    values_path: str | None,
    form: Form | None,
    column: str | None,
    repetitions: int,
    level: Level | str,
    seed: int,
) -> Grid:
    plans = tuple(map(read_plan, plan_paths))
    if plans and (schema or epsilons):
        raise click.UsageError(
            "--plan already contains the schema and the budget: give no schema option and no --epsilon"
        )
    people: tuple[Population | GivenPopulation, ...] = tuple(map(parse_population, populations or POPULATIONS))
    schemas = (schema,) if schema else SCHEMAS
    if values_path is not None:
        if sizes or populations:
            raise click.UsageError("--values already defines the people: give no -n and no --population")
        known = {plan.schema for plan in plans} or ({schema} if schema else set())
        given = _given(values_path, known, form, column)
        people, schemas, sizes = (given,), (given.schema,), (given.n,)
    budgets = tuple(Budget(epsilon, delta) for epsilon in epsilons or (1.0,))
    return Grid(
        schemas=() if plans else schemas,
        sizes=sizes if plans else sizes or SIZES,
        budgets=() if plans else budgets,
        plans=plans,
        populations=people,
        repetitions=repetitions,
        level=None if level == "auto" else level,  # type: ignore[arg-type]
        seed=seed,
    )


def _given(path: str, schemas: set[Schema], form: Form | None, column: str | None) -> GivenPopulation:
    if len(schemas) != 1:
        raise click.UsageError("--values needs exactly one schema: give a schema option, or plans with the same schema")
    with screen.waiting("reading"):
        (schema,) = schemas
        return GivenPopulation.of(Collection.concatenate(list(read_values(path, schema, form=form, column=column))))


LEGEND = (
    "predicted, observed: root mean square error of a count, in people. ratio: 95 % interval of observed over "
    "predicted. bias: largest mean error of a label, in standard errors of that mean. cover, all: coverage of 95 % "
    "intervals, for one count and for all at once. msgs, bytes: per user. By records: through the whole pipeline; by "
    "counts: drawn from their exact distribution."
)
HEAD = ("protocol", "predicted", "observed", "ratio", "bias", "cover", "all", "msgs", "bytes")


def study_tables(rows: list[Row]) -> list[Any]:
    """Return a table per question, population and level; rows that contradict a prediction are red."""
    wrong = {row.key for row, _ in contradictions(rows)}
    groups: dict[str, list[Row]] = {}
    for row in rows:
        title = f"{row.schema}, n = {row.n:,}, ε = {row.epsilon:.3g}, {row.population}, by {row.level}"
        groups.setdefault(title, []).append(row)
    tables = []
    for title, group in groups.items():
        table = screen.grid(title, HEAD, map(_cells, names(group), group))
        for line, row in zip(table.rows, group, strict=True):
            line.style = "red" if row.key in wrong else None
        for column in table.columns[1:]:
            column.no_wrap = True
        tables.append(table)
    return tables


def _cells(name: str, row: Row) -> tuple[str, ...]:
    return (
        name,
        f"{row.predicted:,.4g}",
        f"{row.observed:,.4g}",
        f"{row.ratio_low:.2f}–{row.ratio_high:.2f}",
        f"{row.worst_bias:.1f}",
        f"{row.coverage:.1%}",
        f"{row.simultaneous:.0%}",
        f"{row.messages:.3g}",
        f"{row.bytes:,.4g}",
    )
