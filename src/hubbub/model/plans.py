"""``Plan``: the agreement between all parties on schema, batch size, protocol and guarantee, and its JSON.

Devices read plans too, so this module works without numpy.
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Self, cast

from hubbub.documents import Fields, Json, canonical, legal, parse
from hubbub.errors import SHARE, Interval, WireError, check_real, check_type, check_whole, kind_of, reject
from hubbub.model.curves import PrivacyCurve
from hubbub.model.privacy import Basis, Guarantee, Odds, Total, guess_rate
from hubbub.model.protocol import Fakes, Noise, Protocol
from hubbub.model.questions import Column
from hubbub.model.releases import PEOPLE
from hubbub.model.schema import Schema

HEADER = 20
"""Bytes of a message before its payload: magic, version, release, and 16 bytes of the plan's id."""
FORMAT = "hubbub plan 3"
MAX_PEOPLE = 10**10
MAX_ROUNDS = 10**6
STDERR = Interval(0.0, 1e300, open_low=True)
# Left out arguments of a plan, which is given defaults when it is created.
_NO_TOTAL, _NO_CURVE, _NO_ODDS = cast("Total", None), cast("PrivacyCurve", None), cast("Odds", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The agreement between all parties: schema, batch size, protocol, and the guarantee that results.

    Created by :func:`hubbub.plan` and :func:`hubbub.plan_from`. The ``id``, the SHA-256 of the canonical JSON, is part
    of every message. :meth:`from_json` checks the format and the id only, which is all a device can do;
    :func:`hubbub.load_plan` also recomputes the claimed guarantee.
    """

    schema: Schema
    n: int
    """Minimum batch size, in users."""
    protocol: Protocol
    guarantee: Guarantee
    stderr: float
    """Predicted standard error of one count in a batch of n; the maximum over all data where it depends on them."""
    honest_fraction: float = 1.0
    """Fraction of users that must follow the protocol for the guarantee to hold."""
    rounds: int = 1
    """Number of collections, each with this guarantee, in which the same people take part."""
    total: Total = _NO_TOTAL
    """(ε, δ) of all rounds together; by default that of basic composition."""
    curve: PrivacyCurve = _NO_CURVE
    """Certified points of δ(ε) of one round, under the assumptions of the guarantee; by default its own (ε, δ).

    Ledgers, on devices too, compute the cost of any number of rounds from them."""
    odds: Odds = _NO_ODDS
    """Certified success rates of a guess between two answers of one person; by default by basic composition."""
    id: str = field(init=False, compare=False)
    """SHA-256 of the canonical JSON, as 64 hexadecimal digits."""

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema)
        check_type("protocol", self.protocol, Protocol)
        check_type("guarantee", self.guarantee, Guarantee)
        object.__setattr__(self, "n", check_whole("n", self.n, 1, MAX_PEOPLE))
        object.__setattr__(self, "stderr", check_real("stderr", self.stderr, STDERR))
        object.__setattr__(self, "honest_fraction", check_real("honest_fraction", self.honest_fraction, SHARE))
        if self.guarantee.n != self.n:
            reject("the guarantee", f"be for n = {self.n:,}", self.guarantee.n)
        if self.guarantee.basis not in (Basis.EXACT, Basis.PROVEN):
            reject("the guarantee", "rest on a theorem", self.guarantee.basis.value)
        if self.guarantee.unshuffled:
            reject("the guarantee", "be for shuffled reports, of nobody unshuffled", self.guarantee.unshuffled)
        self._set_defaults()
        check_protocol(self.protocol, self.schema)
        if self.guarantee.assumptions.relay != self.protocol.sends_strings:
            reject(
                "the assumptions", "include a relay for strings, whose equality the shuffler sees, and only for them"
            )
        object.__setattr__(self, "id", hashlib.sha256(canonical(self._document())).hexdigest())

    def _set_defaults(self) -> None:
        claim = self.guarantee
        object.__setattr__(self, "rounds", check_whole("rounds", self.rounds, 1, MAX_ROUNDS))
        if self.total is _NO_TOTAL:
            object.__setattr__(self, "total", basic_total(claim, self.rounds))
        if self.curve is _NO_CURVE:
            point = (claim.epsilon, claim.delta) if math.isfinite(claim.epsilon) else (0.0, 1.0)
            object.__setattr__(self, "curve", PrivacyCurve((point,)))
        check_type("total", self.total, Total)
        check_type("curve", self.curve, PrivacyCurve)
        if self.odds is _NO_ODDS:
            object.__setattr__(self, "odds", basic_odds(self.curve, self.rounds, claim.assumptions.collusion_epsilon))
        check_type("odds", self.odds, Odds)

    @property
    def payload(self) -> int:
        """Bytes of the fixed-size payload of one message."""
        return self.protocol.payload_format.size(self.schema.extent)

    @property
    def slot_payload(self) -> int:
        """Bytes of the payload of one sealed slot; that of a string has neither number nor kind, which the seal has."""
        return self.payload if self.schema.text is None else self.schema.text.size - 1

    @property
    def payload_messages(self) -> float:
        """Expected messages of one user, including fakes but not fillers; for a user with the most bits set.

        :func:`hubbub.cost` gives the fixed number of messages that the services send instead.
        """
        each = zip(self.schema.columns, self.protocol.noise, strict=True)
        return math.fsum(_column_messages(column, noise, self.protocol, self.n) for column, noise in each)

    @property
    def payload_bytes(self) -> float:
        """Expected bytes of the bare payloads of one user; :func:`hubbub.cost` gives the size of a sealed bundle."""
        return self.payload_messages * self.payload

    def check_payload(self, payload: bytes) -> bytes:
        """Return the payload of one message if a client of the plan can send it; raise :class:`WireError` otherwise."""
        self.protocol.payload_format.check(check_type("the payload", payload, bytes), self.schema.extent)
        if self.schema.text is not None:
            self.schema.text.decode(payload[PEOPLE:])
        return payload

    def to_json(self) -> str:
        """Return the canonical JSON, including the id."""
        return canonical({**self._document(), "id": self.id}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a plan, and check its format, its values and its id, but not the guarantee it claims.

        :func:`hubbub.load_plan` recomputes the guarantee as well.
        """
        if not isinstance(text, str | bytes):
            reject("text", f"be the JSON of a plan as str or bytes, not {kind_of(text)}")
        parts = (
            "schema",
            "n",
            "honest_fraction",
            "protocol",
            "guarantee",
            "stderr",
            "rounds",
            "total",
            "curve",
            "odds",
        )
        read = Fields(parse(text, "the plan"), "the plan", "format", "id", *parts)
        if read.text("format") != FORMAT:
            raise WireError(f"the format of the plan must be {FORMAT!r}")
        with legal("the plan"):
            plan = cls(
                schema=Schema.from_document(read["schema"], "the schema of the plan"),
                n=read.whole("n"),
                honest_fraction=read.real("honest_fraction"),
                protocol=Protocol.from_document(read["protocol"], "the protocol of the plan"),
                guarantee=Guarantee.from_document(read["guarantee"], "the guarantee of the plan"),
                stderr=read.real("stderr"),
                rounds=read.whole("rounds"),
                total=Total.from_document(read["total"], "the total of the plan"),
                curve=PrivacyCurve.from_document(read["curve"], "the curve of the plan"),
                odds=Odds.from_document(read["odds"], "the odds of the plan"),
            )
        if read.text("id") != plan.id:
            raise WireError("the id of the plan must be the digest of its content")
        return plan

    def _document(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "schema": self.schema.to_document(),
            "n": self.n,
            "honest_fraction": self.honest_fraction,
            "protocol": self.protocol.to_document(),
            "guarantee": self.guarantee.to_document(),
            "stderr": self.stderr,
            "rounds": self.rounds,
            "total": self.total.to_document(),
            "curve": self.curve.to_document(),
            "odds": self.odds.to_document(),
        }

    def __str__(self) -> str:
        try:
            from hubbub.report import plan_text  # noqa: PLC0415 (an upward import: words are loaded if needed)
        except ImportError:  # devices run without numpy
            return repr(self)
        return plan_text(self)

    def _repr_html_(self) -> str:
        from hubbub.report import plan_table  # noqa: PLC0415

        return plan_table(self)

    def __repr__(self) -> str:
        rounds = f", {self.rounds:,} rounds" if self.rounds > 1 else ""
        return f"Plan({self.id[:8]}…: {self.schema}, n={self.n:,}, {self.protocol}, stderr={self.stderr:.4g}{rounds})"


def _column_messages(column: Column, noise: Noise, protocol: Protocol, n: int) -> float:
    """Return the expected messages of one user for one column, with the most labels that a record has."""
    fakes = noise.user_fakes.mean if noise.user_fakes else noise.fixed_fakes / n
    if not protocol.sends_bits:
        return protocol.k + fakes
    q, width = noise.q, column.size
    own = column.max_set * (1 - 2 * q) + width * q
    return protocol.k * own + (fakes * (width * (q + (1 - 2 * q) * column.density)) if fakes else 0.0)


def check_protocol(protocol: Protocol, schema: Schema) -> None:
    """Raise unless the protocol can be used with records of the schema.

    >>> check_protocol(Protocol(0.1, release="category"), Schema.bits(3))
    Traceback (most recent call last):
    hubbub.errors.InvalidInput: schema must be one-hot if a category is released, got Schema.bits(3 labels)
    """
    attributes = schema.attributes
    if protocol.sends_strings != (schema.text is not None):
        reject("release", f"be {'' if schema.text else 'other than '}'strings' for {schema}", protocol.release)
    if not schema.named and len(protocol.noise) > 1:
        reject("the protocol", f"have one noise for all bits of {schema}", len(protocol.noise))
    if schema.named:
        if len(protocol.noise) != len(attributes):
            reject("the protocol", f"have a noise for each of {len(attributes):,} attributes", len(protocol.noise))
        # A single attribute has the protocols of several, although Protocol(…) also describes others.
        if protocol != Protocol.survey(protocol.noise, protocol.release):
            reject("k", "be 1 for a survey", protocol.k)
    if not protocol.sends_category:
        return
    if not attributes:
        reject("schema", f"be one-hot if a category is released, got {schema}")
    for attribute, noise in zip(attributes, protocol.noise, strict=True):
        if noise.q * attribute.size >= 1:
            reject("q", f"be below 1/{attribute.size} for {attribute.size} categories", noise.q)


def basic_total(guarantee: Guarantee, rounds: int) -> Total:
    """Return (ε, δ) of several rounds by basic composition: both add up. Errs upwards.

    >>> from hubbub.planner import plan_from
    >>> basic_total(plan_from(Schema.bits(1), 1000, Protocol(0.1), epsilon=0.5).guarantee, 4).epsilon
    2.0000000000000004
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if rounds == 1:
        return Total(epsilon, delta)
    return Total(
        math.nextafter(rounds * epsilon, math.inf) if epsilon else 0.0,
        min(1.0, math.nextafter(rounds * delta, math.inf)) if delta else 0.0,
    )


def basic_odds(curve: PrivacyCurve, rounds: int, collusion: float) -> Odds:
    """Return odds by basic composition, which devices can compute: 1 − (1 − δ(0))^rounds, and the sum of all pure ε.

    >>> basic_odds(PrivacyCurve(((0.0, 0.5),)), 2, math.inf)
    Odds(round=0.750003, total=0.875004, local=1.0, local_total=1.0)
    """
    one = curve.delta(0.0)
    return Odds(
        round=guess_rate(one),
        total=guess_rate(distance_of_rounds(one, rounds)),
        local=guess_rate(pure_distance(collusion)),
        local_total=guess_rate(pure_distance(rounds * collusion)),
    )


def distance_of_rounds(one: float, rounds: int) -> float:
    """Return 1 − (1 − δ)^rounds, the largest δ(0) of as many rounds, whatever the rest of their curve; errs upwards.

    >>> distance_of_rounds(0.5, 1), distance_of_rounds(1.0, 3), f"{distance_of_rounds(1e-17, 3):.3g}"
    (0.5, 1.0, '3e-17')
    """
    if rounds == 1 or one in (0.0, 1.0):
        return one
    return min(1.0, -math.expm1(rounds * math.log1p(-one)) * (1 + 1e-12))


def pure_distance(epsilon: float) -> float:
    """Return (e^ε − 1)/(e^ε + 1), the largest δ(0) of a pair of pure ε (Kairouz, Oh and Viswanath 2015); errs upwards.

    >>> pure_distance(0.0), pure_distance(math.inf), f"{pure_distance(1e-13):.3g}"
    (0.0, 1.0, '5e-14')
    """
    return min(1.0, math.tanh(epsilon / 2) * (1 + 1e-14))


def check_share(plan: Plan, people: int, number: object) -> int:
    """Return the number of fakes that ``people`` users of a plan add: a part of the fixed total, and no small one.

    A plan for ``honest_fraction`` < 1 counts on ⌊m/n⌋ fakes of every honest user, so that no user may add fewer.

    >>> from hubbub.planner import plan_from
    >>> plan = plan_from(Schema.bits(1), 3, Protocol(0.1, m=9), delta=1e-6, honest_fraction=0.5)
    >>> check_share(plan, 1, 3)
    3
    """
    count, total = _check_fakes(plan.protocol, number), plan.protocol.fixed_fakes
    least = min(total, people * (total // plan.n))
    if plan.honest_fraction < 1 and count < least:
        users = f"{people:,} user{'' if people == 1 else 's'}"
        why = f"because the plan counts on an equal share of the {total:,} fakes from every honest user"
        reject("fakes", f"be at least {least:,} for {users}, {why}", count)
    return count


def _check_fakes(protocol: Protocol, number: object) -> int:
    """Return the number of fakes that a caller adds: a part of the total that the protocol fixes."""
    count = check_whole("fakes", number)
    if not protocol.fixed_fakes and (count or any(isinstance(noise.m, Fakes) for noise in protocol.noise)):
        reject("fakes", "be omitted, because this plan does not fix the total number of fakes", count)
    return check_whole("fakes", count, 0, protocol.fixed_fakes)
