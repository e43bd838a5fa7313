"""A second implementation of the privacy claims: integer arithmetic only, and no code of the accountant.

:func:`verify` reads a plan's JSON and re-derives an upper bound on its δ. The package uses the standard library only
and imports nothing else of hubbub, so that it can be read, and checked, on its own; it is also built as a distribution
of its own, ``hubbub-verify``. ``document`` reads the claim, ``fixed`` rounds outwards, ``crowds``, ``columns``,
``fakes``, ``blanket`` and ``losses`` each hold one theorem with its proof, ``theorems`` lists them by protocol, and
``verdict`` compares.
"""

from .fields import WireError
from .verdict import Part, State, Verdict, verify

__all__ = ["Part", "State", "Verdict", "WireError", "verify"]
