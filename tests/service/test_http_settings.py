"""Settings: everything checked, nothing unknown, nothing open by mistake."""

from pathlib import Path

import pytest

from hubbub.errors import InvalidInput, WireError
from hubbub.service.runtime.settings import AnalyzerConfig, ShufflerConfig, is_local, read_config, split_address

SHUFFLER = 'analyzer = "https://analyzer.example:8500"\n'


def shuffler(folder: Path, text: str, **changes: object) -> ShufflerConfig:
    path = folder / "settings.toml"
    path.write_text(SHUFFLER + text)
    return read_config(path, ShufflerConfig, changes)


def test_paths_are_meant_from_the_file(tmp_path: Path) -> None:
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
        ("liste = 3", "known entries only, got liste"),
        ("common = 3", "known entries only, got common"),
        ("queue = 'many'", "queue must be of another type, got str"),
        ("queue = true", "queue must be of another type, got bool"),
        ("queue = 1.5", "queue must be of another type, got float"),
        ("contracts = 'a'", "contracts must be of another type, got str"),
        ("insecure_http = 1", "insecure_http must be of another type, got int"),
        ("queue = 3", "queue must be a whole number of at least 256"),
        ("workers = -1", "workers must be"),
        ("suite = 3", "suite must be"),
        ("key_lifetime = 0", "key_lifetime must be at least a second"),
        ("burst = 1", "burst must be at least 256"),
        ("free_disk = 1.5", "free_disk must be in"),
        ("admin = '127.0.0.1:80'", "admin must be a unix socket"),
        ("listen = '0.0.0.0:80'", "open address without TLS"),
        ("listen = '192.0.2.1:80'", "open address without TLS"),
        ("listen = 'somewhere:80'", "open address without TLS"),
        ("listen = '127.0.0.1'", "host:port or unix:path"),
        ("listen = '127.0.0.1:99999'", "host:port or unix:path"),
        ("certificate = 'a.pem'", "must be given together"),
    ],
)
def test_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        shuffler(tmp_path, text)


def test_the_analyzer_must_be_an_address(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="analyzer must be an address"):
        shuffler(tmp_path, "", analyzer="analyzer.example:8500")


@pytest.mark.parametrize("text", ["= 3", "a = \xff", "a"])
def test_something_else_than_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(WireError, match=r"settings\.toml must be TOML"):
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
    with pytest.raises(InvalidInput, match="got listen"):
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
