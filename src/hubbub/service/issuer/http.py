"""The issuer's HTTP interface: ``POST /token-request`` and the issuer directory (RFC 9578)."""

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from hubbub.errors import Problem
from hubbub.service.runtime.http import App, body_of, routed, stored
from hubbub.service.task.tokens import REQUEST_SIZE

if TYPE_CHECKING:
    from hubbub.service.issuer.core import Issuer

REQUEST_TYPE = "application/private-token-request"
RESPONSE_TYPE = "application/private-token-response"
DIRECTORY_TYPE = "application/private-token-issuer-directory"
DIRECTORY_PATH = "/.well-known/private-token-issuer-directory"
_MAX_ACCOUNT = 256


def issuer_app(issuer: "Issuer", account_header: str = "") -> App:
    """Serve token requests.

    The account is the value of ``account_header``, which a trusted front sets, or that of the code in
    ``Authorization: Bearer CODE``.
    """

    def account(request: Request) -> str:
        if account_header:
            values = request.headers.getlist(account_header)
            if len(values) != 1 or not 0 < len(values[0]) <= _MAX_ACCOUNT:
                # Two values would leave it open which of them the front has set.
                raise Problem("unauthorized")
            return values[0]
        scheme, _, code = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Problem("unauthorized")
        return issuer.account_of_code(code.strip())

    async def token_request(request: Request) -> Response:
        if request.headers.get("content-type") != REQUEST_TYPE:
            raise Problem("wrong-media-type", f"the media type must be {REQUEST_TYPE}")
        name = account(request)
        body = await body_of(request, REQUEST_SIZE)
        return Response(await asyncio.to_thread(issuer.issue, name, body), media_type=RESPONSE_TYPE)

    async def directory(request: Request) -> Response:
        return stored(request, issuer.directory(), DIRECTORY_TYPE)

    return routed([("POST", "/token-request", token_request), ("GET", DIRECTORY_PATH, directory)])
