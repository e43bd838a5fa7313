"""The results of an audit: its effort, its tests and attacks, and the verdict in words."""

from dataclasses import dataclass

from hubbub.lab.audit.distinguishers import Attack
from hubbub.lab.audit.faults import Diagnosis
from hubbub.lab.audit.flips import Rate
from hubbub.lab.audit.seeds import Search
from hubbub.lab.audit.statistics import Finding
from hubbub.model.plans import Plan

LIMITS = (
    "An audit can reveal violations but not rule them out: a client that behaves only while it is audited, or only on "
    "the tested values, passes.",
    "It sees outputs only, not timing, memory, logs, keys, network addresses or anything else that leaves a device.",
    "Randomness that is predictable but looks random, such as that of a weak seed, is found only if it repeats within "
    "the audit, so only short seeds are.",
    "A lower bound on ε proves no privacy: it is what these attacks achieved. The guarantee is that of the plan.",
)
"""The limits of an audit, for its reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The number of repetitions of each part of an audit."""

    values: int  # copies of each probe in one run
    runs: int  # runs of each probe
    shuffles: int
    pipeline: int  # runs of the pipeline on each of two neighbouring collections; 0 skips it
    mixed: int = 0  # records of mixed values in one run; 0 skips it
    short: int = 0  # short runs that search for a weak seed; 0 skips them


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The results of an audit, and the verdict."""

    plan: Plan
    confidence: float
    level: float  # significance level of each test: (1 − confidence) divided by the number of tests
    effort: Effort
    probes: int
    findings: list[Finding]
    attacks: list[Attack]
    rates: list[Rate]
    power: float | None
    """Relative shortfall of q on all bits that is found with probability 95 %; None if nothing is flipped."""
    power_bit: float | None  # the same for a shortfall on one bit only
    notes: list[str]  # the parts that were skipped, with reasons
    diagnoses: list[Diagnosis]  # the defects that explain the violations
    search: Search | None  # the search for a weak seed

    @property
    def violations(self) -> list[Finding]:
        """The tests that reject the plan, in the order of testing."""
        return [one for one in self.findings if one.violates(self.level)]

    @property
    def passed(self) -> bool:
        """True if no test rejects the plan."""
        return not self.violations

    @property
    def private(self) -> bool:
        """True if no test shows less privacy than planned: the audit passes, or finds only more noise than planned."""
        return self.passed or (bool(self.diagnoses) and all(one.harm == "estimates" for one in self.diagnoses))

    @property
    def best(self) -> Attack | None:
        """The attack of the headline and of the chart: largest bound on ε relative to the claim, on a pair of records.

        An attack on a single bit takes its place only if it exceeds its claim.
        """
        shown = [one for one in self.attacks if one.of_records or one.epsilon > one.claimed]
        return max(shown, key=lambda one: one.epsilon / one.claimed if one.claimed else 0.0, default=None)

    def sentence(self) -> str:
        """Return the verdict in words."""
        if not self.passed:
            return self._failure()
        parts = ["PASS: no violation found"]
        if self.best is not None and self.best.epsilon > 0:
            parts.append(headline(self.best))
        if self.power is not None and self.power < 1:
            text = f"a q that is {100 * self.power:.2g} % too small would have been found with 95 % probability"
            if self.power_bit is not None:
                alone = f"{100 * self.power_bit:.2g} %" if self.power_bit < 1 else "not even q = 0"
                text += f" (on a single bit: {alone})"
            parts.append(text)
        elif self.power is not None:
            parts.append("the runs are too few to find a q that is too small")
        if self.search is not None and self.search.seed_bits:
            bits = self.search.seed_bits
            parts.append(f"a seed of up to {bits} bits per run would have been found with 95 % probability")
        return "; ".join(parts)

    def _failure(self) -> str:
        reasons = "; ".join(one.text for one in self.diagnoses[:5])
        more = len(self.diagnoses) - 5
        reasons += f"; and {more} more" if more > 0 else ""
        if self.private:
            return (
                f"FAIL: more noise than planned: {reasons}; estimates would be biased, but no loss of privacy was found"
            )
        if self.best is not None and self.best.epsilon > self.best.claimed:
            reasons += f"; {headline(self.best)}"
        return f"FAIL: {reasons}"


def headline(best: Attack) -> str:
    """Return the bound on ε that an attack shows, with its claim and its pair of inputs."""
    return f"empirical ε ≥ {best.epsilon:.4g}, claimed ≤ {best.claimed:.4g} ({best.name})"
