"""Kernels in groups: by name and order, by range, overlapping or not; and real passes on a CPU and on a GPU."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.tiny_models import TinyModels

from specmon.core.bench.kernel_groups import GROUPS, Stretch, grouped, outermost, pass_time
from specmon.core.bench.profile import PassProfile, profile_passes
from specmon.core.bench.profile_report import ProfileReport, markdown
from specmon.core.bench.profiler import PASS, passes_on_cpu, passes_on_cuda
from specmon.core.bench.provenance import Provenance, provenance
from specmon.core.errors import UsageError
from specmon.core.models.pool import ModelPool
from specmon.tui.commands.bench_profile import parse_rows
from specmon.tui.commands.main import main

LAYER = ("qkv_kernel", "attend_kernel", "residual_kernel", "swiglu_kernel", "residual_kernel")
STREAMED = ("embed_kernel", *LAYER, *LAYER, "head_kernel", "winner_kernel", "Memcpy DtoH")


def in_a_row(names: tuple[str, ...], us: int = 10, gap: int = 2) -> list[Stretch]:
    return [
        Stretch(name, i * (us + gap) * 1000, (i * (us + gap) + us) * 1000) for i, name in enumerate(names)
    ]


def test_streamed_kernels_are_told_by_name_and_the_two_residual_matmuls_by_what_ran_before() -> None:
    groups = [group for group, _ in grouped(reversed(in_a_row(STREAMED)))]
    layer = ["qkv", "attention", "o", "gate_up", "down"]
    assert groups == ["other", *layer, *layer, "head", "head", "other"]


def test_a_merge_of_its_own_belongs_to_attention() -> None:
    layer = ("qkv_kernel", "attend_kernel", "merge_kernel", "residual_kernel")
    assert [group for group, _ in grouped(in_a_row(layer))] == ["qkv", "attention", "attention", "o"]


def test_groups_and_gaps_add_up_to_the_pass() -> None:
    found = pass_time(grouped(in_a_row(STREAMED)))
    assert sum(found.groups.values()) + found.gaps == found.span == (14 * 10 + 13 * 2) * 1000
    assert found.gaps == 13 * 2000
    assert found.counts["o"] == found.counts["down"] == 2
    assert found.groups["head"] == 20_000


def test_overlapping_kernels_count_each_instant_once_for_the_earlier_one() -> None:
    kernels = [Stretch("qkv_kernel", 0, 100), Stretch("attend_kernel", 60, 150), Stretch("x", 70, 90)]
    found = pass_time(grouped(kernels))
    assert (found.groups["qkv"], found.groups["attention"], found.groups["other"]) == (100, 50, 0)
    assert (found.gaps, found.span) == (0, 150)


def test_an_empty_pass_takes_no_time() -> None:
    found = pass_time([])
    assert (found.span, found.gaps, set(found.groups)) == (0, 0, set(GROUPS))


def test_a_range_decides_before_the_name() -> None:
    kernels = [
        Stretch("nvjet_tst_64x8_flash", 10, 20),
        Stretch("void pytorch_flash::flash_fwd_kernel", 30, 40),
        Stretch("void at::native::rms_norm_kernel", 50, 60),
        Stretch("gemv2T_kernel_val", 70, 80),
    ]
    groups = [group for group, _ in grouped(kernels, [Stretch("down", 5, 25)])]
    assert groups == ["down", "attention", "norm", "other"]


def test_ops_that_contain_others_are_counted_once() -> None:
    inner, outer, after = Stretch("inner", 2, 4), Stretch("outer", 0, 10), Stretch("after", 10, 12)
    assert outermost([inner, after, outer]) == [outer, after]


def event(name: str, start_us: float, end_us: float, device: str = "CUDA") -> Any:
    """As torch's profiler gives them."""
    return SimpleNamespace(
        name=name,
        time_range=SimpleNamespace(start=start_us, end=end_us),
        device_type=SimpleNamespace(name=device),
    )


def test_kernels_belong_to_the_pass_in_which_they_started() -> None:
    events = [
        event(PASS, 0, 100, "CPU"),
        event(PASS, 200, 300, "CPU"),
        event(PASS, 5, 90),  # the same range as the device saw it: no kernel
        event("specmon qkv", 10, 20),
        event("gemm", 12, 18),
        event("gemm", 30, 50),
        event("qkv_kernel", 210, 250),
        event("Stream Sync", 250, 290),
        event("warm-up", 400, 500),
    ]
    first, second = passes_on_cuda(events)
    assert (first[0].groups["qkv"], first[0].groups["other"], first[0].gaps) == (6000, 20_000, 12_000)
    assert (second[0].groups["qkv"], second[0].span) == (40_000, 40_000)


