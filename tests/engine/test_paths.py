"""Folders follow the XDG variables and are private."""

from __future__ import annotations

import os

import pytest

from specmon.core import paths
from specmon.core.errors import SpecmonError


def test_folders_follow_xdg(monkeypatch, tmp_path):
    for variable in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / variable))
    assert paths.cache_dir() == tmp_path / "CACHE/specmon"
    assert paths.config_dir() == tmp_path / "CONFIG/specmon"
    assert paths.recordings_dir() == tmp_path / "STATE/specmon/recordings"


def test_private_dir_is_for_the_user_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        made = paths.private_dir(tmp_path / "a/b")
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert paths.private_dir(made) == made


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecmonError, match="Cannot make the folder"):
        paths.private_dir(tmp_path / "file/x")
