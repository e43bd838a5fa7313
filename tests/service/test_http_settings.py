"""Settings: every entry checked, unknown ones rejected, nothing open by mistake."""

import dataclasses
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hubbub.errors import InvalidInput, WireError
from hubbub.service.provision import provision_role
from hubbub.service.runtime.settings import (
    CONFIGS,
    AnalyzerConfig,
    Common,
    RelayConfig,
    ShufflerConfig,
    entries,
    is_local,
    read_config,
    settings_file,
    settings_page,
    split_address,
)

SHUFFLER = 'analyzer = "https://analyzer.example:8500"\n'


def shuffler(folder: Path, text: str, **changes: object) -> ShufflerConfig:
    path = folder / "settings.toml"
    path.write_text(SHUFFLER + text)
    return read_config(path, ShufflerConfig, changes)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    read = shuffler(
        tmp_path, 'folder = "data"\nlink_key = "secrets/link.key"\ncontracts = ["a.json"]\nlisten = "unix:in"'
    )
    assert read.common.folder == tmp_path / "data"
    assert read.link_key == tmp_path / "secrets/link.key"
    assert read.link_certificate == tmp_path / "data/link.pem"
    assert read.common.identity == tmp_path / "data/identity"
    assert read.common.contracts == (tmp_path / "a.json",)
    assert read.listen == f"unix:{tmp_path / 'in'}"
    assert read.common.admin == f"unix:{tmp_path / 'data/admin.sock'}"
    assert read.certificate is None


