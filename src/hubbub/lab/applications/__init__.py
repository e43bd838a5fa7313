"""What a collection would be like in practice: planned, simulated at its full size, and held against older claims.

- ``past``: the rules by which figures of 2016 were computed, recomputed; and what their protocols really give away;
- ``street``: millions of people through the real client, shuffler and analyzer, in blocks; or their counts' law;
- ``outcome``: everything that there is to tell about one application; ``page``: the same as HTML.
"""

from hubbub.lab.applications.outcome import Outcome, Study, guarantee_of_2016
from hubbub.lab.applications.past import Claim, Comparison
from hubbub.lab.applications.street import Counted, split_counts, walk

__all__ = ["Claim", "Comparison", "Counted", "Outcome", "Study", "guarantee_of_2016", "split_counts", "walk"]