def test_on_a_cpu_what_no_range_and_no_op_tells_is_other() -> None:
    events = [
        event(PASS, 0, 100, "CPU"),
        event("specmon qkv", 10, 30, "CPU"),
        event("aten::linear", 11, 29, "CPU"),
        event("aten::rms_norm", 40, 50, "CPU"),
        event("aten::_fused_rms_norm", 41, 49, "CPU"),
        event("aten::scaled_dot_product_attention", 60, 80, "CPU"),
        event("aten::add", 90, 95, "CPU"),
    ]
    [(found, _)] = passes_on_cpu(events)
    assert (found.groups["qkv"], found.groups["norm"], found.groups["attention"]) == (20_000, 10_000, 20_000)
    assert found.groups["other"] == 50_000
    assert sum(found.groups.values()) == found.span == 100_000


def profiled(target: str, device: str, tmp_path: Path, **options: Any) -> list[PassProfile]:
    loaded = ModelPool(tmp_path).target(target, "bf16", device, lambda what, part: None)
    settings = {"row_counts": [1, 5], "kv_len": 40, "passes": 3, "ceiling": 1e9, **options}
    return list(profile_passes(loaded, device, **settings))


def assert_whole(profile: PassProfile, n_layers: int) -> None:
    """Every matmul is seen as often as it runs, and everything adds up."""
    by_group = {group.group: group for group in profile.groups}
    assert [by_group[g].kernels >= n for g, n in (("qkv", n_layers), ("down", n_layers), ("head", 1))] == [
        True
    ] * 3
    parts = sum(group.us for group in profile.groups) + (profile.gaps_us or 0.0)
    assert parts == pytest.approx(profile.device_ms * 1e3, rel=1e-3)
    assert profile.unprofiled_ms > 0
    assert profile.distortion == pytest.approx(profile.profiled_ms / profile.unprofiled_ms)


def test_passes_of_a_reference_model_on_a_cpu(tiny: TinyModels, tmp_path: Path) -> None:
    found = profiled(str(tiny.target()), "cpu:0", tmp_path)
    assert [(p.rows, p.kv_len, p.passes, p.gaps_us) for p in found] == [(1, 40, 3, None), (5, 40, 3, None)]
    for profile in found:
        assert_whole(profile, n_layers=3)
        counts = {group.group: group.kernels for group in profile.groups}
        assert (counts["qkv"], counts["o"], counts["gate_up"], counts["down"], counts["head"]) == (
            3,
            3,
            3,
            3,
            1,
        )
        assert counts["norm"] == 7
        assert counts["attention"] == 3 * profile.rows


