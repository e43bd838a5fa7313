"""The running services under load: ``python -m benchmarks.services``."""
