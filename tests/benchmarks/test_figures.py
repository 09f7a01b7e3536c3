"""The figures file: what is written is read back, nothing else is touched, wrong names are refused."""

import json
from pathlib import Path

import pytest

from specmon.core.bench.figures import GOALS, load_figures, record_figures
from specmon.core.bench.provenance import Provenance, checkout_commit, provenance
from specmon.core.errors import SpecmonError

HERE = Provenance(commit="abc", date="2026-11-29", hardware="a CPU", versions={"torch": "2.13"})


def test_figures_are_read_back_with_unit_and_goal(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "figures.json"
    record_figures(path, {"cpu.ar.over.hf": 3.14159265}, HERE, "note.md")
    figure = load_figures(path)["cpu.ar.over.hf"]
    assert (figure.value, figure.unit, figure.goal) == (3.1416, "ratio", "≥ 3")
    assert (figure.commit, figure.versions, figure.note) == ("abc", {"torch": "2.13"}, "note.md")


def test_figures_of_other_benchmarks_stay(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    record_figures(path, {"ui.cpu_share": 0.5, "cpu.ar.over.hf": 3.0}, HERE, "first")
    record_figures(path, {"cpu.ar.over.hf": 4.0}, HERE, "second")
    figures = load_figures(path)
    assert (figures["ui.cpu_share"].note, figures["cpu.ar.over.hf"].value) == ("first", 4.0)
    assert list(json.loads(path.read_text())) == ["cpu.ar.over.hf", "ui.cpu_share"]
    assert list(tmp_path.iterdir()) == [path]


def test_figure_without_a_goal_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cpu\.ar\.over\.nothing"):
        record_figures(tmp_path / "figures.json", {"cpu.ar.over.nothing": 1.0}, HERE, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "[]", '{"cpu.ar.over.hf": 3}', '{"cpu.ar'])
def test_figures_file_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(content)
    with pytest.raises(SpecmonError, match=r"figures\.json is not a figures file"):
        load_figures(path)


def test_no_figures_where_there_is_no_file(tmp_path: Path) -> None:
    assert load_figures(tmp_path / "figures.json") == {}


def test_every_goal_says_its_unit_and_bound() -> None:
    assert all(goal.unit and goal.text[0] in "≥≤" for goal in GOALS.values())


def test_provenance_names_commit_and_versions() -> None:
    here = provenance("a CPU", ["msgspec"])
    assert here.commit == checkout_commit()
    assert {"specmon", "python", "msgspec"} <= here.versions.keys()
