"""Draws of the shuffler: how many fakes it adds to a count, or how many people it subtracts from one."""

from fractions import Fraction

from hubbub.bits.entropy import Entropy, system
from hubbub.bits.exact import gaussian, laplace
from hubbub.model.fakes import Fakes


def draw_number(fakes: Fakes, *, entropy: Entropy = system) -> int:
    """Draw from the distribution of the shuffler's fakes, exactly, rejecting negative numbers.

    >>> draw_number(Fakes.laplace(0.001, shift=25))
    25
    """
    scale = Fraction(fakes.scale)
    sample = laplace if fakes.distribution == "laplace" else gaussian
    while True:
        number = fakes.shift + sample(scale, entropy=entropy)
        if number >= 0:
            return number
