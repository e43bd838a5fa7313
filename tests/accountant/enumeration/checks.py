"""Compare the accountant with the reference distributions, and collect everything that is false."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.accountant.enumeration.reference import Model, compare, fewest_fakes
from tests.accountant.enumeration.settings import Setting

from hubbub.accountant import account
from hubbub.errors import HubbubError
from hubbub.model.privacy import TRUST_MODELS, Guarantee

LARGEST = 700.0
"""Stands for an infinite ε in e^ε."""


@dataclass(frozen=True)
class Violation:
    """One false statement of the accountant."""

    kind: str
    setting: str
    claimed: float | str
    truth: float | str

    def __str__(self) -> str:
        return f"{self.kind}: {self.setting}: claimed {self.claimed!r}, truth {self.truth!r}"


@dataclass
class Findings:
    """The result of a run: the number of comparisons, those not decided, slow calls, and all violations."""

    comparisons: int = 0
    settings: int = 0
    undecided: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def report(self, limit: int = 60) -> str:
        """Return a compact table."""
        kinds: dict[str, int] = {}
        for one in self.violations:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
        return "\n".join(
            [
                f"{len(self.violations)} violations in {self.comparisons} comparisons of {self.settings} settings; "
                f"{len(self.undecided)} undecided",
                *(f"{count:5d} {kind}" for kind, count in sorted(kinds.items())),
                *map(str, self.violations[:limit]),
                *(f"slow: {one}" for one in self.slow),
            ]
        )

    def call(self, setting: Setting, **arguments: float | str) -> Guarantee | None:
        """Return what ``account`` says, or None if it raises; only errors of hubbub may be raised."""
        start = time.process_time()
        where = f"{setting} {arguments}"
        self.settings += 1
        try:
            return account(
                setting.protocol,
                setting.schema,
                setting.n,
                honest_fraction=setting.fraction,
                **arguments,  # type: ignore[arg-type]
            )
        except HubbubError as error:
            self.violations.append(Violation("refused a legal setting", where, str(error), ""))
        except Exception as error:
            self.violations.append(Violation("foreign exception", where, repr(error), ""))
        finally:
            if (used := time.process_time() - start) > 2.0:
                self.slow.append(f"{used:.1f} s {where}")
        return None

    def hold(self, model: Model, where: str, epsilon: float, claimed: float, *, above: bool) -> None:
        """Compare a claimed δ with the truth."""
        self.comparisons += 1
        verdict = compare(model, min(epsilon, LARGEST), claimed, above=above)
        if verdict.holds is None:
            self.undecided.append(where)
        elif not verdict.holds:
            kind = "certified below the truth" if above else "lower bound above the truth"
            self.violations.append(Violation(kind, where, claimed, verdict.truth))


def check(
    found: Findings, setting: Setting, epsilons: Sequence[float], deltas: Sequence[float], local: int = 1
) -> None:
    """Check both ends of the accounts of a setting: at some ε, at some δ, and, for ``local`` of each, unshuffled."""
    models: dict[tuple[int, int, bool], Model] = {}
    m, n = setting.protocol.fixed_fakes, setting.n

    def model(honest: int, drawn: bool) -> Model:
        """Return the truth for some honest users."""
        fixed = fewest_fakes(m, n, honest)
        if (honest, fixed, drawn) not in models:
            models[honest, fixed, drawn] = Model(setting.protocol, setting.schema, honest, fixed, drawn)
        return models[honest, fixed, drawn]

    most = max(1, math.floor(setting.n * setting.fraction))
    for trust in TRUST_MODELS if setting.protocol.shuffler_fakes else ("shuffling", "nobody"):
        nobody = trust == "nobody"
        # An attack may only use what the stated trust allows; a certificate must hold under its own assumptions.
        attacked = model(1 if nobody else most, trust == "shuffler-noise")
        for epsilon in epsilons[:local] if nobody else epsilons:
            where = f"{setting} ε={epsilon!r} trust {trust}"
            if (given := found.call(setting, epsilon=epsilon, trust=trust)) is None:
                continue
            held = given.assumptions
            if held.honest > most or TRUST_MODELS.index(held.trust) > TRUST_MODELS.index(trust):
                found.violations.append(Violation("assumes more than it may", where, held.honest, most))
            if not setting.bounded_by(held.collusion_epsilon):
                found.violations.append(
                    Violation("pure ε below the truth", where, held.collusion_epsilon, setting.pure)
                )
            found.hold(model(held.honest, held.fakes), where, epsilon, given.delta, above=True)
            found.hold(attacked, where, epsilon, given.lower_bound, above=False)
        for delta in deltas[:local] if nobody else deltas:
            where = f"{setting} δ={delta!r} trust {trust}"
            if (given := found.call(setting, delta=delta, trust=trust)) is None:
                continue
            held = given.assumptions
            if math.isfinite(given.epsilon):
                truth = model(held.honest, held.fakes)
                found.hold(truth, f"{where} certified ε={given.epsilon!r}", given.epsilon, delta, above=True)
            if given.lower_bound > 0:
                found.hold(attacked, f"{where} lower ε={given.lower_bound!r}", given.lower_bound, delta, above=False)
