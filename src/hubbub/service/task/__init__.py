"""Contracts and keys: the documents and sealed bytes that devices, shuffler and analyzer agree on."""
