"""Surveys: the design behind their plans, and the estimates of their questions."""
