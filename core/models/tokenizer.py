"""Text to token ids and back: the Hugging Face tokenizers library, a chat template, streaming."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HfTokenizer
from tokenizers.decoders import DecodeStream

from specmon.core.errors import SpecmonError


class Tokenizer:
    """A model's tokenizer with its chat template.

    Args:
        backend: the tokenizers library's object. template: Jinja source, None where the model has none.
        special: named special tokens for the template ("bos_token" -> "<s>").
        eos_ids: ids that end a turn. bos_id: put first in raw prompts where the model wants it.
    """

    def __init__(
        self,
        backend: HfTokenizer,
        *,
        template: str | None,
        special: dict[str, str],
        eos_ids: tuple[int, ...],
    ) -> None:
        self.backend = backend
        self.template = template
        self.special = special
        self.eos_ids = eos_ids

    @property
    def vocab_size(self) -> int:
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def tokens(self) -> dict[int, str]:
        """Every id it knows, and the token's name in its vocabulary."""
        return {i: token for token, i in self.backend.get_vocab(with_added_tokens=True).items()}

    def encode(self, text: str) -> list[int]:
        """Token ids of a raw prompt, with the special tokens the model puts around one."""
        return list(self.backend.encode(text).ids)

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Token ids of a conversation through the chat template, ready for the assistant's answer.

        Raises: SpecmonError where the template refuses the messages. Without a template the contents are joined.
        """
        if self.template is None:
            return self.encode("\n\n".join(content for _, content in messages))
        text = _render(self.template, messages, self.special)
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def piece(self, token_id: int) -> str:
        """A token's own text, special tokens by name; bytes that are no whole character appear as U+FFFD."""
        return str(self.backend.decode([token_id], skip_special_tokens=False))

    def stream(self) -> TextStream:
        return TextStream(self.backend)


class TextStream:
    """Token ids in, text out, never half a UTF-8 character."""

    def __init__(self, backend: HfTokenizer) -> None:
        self._backend = backend
        self._stream = DecodeStream(skip_special_tokens=True)
        self._pending: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that is complete now; "" while a character's bytes are still coming."""
        text = self._stream.step(self._backend, token_id)
        if text is None:
            self._pending.append(token_id)
            return ""
        self._pending.clear()
        return text

    def finish(self) -> str:
        """What is held back at the end: incomplete bytes as U+FFFD."""
        pending, self._pending = self._pending, []
        return str(self._backend.decode(pending, skip_special_tokens=True)) if pending else ""


def _render(template: str, messages: Sequence[tuple[str, str]], special: dict[str, str]) -> str:
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **kw: json.dumps(value, ensure_ascii=False, **kw)
    environment.globals["raise_exception"] = refuse
    turns = [{"role": role, "content": content} for role, content in messages]
    try:
        return environment.from_string(template).render(messages=turns, add_generation_prompt=True, **special)
    except Exception as bad:  # a template is the model's own program: it can fail in any way
        raise SpecmonError(f"The model's chat template refuses this conversation: {bad}.") from bad


def tokenizer_from_folder(folder: Path, eos_ids: tuple[int, ...]) -> Tokenizer:
    """Read tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json."""
    path = folder / "tokenizer.json"
    if not path.exists():
        raise SpecmonError(f"{folder} has no tokenizer.json.", "Save the model with a fast tokenizer.")
    try:
        backend = HfTokenizer.from_file(str(path))
    except Exception as bad:
        raise SpecmonError(f"{path} cannot be read: {bad}.") from bad
    settings = _optional_json(folder / "tokenizer_config.json")
    jinja = folder / "chat_template.jinja"
    template = jinja.read_text(encoding="utf-8") if jinja.exists() else settings.get("chat_template")
    if isinstance(template, list):  # several named templates
        template = next((t["template"] for t in template if t.get("name") == "default"), None)
    special = {key: _token_text(value) for key, value in settings.items() if key.endswith("_token")}
    generation = _optional_json(folder / "generation_config.json").get("eos_token_id")
    extra = generation if isinstance(generation, list) else [generation] if generation is not None else []
    named = backend.token_to_id(special.get("eos_token", ""))
    ids = [*eos_ids, *extra, *([named] if named is not None else [])]
    return Tokenizer(
        backend, template=template, special=special, eos_ids=tuple(dict.fromkeys(int(i) for i in ids))
    )


def _optional_json(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as bad:
        raise SpecmonError(f"{path} cannot be read: {bad}.") from bad
    return parsed if isinstance(parsed, dict) else {}


def _token_text(value: Any) -> str:
    return str(value["content"]) if isinstance(value, dict) else str(value or "")
