"""Benchmarks: `python -m benchmarks.NAME --json` prints one flat JSON object."""
