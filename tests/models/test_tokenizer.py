"""Text in, text out: whole characters only, and the same tokens as the models' own tokenizers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny_models import SPECIAL, TinyModels, train_tokenizer

from specmon.core.errors import SpecmonError
from specmon.core.models.gguf_file import GgufFile
from specmon.core.models.source import Source, open_model
from specmon.core.models.tokenizer import Tokenizer, tokenizer_from_folder

HARD = [
    "plain words, punctuation... and 1234567 numbers!",
    "👩‍👩‍👧‍👦 family, 🇪🇺 flags, 👍🏽 skin",
    "e\u0301 n\u0303 combining, Ångström, İstanbul, ﬁ ligature",
    "漢字かな交じり文 العربية हिन्दी ภาษาไทย",
    "  leading\n\n\n newlines \t tabs \r\n  trailing   ",
    "def f(x):\n    return x**2  # it's a comment, isn't it?",
    "\x1b[31mred\x1b[0m \x00 \u200b \ufeff \ufffd",
    "<|im_start|>user\nhi<|im_end|>\n<|end|>",
    "",
    "ab" * 50,
]
BACKEND = train_tokenizer()


def tokenizer(**changes: object) -> Tokenizer:
    settings = {"template": None, "special": {}, "eos_ids": (0,), **changes}
    return Tokenizer(BACKEND, **settings)  # type: ignore[arg-type]


def streamed(made: Tokenizer, ids: list[int]) -> tuple[list[str], str]:
    stream = made.stream()
    return [stream.push(i) for i in ids], stream.finish()


@pytest.mark.parametrize("text", HARD)
def test_streaming_gives_back_the_text(text: str) -> None:
    made = tokenizer()
    ids = made.encode(text)

    pieces, rest = streamed(made, ids)

    assert "".join(pieces) + rest == BACKEND.decode(ids)
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


@given(st.text(max_size=30))
@settings(deadline=None, max_examples=60)
def test_any_text_streams_whole(text: str) -> None:
    made = tokenizer()
    ids = made.encode(text)

    pieces, rest = streamed(made, ids)

    assert "".join(pieces) + rest == BACKEND.decode(ids)


@given(st.lists(st.integers(0, 299), max_size=40))
@settings(deadline=None, max_examples=100)
def test_any_tokens_stream_like_their_whole_decode(ids: list[int]) -> None:
    """Random bytes, invalid UTF-8 among them."""
    pieces, rest = streamed(tokenizer(), ids)

    assert "".join(pieces) + rest == BACKEND.decode(ids)


def test_no_piece_holds_half_a_character() -> None:
    made = tokenizer()
    for character in "ñ語🎈":
        ids = made.encode(character)
        assert len(ids) > 1

        pieces, rest = streamed(made, ids)

        assert pieces == [""] * (len(ids) - 1) + [character]
        assert rest == ""


def test_bytes_that_never_become_a_character_come_out_at_the_end() -> None:
    made = tokenizer()

    cut = made.encode("🎈")[:-1]

    pieces, rest = streamed(made, cut)

    assert (pieces, rest) == ([""] * len(cut), "\ufffd")


def test_special_tokens_have_a_piece_but_no_text() -> None:
    made = tokenizer()

    assert made.piece(1) == SPECIAL[1]
    assert streamed(made, [1, *made.encode("hi"), 0]) == (["", *map(made.piece, made.encode("hi")), ""], "")


# --- chat templates ----------------------------------------------------------------------------------------------


def test_folder_s_template_makes_the_prompt(tiny: TinyModels) -> None:
    made = tokenizer_from_folder(tiny.target(), ())

    ids = made.encode_chat([("system", "be kind"), ("user", "hi")])

    text = made.backend.decode(ids, skip_special_tokens=False)
    assert text == "<|system|>be kind<|end|><|user|>hi<|end|><|assistant|>"
    assert made.eos_ids == (0,)


def test_no_template_joins_the_contents() -> None:
    made = tokenizer()

    assert made.encode_chat([("user", "a"), ("assistant", "b")]) == made.encode("a\n\nb")


def test_refusing_template_is_said() -> None:
    made = tokenizer(template="{{ raise_exception('users first') }}")

    with pytest.raises(SpecmonError, match=r"chat template refuses this conversation: users first\."):
        made.encode_chat([("assistant", "hi")])


@pytest.mark.parametrize(
    "template",
    ["{% for m in messages %}", "{{ messages.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ 1/0 }}"],
)
def test_hostile_template_does_nothing_else(template: str) -> None:
    with pytest.raises(SpecmonError, match="chat template refuses this conversation"):
        tokenizer(template=template).encode_chat([("user", "hi")])


def test_eos_ids_come_from_every_file(tiny: TinyModels, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny.target() / name).read_bytes())
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 0]}')

    assert tokenizer_from_folder(tmp_path, (7,)).eos_ids == (7, 3, 0)


# --- GGUF --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HARD)
def test_gguf_tokenizer_equals_the_folder_s(tiny: TinyModels, text: str) -> None:
    own = open_model(str(tiny.gguf()), tiny.root).tokenizer()
    folder = open_model(str(tiny.target()), tiny.root).tokenizer()

    assert own.encode(text) == folder.encode(text)
    assert own.encode_chat([("user", text)]) == folder.encode_chat([("user", text)])
    assert own.eos_ids == folder.eos_ids


@pytest.mark.embedded
def test_embedded_tokenizer_equals_transformers(embedded_path: Path) -> None:
    theirs_gguf = pytest.importorskip("transformers.integrations.gguf")
    architecture, raw, _ = theirs_gguf.get_gguf_tokenizer(str(embedded_path))
    theirs, _ = theirs_gguf.convert_gguf_tokenizer(architecture, raw)

    own = Source("SmolLM2", GgufFile(embedded_path)).tokenizer()

    dice = random.Random(0)
    random_texts = [own.backend.decode(dice.choices(range(49152), k=30)) for _ in range(5)]
    for text in [*HARD, *random_texts]:
        assert own.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text
    assert [own.backend.id_to_token(i) for i in own.eos_ids] == ["<|im_end|>"]
