"""Strings that nobody listed: what a shuffler releases of them, and what the analyzer concludes from it.

- ``release``: the counts that the shuffler keeps, and what it subtracts from them;
- ``chances``: the probability that a string is shown, by the number of people who hold it;
- ``tallies``, ``estimates``: the strings that were shown, and the numbers of people who hold them.
"""

from hubbub.strings.chances import chance_shown, count_shown
from hubbub.strings.estimates import StringCount, StringEstimate, estimate_strings
from hubbub.strings.tallies import StringTally, tally_strings

__all__ = [
    "StringCount",
    "StringEstimate",
    "StringTally",
    "chance_shown",
    "count_shown",
    "estimate_strings",
    "tally_strings",
]
