"""The verifiable oblivious pseudorandom function of RFC 9497 §3.3.2: blind, evaluate with a proof, finalize.

A client blinds a message, whoever holds the key evaluates the blinded element and proves that it used the key that it
has published, and the client computes the output. The blinded element is uniform, whatever the message is, and without
the key nobody can compute an output.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType

from hubbub.errors import WireError, check_choice, check_type, check_whole, reject
from hubbub.oprf import p256, ristretto

MODE = 1
MAX_BATCH = 2**16 - 1
MAX_MESSAGE = 2**16 - 1
Source = Callable[[int], bytes]
SUITES = MappingProxyType({one.NAME: one for one in (ristretto, p256)})
"""The groups by the names of their suites, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluated elements of a batch, and one proof that the published key made all of them."""

    elements: tuple[bytes, ...]
    proof: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.elements, tuple) or not all(isinstance(one, bytes) for one in self.elements):
            reject("elements", "be a tuple of encoded elements")
        check_type("proof", self.proof, bytes)


@dataclass(frozen=True, slots=True)
class Blinded:
    """A message, the scalar that blinds it, and the blinded element, which is all that is sent."""

    suite: str
    message: bytes = field(repr=False)
    scalar: bytes = field(repr=False)
    element: bytes = field(init=False)

    def __post_init__(self) -> None:
        group = suite_named(self.suite)
        _check_message(self.message)
        scalar = group.check_scalar(check_type("scalar", self.scalar, bytes))
        object.__setattr__(self, "element", group.multiply(scalar, _hash(group, self.message)))


@dataclass(frozen=True, slots=True)
class Key:
    """A private key with the public key that its proofs are verified against."""

    suite: str
    secret: bytes = field(repr=False)
    public: bytes = field(init=False)

    def __post_init__(self) -> None:
        group = suite_named(self.suite)
        object.__setattr__(
            self, "public", group.multiply_base(group.check_scalar(check_type("secret", self.secret, bytes)))
        )

    @classmethod
    def derive(cls, suite: str, seed: bytes, info: bytes) -> "Key":
        """Return the key of a seed for a purpose: DeriveKeyPair (§3.2.1).

        >>> Key.derive("P256-SHA256", b"\\xa3" * 32, b"test key").public.hex()
        '03e17e70604bcabe198882c0a1f27a92441e774224ed9c702e51dd17038b102462'
        """
        group = suite_named(suite)
        if not isinstance(seed, bytes) or len(seed) != 32:
            reject("seed", "have 32 bytes")
        check_type("info", info, bytes)
        for counter in range(256):
            scalar: bytes = group.hash_to_scalar(
                seed + _framed(info) + bytes([counter]), b"DeriveKeyPair" + _context(group)
            )
            if any(scalar):
                return cls(suite, scalar)
        raise WireError("the seed must give a key")

    def evaluate(self, elements: Sequence[bytes], *, entropy: Source = os.urandom) -> Evaluation:
        """Return the evaluation of blinded elements, with one proof for all of them: BlindEvaluate."""
        group = suite_named(self.suite)
        blinded = _check_batch(elements)
        evaluated = tuple(group.multiply(self.secret, one) for one in blinded)
        m, _ = _composites(group, self.public, blinded, evaluated, both=False)
        z = group.multiply(self.secret, m)
        nonce = group.random_scalar(entropy)
        challenge = _challenge(group, self.public, m, z, group.multiply_base(nonce), group.multiply(nonce, m))
        return Evaluation(evaluated, challenge + group.response(nonce, challenge, self.secret))

    def output(self, message: bytes) -> bytes:
        """Return the output for a message that is known: Evaluate, the same bytes that a client computes."""
        group = suite_named(self.suite)
        return _output(group, _check_message(message), group.multiply(self.secret, _hash(group, message)))


def blind(suite: str, message: bytes, *, entropy: Source = os.urandom) -> Blinded:
    """Return a message with a fresh blind.

    >>> key = Key.derive("P256-SHA256", bytes(32), b"")
    >>> one = blind("P256-SHA256", b"crash")
    >>> finalize([one], key.evaluate([one.element]), key.public) == [key.output(b"crash")]
    True
    """
    return Blinded(suite, message, suite_named(suite).random_scalar(entropy))


def finalize(blinded: Sequence[Blinded], evaluation: Evaluation, public: bytes) -> list[bytes]:
    """Return the outputs of a batch; raise :class:`WireError` unless the key of ``public`` made the evaluation."""
    if not blinded or not all(isinstance(one, Blinded) and one.suite == blinded[0].suite for one in blinded):
        reject("blinded", "be a list of messages blinded for one suite")
    check_type("evaluation", evaluation, Evaluation)
    check_type("public", public, bytes)
    group = suite_named(blinded[0].suite)
    if len(evaluation.elements) != len(blinded):
        raise WireError(f"the evaluation must have {len(blinded):,} elements, got {len(evaluation.elements):,}")
    _verify(group, public, [one.element for one in blinded], evaluation)
    return [
        _output(group, one.message, group.multiply(group.invert(one.scalar), element))
        for one, element in zip(blinded, evaluation.elements, strict=True)
    ]


def check_elements(suite: str, elements: Sequence[bytes]) -> None:
    """Raise unless all bytes encode elements of the group other than the identity; cheaper than an evaluation."""
    group = suite_named(suite)
    for one in _check_batch(elements):
        if not any(one):
            raise WireError("an element must not be the identity")
        group.add(one, one)


def suite_named(name: str) -> ModuleType:
    """Return the group of a suite."""
    return SUITES[check_choice("suite", name, tuple(SUITES))]


def _verify(group: ModuleType, public: bytes, blinded: Sequence[bytes], evaluation: Evaluation) -> None:
    """Raise unless the proof holds: c = H(public, M, Z, sG + cP, sM + cZ) (§2.2.2)."""
    wrong = WireError("the proof of the evaluation must be valid for the published key")
    challenge, answer = evaluation.proof[: group.SCALAR_SIZE], evaluation.proof[group.SCALAR_SIZE :]
    try:
        group.check_scalar(answer)
        m, z = _composites(group, public, blinded, evaluation.elements)
        t2 = group.add(group.multiply_base(answer), group.multiply(challenge, public))
        t3 = group.add(group.multiply(answer, m), group.multiply(challenge, z))
        expected = _challenge(group, public, m, z, t2, t3)
    except WireError:
        raise wrong from None
    if not hmac.compare_digest(expected, challenge):
        raise wrong


def _composites(
    group: ModuleType, public: bytes, blinded: Sequence[bytes], evaluated: Sequence[bytes], *, both: bool = True
) -> tuple[bytes, bytes]:
    """Return the weighted sums of the blinded and of the evaluated elements: ComputeComposites.

    Whoever holds the key needs only the first, of which the second is a multiple, and leaves out the second.
    """
    context = _context(group)
    seed = hashlib.new(group.HASH, _framed(public, b"Seed-" + context)).digest()
    sums: list[bytes] = []
    for index, pair in enumerate(zip(blinded, evaluated, strict=True)):
        transcript = _framed(seed) + index.to_bytes(2, "big") + _framed(*pair) + b"Composite"
        weight = group.hash_to_scalar(transcript, b"HashToScalar-" + context)
        terms = [group.multiply(weight, one) for one in (pair if both else pair[:1])]
        sums = [group.add(total, term) for total, term in zip(sums, terms, strict=True)] if sums else terms
    return sums[0], sums[-1]


def _challenge(group: ModuleType, *elements: bytes) -> bytes:
    challenge: bytes = group.hash_to_scalar(_framed(*elements) + b"Challenge", b"HashToScalar-" + _context(group))
    return challenge


def _output(group: ModuleType, message: bytes, element: bytes) -> bytes:
    return hashlib.new(group.HASH, _framed(message, element) + b"Finalize").digest()


def _hash(group: ModuleType, message: bytes) -> bytes:
    element: bytes = group.hash_to_element(message, b"HashToGroup-" + _context(group))
    return element


def _context(group: ModuleType) -> bytes:
    return b"OPRFV1-" + bytes([MODE]) + b"-" + str(group.NAME).encode()


def _framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def _check_message(message: bytes) -> bytes:
    check_type("message", message, bytes)
    check_whole("the length of the message", len(message), 0, MAX_MESSAGE)
    return message


def _check_batch(elements: Sequence[bytes]) -> list[bytes]:
    if isinstance(elements, str | bytes) or not all(isinstance(one, bytes) for one in elements):
        reject("elements", "be a list of encoded elements")
    check_whole("the number of elements", len(elements), 1, MAX_BATCH)
    return list(elements)
