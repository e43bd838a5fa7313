"""The families of protocols: a stable key, a name, and the search for the smallest noise of each.

Keys appear in JSON, in ``--choose`` and in the documentation, and never change their meaning.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hubbub.errors import check_type, reject
from hubbub.model.plans import Plan
from hubbub.model.privacy import TRUST_MODELS, TrustModel
from hubbub.model.protocol import Fakes, Protocol
from hubbub.model.schema import Schema
from hubbub.planner import fakes, flips
from hubbub.planner.certify import Candidate
from hubbub.planner.request import Request

Propose = Callable[[Request], Candidate | None]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of protocol: ``propose`` returns its candidate for a request, or None if it does not apply."""

    key: str
    name: str
    trust: TrustModel
    """The trust that its guarantee needs."""
    clear: bool
    """True if records are sent in the clear, hidden only by fakes."""
    linked: bool
    """True if it hides the bits of a whole record together, so that surveys, whose columns are apart, have no use of
    it."""
    propose: Propose

    def excluded(self, request: Request) -> str:
        """Return why the constraints exclude the family, whatever its parameters are; empty if they do not.

        >>> from hubbub.model.privacy import Budget
        >>> asked = Request.of(Schema.bits(3), 1000, Budget(1.0, 1e-6))
        >>> FAMILIES["clear-user-fakes"].excluded(asked)
        'it sends records in the clear; set clear=True to allow that'
        """
        flipped = self.trust == "shuffler-noise" and not self.clear
        reasons = (
            (
                self.key != "strings" and request.schema.text is not None,
                "it needs a list of labels, and the schema is one of strings that nobody listed",
            ),
            (
                self.key == "strings" and request.schema.text is None,
                "it is for strings that nobody listed, and the schema lists its labels",
            ),
            (
                not includes_trust(request.trust, self.trust),
                f"it needs the trust {self.trust!r}, and {request.trust!r} is requested",
            ),
            (
                self.clear and request.needs_flips,
                "it sends records in the clear, which min_q and max_collusion_epsilon forbid",
            ),
            (
                self.clear and not request.allows_clear,
                "it sends records in the clear; set clear=True to allow that",
            ),
            (
                flipped and not request.needs_flips,
                "flips beside the shuffler's fakes only add an error; set min_q to require them",
            ),
            (
                self.trust != "nobody" and request.budget.delta == 0,
                "with δ = 0 only the noise of each user counts, so that shuffling cannot help; raise delta",
            ),
            (
                self.key.endswith("response") and not request.schema.attributes,
                "it needs a one-hot schema, or a survey",
            ),
            (
                request.joint and self._single(request.schema),
                "it does not release whole records, which joint tables need; drop joint to allow it",
            ),
        )
        return next((reason for holds, reason in reasons if holds), "")

    def candidate(self, request: Request) -> Candidate | None:
        """Return the candidate of the family for a request, or None if the constraints or the schema exclude it."""
        if self.excluded(request):
            return None
        return self.propose(request) if not request.schema.named or not self.linked else None

    def _single(self, schema: Schema) -> bool:
        """Return True if messages are single bits, categories or strings."""
        bits = self.key in ("clear-shuffler-fakes", "flip-shuffler-fakes") and not schema.exclusive
        return bits or self.key in ("local-response", "split", "response", "strings")


def includes_trust(asked: TrustModel, needed: TrustModel) -> bool:
    """Return True if the trust that is asked for includes the trust that a guarantee needs.

    >>> includes_trust("shuffling", "nobody"), includes_trust("shuffling", "shuffler-noise")
    (True, False)
    """
    return TRUST_MODELS.index(needed) <= TRUST_MODELS.index(asked)


