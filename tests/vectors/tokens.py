"""Vectors of tokens under the key of RFC 9578: secrets, request, response and token."""

from tests.vectors.common import Vector
from tests.vectors.contracts import token_key

from hubbub.service.task import blindrsa, tokens
from hubbub.vectors import Counter


def issued() -> list[Vector]:
    """Tokens under the key of RFC 9578: secrets, request, response and token, and responses to refuse."""
    private = token_key()
    key = tokens.encode_token_key(private.public_key())
    numbers = private.private_numbers()
    modulus = numbers.public_numbers.n
    found = []
    for number, (issuer, task) in enumerate([("issuer.example", bytes(16)), ("a", bytes(range(16)))]):
        stream = Counter()
        stream(1000 * number)
        challenged = tokens.challenge(issuer, task)
        pending = tokens.PendingToken.generate(key, entropy=stream)
        request = pending.request(key, challenged)
        blinded = int.from_bytes(tokens.parse_request(request)[1], "big")
        response = pow(blinded, numbers.d, modulus).to_bytes(256, "big")
        token = pending.finalize(key, challenged, response)
        assert blindrsa.verify(private.public_key(), token[:98], token[98:])
        flipped = response[:-1] + bytes([response[-1] ^ 1])
        wrong = {
            "empty": b"",
            "one byte short": response[:-1],
            "one byte long": response + b"\0",
            "one bit flipped": flipped,
            "zero": bytes(256),
            "the modulus": modulus.to_bytes(256, "big"),
            "the request": request[3:],
        }
        found.append(
            {
                "key": key.hex(),
                "issuer": issuer,
                "task": task.hex(),
                "challenge": challenged.hex(),
                "secrets": pending.to_bytes().hex(),
                "request": request.hex(),
                "response": response.hex(),
                "token": token.hex(),
                "spent_id": tokens.spent_id(token).hex(),
                "bad_responses": [
                    {"why": why, "response": data.hex(), "error": "WireError"} for why, data in wrong.items()
                ],
            }
        )
    return found
