"""Bytes that nobody would send, for every parser that reads what strangers send."""
