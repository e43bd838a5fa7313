"""Compare the accountant with the reference distributions, and collect everything that is false."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.accountant.enumeration.reference import Model, compare, fewest_fakes
from tests.accountant.enumeration.settings import Setting

from hubbub.accountant import account
from hubbub.errors import HubbubError
from hubbub.privacy import Guarantee

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

    def call(self, setting: Setting, **arguments: float | bool) -> Guarantee | None:
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

    def model(given: Guarantee, shuffler: bool, *, even: bool) -> Model:
        """Return the truth under the assumptions; unless shares are ``even``, every honest user sends ⌊m/n⌋ fakes."""
        honest, drawn = given.assumptions.honest, shuffler and getattr(given.assumptions, "fakes", True)
        fixed = fewest_fakes(m, n, honest) if even or honest == n else honest * (m // n)
        if (honest, fixed, drawn) not in models:
            models[honest, fixed, drawn] = Model(setting.protocol, setting.schema, honest, fixed, drawn)
        return models[honest, fixed, drawn]

    most = max(1, math.floor(setting.n * setting.fraction))
    for shuffler in (True, False):
        for epsilon in epsilons if shuffler else epsilons[:local]:
            where = f"{setting} ε={epsilon!r}" + ("" if shuffler else " without a shuffler")
            if (given := found.call(setting, epsilon=epsilon, shuffler=shuffler)) is None:
                continue
            if given.assumptions.honest > most:
                found.violations.append(
                    Violation("more honest users than there are", where, given.assumptions.honest, most)
                )
            if not setting.bounded_by(given.assumptions.collusion_epsilon):
                found.violations.append(
                    Violation("pure ε below the truth", where, given.assumptions.collusion_epsilon, setting.pure)
                )
            found.hold(model(given, shuffler, even=True), where, epsilon, given.delta, above=True)
            found.hold(model(given, shuffler, even=False), where, epsilon, given.lower_bound, above=False)
        for delta in deltas if shuffler else deltas[:local]:
            where = f"{setting} δ={delta!r}" + ("" if shuffler else " without a shuffler")
            if (given := found.call(setting, delta=delta, shuffler=shuffler)) is None:
                continue
            if math.isfinite(given.epsilon):
                truth = model(given, shuffler, even=True)
                found.hold(truth, f"{where} certified ε={given.epsilon!r}", given.epsilon, delta, above=True)
            if given.lower_bound > 0:
                at = f"{where} lower ε={given.lower_bound!r}"
                found.hold(model(given, shuffler, even=False), at, given.lower_bound, delta, above=False)
