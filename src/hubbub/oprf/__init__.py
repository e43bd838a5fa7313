"""Verifiable oblivious pseudorandom functions (RFC 9497, mode VOPRF): a key is applied to a string without seeing it.

- ``sodium``, ``ristretto``: the group ristretto255 with SHA-512, on the system's libsodium;
- ``p256``: the group P-256 with SHA-256, on ``cryptography`` alone, where libsodium is missing;
- ``voprf``: blinding, evaluation with proofs, and the output.
"""

from hubbub.oprf.voprf import SUITES, Blinded, Evaluation, Key, blind, check_elements, finalize, suite_named

__all__ = ["SUITES", "Blinded", "Evaluation", "Key", "blind", "check_elements", "finalize", "suite_named"]
