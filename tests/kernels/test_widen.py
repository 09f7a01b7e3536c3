"""e4m3 numbers as bf16 are themselves."""

import pytest
import torch

from specmon.kernels.quantise.reference import FP8
from specmon.kernels.quantise.widen import widen

GPU = torch.cuda.is_available()


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("cpu", marks=pytest.mark.skipif(GPU, reason="is compiled where there is a GPU")),
        pytest.param(
            "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPU, reason="needs a CUDA device")]
        ),
    ],
)
@pytest.mark.parametrize("shape", [(256,), (3, 3001), (1,)], ids=str)
def test_every_number_is_kept(device: str, shape: tuple[int, ...]) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    codes = codes[~codes.view(FP8).float().isnan()]
    n_numbers = torch.Size(shape).numel()
    x = codes.repeat(-(-n_numbers // len(codes)))[:n_numbers].view(shape).view(FP8)

    found = widen(x.to(device)).cpu()

    assert found.dtype == torch.bfloat16
    assert torch.equal(found, x.float().bfloat16())
