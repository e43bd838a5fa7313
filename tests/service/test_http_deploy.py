"""The files for operators are valid for the programs that read them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hubbub.service.runtime.settings import AnalyzerConfig, ShufflerConfig, read_config

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_settings_are_valid() -> None:
    shuffler = read_config(DEPLOY / "systemd" / "shuffler.toml", ShufflerConfig)
    assert shuffler.common.folder == Path("/var/lib/hubbub-shuffler")
    assert shuffler.common.admin == "unix:/var/lib/hubbub-shuffler/admin.sock"
    assert shuffler.address_header == "x-forwarded-for"
    analyzer = read_config(DEPLOY / "systemd" / "analyzer.toml", AnalyzerConfig)
    assert analyzer.link_key == Path("/run/credentials/hubbub-analyzer.service/link.key")
    # Both roles on one machine would not share a folder or a port.
    assert analyzer.common.folder != shuffler.common.folder
    assert analyzer.operations != shuffler.operations


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_units_match_the_settings(role: str) -> None:
    unit = (DEPLOY / "systemd" / f"hubbub-{role}.service").read_text()
    settings = (DEPLOY / "systemd" / f"{role}.toml").read_text()
    assert f"hubbub serve {role} /etc/hubbub/{role}.toml" in unit
    folder, credentials = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert f'folder = "/var/lib/{folder}"' in settings
    # Not within the folder of the store, whose backups must not contain it.
    assert f'credentials = "/var/lib/{credentials}"' in settings
    for name in re.findall(r"^LoadCredential=([^:]+):", unit, re.MULTILINE):
        assert f"/run/credentials/hubbub-{role}.service/{name}" in settings
    assert "DynamicUser=yes" in unit
    assert "ProtectSystem=strict" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_systemd_accepts_the_units(role: str, tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / f"hubbub-{role}.service").read_text()
    # Verification requires a program that exists.
    copy = tmp_path / f"hubbub-{role}.service"
    copy.write_text(unit.replace("/opt/hubbub/bin/hubbub", "/bin/true"))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in result.stderr.splitlines() if copy.name in line]
    assert not complaints


@pytest.mark.parametrize(
    ("name", "program"), [("haproxy.cfg", "haproxy"), ("nginx.conf", "nginx"), ("relay.conf", "nginx")]
)
def test_proxies_log_no_addresses_and_have_limits(name: str, program: str) -> None:
    text = (DEPLOY / "proxy" / name).read_text()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    if program == "haproxy":
        assert not [
            line for line in lines if line.startswith(("log ", "log-format", "option httplog", "option tcplog"))
        ]
        assert any(line.startswith("timeout http-request") for line in lines)
        assert any("maxconn" in line for line in lines)
    else:
        assert "access_log off;" in lines
        assert any(line.startswith("client_body_timeout") for line in lines)
        assert any(line.startswith("limit_conn ") for line in lines)


def test_the_sample_relay_forwards_nothing_about_the_sender() -> None:
    text = (DEPLOY / "proxy" / "relay.conf").read_text()
    assert "proxy_pass_request_headers off;" in text
    passed = set(re.findall(r"^\s*proxy_set_header (\S+)", text, re.MULTILINE))
    assert passed == {"Connection", "Host", "Content-Type", "Content-Length"}
    assert "$remote_addr" not in text
    assert "If-None-Match" not in text
    # As the relay of hubbub: the same paths, and no others.
    assert "(/keys|/bundles)?$" in text
    assert "/evaluations$" in text
    assert text.count("rewrite ^(.*)$ $1? break;") == text.count("proxy_pass https://") == 2
