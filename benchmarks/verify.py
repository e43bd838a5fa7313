"""CPU seconds of the independent checker: ``python -m benchmarks.verify [--json] [--only SOURCE …]``.

Verifies every plan that the stored vectors, the tests of the checker, the examples and the pages of the book hold, once
each, and prints one flat object: the seconds of every plan by its name, then ``plans``, ``confirmed``, ``refused``
(altered vectors, which the checker does not read), and ``verify_max_s``, which is to stay below 20.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tests.checker import plans as single
from tests.checker import test_surveys as surveys

import hubbub as hb
from docs import examples as book
from examples import clicks, home_pages, search_defaults, search_queries, telemetry, tiles
from hubbub import planner
from hubbub.checker import State, verify
from hubbub.errors import HubbubError, WireError
from hubbub.io.surveys import read_survey
from hubbub.model.plans import Plan

ROOT = Path(__file__).parents[1]
VECTORS = Path(hb.__file__).parent / "vectors"
Named = Iterator[tuple[str, str]]


def vectors() -> Named:
    """Yield the plans of the stored vectors that are legal."""
    for file in ("good", "surveys", "plans"):
        for vector in json.loads((VECTORS / f"{file}.json").read_text()):
            if vector.get("error") is None:
                yield f"{file}: {vector.get('name') or vector['why']}", vector["plan"]


def tests() -> Named:
    """Yield the plans of the tests of the checker."""
    for one in single.SHORT + single.LONG + single.UNKNOWN:
        yield f"test: {one[0]}", single.make(one).to_json()
    for setting in surveys.SETTINGS + surveys.LONG:
        yield f"test of surveys: {setting[0]}", surveys.make(setting).to_json()


def examples() -> Named:
    """Yield the plans of the examples, and those that they are compared with."""
    studies = [one.study(one.PEOPLE) for one in (clicks, home_pages, search_defaults, tiles)]
    queries = search_queries.study(search_queries.PEOPLE, np.arange(search_queries.NARROW), search_queries.BITS)
    for one in [*studies, queries]:
        yield one.title, one.chosen().to_json()
        yield from ((f"{one.title}: {planner.family_name(other)}", other.to_json()) for other in one.frontier())
    yield "telemetry", telemetry.chosen(read_survey(telemetry.FILE), telemetry.PEOPLE).to_json()


def pages() -> Named:
    """Yield the plans that the examples of a page name or write to a file."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        with tempfile.TemporaryDirectory() as folder:
            names = book.run(page, Path(folder), only="none")
            yield from ((f"{page.stem}: {name}", one.to_json()) for name, one in names.items() if isinstance(one, Plan))
            for path in sorted(Path(folder).rglob("*.json")):
                try:
                    yield f"{page.stem}: {path.name}", Plan.from_json(path.read_text()).to_json()
                except HubbubError:
                    continue


SOURCES = {"vectors": vectors, "tests": tests, "examples": examples, "pages": pages}


def state(text: str) -> State | None:
    """Return the verdict on a plan, None if it is refused."""
    try:
        return verify(text).state
    except WireError:
        return None


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat JSON object instead of a table")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES), help="sources of plans")
    options = parser.parse_args()
    found: dict[str, float] = {}
    states: Counter[State | None] = Counter()
    known = set[str]()
    for source in options.only:
        for name, text in SOURCES[source]():
            if text in known:
                continue
            known.add(text)
            start = time.process_time()
            states[state(text)] += 1
            found[name] = round(time.process_time() - start, 3)
            if not options.json:
                print(f"{found[name]:9.3f}  {name}", flush=True)
    figures = {
        "plans": len(known),
        "confirmed": states[State.CONFIRMED],
        "refused": states[None],
        "verify_max_s": max(found.values()),
    }
    if options.json:
        print(json.dumps({**found, **figures}))
    else:
        print(*(f"{name} {value:g}" for name, value in figures.items()), sep="\n")


if __name__ == "__main__":
    main()
