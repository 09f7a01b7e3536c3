"""Run the headless main job on the embedded model and hold its promises against the output.

AR, SD and SSD must give the same tokens; SD must gain from its draft, SSD must hit and overlap; each
recording must check and replay to the JSON of the live run; every check of `specmon check` must pass. Needs `specmon`
beside the Python that runs this.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SPECMON = Path(sys.executable).with_name("specmon")
PROMPT = "Write a Python function that merges two sorted lists."
MAX_NEW_TOKENS = "96"
#: Each check's options: two drafted tokens and a part of the text, for two minutes in all on two cores.
CHECKS = {"agreement": ("--draft-len", "2"), "reference": (), "quality": ("--tokens", "512")}


def specmon(*args: str) -> str:
    """The standard output of one command; its standard error goes to ours. Raises: CalledProcessError."""
    done = subprocess.run(
        [SPECMON, *args], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True
    )
    return done.stdout


def decode(decoder: str, folder: Path) -> dict[str, Any]:
    """Decode the prompt, recording it, and check that the recording says the same. Returns the live JSON."""
    recording = str(folder / f"{decoder}.session")
    options = ["--decoder", decoder, "--max-new-tokens", MAX_NEW_TOKENS, "--record", recording]
    live: dict[str, Any] = json.loads(specmon("run", "--plain", "--json", "-p", PROMPT, *options))
    print(specmon("replay", "--check", recording).strip())
    replayed = json.loads(specmon("replay", "--plain", "--json", recording))
    expect(f"{decoder}: the replay's JSON is the live run's", replayed == live)
    text = specmon("replay", "--plain", recording)
    expect(f"{decoder}: the replay's text is the live run's", text == live["text"])
    return live


def passes(check: str) -> bool:
    """Whether one check passes; its report goes to our standard output."""
    done = subprocess.run([SPECMON, "check", check, *CHECKS[check]], stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def expect(what: str, holds: bool) -> None:
    """Report one promise; a broken one ends the run."""
    print(f"{'ok' if holds else 'BROKEN':<7}{what}", flush=True)
    if not holds:
        sys.exit(1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ar, sd, ssd = (decode(decoder, Path(folder)) for decoder in ("ar", "sd", "ssd"))
    expect(f"{MAX_NEW_TOKENS} tokens or fewer", 1 < ar["n_tokens"] <= int(MAX_NEW_TOKENS))
    expect("sd gives ar's tokens", sd["tokens"] == ar["tokens"])
    expect("ssd gives ar's tokens", ssd["tokens"] == ar["tokens"])
    expect(f"sd: {sd['tokens_per_round']:.2f} tokens a round, above 1.7", sd["tokens_per_round"] > 1.7)
    expect(f"ssd: branch hit rate {ssd['branch_hit_rate']:.2f}, above 0", ssd["branch_hit_rate"] > 0)
    expect(f"ssd: {ssd['overlap_ms']:.0f} ms overlap, above 0", ssd["overlap_ms"] > 0)
    race = json.loads(specmon("race", "--plain", "--json", "-p", PROMPT, "--max-new-tokens", MAX_NEW_TOKENS))
    expect("race: all lanes are equal", race["equal"] is True)
    expect("race: the lanes give the run's tokens", race["lanes"][0]["tokens"] == ar["tokens"])
    for check in CHECKS:
        expect(f"check {check} passes", passes(check))


if __name__ == "__main__":
    main()
