"""The group P-256 with SHA-256, on ``cryptography`` alone; elements are compressed points, scalars 32 bytes.

OpenSSL multiplies by every secret scalar: a Diffie–Hellman exchange gives the x coordinate of kP, another one that of
(k + 1)P, and both together the y coordinate of kP. Sums, which only proofs need, are sums of public points. The hash to
the curve runs on the person's own device, and the response of a proof is computed in Python integers.
"""

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec

from hubbub.bits.device import take
from hubbub.errors import WireError
from hubbub.oprf.hashing import expand

NAME = "P256-SHA256"
HASH = "sha256"
ELEMENT_SIZE, SCALAR_SIZE = 33, 32
FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
A, B = FIELD - 3, 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
Z = FIELD - 10
"""The constant of the map to the curve (RFC 9380 §8.2)."""
UNIFORM = 48
"""Bytes that are reduced to a field element or a scalar."""
_CURVE = ec.SECP256R1()
Point = tuple[int, int]


def available() -> bool:
    """Return True: ``cryptography`` is always installed."""
    return True


def hash_to_element(message: bytes, tag: bytes) -> bytes:
    """Return the element that a message hashes to."""
    data = expand(message, tag, 2 * UNIFORM, HASH)
    first, second = (int.from_bytes(data[i : i + UNIFORM], "big") % FIELD for i in (0, UNIFORM))
    return _pack(_sum(_map(first), _map(second)))


def hash_to_scalar(message: bytes, tag: bytes) -> bytes:
    """Return the scalar that a message hashes to."""
    return _scalar(int.from_bytes(expand(message, tag, UNIFORM, HASH), "big"))


def random_scalar(entropy: Callable[[int], bytes]) -> bytes:
    """Draw a scalar other than 0, uniform up to 2⁻¹²⁸."""
    while not any(scalar := _scalar(int.from_bytes(take(entropy, UNIFORM), "big"))):
        pass
    return scalar


def check_scalar(scalar: bytes) -> bytes:
    """Return the scalar if it is below the order of the group and not 0."""
    if len(scalar) != SCALAR_SIZE or not 0 < int.from_bytes(scalar, "big") < ORDER:
        raise WireError("a scalar of P-256 must be in [1, order)")
    return scalar


def multiply(scalar: bytes, element: bytes) -> bytes:
    """Return a multiple of an element; raises on bytes that encode no element.

    For P = (x, y) and kP = (u, v): v = (2B + (A + xu)(x + u) − x((k + 1)P)·(x − u)²)/(2y).
    """
    x, y = _unpack(element)
    k = int.from_bytes(scalar, "big")
    other = ec.EllipticCurvePublicNumbers(x, y, _CURVE).public_key()
    try:
        u, w = (
            int.from_bytes(ec.derive_private_key(one, _CURVE).exchange(ec.ECDH(), other), "big") for one in (k, k + 1)
        )
    except ValueError:
        raise WireError("a scalar of P-256 must be in [1, order − 1)") from None
    v = (2 * B + (A + x * u) * (x + u) - w * (x - u) ** 2) * pow(2 * y, -1, FIELD) % FIELD
    return _pack((u, v))


def multiply_base(scalar: bytes) -> bytes:
    """Return a multiple of the generator."""
    numbers = ec.derive_private_key(int.from_bytes(scalar, "big"), _CURVE).public_key().public_numbers()
    return _pack((numbers.x, numbers.y))


def add(one: bytes, two: bytes) -> bytes:
    """Return the sum of two elements."""
    return _pack(_sum(_unpack(one), _unpack(two)))


def invert(scalar: bytes) -> bytes:
    """Return the inverse of a scalar."""
    return _scalar(pow(int.from_bytes(scalar, "big"), -1, ORDER))


def response(nonce: bytes, challenge: bytes, secret: bytes) -> bytes:
    """Return nonce − challenge·secret."""
    r, c, k = (int.from_bytes(one, "big") for one in (nonce, challenge, secret))
    return _scalar(r - c * k)


def _scalar(value: int) -> bytes:
    return (value % ORDER).to_bytes(SCALAR_SIZE, "big")


def _map(u: int) -> Point:
    """Return the point of a field element: simplified SWU (RFC 9380 §6.6.2), with square roots for 3 mod 4."""
    t = Z * u * u % FIELD
    d = (t * t + t) % FIELD
    x = (-B * pow(A, -1, FIELD) * (1 + pow(d, -1, FIELD)) if d else B * pow(Z * A, -1, FIELD)) % FIELD
    y = _root(x)
    if y * y % FIELD != _curve(x):
        x = t * x % FIELD
        y = _root(x)
    return x, FIELD - y if (y ^ u) & 1 else y


def _curve(x: int) -> int:
    return (x * x * x + A * x + B) % FIELD


def _root(x: int) -> int:
    return pow(_curve(x), (FIELD + 1) // 4, FIELD)


def _sum(one: Point, two: Point) -> Point:
    if one[0] == two[0]:
        if (one[1] + two[1]) % FIELD == 0:
            raise WireError("a sum of elements must not be the identity")
        slope = (3 * one[0] * one[0] + A) * pow(2 * one[1], -1, FIELD)
    else:
        slope = (two[1] - one[1]) * pow(two[0] - one[0], -1, FIELD)
    x = (slope * slope - one[0] - two[0]) % FIELD
    return x, (slope * (one[0] - x) - one[1]) % FIELD


def _pack(point: Point) -> bytes:
    return bytes([2 + (point[1] & 1)]) + point[0].to_bytes(32, "big")


def _unpack(element: bytes) -> Point:
    if len(element) != ELEMENT_SIZE or element[0] not in (2, 3):
        raise WireError(f"an element of P-256 must be a compressed point of {ELEMENT_SIZE} bytes")
    try:
        numbers = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, element).public_numbers()
    except ValueError:
        raise WireError("an element of P-256 must be a point of the curve") from None
    return numbers.x, numbers.y
