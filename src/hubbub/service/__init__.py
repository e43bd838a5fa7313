"""The running system: devices seal bundles, a shuffler breaks the link to the sender, an analyzer opens and counts.

``task`` holds the agreement of all parties and the formats, ``shuffler`` and ``analyzer`` the two roles, each with a
core, a store, an HTTP layer and a program, and ``runtime`` the infrastructure they share. Two operators run the roles.

docs/sealing.md describes the formats byte by byte.
"""
