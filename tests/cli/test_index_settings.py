"""The package index is the one pip or uv is set up for."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmon.tui.commands.index_settings import PYPI, package_index


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without any settings of pip or uv."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}


def test_default_is_pypi(bare: dict[str, str]) -> None:
    assert package_index(bare).urls == (PYPI,)


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_environment_names_the_index(bare: dict[str, str], name: str) -> None:
    assert package_index({**bare, name: "https://mirror/simple"}).urls == ("https://mirror/simple",)


def test_extra_indexes_follow_the_main_one_once(bare: dict[str, str]) -> None:
    environ = {
        **bare,
        "PIP_EXTRA_INDEX_URL": "https://a/s https://b/s",
        "UV_INDEX": f"corp=https://c/s {PYPI}",
    }
    assert package_index(environ).urls == (PYPI, "https://a/s", "https://b/s", "https://c/s")


def test_pip_settings_file_is_read_and_the_environment_wins(bare: dict[str, str], tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text(
        "[global]\nindex-url = https://file/simple\ntimeout = 7\nextra-index-url =\n  https://x/s\n"
    )
    environ = {**bare, "PIP_CONFIG_FILE": str(conf)}
    assert package_index(environ).urls == ("https://file/simple", "https://x/s")
    assert package_index(environ).timeout_s == 7.0
    assert package_index({**environ, "PIP_INDEX_URL": "https://env/s"}).urls[0] == "https://env/s"


def test_uv_settings_file_is_read(bare: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "home/.config/uv"
    folder.mkdir(parents=True)
    (folder / "uv.toml").write_text(
        '[[index]]\nurl = "https://extra/s"\n[[index]]\nurl = "https://main/s"\ndefault = true\n'
    )
    assert package_index(bare).urls == ("https://main/s", "https://extra/s")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("home/.config/uv/uv.toml", "[[index"),
        ("home/.config/uv/uv.toml", 'index = ["x", 3]'),
        ("home/.config/uv/uv.toml", b"\xff\xfe"),
        ("pip.conf", "no section\n"),
        ("pip.conf", b"\xff\xfe[global]"),
    ],
)
def test_damaged_settings_file_is_passed_over(
    bare: dict[str, str], tmp_path: Path, file: str, content: str | bytes
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    environ = {**bare, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    assert package_index(environ).urls == (PYPI,)


def test_no_index_leaves_none(bare: dict[str, str]) -> None:
    assert package_index({**bare, "PIP_NO_INDEX": "1"}).urls == ()


def test_certificates_come_from_pip_then_from_the_system(bare: dict[str, str], tmp_path: Path) -> None:
    for name in ("pip.pem", "system.pem"):
        (tmp_path / name).write_text("")
    environ = {**bare, "SSL_CERT_FILE": str(tmp_path / "system.pem")}
    assert package_index(environ).cert_file == str(tmp_path / "system.pem")
    environ["PIP_CERT"] = str(tmp_path / "pip.pem")
    assert package_index(environ).cert_file == str(tmp_path / "pip.pem")
    assert package_index({**environ, "PIP_CERT": "/no/such.pem"}).cert_file == str(tmp_path / "system.pem")


def test_timeout_that_is_no_number_is_passed_over(bare: dict[str, str]) -> None:
    assert package_index({**bare, "PIP_DEFAULT_TIMEOUT": "soon"}).timeout_s == package_index(bare).timeout_s
