"""A second implementation of the privacy claims: integer arithmetic only, and no code of the accountant.

:func:`verify` reads a plan's JSON and re-derives an upper bound on its δ. The package uses the standard library and
:mod:`hubbub.errors` only, so that it can be read, and checked, on its own: ``document`` reads the claim, ``fixed``
rounds outwards, ``crowds``, ``columns``, ``fakes``, ``blanket`` and ``losses`` each hold one theorem with its proof,
``theorems`` lists them by protocol, and ``verdict`` compares.
"""

from hubbub.checker.verdict import Part, State, Verdict, verify

__all__ = ["Part", "State", "Verdict", "verify"]
