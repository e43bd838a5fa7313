"""Attacks that can be seen: each is simulated through the real client, held against its exact figure, and drawn.

- ``evidence``: what an attack shows, a simulated rate with its interval beside an exact one; crowds to attack;
- ``batches``: batches below the planned size; ``repetition``: the same person asked again and again;
- ``poisoning``: people who lie; ``compromised``: an analyzer who owns a part of the users;
- ``page``: all of them on one page.
"""

from hubbub.bits.entropy import Entropy, SeededStreamNotForPeople
from hubbub.lab.attacks import compromised, poisoning, repetition, small_batches
from hubbub.lab.attacks.evidence import Attack, Reading
from hubbub.pages import Chart

__all__ = ["ATTACKS", "Attack", "Reading", "demonstrate", "pictures"]

SEED = 7
"""Of the pictures in the documentation, so that they are the same in every build."""

ATTACKS = {
    "batches": small_batches.demonstrate,
    "repetition": repetition.demonstrate,
    "poisoning": poisoning.demonstrate,
    "owned": compromised.demonstrate,
}
"""By name, in the order in which they are shown."""


def demonstrate(name: str, *, trials: int, entropy: Entropy) -> Attack:
    """One of :data:`ATTACKS`, each point of it simulated so many times."""
    return ATTACKS[name](trials=trials, entropy=entropy)


def pictures(trials: int = 1000) -> dict[str, Chart]:
    """Return all charts by the names of their files; the same at every call."""
    found: dict[str, Chart] = {}
    for name in ATTACKS:
        shown = demonstrate(name, trials=trials, entropy=SeededStreamNotForPeople(SEED))
        found |= {f"attack-{part}": picture for part, picture in shown.pictures.items()}
    return found
