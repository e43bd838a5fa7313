"""Requests with one defect each, and the status that each must get."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.service.system import Client

from hubbub.documents import canonical
from hubbub.service.analyzer.http import MAX_MANIFEST_SIZE
from hubbub.service.task.contract import Contract
from hubbub.service.task.identity import Identity, SignedDocument, document_format
from hubbub.service.task.manifest import CHUNK_SIZE, batch_id

BATCH = "ab" * 16
MEDIA_TYPE = "application/hubbub-bundle"


@dataclass
class World:
    """Everything an attacker may know about a system, and more."""

    contract: Contract
    later: Contract
    """A contract that starts in the future."""
    identities: Mapping[str, Identity]
    client: Client
    tokens: Mapping[str, str]
    """``all`` reads every task, ``other`` only another task."""

    @property
    def batch(self) -> str:
        return batch_id(self.contract.task, 1)

    @property
    def bundle(self) -> bytes:
        return self.client.seal("0")

    def manifest(self, who: str = "shuffler", kind: str = "manifest", **changes: Any) -> bytes:
        body: dict[str, Any] = {
            "format": document_format("manifest"),
            "batch": self.batch,
            "task": self.contract.id,
            "bucket": 1,
            "epoch": self.contract.task_start,
            "round": 1,
            "key_id": 1,
            "key_list": "00" * 32,
            "bundles": self.contract.min_batch_size,
            "slots": self.contract.min_batch_size * self.contract.slots,
            "chunks": ["00" * 32],
            "gaps": [],
        }
        body |= changes
        slots = body["slots"] if isinstance(body["slots"], int) else 0
        body = {"sizes": [slots] if body["chunks"] else [], **body}
        body = {name: value for name, value in body.items() if value is not ...}
        return SignedDocument.sign(self.identities[who], kind, body).to_json()


T = TypeVar("T")
Body = Callable[[World], bytes]


@dataclass(frozen=True)
class Case:
    """One request."""

    name: str
    app: str
    """``uploads``, ``delivery`` or ``results``."""
    method: str
    path: str
    """The path; ``{task}`` stands for the contract's task."""
    status: int
    body: Body = field(default=lambda world: b"")
    headers: Mapping[str, str] = field(default_factory=dict)
    length: str | None = ""
    """The Content-Length header: that of the body if empty, omitted if None."""

    def __str__(self) -> str:
        return self.name

    def fields(self, world: World, body: bytes) -> dict[str, str]:
        """Return the headers of the request."""
        told = {name: value.format(**world.tokens) for name, value in self.headers.items()}
        if self.length == "" and self.method not in ("GET", "HEAD"):
            told["content-length"] = str(len(body))
        elif self.length:
            told["content-length"] = self.length
        return told


def given(value: T, make: Callable[[World, T], bytes]) -> Body:
    """Return a body made from a value."""
    return lambda world: make(world, value)


def post(
    name: str,
    status: int,
    body: Body = lambda world: world.bundle,
    *,
    path: str = "/v1/tasks/{task}/bundles",
    kind: str | None = MEDIA_TYPE,
    method: str = "POST",
    length: str | None = "",
    **headers: str,
) -> Case:
    told = ({} if kind is None else {"content-type": kind}) | {k.replace("_", "-"): v for k, v in headers.items()}
    return Case(f"upload: {name}", "uploads", method, path, status, body, told, length)


def changed(place: int, value: int | None = None, flip: int = 1) -> Body:
    """Return a bundle with one byte changed."""

    def make(world: World) -> bytes:
        body = bytearray(world.bundle)
        body[place] = body[place] ^ flip if value is None else value
        return bytes(body)

    return make


