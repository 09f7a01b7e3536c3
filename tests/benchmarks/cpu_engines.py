"""The engines that `cpu_baselines` compares, each alone in a process that is pinned to its cores.

An engine takes token ids and decodes greedily. Its decode time runs from token one to the last token, so that loading,
tokenising and prefill are outside it, as in specmon's own figures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """One greedy decode: text and count of its tokens, token one included; time from token one to the last."""

    text: str
    n_tokens: int
    decode_ms: float
    first_token_ms: float

    @property
    def ms_per_token(self) -> float:
        return self.decode_ms / (self.n_tokens - 1)


Decode = Callable[[str, Sequence[int], int], Decoded]


def specmon_ar(path: Path, threads: int) -> Decode:
    """specmon's AR decoder with the recipe it picks for a CPU."""
    from specmon.core.decoders.lane import DecodeLane
    from specmon.core.engine.messages import LaneConfig, Request
    from specmon.core.events import Prefill, Round, TurnEnd
    from specmon.core.models.pool import ModelPool

    lane = DecodeLane(
        LaneConfig(decoder="ar", target=str(path), devices="cpu:0"),
        pool=ModelPool(),
        progress=lambda what, fraction: None,
        clock=time.perf_counter_ns,
    )

    def decode(prompt: str, prompt_ids: Sequence[int], max_new_tokens: int) -> Decoded:
        request = Request(messages=(("user", prompt),), max_new_tokens=max_new_tokens)
        events = list(lane.generate(request, lane=0, turn=0, cancelled=lambda: False))
        (prefill,) = (event for event in events if isinstance(event, Prefill))
        rounds = [event for event in events if isinstance(event, Round)]
        end = events[-1]
        assert isinstance(end, TurnEnd)
        return Decoded(
            text="".join([prefill.text, *(piece for r in rounds for piece in r.text), end.text]),
            n_tokens=end.n_tokens,
            decode_ms=(rounds[-1].t1 - prefill.t) / 1e6,
            first_token_ms=(prefill.t - prefill.t0) / 1e6,
        )

    return decode


def llama_cpp(path: Path, threads: int) -> Decode:
    """llama.cpp as PyPI's xllamacpp ships it. Its own clock starts at token one."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = 1024, 1, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)

    def decode(prompt: str, prompt_ids: Sequence[int], max_new_tokens: int) -> Decoded:
        asked = {"prompt": list(prompt_ids), "n_predict": max_new_tokens, "temperature": 0, "top_k": 1}
        answer = server.handle_completions({**asked, "samplers": ["top_k"], "cache_prompt": False})
        timings = answer["timings"]
        return Decoded(
            text=answer["choices"][0]["text"],
            n_tokens=answer["usage"]["completion_tokens"],
            decode_ms=timings["predicted_ms"],
            first_token_ms=timings["prompt_ms"],
        )

    return decode


def hugging_face(dtype_name: str) -> Callable[[Path, int], Decode]:
    """transformers' generate on the weights of the same file, widened to `dtype_name`."""

    def build(path: Path, threads: int) -> Decode:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        from transformers.generation.streamers import BaseStreamer

        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
        config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name)
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype_name)).eval()
        model.load_state_dict(_dense_weights(path), strict=False)
        model.tie_weights()

        class Stamps(BaseStreamer):  # type: ignore[misc]
            """Notes when each token, the prompt first, is handed over."""

            def __init__(self) -> None:
                self.times: list[float] = []

            def put(self, value: Any) -> None:
                self.times.append(time.perf_counter())

            def end(self) -> None: ...

        def decode(prompt: str, prompt_ids: Sequence[int], max_new_tokens: int) -> Decoded:
            ids, stamps = torch.tensor([list(prompt_ids)]), Stamps()
            output = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                streamer=stamps,
            )
            tokens = output[0, len(prompt_ids) :].tolist()
            prompt_time, first, *_, last = stamps.times
            return Decoded(
                text=tokenizer.decode(tokens, skip_special_tokens=True),
                n_tokens=len(tokens),
                decode_ms=(last - first) * 1e3,
                first_token_ms=(first - prompt_time) * 1e3,
            )

        return decode

    return build


def _dense_weights(path: Path) -> dict[str, Any]:
    """The file's tensors in fp32 under Hugging Face's names (transformers' own GGUF loading needs accelerate)."""
    from specmon.core.models.gguf_file import GgufFile
    from specmon.kernels.dequantise.reference import dequantise_gguf

    file = GgufFile(path)
    tensors = {name: file.read(name) for name in file.names()}
    return {
        name: stored.data if stored.kind == "dense" else dequantise_gguf(stored.gguf_type, stored.data)
        for name, stored in tensors.items()
    }


ENGINES: dict[str, Callable[[Path, int], Decode]] = {
    "specmon": specmon_ar,
    "llama.cpp": llama_cpp,
    "hf bf16": hugging_face("bfloat16"),
    "hf fp32": hugging_face("float32"),
}


class EngineProcess:
    """An engine in a process of its own, pinned to `cores`, one thread a core."""

    def __init__(self, name: str, path: Path, cores: Sequence[int]) -> None:
        context = get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, name, path, tuple(cores)), daemon=True)
        self._process.start()
        child.close()

    def decode(self, prompt: str, prompt_ids: Sequence[int], max_new_tokens: int) -> Decoded:
        """Raises: EOFError if the engine died."""
        self._connection.send((prompt, list(prompt_ids), max_new_tokens))
        decoded: Decoded = self._connection.recv()
        return decoded

    def close(self) -> None:
        self._connection.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.terminate()


def _serve(connection: Connection, name: str, path: Path, cores: tuple[int, ...]) -> None:
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))
    import torch

    torch.set_num_threads(len(cores))
    decode = ENGINES[name](path, len(cores))
    while True:
        try:
            asked = connection.recv()
        except EOFError:
            return
        connection.send(decode(*asked))
