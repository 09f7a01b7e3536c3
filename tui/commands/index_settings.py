"""The package index this machine is set up for: what pip or uv would ask, read from their settings.

The environment comes first (PIP_… and UV_…, SSL_CERT_FILE), then the settings files of pip and uv, then PyPI.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specmon.core.models.download import PackageIndex

PYPI = "https://pypi.org/simple"


def package_index(environ: Mapping[str, str] = os.environ) -> PackageIndex:
    """The configured index: every root in order, the certificate bundle and the timeout."""
    pip, uv = _pip_settings(environ), _uv_settings(environ)
    if pip.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        return PackageIndex(urls=())
    main = (
        environ.get("UV_DEFAULT_INDEX")
        or environ.get("UV_INDEX_URL")
        or pip.get("index-url")
        or uv.get("index-url")
        or PYPI
    )
    extra = [
        pip.get("extra-index-url", ""),
        environ.get("UV_EXTRA_INDEX_URL", ""),
        environ.get("UV_INDEX", ""),
    ]
    urls = [_address(word) for word in [main, *" ".join(extra).split(), *uv.get("extra", "").split()]]
    return PackageIndex(
        urls=tuple(dict.fromkeys(urls)),
        cert_file=_existing(pip.get("cert")) or _existing(environ.get("SSL_CERT_FILE")),
        timeout_s=_seconds(pip.get("default-timeout") or pip.get("timeout")),
    )


def _address(word: str) -> str:
    """UV_INDEX and UV_DEFAULT_INDEX may say name=url."""
    name, equals, url = word.partition("=")
    return url if equals and name.isidentifier() else word


def _existing(path: str | None) -> str | None:
    return path if path and Path(path).is_file() else None


def _seconds(text: str | None) -> float:
    try:
        return max(1.0, float(text or ""))
    except ValueError:
        return PackageIndex().timeout_s


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """pip's options: files from the general to the special, then the environment over them."""
    home = Path(environ.get("HOME", "~")).expanduser()
    config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [
        *(Path(folder) / "pip/pip.conf" for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")),
        Path("/etc/pip.conf"),
        home / ".pip/pip.conf",
        config_home / "pip/pip.conf",
        Path(sys.prefix) / "pip.conf",
    ]
    if named := environ.get("PIP_CONFIG_FILE"):
        files = [Path(named)]
    parser = configparser.RawConfigParser(strict=False)
    for file in files:
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
    settings = dict(parser["global"]) if parser.has_section("global") else {}
    for name, value in environ.items():
        if name.startswith("PIP_"):
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return settings


def _uv_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """uv's default index as "index-url" and its other ones as "extra", from the user's uv.toml."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config")
    try:
        table: dict[str, Any] = tomllib.loads((home / "uv/uv.toml").read_text(encoding="utf-8"))
        indexes = [entry for entry in table.get("index", []) if "url" in entry]
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    settings = {"index-url": str(table["index-url"])} if "index-url" in table else {}
    for entry in indexes:
        if entry.get("default"):
            settings["index-url"] = str(entry["url"])
        else:
            settings["extra"] = f"{settings.get('extra', '')} {entry['url']}".strip()
    return settings