def uploads() -> Iterator[Case]:
    yield post("good", 201)
    yield post("two", 201, lambda w: w.bundle + w.bundle)
    yield post("twice the same", 201, lambda w: w.bundle * 2)
    for cut in (1, 2, 16, 80, 133, 156):
        # Without the 16 bytes of its id, a bundle has the length of version 2, which had none.
        yield post(f"cut by {cut}", 503 if cut == 16 else 400, given(cut, lambda w, cut: w.bundle[:-cut]))
    for more in (1, 16, 156, 158):
        yield post(f"longer by {more}", 400, given(more, lambda w, more: w.bundle + bytes(more)))
    yield post("empty", 400, lambda w: b"")
    yield post("257 bundles", 413, lambda w: w.bundle * 257)
    yield post("one byte over a MiB", 413, lambda w: bytes((1 << 20) + 1))
    for length in ("-1", "+157", "1e3", "0x9d", " 157", "157 ", "157, 157", "157.0", "", "9" * 16, "9" * 400, "\u0661"):
        if length:
            yield post(f"content-length {length[:20]!r} ({len(length)})", 400, length=length)
    yield post("no content-length", 400, length=None)
    yield post("less than announced", 400, length="314")
    yield post("more than announced", 400, lambda w: w.bundle * 2, length="157")
    yield post("announced nothing", 400, length="0")
    yield post("announced too much", 413, length=str(10**9))


def bundles() -> Iterator[Case]:
    for place, value in ((0, 0), (0, 0x68), (1, 0), (1, 0x62), (2, 2), (2, 0x62)):
        yield post(f"magic {place} {value}", 400, changed(place, value))
    for version in (0, 2, 0x31, 255):
        yield post(f"version {version}", 503, changed(3, version))
    for suite in (0, 2, 3, 255):
        yield post(f"suite {suite}", 400, changed(4, suite))
    for key in (0, 2, 255, 65535):
        yield post(f"key {key}", 409, given(key, lambda w, key: w.bundle[:6] + key.to_bytes(2, "big") + w.bundle[8:]))
    for reserved in (1, 2, 128, 255):
        yield post(f"reserved {reserved}", 400, changed(5, reserved))
    for place in range(8, 24, 3):
        yield post(f"task byte {place}", 400, changed(place))
    for place in (24, 31, 40, 54):
        yield post(f"enc byte {place}", 400, changed(place))
    yield post("enc of zeros", 400, lambda w: (b := w.bundle)[:24] + bytes(32) + b[56:])
    yield post("enc of low order", 400, lambda w: (b := w.bundle)[:24] + bytes([1]) + bytes(31) + b[56:])
    for place in (56, 90, 140, 141, 156):
        yield post(f"sealed byte {place}", 400, changed(place))
    yield post("zeros", 400, lambda w: bytes(157))
    yield post("ones", 400, lambda w: b"\xff" * 157)
    yield post("text", 400, lambda w: b"a" * 157)
    yield post("the second of two broken", 400, lambda w: w.bundle + changed(100)(w))
    yield post("the first of two broken", 400, lambda w: changed(0, 0)(w) + w.bundle)
    yield post("the last of nine broken", 400, lambda w: w.bundle * 8 + changed(156)(w))
    yield post("a key of the second unknown", 409, lambda w: w.bundle + changed(7, 9)(w))
    yield post("slots of an unknown key", 409, lambda w: w.client.bundle([bytes([0, 9]) + bytes(51)]))
    yield post("slots of garbage", 201, lambda w: w.client.bundle([bytes([0, 1]) + bytes(51)]))
    yield post("a bundle for another task", 400, later)
    yield post("a task that is not open yet", 503, later, path="/v1/tasks/{later}/bundles")


def requests() -> Iterator[Case]:
    kinds = (
        None, "", "text/plain", "application/json", "application/octet-stream", "*/*", "application/hubbub",
        MEDIA_TYPE + "; charset=utf-8", MEDIA_TYPE.upper(), f"{MEDIA_TYPE}, text/plain", f" {MEDIA_TYPE}",
        "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/hubbub-bundle\u00e9",
    )  # fmt: skip
    for kind in kinds:
        yield post(f"media type {kind!r}", 415, kind=kind)
    for coding in ("gzip", "deflate", "br", "zstd", "identity", "x", ""):
        yield post(f"content-encoding {coding!r}", 415, content_encoding=coding)
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PURGE", "MKCOL"):
        yield post(f"method {method}", 405, method=method)
    tasks = (
        "00" * 16, "{task}0", "{task}00", "{upper}", "", "x", "..", "{task}/..", "{task}%00", "{task}\0", " {task}",
        "{task} ", "{task}/bundles", "é" * 16, "\u0660" * 32, "-" * 32, "0x" + "0" * 30, "a" * 5000, "{task}\n", "*",
        "{task};a=b", "{task}.json", "' OR 1=1 --", "\ud7ff",
    )  # fmt: skip
    for task in tasks:
        yield post(f"task {task[:40]!r}", 404, path=f"/v1/tasks/{task}/bundles")
    yield post("a query before the end of the path", 405, path="/v1/tasks/{task}?/bundles")
    for path in (
        "/v1/tasks/{task}/bundles/",
        "/v1/tasks/{task}//bundles/x",
        "//v1/tasks/{task}/bundle",
        "/",
        "",
        "/v1",
    ):
        yield post(f"path {path!r}", 404, path=path)
    for path in ("/v1/tasks/{task}", "/v1/tasks/{task}/keys"):
        for method in ("POST", "PUT", "DELETE"):
            yield post(f"{method} {path}", 405, path=path, method=method)
    for path in (
        "/v1/tasks/{upper}",
        "/v1/tasks/x/keys",
        "/v1/tasks",
        "/v2/tasks/{task}",
        "/metrics",
        "/livez",
        "/status",
    ):
        yield post(f"GET {path}", 404, lambda w: b"", path=path, method="GET", kind=None)
    for path in ("/v1/tasks/{task}", "/v1/tasks/{task}/keys"):
        yield post(f"GET {path}", 200, lambda w: b"", path=path, method="GET", kind=None)


