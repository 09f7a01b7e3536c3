"""The matmuls of a decode step as the Triton backend runs them, from a model's configuration alone."""

from __future__ import annotations

from dataclasses import replace

from specmon.core.models.config import ModelConfig
from specmon.kernels.stream.schedule import pair_group
from specmon.kernels.stream.shapes import HeadShape, Matmul


def matmuls_of(config: ModelConfig, weights: str = "bf16") -> list[Matmul]:
    """One of each op, with weights in the format `weights`; layers are alike."""
    c = config
    heads = HeadShape(n_heads=c.n_heads, n_kv_heads=c.n_kv_heads, head_dim=c.head_dim)
    rows = c.q_heads_dim + 2 * c.kv_heads_dim
    matmuls = [
        Matmul(op="qkv", n=rows, k=c.hidden_size, heads=heads, biased=c.qkv_bias, head_norms=c.qk_norm),
        Matmul(op="o", n=c.hidden_size, k=c.q_heads_dim, group=c.head_dim, biased=c.o_bias),
        Matmul(op="gate_up", n=c.intermediate_size, k=c.hidden_size),
        Matmul(op="down", n=c.hidden_size, k=c.intermediate_size, biased=c.mlp_bias),
        Matmul(op="head", n=c.vocab_size, k=c.hidden_size),
    ]
    return [replace(matmul, weights=weights) for matmul in matmuls]


def eagle3_matmuls(config: ModelConfig, draft_vocab: int, weights: str = "bf16") -> list[Matmul]:
    """Those of an EAGLE-3 head's step: qkv reads embedding and feature, the head has a vocabulary of its own."""
    width = config.hidden_size
    qkv, o, gate_up, down, head = matmuls_of(config, weights)
    qkv = replace(qkv, k=2 * width, group=pair_group(width))
    return [qkv, o, gate_up, down, replace(head, n=draft_vocab)]
