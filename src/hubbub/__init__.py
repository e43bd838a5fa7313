"""hubbub: collect sensitive answers so that each person hides in the crowd."""

from hubbub.errors import EntropyFailure, HubbubError, Infeasible, InvalidInput, TooLarge

__version__ = "0.1.0.dev0"

__all__ = [
    "EntropyFailure",
    "HubbubError",
    "Infeasible",
    "InvalidInput",
    "TooLarge",
]