def later(world: World) -> bytes:
    return Client(world.later, world.client.keys).seal("0")


def put(
    name: str, status: int, body: Body, path: str = f"/v1/batches/{BATCH}", method: str = "PUT", length: str | None = ""
) -> Case:
    return Case(f"delivery: {name}", "delivery", method, path, status, body, {}, length)


def deliveries() -> Iterator[Case]:
    texts: dict[str, bytes] = {
        "empty": b"", "an empty object": b"{}", "a list": b"[]", "null": b"null", "a number": b"1", "text": b'"a"',
        "not UTF-8": b"\xff\xfe{}", "a byte order mark": b"\xef\xbb\xbf{}", "NaN": b'{"body":NaN,"signature":""}',
        "Infinity": b'{"body":Infinity,"signature":""}', "1e999": b'{"body":1e999,"signature":""}',
        "a key twice": b'{"body":1,"body":2,"signature":""}', "deep lists": b"[" * 100_000,
        "deep objects": b'{"a":' * 100_000, "many digits": b'{"body":' + b"9" * 5000 + b',"signature":""}',
        "a bundle": b"HBB3\1" + bytes(152), "zeros": bytes(1000), "no signature": b'{"body":{}}',
        "XML": b"<manifest/>",
        "a surrogate for a task": b'{"body":{"task":"\\ud800"},"signature":"' + b"00" * 64 + b'"}',
        "a deep body": b'{"body":{"task":' + b"[" * 900 + b"]" * 900 + b'},"signature":"' + b"00" * 64 + b'"}',
    }  # fmt: skip
    for name, text in texts.items():
        yield put(f"manifest {name}", 400, given(text, lambda w, text: text))
    for name in ("\\ud800", "\\u0000"):
        text = f'{{"body":"{name}","signature":"{"00" * 64}"}}'.encode()
        yield put(f"manifest {name}", 404, given(text, lambda w, text: text))
    yield put("truncated manifest", 400, lambda w: w.manifest()[:-1])
    yield put("manifest with trailing bytes", 400, lambda w: w.manifest() + b"{}")
    for name, signature in (
        ("short", "00"),
        ("upper", "AB" * 64),
        ("not hex", "zz" * 64),
        ("a number", 5),
        ("none", None),
    ):
        yield put(
            f"signature {name}",
            400,
            given(signature, lambda w, it: canonical(json.loads(w.manifest()) | {"signature": it})),
        )
    yield put("an entry more", 400, lambda w: canonical(json.loads(w.manifest()) | {"more": 1}))
    yield put("signature of zeros", 403, lambda w: canonical(json.loads(w.manifest()) | {"signature": "00" * 64}))
    yield put("signed by the analyzer", 403, lambda w: w.manifest("analyzer"))
    yield put("signed by another identity", 403, lambda w: w.manifest("stranger"))
    yield put("signed as a receipt", 403, lambda w: w.manifest(kind="receipt"))
    yield put("signed as a key list", 403, lambda w: w.manifest(kind="key list"))
    for task, status in ((None, 400), (5, 400), ("x", 400), ("", 404), ("00" * 16, 404), (..., 404), ("é", 400)):
        yield put(f"manifest of task {task!r}", status, given(task, lambda w, task: w.manifest(task=task)))
    yield put(
        "a body that is a list", 404, lambda w: SignedDocument.sign(w.identities["shuffler"], "manifest", []).to_json()
    )
    wrong: tuple[tuple[str, Any, int], ...] = (
        ("batch", "cd" * 16, 400), ("batch", 1, 400), ("batch", None, 400), ("batch", ..., 400), ("batch", "", 400),
        ("key_id", "1", 400), ("key_id", None, 400), ("key_id", True, 400), ("key_id", 1.5, 400), ("key_id", ..., 400),
        ("key_id", -1, 403), ("key_id", 65536, 403), ("key_id", 10**18, 403), ("key_id", 10**19 - 1, 403),
        ("key_id", -(10**17), 403), ("format", "hubbub manifest 1", 400), ("format", 2, 400), ("format", ..., 400),
        ("bundles", 0, 403), ("bundles", -1, 403), ("bundles", 99, 403), ("bundles", 101, 403), ("bundles", "100", 400),
        ("bundles", 10**19 - 1, 403), ("bundles", 100.5, 400), ("bundles", [100], 400), ("bundles", ..., 400),
        ("slots", 0, 400), ("slots", -100, 400), ("slots", 99, 403), ("slots", 101, 403), ("slots", 10**19 - 1, 403),
        ("slots", None, 400), ("slots", {}, 400), ("slots", ..., 400),
        ("chunks", [], 400), ("chunks", None, 400), ("chunks", "00" * 32, 400), ("chunks", ["00"], 400),
        ("chunks", [5], 400), ("chunks", ["AB" * 32], 400), ("chunks", {"0": "00" * 32}, 400), ("chunks", ..., 400),
        ("more", 1, 400),
        ("bucket", 0, 400), ("bucket", -1, 400), ("bucket", 2, 400), ("bucket", 2**53, 400), ("bucket", "1", 400),
        ("bucket", True, 400), ("bucket", ..., 400), ("epoch", -1, 400), ("epoch", 2**53, 400), ("epoch", ..., 400),
        ("round", 0, 400), ("round", 2, 403), ("round", True, 400), ("round", ..., 400), ("round", 2**63, 403),
        ("key_list", "", 400), ("key_list", "AB" * 32, 400), ("key_list", ..., 400), ("sizes", [], 400),
        ("sizes", [99], 400), ("sizes", [50, 50], 400), ("sizes", [True], 400), ("sizes", ["100"], 400),
        ("sizes", [200, -100], 400), ("sizes", ..., 400), ("gaps", None, 400), ("gaps", [{}], 400), ("gaps", ..., 400),
        ("gaps", [{"first": 1, "last": 1, "bundles": 0, "reason": "restored"}], 400),
    )  # fmt: skip
    for name, value, status in wrong:
        yield put(f"manifest with {name} {value!r}", status, given({name: value}, lambda w, it: w.manifest(**it)))
    many: dict[str, Any] = {"chunks": ["00" * 32] * 65_537, "sizes": [1] * 65_537, "slots": 65_537, "bundles": 65_537}
    yield put("manifest with too many chunks", 403, lambda w: w.manifest(**many))
    yield put("manifest of one bundle too few", 403, lambda w: w.manifest(bundles=99, slots=99))
    for count in (10**13, 4 * 10**18):
        yield put(
            f"manifest with {count} bundles in one chunk",
            403,
            given(count, lambda w, n: w.manifest(bundles=n, slots=n)),
        )
    yield put("manifest too large", 413, lambda w: b"", length=str(MAX_MANIFEST_SIZE + 1))
    yield put("manifest without a length", 400, lambda w: w.manifest(), length=None)
    yield put("manifest with a wrong length", 400, lambda w: w.manifest(), length="-5")
    yield put("manifest shorter than announced", 400, lambda w: b"{}", length="3")
    for name in ("x", BATCH.upper(), BATCH + "0", "é", "..", "%00", "a" * 4000):
        yield put(f"batch {name[:40]!r}", 404, lambda w: w.manifest(), f"/v1/batches/{name}")
        yield put(f"a chunk of batch {name[:40]!r}", 404, lambda w: b"x", f"/v1/batches/{name}/chunks/0")
    parts = f"/v1/batches/{BATCH}/chunks"
    yield put("a chunk of a batch that was not announced", 404, lambda w: b"x", f"{parts}/0")
    for index in ("-1", "1.5", "x", "", "0x1", "١", "1e3", "+1", "10000000000", "9" * 400, "9" * 5000, "0/0"):
        yield put(f"chunk {index[:20]!r} ({len(index)})", 404, lambda w: b"x", f"{parts}/{index}")
    yield put("a chunk that is too large", 413, lambda w: b"", f"{parts}/0", length=str(CHUNK_SIZE + 1))
    yield put("a chunk without a length", 400, lambda w: b"x", f"{parts}/0", length=None)
    for method in ("GET", "POST", "DELETE", "PATCH", "OPTIONS"):
        yield put(f"{method} a batch", 405, lambda w: b"", method=method)
        yield put(f"{method} a chunk", 405, lambda w: b"", f"{parts}/0", method=method)
    for method in ("PUT", "POST", "DELETE"):
        yield put(f"{method} keys", 405, lambda w: b"", "/v1/keys", method=method)
    for path in ("/", "/v1/batches", "/v1/batches/", "/v1/key", "/v1/keys/", f"/v1/batches/{BATCH}/", f"{parts}"):
        yield put(f"path {path}", 404, lambda w: b"", path)
    yield put("GET keys", 200, lambda w: b"", "/v1/keys", method="GET")


