"""`specmon models`, `specmon doctor` and the script that makes the environment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import TinyModels

from specmon.tui.commands import doctor as doctor_module

ROOT = Path(__file__).parents[2]
DRAFTERS = ("smollm2-draft-17m", "smollm2-eagle3")


def test_list_says_what_is_there_and_how_to_get_the_rest(cli: Callable[..., Any]) -> None:
    code, out, _ = cli("models", "list")
    assert code == 0
    assert "not fetched; get it with: specmon models fetch smollm2" in out
    assert all(name in out for name in DRAFTERS)


@pytest.mark.parametrize("name", DRAFTERS)
def test_info_describes_a_shipped_drafter(cli: Callable[..., Any], name: str) -> None:
    code, out, _ = cli("models", "info", name)
    assert code == 0
    assert out.split()[0] == "path"
    assert "family" in out
    assert " MB in 1 file(s)" in out


def test_info_of_the_model_that_is_not_fetched_says_how(cli: Callable[..., Any]) -> None:
    code, out, err = cli("models", "info", "smollm2")
    assert (code, out) == (1, "")
    assert "specmon models fetch smollm2" in err


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        (None, 2, "has no config.json"),
        ("{", 1, "cannot be read"),
        ("[]", 1, "not a JSON object"),
        ('{"architectures": ["MambaForCausalLM"]}', 1, "does not know (MambaForCausalLM)"),
        ('{"architectures": ["LlamaForCausalLM"]}', 1, "has no field"),
    ],
)
def test_info_of_a_bad_folder_is_one_sentence(
    cli: Callable[..., Any], tmp_path: Path, config: str | None, code: int, message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(config)
    done = cli("models", "info", str(folder))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_doctor_gives_every_line_a_verdict_and_mends(cli: Callable[..., Any]) -> None:
    code, out, _ = cli("doctor")
    assert code == 0
    lines = out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warn", "→"}
    assert {"python", "cpu", "model", "terminal", "cache"} <= {line.split()[1] for line in lines}
    at = next(n for n, line in enumerate(lines) if "smollm2 is not fetched" in line)
    assert "→ specmon models fetch smollm2" in lines[at + 1]


def test_doctor_without_the_engine_says_what_to_install(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "ENGINE_PACKAGES", ("no_such_package",))
    code, out, _ = cli("doctor")
    assert code == 0
    assert "warn engine       missing: no_such_package" in out
    assert "pip install 'specmon[engine]'" in out


def test_doctor_fails_where_nothing_can_be_written(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    code, out, _ = cli("doctor")
    assert code == 1
    assert "set XDG_CACHE_HOME" in out


def _fake_python(folder: Path, name: str, *, new_enough: bool) -> Path:
    """A python that only knows its version and how to make a folder with `-m venv`."""
    path = folder / name
    answer = 'mkdir -p "$3/bin"' if new_enough else "exit 1"
    path.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {0 if new_enough else 1}\n{answer}\n')
    path.chmod(0o755)
    return path


def _make_venv(tmp_path: Path, *python: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts/make_venv.sh"
    command = ["/bin/sh", str(script), str(tmp_path / "venv"), *python]
    environ = {"PATH": f"{tmp_path}/bin:/usr/sbin:/sbin"}
    (tmp_path / "bin").mkdir(exist_ok=True)
    for tool in ("mkdir", "rm"):
        (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_make_venv_passes_over_a_python_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _fake_python(tmp_path / "bin", "python3", new_enough=False)
    _fake_python(tmp_path / "bin", "python3.12", new_enough=True)
    assert _make_venv(tmp_path).returncode == 0
    assert (tmp_path / "venv/bin").is_dir()


def test_make_venv_without_a_new_enough_python_says_what_is_needed(tmp_path: Path) -> None:
    done = _make_venv(tmp_path)
    assert done.returncode == 1
    assert "Python 3.11 or newer was not found" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_check_head_shows_its_acceptance_by_layers(cli: Callable[..., Any], tiny: TinyModels) -> None:
    target, head = str(tiny.target()), str(tiny.eagle3())
    code, out, _ = cli("models", "check-head", head, "--target", target, "--recipe", "fp32")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].endswith("of 48  features of layers [0, 1, 2] (as it is loaded)")
    assert [line.partition("  features of layers ")[2] for line in lines[1:-1]] == ["[1, 2, 3]", "[2, 1, 0]"]
    assert lines[-1].endswith("features taken after the norm")


def test_check_head_takes_heads_only(cli: Callable[..., Any], tiny: TinyModels) -> None:
    code, out, err = cli("models", "check-head", str(tiny.draft()), "--target", str(tiny.target()))
    assert (code, out) == (2, "")
    assert "is no EAGLE-3 head" in err
