"""The running system: devices seal bundles, a shuffler mixes them, an analyzer opens and counts; two operators.

- what is agreed on: ``contract``, ``slots``; what is sent: ``sealing``;
- who is who: ``identity``, ``keys``, ``certificates``; where that is kept: ``secretfiles``; what time it is: ``clock``.

The formats are described byte by byte in docs/sealing.md.
"""
