"""Fuzz targets for every parser of untrusted bytes."""
