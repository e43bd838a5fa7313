"""The vectors of plans, surveys, contracts, key lists, tokens and journals, which every client runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.vectors import services
from tests.vectors.common import FOLDER, NOW
from tests.vectors.contracts import read_as_device
from tests.vectors.keylists import read_keys

from hubbub import errors
from hubbub.errors import HubbubError, NoResponse
from hubbub.model.plans import Plan
from hubbub.pipeline import device
from hubbub.pipeline.device import encode
from hubbub.service.journal import Journal
from hubbub.service.runtime.http import PREFIX
from hubbub.service.task import tokens
from hubbub.service.task.contract import Contract, load_contract
from hubbub.service.task.keylist import ExpiredKeys
from hubbub.service.transport import HttpTransport
from hubbub.service.uploader import Uploader
from hubbub.vectors import Counter
from hubbub.wire import batches, messages

FILES = {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in services.WRITERS}
ERRORS = {**{name: getattr(errors, name) for name in dir(errors)}, "ExpiredKeys": ExpiredKeys}


def named(name: str) -> list[Any]:
    return [pytest.param(one, id=one.get("why") or one.get("name") or one.get("issuer")) for one in FILES[name]]


def check_error(vector: dict[str, Any], read: Any) -> Any:
    """Return what is read, or None if the error of the vector was raised."""
    if vector["error"] is None:
        return read()
    with pytest.raises(ERRORS[vector["error"]]):
        read()
    return None


@pytest.mark.parametrize("name", services.WRITERS)
def test_the_files_are_reproducible(name: str) -> None:
    assert services.WRITERS[name]() == FILES[name]


@pytest.mark.parametrize("name", ["plans", "contracts", "keylists"])
def test_the_files_have_good_and_bad_vectors(name: str) -> None:
    kinds = {vector["error"] is None for vector in FILES[name]}
    assert kinds == {True, False}


@pytest.mark.parametrize("vector", named("plans"))
def test_plans(vector: dict[str, Any]) -> None:
    check_error(vector, lambda: Plan.from_json(vector["plan"]))


@pytest.mark.parametrize("vector", named("answers"))
def test_surveys(vector: dict[str, Any]) -> None:
    plan, entropy = Plan.from_json(vector["plan"]), Counter()
    sent = [device.payloads(value, plan, entropy=entropy) for value in vector["values"]]
    assert plan.id == vector["id"]
    assert [[messages.encode(one, plan).hex() for one in user] for user in sent] == vector["messages"]
    reports = batches.decode(bytes.fromhex(vector["batch"]), plan)
    assert reports.messages.tobytes() == b"".join(one for user in sent for one in user)


@pytest.mark.parametrize("vector", named("contracts"))
def test_contracts(vector: dict[str, Any]) -> None:
    contract = check_error(vector, lambda: read_as_device(vector["contract"]))
    assert (contract and contract.id) == vector["id"]
    if contract is None:
        with pytest.raises(HubbubError):
            load_contract(vector["contract"])


@pytest.mark.parametrize("vector", named("keylists"))
def test_key_lists(vector: dict[str, Any]) -> None:
    assert vector["now"] == NOW + 60
    keys = check_error(vector, lambda: read_keys(vector["keys"]))
    assert (keys and [key.id for key in keys]) == vector["ids"]


@pytest.mark.parametrize("vector", named("tokens"))
def test_tokens(vector: dict[str, Any]) -> None:
    data = {name: bytes.fromhex(vector[name]) for name in ("key", "task", "challenge", "secrets", "response", "token")}
    assert tokens.challenge(vector["issuer"], data["task"]) == data["challenge"]
    pending = tokens.PendingToken.from_bytes(data["secrets"])
    assert pending.request(data["key"], data["challenge"]).hex() == vector["request"]
    assert pending.finalize(data["key"], data["challenge"], data["response"]) == data["token"]
    assert tokens.spent_id(data["token"]).hex() == vector["spent_id"]
    for bad in vector["bad_responses"]:
        with pytest.raises(ERRORS[bad["error"]]):
            pending.finalize(data["key"], data["challenge"], bytes.fromhex(bad["response"]))


class Crash(BaseException):
    """The death of the client."""


class Script:
    """A shuffler that gives the replies of a vector, and writes down the requests and the pauses between them."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.documents = vector["documents"]
        self.replies: Iterator[dict[str, Any]] = iter(vector["replies"])
        self.requests: list[str] = []
        self.bundles: list[bytes] = []
        self.pauses: list[float] = []
        client = httpx.Client(transport=httpx.MockTransport(self.answer))
        self.transport = HttpTransport("https://shuffler.example", client=client)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            self.requests.append("keys")
        else:
            if request.content not in self.bundles:
                self.bundles.append(request.content)
            self.requests.append(f"bundle {self.bundles.index(request.content) + 1}")
        reply = next(self.replies)
        if reply.get("crash"):
            raise Crash
        if reply.get("lost"):
            raise httpx.ReadError("lost")
        if "keys" in reply:
            return httpx.Response(200, text=self.documents[reply["keys"]])
        headers = {"retry-after": str(reply["retry_after"])} if "retry_after" in reply else {}
        if "problem" in reply:
            content = {"type": PREFIX + reply["problem"], "status": reply["status"]}
            return httpx.Response(reply["status"], json=content, headers=headers)
        return httpx.Response(reply["status"], text=reply.get("body", ""), headers=headers)


@pytest.mark.parametrize("vector", named("uploads"))
def test_uploads(vector: dict[str, Any], tmp_path: Path) -> None:
    text = next(one["contract"] for one in FILES["contracts"] if one["why"] == "by ticket")
    contract: Contract = read_as_device(text)
    script = Script(vector)

    def client() -> Uploader:
        journal = Journal(tmp_path / "journal", contract)
        return Uploader(
            contract,
            script.transport,
            journal,
            attempts=vector["attempts"],
            pause=script.pauses.append,
            now=lambda: float(vector["now"]),
        )

    first = client()
    first.prepare([encode("red", contract.plan.schema)], [bytes.fromhex(vector["ticket"])])
    first.journal.close()
    for _ in range(9):
        running = client()
        try:
            running.send()
        except Crash:
            continue
        except NoResponse:
            pass
        finally:
            states = running.journal.states()
            running.journal.close()
        break
    assert script.requests == vector["requests"]
    assert list(script.replies) == []
    assert states == {vector["state"]: 1}
    assert len(script.pauses) == len(vector["pauses"])
    for pause, (low, high) in zip(script.pauses, vector["pauses"], strict=True):
        assert low <= pause <= high