FAMILIES: dict[str, Family] = {
    one.key: one
    for one in (
        Family("local-flip", "local flips", "nobody", False, True, flips.local_flips_alone),
        Family("local-response", "local randomized response", "nobody", False, False, flips.local_response),
        Family("flip", "flipped records", "shuffling", False, True, flips.flip),
        Family("copies", "flipped copies", "shuffling", False, True, flips.copies),
        Family("split", "split bits", "shuffling", False, False, flips.split),
        Family("response", "randomized response", "shuffling", False, False, flips.response),
        Family("fake-and-flip", "flipped records, users' fakes", "shuffling", False, True, fakes.fake_and_flip),
        Family("clear-user-fakes", "clear records, users' fakes", "shuffling", True, False, fakes.clear_user_fakes),
        Family(
            "clear-shuffler-fakes", "clear bits, shuffler's fakes", "shuffler-noise", True, False,
            fakes.shuffler_fakes,
        ),
        Family(
            "clear-shuffler-fakes-records", "clear records, shuffler's fakes", "shuffler-noise", True, True,
            fakes.shuffler_fakes_records,
        ),
        Family(
            "flip-shuffler-fakes", "flipped bits, shuffler's fakes", "shuffler-noise", False, True,
            fakes.shuffler_fakes,
        ),
        Family(
            "flip-shuffler-fakes-records", "flipped records, shuffler's fakes", "shuffler-noise", False, True,
            fakes.shuffler_fakes_records,
        ),
        Family("strings", "strings with noisy counts", "shuffler-noise", True, True, fakes.strings),
    )
}  # fmt: skip
"""All families by key."""


def family_key(chosen: Plan | Protocol, schema: Schema | None = None) -> str:
    """Return the key of the family of a plan, or of a protocol that is used with a shuffler.

    >>> family_key(Protocol(0.1)), family_key(Protocol(0.1, k=4)), family_key(Protocol(0.1, m=500))
    ('flip', 'copies', 'fake-and-flip')
    """
    protocol, schema = _parts(chosen, schema)
    if isinstance(chosen, Plan) and not chosen.guarantee.assumptions.shuffler:
        return "local-response" if protocol.sends_category else "local-flip"
    if len(protocol.noise) > 1 or protocol.sends_strings:
        return "strings" if protocol.sends_strings else _survey_key(protocol)
    if protocol.shuffler_fakes:
        whole = protocol.sends_records and not (schema and schema.exclusive)
        return f"{'clear' if protocol.clear else 'flip'}-shuffler-fakes{'-records' if whole else ''}"
    if protocol.m != 0:
        return "clear-user-fakes" if protocol.clear else "fake-and-flip"
    if protocol.sends_category:
        return "response"
    split = protocol.sends_bits and not (schema and schema.width == 1)
    return "split" if split else "copies" if protocol.k > 1 else "flip"


def _survey_key(protocol: Protocol) -> str:
    if any(noise.shuffler_fakes for noise in protocol.noise):
        return "clear-shuffler-fakes"
    if protocol.clear:
        return "clear-user-fakes"
    return "response" if protocol.sends_category else "split"


def family_name(chosen: Plan | Protocol, schema: Schema | None = None) -> str:
    """Return the family of a plan or protocol in words, with the details that tell two protocols apart.

    >>> family_name(Protocol(0.1, k=4)), family_name(Protocol(0.1, 2, release="bits"))
    ('4 flipped copies', 'split bits, 2 copies')
    """
    protocol, schema = _parts(chosen, schema)
    key = family_key(chosen, schema)
    if key == "copies":
        return f"{protocol.k} flipped copies"
    name = FAMILIES[key].name
    if schema and schema.named:
        name = name.replace("clear bits", "clear answers").replace("clear records", "clear answers")
        drawn_from = {one.m.distribution for one in protocol.noise if isinstance(one.m, Fakes)}
        return f"{name} ({' and '.join(sorted(drawn_from))})" if drawn_from else name
    if key == "response" and schema:
        return f"{schema.width}-ary {name}"
    if schema and schema.exclusive:
        # The bit of a clear one-hot record is the record.
        name = name.replace("clear bits", "clear records").replace("flipped bits", "flipped records")
    drawn = protocol.shuffler_fakes or protocol.user_fakes
    details = [f"{name} ({drawn.distribution})" if drawn else name]
    if protocol.k > 1 and key != "copies":
        details.append(f"{protocol.k} copies")
    return ", ".join(details)


def _parts(chosen: Plan | Protocol, schema: Schema | None) -> tuple[Protocol, Schema | None]:
    if isinstance(chosen, Plan):
        return chosen.protocol, chosen.schema
    if not isinstance(chosen, Protocol):
        reject("the first argument", f"be a Plan or a Protocol, not {type(chosen).__name__}")
    return chosen, check_type("schema", schema, Schema) if schema is not None else None