def test_changes_override(tmp_path: Path) -> None:
    assert shuffler(tmp_path, "queue = 300", queue=400, unsafe_test=True).queue == 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("liste = 3", "settings.toml has unknown entries: liste; known are address_header, admin"),
        ("common = 3", "unknown entries: common;"),
        ("queue = 'many'", "settings.toml: queue must be a whole number, got 'many'"),
        ("queue = true", "queue must be a whole number, got True"),
        ("queue = 1.5", "queue must be a whole number, got 1.5"),
        ("contracts = 'a'", "contracts must be a list of paths"),
        ("insecure_http = 1", "insecure_http must be true or false, got 1"),
        ("queue = 3", "queue must be a whole number of at least 256"),
        ("workers = -1", "workers must be"),
        ("suite = 3", "suite must be"),
        ("key_lifetime = 0", "key_lifetime must be in"),
        ("burst = 1", "burst must be in"),
        ("free_disk = 1.5", "free_disk must be in"),
        ("admin = '127.0.0.1:80'", "admin must be a Unix socket such as unix:admin.sock, got"),
        ("listen = '0.0.0.0:80'", "open address without TLS"),
        ("listen = '192.0.2.1:80'", "open address without TLS"),
        ("listen = 'somewhere:80'", "open address without TLS"),
        ("listen = '127.0.0.1'", "listen must be host:port with a port up to 65535, or unix:path"),
        ("operations = '127.0.0.1:99999'", "operations must be host:port"),
        ("folder = 3", "folder must be a text in quotes, got 3"),
        ("identity = 3", "identity must be a path in quotes, got 3"),
        ("store = 'mysql://x:secret@y'", "store must be sqlite:FILE or postgresql://…"),
        ("rate = 'fast'", "rate must be a number, got 'fast'"),
        ("certificate = 'a.pem'", "must be given together"),
        ("credentials = 3", "credentials must be a path in quotes, got 3"),
        ("max_batch_size = 0", "max_batch_size must be a whole number in [1, "),
        ("lease = 0.5", "lease must be in"),
        ("key_list_lifetime = 1", "key_list_lifetime must be in"),
        ("origins = 'https://example.org'", "origins must be a list of texts"),
        ("origins = ['*']", "origins must be web origins such as https://example.org, without a path, got '*'"),
        ("origins = ['https://example.org/']", "origins must be web origins"),
        ("origins = ['https://']", "origins must be web origins"),
    ],
)
def test_invalid_entries_name_the_entry(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        shuffler(tmp_path, text)


def test_the_analyzer_must_be_an_address(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="analyzer must be the URL of the analyzer's link"):
        shuffler(tmp_path, "", analyzer="analyzer.example:8500")


@pytest.mark.parametrize("text", ["= 3", "a = \xff", "a"])
def test_files_that_are_not_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(WireError, match=r"settings\.toml (must be valid TOML: .*at|must be a TOML file in UTF-8)"):
        read_config(path, AnalyzerConfig)


@pytest.mark.parametrize("text", ["insecure_http = true\n", "certificate = 'a.pem'\ncertificate_key = 'a.key'\n"])
def test_open_addresses_on_purpose(tmp_path: Path, text: str) -> None:
    assert shuffler(tmp_path, text + "listen = '0.0.0.0:80'").listen == "0.0.0.0:80"


def test_the_analyzer_reads_its_own_entries(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('read = ""\nlink = "0.0.0.0:8500"\n')
    read = read_config(path, AnalyzerConfig)
    assert (read.read, read.link) == ("", "0.0.0.0:8500")
    path.write_text('listen = "127.0.0.1:80"\n')
    with pytest.raises(InvalidInput, match="unknown entries: listen"):
        read_config(path, AnalyzerConfig)
    path.write_text('read = "0.0.0.0:80"\n')
    with pytest.raises(InvalidInput, match="open address without TLS"):
        read_config(path, AnalyzerConfig)


def test_addresses() -> None:
    assert split_address("[2001:db8::1]:443") == ("2001:db8::1", 443)
    assert [is_local(one) for one in ("[::1]:1", "localhost:1", "127.9.9.9:1", "example.org:1", "[::]:1")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("role", ["shuffler", "analyzer", "relay"])
def test_a_settings_file_lists_every_entry_with_its_default(tmp_path: Path, role: str) -> None:
    needed = {"shuffler": ("analyzer",), "analyzer": (), "relay": ("shuffler", "analyzer")}[role]
    given = {name: f"https://{name}.example:8500" for name in needed}
    path = tmp_path / "settings.toml"
    text = settings_file(role, given)
    path.write_text(text)
    as_written = read_config(path, CONFIGS[role])  # type: ignore[type-var]
    path.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    names = {one.name for one in (*dataclasses.fields(Common), *dataclasses.fields(CONFIGS[role]))} - {"common"}
    assert set(tomllib.loads(path.read_text())) == names
    assert read_config(path, CONFIGS[role]) == as_written  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match=f"the {role} has no settings colour"):
        settings_file(role, {"colour": "red"})


def test_the_reference_describes_every_entry() -> None:
    page = settings_page()
    for kind in (Common, ShufflerConfig, AnalyzerConfig, RelayConfig):
        for one in entries(kind):
            assert one.text.endswith(".")
            assert f"| `{one.name}` | {one.type} | `{one.default}` | {one.text} |" in page
    assert "| `max_batch_size` | whole number | `2_000_000` |" in page


def test_the_link_of_an_analyzer_on_another_machine_is_reachable(tmp_path: Path) -> None:
    """Regression: the default link was a loopback address, which no other machine can reach."""
    provision_role(tmp_path / "remote", "analyzer", host="analyzer.example")
    assert not is_local(read_config(tmp_path / "remote/settings.toml", AnalyzerConfig).link)
    provision_role(tmp_path / "here", "analyzer")
    assert is_local(read_config(tmp_path / "here/settings.toml", AnalyzerConfig).link)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """Regression: a port conflict said "check the disk and the file name"."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        provision_role(tmp_path / "a", "analyzer", {"read": address, "link": "127.0.0.1:0", "workers": 0})
        script = "from hubbub.cli import main; main(prog_name='hubbub')"
        words = [sys.executable, "-c", script, "serve", "analyzer", str(tmp_path / "a/settings.toml")]
        result = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 5
    assert f"error: {address}: address already in use" in result.stderr
    assert "hint: another program listens at this address: stop it, or choose another port" in result.stderr
    assert "disk" not in result.stderr
