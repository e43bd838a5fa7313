"""The issuer of tokens: one token per account and task, the same answer for the same request, whatever fails."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.service.admissions import TOKEN_KEY
from tests.service.asgi import Answer, ask
from tests.service.crash import ISSUER_POINTS
from tests.service.live import wait_until
from tests.service.samples import ANALYZER, SHUFFLER, contract
from tests.service.system import System, plan_of
from tests.service.test_uploader import Wire

from hubbub.errors import InvalidInput, NoResponse, Problem, WireError
from hubbub.service import issuer as store_module
from hubbub.service.issuer import (
    DIRECTORY_PATH,
    Issuer,
    IssuerProgram,
    IssuerStore,
    TokenKey,
    add_key,
    issued_tasks,
    issuer_app,
    load_keys,
    load_library,
    read_codes,
)
from hubbub.service.journal import Journal
from hubbub.service.runtime.database import open_database
from hubbub.service.runtime.failpoints import VARIABLE
from hubbub.service.runtime.http import status_of
from hubbub.service.runtime.process import ADDRESSES
from hubbub.service.runtime.settings import Common, IssuerConfig, read_config
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import Contract, SignedContract
from hubbub.service.task.tokens import PendingToken, TokenVerifier, challenge, truncated_key_id
from hubbub.service.transport import HttpIssuer, Response
from hubbub.service.uploader import Uploader

NAME = "issuer.example"
CODES = [f"{number:032x}" for number in range(40)]
AGREED = contract(plan_of(n=400), admission=Admission("token", NAME, TOKEN_KEY.public))
CHALLENGE = challenge(NAME, AGREED.task)


def write_codes(path: Path, codes: list[str]) -> Path:
    path.write_text("".join(f"{code}\n" for code in codes))
    path.chmod(0o600)
    return path


def build(folder: Path, agreed: Contract = AGREED) -> tuple[Issuer, IssuerStore]:
    store = IssuerStore(lambda: open_database(f"sqlite:{folder / 'issuer.db'}"))
    codes = read_codes(write_codes(folder / "codes", CODES))
    return Issuer(store, issued_tasks([agreed], [TOKEN_KEY]), codes), store


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    found, store = build(tmp_path)
    yield found
    store.shut()


def request(pending: PendingToken) -> bytes:
    return pending.request(TOKEN_KEY.public, CHALLENGE)


def test_nothing_is_signed_for_an_account_that_has_its_token(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the issuer signed first, and then looked whether it may: 0.45 ms of its processor each time."""
    account = issuer.account_of_code(CODES[0])
    first = request(PendingToken.generate(TOKEN_KEY.public))
    response = issuer.issue(account, first)
    (task,) = issuer._tasks.values()
    signed: list[bytes] = []
    sign = task.signer.sign

    def counted(blinded: bytes) -> bytes:
        signed.append(blinded)
        return sign(blinded)

    monkeypatch.setattr(task.signer, "sign", counted)
    for _ in range(3):
        with pytest.raises(Problem, match="already-issued"):
            issuer.issue(account, request(PendingToken.generate(TOKEN_KEY.public)))
    assert not signed
    assert issuer.issue(account, first) == response
    assert len(signed) == 1


def test_an_account_gets_one_token_for_each_task(issuer: Issuer) -> None:
    account = issuer.account_of_code(CODES[0])
    first, second = PendingToken.generate(TOKEN_KEY.public), PendingToken.generate(TOKEN_KEY.public)
    response = issuer.issue(account, request(first))
    token = first.finalize(TOKEN_KEY.public, CHALLENGE, response)
    assert TokenVerifier(TOKEN_KEY.public, CHALLENGE).valid(token)
    assert issuer.issue(account, request(first)) == response
    with pytest.raises(Problem, match="already-issued"):
        issuer.issue(account, request(second))
    assert issuer.issue(account, request(first)) == response
    issuer.issue(issuer.account_of_code(CODES[1]), request(second))


