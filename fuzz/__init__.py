"""Fuzz targets for every parser of untrusted input."""
