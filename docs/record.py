"""Run the benchmarks and store their figures for the benchmark page: ``make bench-docs``, ``make bench-docs-spark``.

The interpreter that runs this runs the benchmarks, so that the versions are those of its environment. Figures are
stored with the date, the machine and the versions; host names are not stored.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
NAMES = ("bits", "pipeline", "accountant", "study", "surveys", "strings", "services")
VERSIONS = (
    "numpy",
    "scipy",
    "cryptography",
    "numba",
    "pyarrow",
    "uvicorn",
    "uvloop",
    "opendp",
    "pure-ldp",
    "multi-freq-ldpy",
    "duckdb",
    "polars",
    "pyspark",
)


def machine() -> dict[str, Any]:
    """Describe the machine without naming it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of hubbub and of the installed peers."""
    found = {}
    for name in ("hubbub", *VERSIONS):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def record(name: str) -> None:
    """Run one benchmark and store its figures."""
    before = machine()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    document = {
        "benchmark": name,
        "command": f"python -m benchmarks.{name} --json",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": before,
        "versions": versions(),
        "figures": json.loads(done.stdout),
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for asked in sys.argv[1:] or NAMES:
        print(f"measuring {asked}", file=sys.stderr)
        record(asked)
