"""Write the vectors of plans, surveys, contracts, key lists, tokens and journals: ``python -m tests.vectors.services``.

They are reproducible: all keys follow from fixed seeds, and signatures are deterministic.
"""

import json
from collections.abc import Callable

from tests.vectors.answers import surveys
from tests.vectors.common import FOLDER, Vector
from tests.vectors.contracts import contracts
from tests.vectors.keylists import keylists
from tests.vectors.plans import plans
from tests.vectors.tokens import issued
from tests.vectors.uploads import uploads

WRITERS: dict[str, Callable[[], list[Vector]]] = {
    "plans": plans,
    "answers": surveys,
    "contracts": contracts,
    "keylists": keylists,
    "tokens": issued,
    "uploads": uploads,
}


if __name__ == "__main__":
    for name, make in WRITERS.items():
        (FOLDER / f"{name}.json").write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