def test_what_was_issued_survives_a_restart(tmp_path: Path) -> None:
    pending, account = PendingToken.generate(TOKEN_KEY.public), "ada"
    first, store = build(tmp_path)
    response = first.issue(account, request(pending))
    store.shut()
    second, store = build(tmp_path)
    assert second.issue(account, request(pending)) == response
    with pytest.raises(Problem, match="already-issued"):
        second.issue(account, request(PendingToken.generate(TOKEN_KEY.public)))
    assert store.issued() == 1
    store.shut()


@pytest.mark.parametrize("point", ["issue-recorded", "issue-committed"])
def test_a_death_gives_no_second_token_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Killed(BaseException):
        pass

    def reach(name: str) -> None:
        if name == point:
            raise Killed

    pending = PendingToken.generate(TOKEN_KEY.public)
    found, store = build(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "reach", reach)
        with pytest.raises(Killed):
            found.issue("ada", request(pending))
    store.shut()
    found, store = build(tmp_path)
    token = pending.finalize(TOKEN_KEY.public, CHALLENGE, found.issue("ada", request(pending)))
    assert TokenVerifier(TOKEN_KEY.public, CHALLENGE).valid(token)
    with pytest.raises(Problem, match="already-issued"):
        found.issue("ada", request(PendingToken.generate(TOKEN_KEY.public)))
    store.shut()


def test_a_request_that_cannot_be_signed_uses_nothing_up(issuer: Issuer) -> None:
    good = request(PendingToken.generate(TOKEN_KEY.public))
    wrong = {
        b"": "malformed",
        good[:-1]: "malformed",
        good + b"\0": "malformed",
        b"\0\1" + good[2:]: "malformed",
        good[:2] + bytes([good[2] ^ 1]) + good[3:]: "unknown-issuer-key",
        good[:3] + bytes(256): "malformed",
        good[:3] + b"\xff" * 256: "malformed",
    }
    for body, name in wrong.items():
        with pytest.raises(Problem) as caught:
            issuer.issue("ada", body)
        assert caught.value.name == name
    assert len(issuer.issue("ada", good)) == 256


def test_codes_are_secret_long_and_distinct(tmp_path: Path, issuer: Issuer) -> None:
    for code in ("", "0", CODES[0][:-1], CODES[0] + " ", CODES[0].upper() + "x"):
        with pytest.raises(Problem, match="unauthorized"):
            issuer.account_of_code(code)
    path = tmp_path / "codes"
    for codes, message in (
        ([CODES[0], CODES[0]], "twice"), (["short"], "code 1 must have 16"), ([CODES[0], "a b" * 9], "code 2"),
    ):  # fmt: skip
        with pytest.raises(WireError, match=message) as caught:
            read_codes(write_codes(path, codes))
        assert CODES[0] not in str(caught.value)
    path.write_bytes(b"\xff" * 32)
    with pytest.raises(WireError, match="ASCII"):
        read_codes(path)
    path.chmod(0o640)
    with pytest.raises(InvalidInput, match="owner only"):
        read_codes(path)


def test_every_contract_has_a_key_of_its_own() -> None:
    twice = replace(AGREED, task_end=AGREED.task_end + 1)
    with pytest.raises(InvalidInput, match="must not share a key"):
        issued_tasks([AGREED, twice], [TOKEN_KEY])
    for agreed, keys in ((AGREED, []), (contract(plan_of(n=400)), [TOKEN_KEY])):
        with pytest.raises(InvalidInput, match="one of the keys"):
            issued_tasks([agreed], keys)
    assert issued_tasks([AGREED, AGREED], [TOKEN_KEY]).keys() == {truncated_key_id(TOKEN_KEY.public)}


def test_keys_are_files_of_their_owner_with_distinct_names(tmp_path: Path) -> None:
    keys = [add_key(tmp_path / "keys") for _ in range(3)]
    assert len({truncated_key_id(key.public) for key in keys}) == 3
    assert {key.public for key in load_keys(tmp_path / "keys")} == {key.public for key in keys}
    paths = sorted((tmp_path / "keys").iterdir())
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    paths[0].write_bytes(b"-----BEGIN PRIVATE KEY-----\nxx\n-----END PRIVATE KEY-----\n")
    with pytest.raises(WireError, match="private RSA key"):
        TokenKey.load(paths[0])


