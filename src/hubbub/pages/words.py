"""Plans and guarantees in words, for terminals, pages and notebooks."""

from collections.abc import Iterable

from hubbub.planner import cost
from hubbub.plans import Plan
from hubbub.privacy import Guarantee
from hubbub.protocol import Fakes, Protocol


def described_protocol(protocol: Protocol) -> str:
    """Describe a protocol in a few words."""
    words = [f"q = {protocol.q:.4g}" if protocol.q else "in the clear"]
    if protocol.k > 1:
        words.append(f"{protocol.k} copies")
    m = protocol.m
    if isinstance(m, Fakes):
        distribution = {
            "binomial": f"Binomial({m.shift}, {m.scale:.4g}) fakes per user",
            "poisson": f"Poisson({m.scale:.4g}) fakes per user",
            "laplace": f"Laplace({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
            "gaussian": f"Gaussian({m.scale:.4g}) + {m.shift} fakes per category, drawn by the shuffler",
        }
        words.append(distribution[m.distribution])
    elif m:
        words.append(f"{m:,} fakes")
    kind = {"records": "whole records", "bits": "split bits", "category": "one category"}
    return f"{kind[protocol.release]}: {', '.join(words)}"


def described_guarantee(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Describe a guarantee: the figures, the theorem, the best attack and the assumptions."""
    attacked = ": no smaller value can be guaranteed" if guarantee.lower_bound > 0 else ""
    rows = [
        ("guarantee", f"({guarantee.epsilon:.4g}, {guarantee.delta:.3g})-differential privacy, n = {guarantee.n:,}"),
        ("", f"{guarantee.basis.value}, by {guarantee.method}"),
        ("best attack", guarantee.attack + attacked),
    ]
    return rows + [("assumptions" if not i else "", line) for i, line in enumerate(guarantee.assumptions.sentences())]


def described_plan(plan: Plan) -> list[tuple[str, str]]:
    """Describe a plan as names and values."""
    schema = plan.schema
    limit = "exactly" if schema.exclusive else "at most"
    return [
        ("plan", plan.id),
        ("schema", f"{schema.kind}, {schema.width:,} labels, {limit} {schema.max_set:,} set"),
        ("people", f"at least {plan.n:,} in a batch"),
        ("protocol", described_protocol(plan.protocol)),
        ("error", f"{plan.stderr:.4g} people (standard error of one count)"),
        ("cost", str(cost(plan))),
        *described_guarantee(plan.guarantee),
    ]


def aligned(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values as lines of text, the values below each other; control characters are replaced.

    >>> print(aligned([("plan", "1f"), ("people", "at least 10")]))
    plan    1f
    people  at least 10
    """
    shown = [[_printable(cell) for cell in row] for row in rows]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name:{width}}  {value}".rstrip() for name, value in shown)


def plan_text(plan: Plan) -> str:
    """Return the description of a plan as ``hubbub plan`` prints it, without the styles of a terminal."""
    return aligned(described_plan(plan))


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)
