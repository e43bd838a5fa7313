"""Demonstrations of attacks: each is simulated through the real client, compared with its exact value, and drawn.

- ``evidence``: simulated values with confidence intervals beside exact ones, and the report;
- ``small_batches``: batches below the planned size; ``repetition``: repeated collections from the same people;
- ``poisoning``: malicious clients; ``compromised``: an analyzer who controls some of the users.
"""

from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople
from hubbub.lab.attacks import compromised, poisoning, repetition, small_batches
from hubbub.lab.attacks.evidence import Attack
from hubbub.report import Chart

SEED = 7
"""Seed of the figures in the documentation, which are the same in every build."""

ATTACKS = {
    "batches": small_batches.demonstrate,
    "repetition": repetition.demonstrate,
    "poisoning": poisoning.demonstrate,
    "compromised": compromised.demonstrate,
}
"""All demonstrations by name, in the order of the report."""


def demonstrate(name: str, *, trials: int, entropy: Entropy) -> Attack:
    """Run one of :data:`ATTACKS` with the given number of simulations per point."""
    return ATTACKS[name](trials=trials, entropy=entropy)


def pictures(trials: int = 1000) -> dict[str, Chart]:
    """Return all charts by file name; every call returns the same."""
    found: dict[str, Chart] = {}
    for name in ATTACKS:
        shown = demonstrate(name, trials=trials, entropy=SeededStreamNotForPeople(SEED))
        found |= {f"attack-{part}": picture for part, picture in shown.pictures.items()}
    return found