def test_the_issuer_does_not_run_without_openssl() -> None:
    """Python's integers would reveal the key through their running time, so there is no fallback."""
    with pytest.raises(InvalidInput, match="libcrypto of OpenSSL 3"):
        load_library(lambda: iter([None, "nonesuch.so", "libm.so.6"]))


# over HTTP


def call(issuer: Issuer, body: bytes, headers: Mapping[str, str], *, header: str = "", method: str = "POST") -> Answer:
    answer = asyncio.run(
        ask(issuer_app(issuer, header), method, "/token-request", body, {"content-length": str(len(body)), **headers})
    )
    assert answer is not None
    return answer


MEDIA = {"content-type": "application/private-token-request"}


def test_requests_over_http(issuer: Issuer) -> None:
    body = request(PendingToken.generate(TOKEN_KEY.public))
    bearer = {"authorization": f"Bearer {CODES[3]}"}
    answer = call(issuer, body, {**MEDIA, **bearer})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/private-token-response")
    assert call(issuer, body, {**MEDIA, **bearer}).body == answer.body
    other = request(PendingToken.generate(TOKEN_KEY.public))
    assert call(issuer, other, {**MEDIA, **bearer}).status == 409
    assert call(issuer, body, MEDIA).status == 401
    assert call(issuer, body, {**MEDIA, "authorization": "Bearer x"}).status == 401
    assert call(issuer, body, {**MEDIA, "authorization": f"Basic {CODES[3]}"}).status == 401
    assert call(issuer, body, bearer).status == 415
    assert call(issuer, body + b"\0", {**MEDIA, **bearer}).status == 413
    assert call(issuer, body[:-1], {**MEDIA, **bearer}).status == 400
    assert call(issuer, b"", {}, method="GET").status == 405
    # The header of a front means nothing to an issuer that knows codes.
    assert call(issuer, body, {**MEDIA, "x-account": "ada"}).status == 401


def test_accounts_named_by_a_front(issuer: Issuer) -> None:
    first, second = (request(PendingToken.generate(TOKEN_KEY.public)) for _ in range(2))
    assert call(issuer, first, {**MEDIA, "x-account": "ada"}, header="X-Account").status == 200
    assert call(issuer, second, {**MEDIA, "x-account": "ada"}, header="X-Account").status == 409
    assert call(issuer, second, {**MEDIA, "x-account": "bob"}, header="X-Account").status == 200
    for refused in ({}, {"x-account": ""}, {"x-account": "a" * 257}, {"authorization": f"Bearer {CODES[0]}"}):
        assert call(issuer, second, {**MEDIA, **refused}, header="X-Account").status == 401


def test_the_directory_lists_the_keys(issuer: Issuer) -> None:
    answer = asyncio.run(ask(issuer_app(issuer), "GET", DIRECTORY_PATH))
    assert answer is not None
    found = json.loads(answer.body)
    assert found["issuer-request-uri"] == "/token-request"
    assert [base64.urlsafe_b64decode(key["token-key"]) for key in found["token-keys"]] == [TOKEN_KEY.public]


# settings


