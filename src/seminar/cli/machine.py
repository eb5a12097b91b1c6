"""This machine -> what it has, and for what is missing the command that brings it (`seminar doctor`)."""

import os
import platform
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import torch
from huggingface_hub import constants
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from seminar.errors import RunError
from seminar.models.embedded import SOURCES, TINY_NOTICE, cache_folder, hub_reachable, source
from seminar.rewards.sandbox import working_setup


class Fact(NamedTuple):
    """One line of the report."""

    name: str
    value: str
    advice: str = ""
    """What to do where something is missing."""


def facts() -> list[Fact]:
    """All lines: packages, cores, GPU, hub, optional packages, sandbox, base models, caches."""
    return [
        Fact("seminar", f"{metadata.version('seminar')}, Python {platform.python_version()}"),
        processor(),
        *graphics(torch.__version__, driver=shutil.which("nvidia-smi") is not None),
        hub(),
        *extras(metadata.requires("seminar") or [], installed=_installed()),
        sandbox(),
        Fact("smollm2", SOURCES[source()]),
        Fact("tiny", f"in the package; {TINY_NOTICE}"),
        kept("our cache", cache_folder()),
        kept("hub's cache", Path(constants.HF_HUB_CACHE)),
    ]


def processor() -> Fact:
    """Cores, the threads torch uses of them, and memory."""
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    threads = torch.get_num_threads()
    return Fact(
        "processor", f"{os.cpu_count()} cores, {threads} torch threads, {memory_gib:.1f} GiB of memory"
    )


def graphics(torch_version: str, *, driver: bool) -> list[Fact]:
    """The build of torch and the GPUs it sees; `driver`: whether NVIDIA's driver is installed."""
    kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
    kind = kind if torch.version.cuda or torch.version.hip else "no CUDA"
    found = [Fact("torch", f"{torch_version}, {kind}")]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            found.append(Fact(f"gpu {index}", f"{device.name}, {device.total_memory / 2**30:.1f} GiB"))
    elif driver:
        release = torch_version.partition("+")[0]
        advice = f"pip install --force-reinstall torch=={release}"
        found.append(Fact("gpu", "NVIDIA's driver is here, but this torch does not use it", advice))
    else:
        found.append(Fact("gpu", "none; everything runs on the processor"))
    return found


def hub() -> Fact:
    """Whether the model hub answers."""
    if constants.HF_HUB_OFFLINE:
        return Fact("hub", "off", "unset HF_HUB_OFFLINE")
    if hub_reachable():
        return Fact("hub", f"{constants.ENDPOINT} answers")
    return Fact(
        "hub", f"{constants.ENDPOINT} does not answer; embedded models and local files work without it"
    )


def extras(requirements: Sequence[str], *, installed: Mapping[str, str]) -> list[Fact]:
    """One line an optional set of packages, from package metadata and installed name -> version."""
    wanted: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, requirements):
        if found := re.search(r"extra == ['\"](\w+)['\"]", str(requirement.marker)):
            wanted.setdefault(found[1], []).append(requirement)
    return [_extra(name, parts, installed) for name, parts in wanted.items()]


def sandbox() -> Fact:
    """How programs of code tasks are confined."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what they say stands in the advice
            setup = working_setup()
    except RunError as error:
        return Fact("sandbox", str(error))
    missing = [] if setup.kind == "bubblewrap" else ["bubblewrap"]
    missing += [] if setup.filtered else ["libseccomp2"]
    value = f"{setup.kind}, {'system calls filtered' if setup.filtered else 'system calls not filtered'}"
    return Fact("sandbox", value, f"apt-get install {' '.join(missing)}" if missing else "")


def kept(name: str, folder: Path) -> Fact:
    """A cache folder and its size."""
    if not folder.is_dir():
        return Fact(name, f"{folder} (nothing there)")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return Fact(name, f"{folder} ({size / 1e6:,.0f} MB)")


def _extra(name: str, requirements: Sequence[Requirement], installed: Mapping[str, str]) -> Fact:
    found, missing = [], []
    for requirement in requirements:
        version = installed.get(canonicalize_name(requirement.name))
        if version is not None and version in requirement.specifier:
            found.append(f"{requirement.name} {version}")
        else:
            missing.append(f"{requirement.name} {version or ''}".rstrip())
    value = ", ".join(found) or "nothing installed"
    if not missing:
        return Fact(f"[{name}]", value)
    return Fact(f"[{name}]", f"{value}; missing {', '.join(missing)}", f"pip install 'seminar[{name}]'")


def _installed() -> dict[str, str]:
    return {canonicalize_name(found.name): found.version for found in metadata.distributions()}
