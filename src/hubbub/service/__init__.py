"""The services: devices seal bundles, a shuffler breaks their link to the sender, an analyzer opens and counts them.

- ``task``: the contract between the operators, the layout of bundles, sealing, identities and keys
- ``shuffler``, ``analyzer``: each with a socket-free ``core``, a ``store``, an ``http`` interface and an ``app``
- ``runtime``: HTTP servers, settings, worker processes, databases and migrations, admin commands, metrics, failpoints
- ``provision``: set up folders, keys and contracts, and start services; ``uploader``: the client of the shuffler

``docs/sealing.md`` describes the formats byte by byte.
"""