@pytest.mark.parametrize(
    ("options", "message"), [({"row_counts": [17]}, "17 rows"), ({"kv_len": 0}, "length of 0")]
)
def test_passes_that_cannot_be_are_refused(
    tiny: TinyModels, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        profiled(str(tiny.target()), "cpu:0", tmp_path, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("backend", ["triton", "reference"])
def test_kernels_inside_and_outside_of_graphs_are_seen(tmp_path: Path, graphs: bool, backend: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs one CUDA device, found 0")
    from specmon.core.models.build import build_transformer
    from specmon.core.models.pool import LoadedModel, stream
    from specmon.core.models.random_weights import PREFIX, RandomFile
    from specmon.core.models.recipe import resolve_recipe
    from specmon.core.models.source import Source

    file = RandomFile(f"{PREFIX}qwen2.5-0.5b")
    recipe = resolve_recipe("bf16", "cuda:0", file, backend)
    model = build_transformer(file, recipe, "cuda:0", max_positions=1024, progress=lambda what, part: None)
    loaded = LoadedModel(
        source=Source("random", file),
        tokenizer=None,  # type: ignore[arg-type]  # no text is read
        model=model,
        recipe=recipe,
        context_length=960,
        streamed=stream(model, recipe),
    )
    found = list(
        profile_passes(loaded, "cuda:0", row_counts=[1, 5], kv_len=300, passes=3, ceiling=4e12, graphs=graphs)
    )
    for profile in found:
        assert_whole(profile, n_layers=24)
        counts = {group.group: group.kernels for group in profile.groups}
        assert counts["attention"] >= 24
        assert profile.gaps_us is not None
        if backend == "triton":
            assert (counts["qkv"], counts["o"], counts["gate_up"], counts["down"]) == (24, 24, 24, 24)


@pytest.mark.embedded
def test_command_profiles_the_embedded_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specmon.tui.commands.bench_profile._claim", lambda device, core: None)
    monkeypatch.setenv("KINETO_LOG_LEVEL", "99")
    args = ("--device", "cpu:0", "--rows", "2", "--context", "20", "--passes", "2")
    assert main(["bench", "profile", *args, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["recipe"], report["device"], report["graphs"]) == ("q4", "cpu:0", False)
    [profile] = report["profiles"]
    assert (profile["rows"], profile["kv_len"], profile["passes"]) == (2, 20, 2)
    assert {group["group"]: group["kernels"] for group in profile["groups"]}["qkv"] == 30


def test_notes_name_the_packages_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "triton":
            raise PackageNotFoundError
        return "2.13"

    monkeypatch.setattr("importlib.metadata.version", lambda package: "3.6")
    assert provenance("a GPU", ("torch", "triton")).versions["triton"] == "3.6"
    monkeypatch.setattr("importlib.metadata.version", version)
    assert list(provenance("a CPU", ("torch", "triton")).versions) == ["specmon", "python", "torch"]


class Loaded(Exception):
    """A model was loaded."""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--rows", "1,17"), "A pass of 17 rows cannot be. Choose 1 to 16."),
        (("--context", "99999999999"), "A KV length of 99999999999 cannot be. Choose 1 to 624."),
        (("--device", "cpu:0,cpu:1"), "--device is 'cpu:0,cpu:1', but a profile is of one device."),
        (("--device", "cuda:77"), "There is no device 'cuda:77' on this machine."),
        (("--recipe", "q4"), "holds no Q4_1 weights for recipe q4."),
    ],
)
def test_a_profile_that_cannot_be_is_refused_before_anything_is_loaded(
    tiny: TinyModels,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    message: str,
) -> None:
    def loaded(*_: Any) -> None:
        raise Loaded

    monkeypatch.setattr("specmon.core.models.pool.ModelPool.target", loaded)
    monkeypatch.setattr("specmon.core.ceilings.measure_ceilings", loaded)
    assert main(["bench", "profile", "--target", str(tiny.target()), "--device", "cpu:0", *args]) == 2
    assert message in capsys.readouterr().err


def test_an_interrupted_profile_keeps_the_row_counts_that_are_done_and_no_whole_report_is_lost(
    tiny: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import specmon.core.bench.profile as measuring

    monkeypatch.setattr("specmon.tui.commands.bench_profile._claim", lambda device, core: None)
    monkeypatch.setattr(
        "specmon.core.ceilings.measure_ceilings", lambda names, machine: ({"cpu:0": 1e9}, "x")
    )
    target = ("--target", str(tiny.target()), "--device", "cpu:0", "--context", "20", "--passes", "2")
    args = ["bench", "profile", *target, "--rows", "1,2", "--out", str(tmp_path), "--force"]
    assert main(args) == 0
    [whole] = tmp_path.glob("*.json")
    before = whole.read_bytes()
    real = measuring._profile

    def interrupted(loaded: Any, target: Any, rows: int, *rest: Any) -> PassProfile:
        if rows == 2:
            raise KeyboardInterrupt
        return real(loaded, target, rows, *rest)

    monkeypatch.setattr(measuring, "_profile", interrupted)
    assert main(args) == 130
    err = capsys.readouterr().err
    beside = whole.with_stem(whole.stem + "-interrupted")
    assert "Interrupted: the report holds 1 of 2 row counts." in err
    assert f"Written to {beside}" in err
    assert [profile["rows"] for profile in json.loads(beside.read_text())["profiles"]] == [1]
    assert whole.read_bytes() == before


def test_rows_are_numbers_of_one_or_more() -> None:
    assert parse_rows("1, 5") == parse_rows("1,1,5,1") == [1, 5]
    for text in ("", "0", "1,", "one", "-1", "9" * 5000):
        with pytest.raises(UsageError, match="--rows is"):
            parse_rows(text)


def test_markdown_has_unprofiled_time_distortion_and_gaps(tiny: TinyModels, tmp_path: Path) -> None:
    [profile] = profiled(str(tiny.target()), "cpu:0", tmp_path, row_counts=[1])
    import msgspec

    on_cuda = msgspec.structs.replace(
        profile, gaps_us=1.5, unprofiled_ms=4.0, profiled_ms=5.0, distortion=1.25
    )
    report = ProfileReport(
        command="specmon bench profile",
        provenance=Provenance(commit=None, date="2026-11-30", hardware="a GPU", versions={}),
        target="tiny",
        recipe="bf16",
        backend="reference-1",
        graphs=False,
        device="cuda:0",
        read_ceiling=1e9,
        ceiling_source="1.0 GB/s",
        row_counts=(1, 5, 9),
        interrupted=True,
        profiles=(profile, on_cuda),
    )
    text = markdown(report)
    assert "Without the profiler **4.000 ms**, with it 5.000 ms: stretched 1.25×" in text
    assert text.count("| gaps | 1.5 |") == 1
    assert "**Interrupted after 2 of 3 row counts.**" in text
    assert msgspec.json.decode(msgspec.json.encode(report), type=ProfileReport) == report