def test_settings_are_checked(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    for text, message in (
        ("", "either codes or account_header"),
        ('codes = "codes"\naccount_header = "x-account"\n', "either codes or account_header"),
        ('account_header = "x-account"\nlisten = "0.0.0.0:1"\n', "open address without TLS"),
        (
            'account_header = "x"\nlisten = "0.0.0.0:1"\ncertificate = "a"\ncertificate_key = "b"\n',
            "trusts everyone who can reach listen",
        ),
    ):
        settings.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_config(settings, IssuerConfig)
    settings.write_text('codes = "codes"\n')
    config = read_config(settings, IssuerConfig)
    assert (config.codes, config.token_keys) == (tmp_path / "codes", tmp_path / "token-keys")


def test_a_program_without_contracts_is_not_ready(tmp_path: Path) -> None:
    codes = write_codes(tmp_path / "codes", CODES)
    config = IssuerConfig(common=Common(folder=tmp_path), codes=codes, token_keys=tmp_path / "token-keys")
    program = IssuerProgram(config)
    assert [one.name for one in program.listeners()] == ["tokens", "operations"]
    assert program.loops() == []
    assert not program.ready()
    program.drain()
    program.close()


# as a process


@contextlib.contextmanager
def running(folder: Path, failpoint: str = "") -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Run the issuer of a folder, armed with a failpoint if one is named, and return its process and its URL."""
    (folder / ADDRESSES).unlink(missing_ok=True)
    command = [sys.executable, "-m", "hubbub.service", "issuer", str(folder / "settings.toml")]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE} | {VARIABLE: failpoint}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until((folder / ADDRESSES).exists, "the issuer")
            yield process, json.loads((folder / ADDRESSES).read_text())["tokens"]
        finally:
            process.kill()


@pytest.mark.parametrize("point", [pytest.param(ISSUER_POINTS[0], marks=pytest.mark.slow), *ISSUER_POINTS[1:]])
def test_a_killed_issuer_answers_the_same_request_and_no_other(tmp_path: Path, point: str) -> None:
    (tmp_path / "contract.json").write_bytes(SignedContract.sign(AGREED, ANALYZER, SHUFFLER).to_json())
    (tmp_path / "token-keys").mkdir()
    TOKEN_KEY.save(tmp_path / "token-keys" / "00.pem")
    write_codes(tmp_path / "codes", CODES)
    settings = 'contracts = ["contract.json"]\ncodes = "codes"\nlisten = "127.0.0.1:0"\n'
    (tmp_path / "settings.toml").write_text(settings)
    first, second = PendingToken.generate(TOKEN_KEY.public), PendingToken.generate(TOKEN_KEY.public)
    with running(tmp_path, point) as (process, url):
        with contextlib.closing(HttpIssuer(url)) as desk, pytest.raises(NoResponse):
            desk.request(request(first), CODES[0])
        assert process.wait(600) == -signal.SIGKILL
    with running(tmp_path) as (process, url), contextlib.closing(HttpIssuer(url)) as desk:
        response = desk.request(request(first), CODES[0])
        assert TokenVerifier(TOKEN_KEY.public, CHALLENGE).valid(
            first.finalize(TOKEN_KEY.public, CHALLENGE, response.body)
        )
        refused = desk.request(request(second), CODES[0])
        assert (refused.status, refused.problem) == (409, "already-issued")
        assert desk.request(request(first), CODES[0]) == response
        assert desk.request(request(second), "x" * 32).problem == "unauthorized"
        process.terminate()
        assert process.wait(600) == 0


def test_an_address_of_an_issuer_is_a_url() -> None:
    for wrong in ("ftp://x", "issuer.example", ""):
        with pytest.raises(InvalidInput, match="the issuer's address"):
            HttpIssuer(wrong)
    with contextlib.closing(HttpIssuer("http://127.0.0.1:9")) as desk, pytest.raises(NoResponse, match="the issuer"):
        desk.request(b"", "x")


@pytest.mark.parametrize("status", [200, 404, 302])
def test_a_page_of_another_network_is_no_response(status: int) -> None:
    """Regression: the page of a captive portal was taken for a token, or settled the answer as refused."""
    portal = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(status, text="<html>sign in")))
    with contextlib.closing(HttpIssuer("https://issuer.example", client=portal)) as desk:
        try:
            assert not desk.request(b"", "x").refused
        except NoResponse:
            assert status == 200


# the uploader


class Desk:
    """A connection to an issuer in this process that fails before or after the answer, as told."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.faults: Iterator[str] = iter(())
        self.requests: list[tuple[str, bytes]] = []

    def request(self, body: bytes, code: str) -> Response:
        fault = next(self.faults, "")
        if fault == "before":
            raise NoResponse("cut")
        self.requests.append((code, body))
        try:
            response = Response(200, body=self.issuer.issue(self.issuer.account_of_code(code), body))
        except Problem as problem:
            response = Response(status_of(problem), problem.name)
        if fault == "after":
            raise NoResponse("cut")
        if fault == "crash":
            raise KeyboardInterrupt
        return response


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, admission=Admission("token", NAME, TOKEN_KEY.public))
    yield found
    found.shut()


def sender(system: System, desk: Desk | None, path: Path) -> Uploader:
    journal = Journal(path, system.contract)
    now = system.clock.now
    return Uploader(system.contract, Wire(system), journal, pause=lambda _: None, per_request=7, issuer=desk, now=now)


