"""Audits: the optimal attack on a client or a shuffler as a black box, and what it says about ε from below."""
