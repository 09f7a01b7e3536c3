"""Names for the matmuls of a reference model, that a profiler can see."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specmon.core.models.transformer import Layer, Transformer
from specmon.kernels.linear import Linear

PREFIX = "specmon "


class Switch:
    """Whether ranges are marked: off, a named matmul costs what it costs without a name."""

    on = False


class NamedLinear:
    """`linear`, each call within a range called after its group."""

    def __init__(self, linear: Linear, group: str, switch: Switch) -> None:
        self._linear, self._name, self._switch = linear, PREFIX + group, switch
        self.dtype, self.weight_bytes = linear.dtype, linear.weight_bytes
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def __call__(self, x_RK: Tensor) -> Tensor:
        """Shapes: x_RK [R, K] -> [R, N]."""
        if not self._switch.on:
            return self._linear(x_RK)
        with torch.profiler.record_function(self._name):
            return self._linear(x_RK)


def named(model: Transformer, switch: Switch) -> Transformer:
    """`model` with a name on each of its matmuls; weights are shared."""
    return Transformer(
        model.config,
        embedding_VD=model.embedding_VD,
        layers=[_named_layer(layer, switch) for layer in model.layers],
        norm=model.norm,
        head=NamedLinear(model.head, "head", switch),
        rope=model.rope,
    )


def _named_layer(layer: Layer, switch: Switch) -> Layer:
    attention = replace(
        layer.attention,
        qkv=NamedLinear(layer.attention.qkv, "qkv", switch),
        o=NamedLinear(layer.attention.o, "o", switch),
    )
    mlp = replace(
        layer.mlp,
        gate_up=NamedLinear(layer.mlp.gate_up, "gate_up", switch),
        down=NamedLinear(layer.mlp.down, "down", switch),
    )
    return replace(layer, attention=attention, mlp=mlp)
