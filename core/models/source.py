"""Where a model comes from: the embedded one, a folder, a .gguf file or a hub id."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.fetch import embedded_model_path, is_fetched
from specmon.core.models.gguf_file import GgufFile
from specmon.core.models.gguf_tokenizer import tokenizer_from_gguf
from specmon.core.models.hf_folder import TRAINED_FORMS, HfFolder
from specmon.core.models.random_weights import PREFIX, RandomFile, RandomHead, RandomTensors, random_tensors
from specmon.core.models.tokenizer import Tokenizer, tokenizer_from_folder

EMBEDDED = "smollm2"
DATA = Path(__file__).resolve().parents[1] / "data"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ("*.safetensors", "*.json", "*.jinja")
_FINGERPRINT_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """A model found on this machine. `label` is what screens call it."""

    label: str
    file: HfFolder | GgufFile | RandomFile | RandomHead
    cache_dir: Path = Path()

    def tokenizer(self) -> Tokenizer:
        """Raises: SpecmonError where the model brings none that can be read."""
        if isinstance(self.file, RandomTensors):
            return _borrowed_tokenizer(self.cache_dir)
        if isinstance(self.file, GgufFile):
            return tokenizer_from_gguf(self.file.fields, self.file.path, self.file.config.eos_ids)
        return tokenizer_from_folder(self.file.folder, self.file.config.eos_ids)

    def fingerprint(self) -> str:
        """16 hex digits of a SHA-256 over the weights' sizes and the first and last MiB of each file."""
        if isinstance(self.file, RandomTensors):
            return hashlib.sha256(self.file.where.encode()).hexdigest()[:16]
        digest = hashlib.sha256()
        for path in self._weights():
            size = path.stat().st_size
            digest.update(size.to_bytes(8, "little"))
            with path.open("rb") as stream:
                digest.update(stream.read(_FINGERPRINT_BYTES))
                stream.seek(max(0, size - _FINGERPRINT_BYTES))
                digest.update(stream.read(_FINGERPRINT_BYTES))
        return digest.hexdigest()[:16]

    def _weights(self) -> list[Path]:
        if isinstance(self.file, GgufFile):
            return [self.file.path]
        assert isinstance(self.file, HfFolder)
        return sorted(self.file.folder.glob("*.safetensors"))


def _borrowed_tokenizer(cache_dir: Path) -> Tokenizer:
    """The embedded model's, for random weights; nothing ends a turn, since their text means nothing."""
    if not is_fetched(cache_dir):
        raise SpecmonError(
            "Random weights are decoded with SmolLM2's tokenizer, which is not here yet.",
            "Fetch it: specmon models fetch smollm2",
        )
    whole = open_model(EMBEDDED, cache_dir).tokenizer()
    return Tokenizer(whole.backend, template=whole.template, special=whole.special, eos_ids=())


def open_model(name: str, cache_dir: Path) -> Source:
    """Find the model `name`: "smollm2", "random:SHAPE[-eagle3]", a shipped drafter, a folder, a .gguf file, or a hub id.

    Args:
        cache_dir: the folder fetched models lie below.
    Raises: UsageError where there is no such model; SpecmonError where it cannot be read.
    """
    if name.startswith(PREFIX):
        return Source(name.removeprefix(PREFIX) + " (random)", random_tensors(name), cache_dir)
    if name == EMBEDDED:
        if not is_fetched(cache_dir):
            raise SpecmonError(
                "The embedded model is not here yet.", "Fetch it: specmon models fetch smollm2"
            )
        return Source("SmolLM2-135M", GgufFile(embedded_model_path(cache_dir)), cache_dir)
    shipped = DATA / name
    if re.fullmatch(r"[\w.-]+", name) and (shipped / "config.json").exists():
        return Source(name, HfFolder(shipped), cache_dir)
    path = Path(name).expanduser()
    if path.is_dir():
        return Source(_folder_label(path.resolve()), HfFolder(path), cache_dir)
    if path.is_file():
        if path.suffix != ".gguf":
            raise UsageError(f"{path} is no model.", "Give a folder with safetensors or a .gguf file.")
        return Source(path.stem, GgufFile(path), cache_dir)
    if _HUB_ID.fullmatch(name) and not name.startswith("."):
        return Source(name.split("/")[1], HfFolder(_from_hub(name)), cache_dir)
    raise UsageError(f"There is no model {name!r} here.", "Give smollm2, a folder, a .gguf file or a hub id.")


def _folder_label(folder: Path) -> str:
    """The folder's name; with its parent's where it says a format alone, as the folders of a training do."""
    return f"{folder.parent.name}/{folder.name}" if folder.name in TRAINED_FORMS else folder.name


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES)))
    except Exception as failed:
        first_line = str(failed).strip().splitlines()[0] if str(failed).strip() else type(failed).__name__
        raise SpecmonError(
            f"There is no folder {name}, and it cannot be had from the hub ({first_line}).",
            "Check the name and the connection, or give a local folder.",
        ) from failed
