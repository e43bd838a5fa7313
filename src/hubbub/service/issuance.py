"""The client of an issuer of tokens: ``hubbub serve issuer``, or any issuer of Privacy Pass tokens of type 2."""

import httpx

from hubbub.errors import NoResponse
from hubbub.service.task.tokens import RESPONSE_SIZE
from hubbub.service.transport import Response, bounded, no_response, read_problem, service_url

REQUEST_TYPE = "application/private-token-request"


class HttpIssuer:
    """An issuer behind a URL."""

    def __init__(self, url: str, *, timeout: float = 30.0, client: httpx.Client | None = None) -> None:
        self._url = service_url("the issuer's address", url)
        # A new connection per request would be slower and hide nothing: the issuer knows the accounts.
        self._client = client or httpx.Client(timeout=timeout, headers={"user-agent": ""}, trust_env=False)

    def request(self, body: bytes, code: str) -> Response:
        """Send a TokenRequest for the account with this code."""
        headers = {"content-type": REQUEST_TYPE, "authorization": f"Bearer {code}"}
        with no_response("the issuer"):
            response = bounded(self._client, "POST", f"{self._url}/token-request", content=body, headers=headers)
        if response.status_code == 200 and len(response.content) != RESPONSE_SIZE:
            raise NoResponse("no response from the issuer: it must be a signature")
        return Response(200, body=response.content) if response.status_code == 200 else read_problem(response)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
