"""``python -m fuzz [--seconds 60] [NAME …]`` fuzzes each parser with atheris; ``--seeds`` writes the seed corpus.

New inputs are collected in ``fuzz/found``; inputs that fail are kept in ``fuzz/broken`` and belong in the corpus.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run every target in its own process; return 1 if any fails."""
    options = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    options.add_argument("names", nargs="*")
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--seeds", action="store_true")
    options.add_argument("--one", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.seeds:
        from fuzz.targets import CORPUS, seeds  # noqa: PLC0415

        for name, texts in seeds().items():
            (CORPUS / name).mkdir(parents=True, exist_ok=True)
            for label, data in texts.items():
                (CORPUS / name / label).write_bytes(data)
        return 0
    if chosen.one:
        return _fuzz(chosen.one, chosen.seconds)
    names = chosen.names or sorted(path.name for path in (HERE / "corpus").iterdir())
    broken = []
    for name in names:
        print(f"{name}: {chosen.seconds} s", flush=True)
        command = [sys.executable, "-m", "fuzz", "--one", name, "--seconds", str(chosen.seconds)]
        if subprocess.run(command, check=False, stderr=subprocess.STDOUT).returncode:
            broken.append(name)
    print(f"broken: {', '.join(broken) or 'none'}")
    return bool(broken)


def _fuzz(name: str, seconds: int) -> int:
    import atheris  # noqa: PLC0415

    modules = ("canonical", "plans", "privacy", "protocol", "reports", "schema", "service", "wire")
    with atheris.instrument_imports(include=[f"hubbub.{name}" for name in modules], enable_loader_override=False):
        from fuzz.targets import TARGETS  # noqa: PLC0415

    found, broken = HERE / "found" / name, HERE / "broken"
    found.mkdir(parents=True, exist_ok=True)
    broken.mkdir(exist_ok=True)
    flags = [f"-max_total_time={seconds}", f"-artifact_prefix={broken}/{name}-", "-verbosity=0", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *flags, str(found), str(HERE / "corpus" / name)], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