def stored(system: System) -> int:
    return system.shuffler.totals(check=True)[system.contract.id].accepted


def test_tokens_are_fetched_and_spent_once_whatever_fails(system: System, tmp_path: Path) -> None:
    issuer, store = build(tmp_path, system.contract)
    desk = Desk(issuer)
    desk.faults = iter(["before", "after", "", "after", "after", "before", "", "crash"])
    first = sender(system, desk, tmp_path / "journal")
    first.prepare([1] * 20, codes=CODES[:20])
    with pytest.raises(KeyboardInterrupt):
        first.send()
    first.journal.close()
    assert stored(system) == 0
    second = sender(system, desk, tmp_path / "journal")
    assert second.send().stored == 20
    assert stored(system) == 20
    # A repeated request has the same bytes: otherwise the issuer would have refused it.
    assert len(set(desk.requests)) == len({code for code, _ in desk.requests}) == 20 == store.issued()
    assert len(desk.requests) > 20
    store.shut()


def test_a_second_answer_of_an_account_is_refused(system: System, tmp_path: Path) -> None:
    issuer, store = build(tmp_path, system.contract)
    first = sender(system, Desk(issuer), tmp_path / "first")
    first.prepare([1] * 3, codes=CODES[:3])
    first.send()
    second = sender(system, Desk(issuer), tmp_path / "second")
    second.prepare([1] * 3, codes=[*CODES[1:3], "x" * 32])
    assert second.send().refused == {"already-issued": 2, "unauthorized": 1}
    assert stored(system) == 3
    store.shut()


def test_a_token_is_sealed_again_after_a_key_rotation(system: System, tmp_path: Path) -> None:
    issuer, store = build(tmp_path, system.contract)
    one = sender(system, Desk(issuer), tmp_path / "journal")
    one.prepare([1] * 5, codes=CODES[:5])
    one.fetch_tokens()
    one.seal_answers()
    tokens = {one.journal.read(number).admission for number, _ in one.journal.waiting(10)}
    system.shuffler.keyring.rotate()
    system.clock.advance(2 * 10**5)
    system.shuffler.keyring.advance()
    system.shuffler.fetch_keys(system.link)
    result = one.send()
    assert (result.stored, result.refused) == (5, {})
    assert len(tokens) == 5 == store.issued()
    store.shut()


def test_the_journal_forgets_secrets_that_it_no_longer_needs(system: System, tmp_path: Path) -> None:
    issuer, store = build(tmp_path, system.contract)
    one = sender(system, Desk(issuer), tmp_path / "journal")
    one.prepare([1] * 3, codes=CODES[:3])
    secrets = [pending for _, pending, _ in one.journal.requests(10)]
    one.fetch_tokens()
    one.seal_answers()
    tokens = [one.journal.read(number).admission for number, _ in one.journal.waiting(10)]
    one.send()
    one.journal.close()
    data = (tmp_path / "journal").read_bytes()
    for gone in (*(code.encode() for code in CODES[:3]), *secrets, *tokens):
        assert gone[:32] not in data
    store.shut()


def test_answers_and_admissions_must_match(system: System, tmp_path: Path) -> None:
    issuer, store = build(tmp_path, system.contract)
    one = sender(system, Desk(issuer), tmp_path / "journal")
    for records, codes, message in ((3, 2, "end before answer 3"), (2, 3, "more than 2")):
        with pytest.raises(InvalidInput, match=f"one code for each answer.*{message}"):
            one.prepare([1] * records, codes=CODES[:codes])
    with pytest.raises(InvalidInput, match="each answer needs a token"):
        one.prepare([1])
    with pytest.raises(InvalidInput, match="354 bytes"):
        one.prepare([1], [bytes(32)])
    assert len(one.journal) == 0
    without = sender(system, None, tmp_path / "other")
    with pytest.raises(InvalidInput, match="address of its issuer"):
        without.prepare([1], codes=CODES[:1])
    one.prepare([1], codes=CODES[:1])
    one.journal.close()
    with pytest.raises(InvalidInput, match="name the issuer"):
        sender(system, None, tmp_path / "journal").send()
    store.shut()