def get(name: str, status: int, path: str = "/v1/tasks", method: str = "GET", **headers: str) -> Case:
    return Case(f"results: {name}", "results", method, path, status, headers=headers)


def readings() -> Iterator[Case]:
    yield get("no token", 401)
    wrong = (
        "", "Bearer", "Bearer ", "Bearer x", "bearer  {all}", "Basic {all}", "{all}", "Bearer {all}x", "Bearer {all} ",
        "Token {all}", "Bearer é", "Bearer " + "a" * 20_000, "Bearer ' OR 1=1", "Bearer \t{all}", "Bearer,{all}",
    )  # fmt: skip
    for text in wrong:
        yield get(f"authorization {text[:30]!r}", 401, authorization=text)
    yield get("good", 200, authorization="Bearer {all}")
    yield get("lower case", 200, authorization="bearer {all}")
    for path in ("/v1/tasks/{task}/batches", f"/v1/batches/{BATCH}", "/v1/tasks/x/batches", "/v1/batches/x"):
        yield get(f"no token for {path}", 401, path)
    yield get("batches with the token of another task", 403, "/v1/tasks/{task}/batches", authorization="Bearer {other}")
    yield get("batches of an unknown task", 404, "/v1/tasks/" + "00" * 16 + "/batches", authorization="Bearer {all}")
    yield get(
        "unknown task, token of another", 403, "/v1/tasks/" + "00" * 16 + "/batches", authorization="Bearer {other}"
    )
    for task in ("x", "{upper}", "{task}0", "é", "a" * 4000):
        yield get(f"batches of {task[:20]!r}", 404, f"/v1/tasks/{task}/batches", authorization="Bearer {all}")
    for batch in (BATCH, "x", BATCH.upper(), "' OR 1=1", "\0", "a" * 4000):
        yield get(f"batch {batch[:20]!r}", 404, f"/v1/batches/{batch}", authorization="Bearer {all}")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        yield get(f"{method} tasks", 405, method=method, authorization="Bearer {all}")
    for path in ("/", "/v1", "/v1/tasks/", "/v1/batches", "/v1/keys", "/v1/tasks/{task}", "/metrics"):
        yield get(f"path {path}", 404, path, authorization="Bearer {all}")
    yield get("an odd If-None-Match", 200, authorization="Bearer {all}", **{"if-none-match": '"' + "," * 5000})


