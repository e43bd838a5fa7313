"""Hypothesis profiles: reproducible and without deadlines, because CI machines are shared."""

import os

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