def app_cases() -> list[Case]:
    """Return the requests that an application judges."""
    return [*uploads(), *bundles(), *requests(), *deliveries(), *readings()]


HOST = b"Host: x\r\n"


def raw_cases(world: World) -> dict[str, tuple[bytes, list[int]]]:
    """Return bytes for an upload connection, and the statuses of all responses."""
    task, bundle = world.contract.id.encode(), world.bundle
    path = b"/v1/tasks/" + task + b"/bundles"
    kind = b"Content-Type: application/hubbub-bundle\r\n"
    size = b"Content-Length: %d\r\n" % len(bundle)
    end = b"Connection: close\r\n\r\n"

    def upload(head: bytes = size, line: bytes = b"POST " + path + b" HTTP/1.1\r\n", body: bytes = bundle) -> bytes:
        return line + HOST + kind + head + end + body

    def ask(line: bytes, more: bytes = b"") -> bytes:
        return line + b"\r\n" + HOST + more + end

    kept = b"POST " + path + b" HTTP/1.1\r\n" + HOST + kind + size + b"\r\n" + bundle
    return {
        "good": (upload(), [201]),
        "HTTP/1.0": (upload(line=b"POST " + path + b" HTTP/1.0\r\n"), [201]),
        "absolute": (upload(line=b"POST http://x" + path + b" HTTP/1.1\r\n"), [201]),
        "with a query": (upload(line=b"POST " + path + b"?a=b&c HTTP/1.1\r\n"), [201]),
        "no host": (b"POST " + path + b" HTTP/1.1\r\n" + kind + size + end + bundle, [201]),
        "empty lines first": (b"\r\n\r\n" + upload(), [201]),
        "pipelined": (kept * 4 + upload(), [201] * 5),
        "pipelined refusals": (kept.replace(b"HBB3", b"XXXX") * 3 + upload(), [400, 400, 400, 201]),
        "expects 100": (upload(size + b"Expect: 100-continue\r\n"), [100, 201]),
        "good, then garbage": (kept + b"\0\0garbage\r\n\r\n", [400]),
        "a hundred headers": (upload(size + b"".join(b"X-%d: y\r\n" % i for i in range(90))), [201]),
        "ten thousand headers": (upload(size + b"".join(b"X-%d: y\r\n" % i for i in range(10_000))), [431]),
        "a hundred thousand headers": (upload(size + b"A: b\r\n" * 100_000), [431]),
        "a huge header": (upload(size + b"X: " + b"y" * (1 << 20) + b"\r\n"), [431]),
        "a huge cookie": (upload(size + b"Cookie: " + b"y" * (1 << 22) + b"\r\n"), [431]),
        "a huge name": (upload(size + b"y" * (1 << 20) + b": x\r\n"), [431]),
        "a huge path": (ask(b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1"), [431]),
        "a huge query": (ask(b"GET /?" + b"a" * (1 << 20) + b" HTTP/1.1"), [431]),
        "a long path": (ask(b"GET /" + b"a" * 8000 + b" HTTP/1.1"), [404]),
        "garbage": (b"\x80\x81\x82\r\n\r\n", [400]),
        "zeros": (bytes(1000), [400]),
        "TLS": (bytes.fromhex("16030100f8010000f40303") + bytes(100), [400]),
        "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n", [400]),
        "SMTP": (b"EHLO x\r\n", [400]),
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
        "HTTP/0.9": (b"GET /\r\n\r\n", [404]),
        "HTTP/9.9": (ask(b"GET / HTTP/9.9"), [400]),
        "HTTP/1.x": (ask(b"GET / HTTP/1.x"), [400]),
        "no version": (ask(b"GET / HTTP/"), [400]),
        "lower case": (ask(b"post / HTTP/1.1"), [400]),
        "no such method": (ask(b"BREW / HTTP/1.1"), [400]),
        "a WebDAV method": (ask(b"PROPFIND / HTTP/1.1"), [404]),
        "nothing but a method": (b"GET\r\n\r\n", [400]),
        "no path": (ask(b"GET  HTTP/1.1"), [400]),
        "a star": (ask(b"OPTIONS * HTTP/1.1"), [404]),
        "connect": (ask(b"CONNECT x:80 HTTP/1.1"), [400]),
        "a path that is not ASCII": (ask("GET /é HTTP/1.1".encode()), [400]),
        "a path with a zero": (ask(b"GET /\0 HTTP/1.1"), [400]),
        "a path with a space": (ask(b"GET /a b HTTP/1.1"), [400]),
        "an encoded zero": (ask(b"GET /v1/tasks/%00 HTTP/1.1"), [404]),
        "encoded bytes": (ask(b"GET /v1/tasks/%ff%fe HTTP/1.1"), [404]),
        "encoding broken": (ask(b"GET /v1/tasks/%zz%2 HTTP/1.1"), [404]),
        "encoded dots": (ask(b"GET /v1/tasks/%2e%2e%2f%2e%2e%2fetc HTTP/1.1"), [404]),
        "dots": (ask(b"GET /v1/../../etc/passwd HTTP/1.1"), [404]),
        "backslashes": (ask(b"GET /v1\\tasks HTTP/1.1"), [404]),
        "encoded twice": (ask(b"GET /v1/tasks/%2561 HTTP/1.1"), [404]),
        "a fragment": (ask(b"GET /v1/tasks/#x HTTP/1.1"), [404]),
        "content-length negative": (upload(b"Content-Length: -1\r\n"), [400]),
        "content-length empty": (upload(b"Content-Length: \r\n"), [400]),
        "content-length plus": (upload(b"Content-Length: +157\r\n"), [400]),
        "content-length hexadecimal": (upload(b"Content-Length: 0x9d\r\n"), [400]),
        "content-length two numbers": (upload(b"Content-Length: 157 157\r\n"), [400]),
        "content-length with a comma": (upload(b"Content-Length: 157, 157\r\n"), [400]),
        "content-length twice": (upload(size * 2), [400]),
        "content-length twice, different": (upload(size + b"Content-Length: 5\r\n"), [400]),
        "content-length 2^64": (upload(b"Content-Length: 18446744073709551616\r\n"), [400]),
        "content-length 2^64 - 1": (upload(b"Content-Length: 18446744073709551615\r\n"), [400]),
        "content-length 10^12": (upload(b"Content-Length: 1000000000000\r\n"), [413]),
        "content-length 2^31": (upload(b"Content-Length: 2147483648\r\n"), [413]),
        "content-length 400 digits": (upload(b"Content-Length: " + b"9" * 400 + b"\r\n"), [400]),
        "content-length one less": (upload(b"Content-Length: 156\r\n"), [400]),
        "no content-length": (upload(b"", body=b""), [400]),
        "chunked": (upload(b"Transfer-Encoding: chunked\r\n", body=b"9d\r\n" + bundle + b"\r\n0\r\n\r\n"), [400]),
        "chunked and a length": (upload(size + b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\n"), [400]),
        "chunked twice": (upload(b"Transfer-Encoding: chunked, chunked\r\n", body=b"0\r\n\r\n"), [400]),
        "chunks without end": (upload(b"Transfer-Encoding: chunked\r\n", body=b"fffffffffffffffff\r\n"), [400]),
        "transfer gzip": (upload(b"Transfer-Encoding: gzip\r\n"), [400]),
        "transfer gzip and a length": (upload(size + b"Transfer-Encoding: gzip\r\n"), [400]),
        "gzip": (upload(size + b"Content-Encoding: gzip\r\n"), [415]),
        "another media type": (upload().replace(b"hubbub-bundle", b"octet-stream", 1), [415]),
        "media type twice": (upload(size + b"Content-Type: text/plain\r\n"), [415]),
        "no colon": (upload(size + b"NoColon\r\n"), [400]),
        "no name": (upload(size + b": x\r\n"), [400]),
        "a space in a name": (upload(size + b"X Y: z\r\n"), [400]),
        "a space before the colon": (upload(size + b"X : z\r\n"), [400]),
        "a zero in a name": (upload(size + b"X\0: z\r\n"), [400]),
        "a zero in a value": (upload(size + b"X: \0\r\n"), [400]),
        "a bell in a value": (upload(size + b"X: \7\r\n"), [400]),
        "a folded header": (upload(size + b"X: a\r\n b\r\n"), [400]),
        "not ASCII in a value": (upload(size + b"X: \xff\xfe\r\n"), [201]),
        "only carriage returns": (upload().replace(b"\r\n", b"\r"), [400]),
        "upgrade": (ask(b"GET /v1/tasks/x HTTP/1.1", b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n"), [404]),
        "upgrade to HTTP/2": (upload(size + b"Upgrade: h2c\r\n"), [201]),
        "a method that has no body": (upload(line=b"GET " + path + b" HTTP/1.1\r\n"), [405]),
        "trace": (ask(b"TRACE / HTTP/1.1"), [404]),
        "a range": (ask(b"GET /v1/tasks/" + task + b" HTTP/1.1", b"Range: bytes=0-0\r\n"), [200]),
        "an odd If-None-Match": (ask(b"GET /v1/tasks/" + task + b" HTTP/1.1", b"If-None-Match: *,,\"\r\n"), [200]),
    }  # fmt: skip
