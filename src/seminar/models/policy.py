"""One frozen base model with named LoRA adapters: switch, copy, save, load, and score packed batches."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.utils import set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.logging import disable_progress_bar

from seminar.errors import ConfigError, ModelError
from seminar.models import packed
from seminar.models.attention import attention_of
from seminar.models.forward import hidden_states
from seminar.models.fused import Fused, adapt, fuse, misfit
from seminar.models.logprobs import chosen_logprobs
from seminar.models.lora import LoraPair, adapted
from seminar.types import Batch, Row

SELF_CHECK_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.3, torch.float16: 0.1}
"""Largest mean gap in nats a token, allowed at load, between our scoring of packed rows and the model's own
forward; bfloat16 alone moves a token by .05."""


class Policy:
    """A frozen base and its adapters. Adapters live in float32 whatever the dtype of the base."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Freeze `model` and check that packed scoring agrees with its own forward."""
        self.tokenizer = tokenizer
        self.base = model.requires_grad_(False).eval()
        self.base.set_attn_implementation(packed.NAME)
        self.model: PeftModel | None = None
        self.versions: dict[str, int] = {}
        self.eos_ids = _eos_ids(model, tokenizer)
        self.misfit = misfit(self.base)
        """Why the model runs by transformers' own modules; None where it is fused."""
        self.fused: Fused | None = fuse(self.base) if self.misfit is None else None
        self._active: str | None = None
        self._speaker: str | None = None
        self._dropout = 0.0
        self._check_scoring()

    @property
    def config(self) -> PreTrainedConfig:
        """The base's config."""
        config: PreTrainedConfig = self.base.config
        return config

    @property
    def device(self) -> torch.device:
        """Where the base lives."""
        return torch.device(self.base.device)

    @property
    def dtype(self) -> torch.dtype:
        """Compute dtype of the frozen base."""
        dtype: torch.dtype = self.base.dtype
        return dtype

    @property
    def context(self) -> int:
        """Longest sequence of tokens the base was built for."""
        return int(getattr(self.base.config, "max_position_embeddings", 1 << 30))

    # -- adapters
    # -----------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        *,
        rank: int,
        alpha: float,
        dropout: float,
        targets: Sequence[str],
        seed: Sequence[int],
    ) -> None:
        """Add a blank adapter (B = 0, so it changes nothing yet); its A is drawn from `seed` alone."""
        if name in self.versions:
            raise ModelError(f"adapter {name!r} exists already; names must differ. Choose another name.")
        config = LoraConfig(
            r=rank,
            lora_alpha=alpha,  # type: ignore[arg-type]  # peft scales by alpha / r, any number will do
            lora_dropout=dropout,
            target_modules=list(targets),
            task_type="CAUSAL_LM",
        )
        self._inject(name, config)
        numbers = np.random.default_rng(list(seed))
        for pair in self.adapter(name).values():
            bound = (
                pair.A.shape[1] ** -0.5
            )  # kaiming uniform with a = sqrt(5), as in Hu et al. 2021's code and PEFT
            with torch.no_grad():
                pair.A.copy_(torch.from_numpy(numbers.uniform(-bound, bound, size=pair.A.shape)))

    def copy(self, source: str, name: str) -> None:
        """Add adapter `name` with the settings and weights of `source`."""
        model = self._peft()
        config = LoraConfig(**{k: v for k, v in vars(model.peft_config[source]).items() if k in _FIELDS})
        self._inject(name, config)
        theirs = self.adapter(source)
        with torch.no_grad():
            for path, pair in self.adapter(name).items():
                pair.A.copy_(theirs[path].A)
                pair.B.copy_(theirs[path].B)

    def remove(self, name: str) -> None:
        """Forget an adapter and free its memory."""
        del self.versions[name]
        if self.versions:  # peft warns where the active one goes
            self._peft().set_adapter(next(iter(self.versions)))
        self._peft().delete_adapter(name)
        self._active = None

    def adapter(self, name: str) -> dict[str, LoraPair]:
        """Live tensors of an adapter by module path in the base model."""
        if name not in self.versions:
            raise ModelError(f"adapter {name!r} is unknown; there are: {', '.join(self.versions) or 'none'}.")
        return {
            path: LoraPair(layer.lora_A[name].weight, layer.lora_B[name].weight, float(layer.scaling[name]))
            for path, layer in self._layers()
            if name in layer.lora_A
        }

    def parameters(self, name: str) -> dict[str, Tensor]:
        """Trainable tensors of an adapter, by a stable name, in a stable order."""
        pairs = self.adapter(name)
        return {f"{p}.{k}": t for p, pair in pairs.items() for k, t in (("A", pair.A), ("B", pair.B))}

    @contextmanager
    def active(self, name: str | None) -> Iterator[None]:
        """Within the block the model speaks with adapter `name`; None: the bare base."""
        if name is not None and name not in self.versions:
            raise ModelError(f"adapter {name!r} is unknown; there are: {', '.join(self.versions) or 'none'}.")
        before, self._speaker = self._speaker, name
        try:
            with nullcontext() if name or self.model is None else self.model.disable_adapter():
                if name is not None and self._active != name:
                    self._peft().set_adapter(name)
                    self._active = name
                yield
        finally:
            self._speaker = before

    def save(self, name: str, folder: Path) -> None:
        """Write an adapter in PEFT's own format into an existing folder."""
        model = self._peft()
        state = get_peft_model_state_dict(model, adapter_name=name)
        save_file({k: v.contiguous().cpu() for k, v in state.items()}, folder / "adapter_model.safetensors")
        config: Any = copy(model.peft_config[name])
        config.target_modules = sorted(config.target_modules)  # a set: its order differs between processes
        config.save_pretrained(str(folder))

    def load(self, name: str, folder: Path) -> None:
        """Add adapter `name` from a folder in PEFT's format; one that does not fit this base is refused."""
        try:
            config = LoraConfig.from_pretrained(str(folder))
            state = load_file(folder / "adapter_model.safetensors")
        except (OSError, ValueError, SafetensorError) as error:
            raise ModelError(
                f"adapter folder {folder} cannot be read ({error}); PEFT's two files are needed, "
                "adapter_config.json and adapter_model.safetensors. Restore them, or train again."
            ) from error
        if config.use_dora or config.lora_bias:
            raise ModelError(
                f"adapter folder {folder} has {'DoRA' if config.use_dora else 'LoRA biases'}; plain LoRA is "
                "served and trained here. Convert it, or train another."
            )
        config.inference_mode = False
        try:
            self._inject(name, config)
            report: Any = set_peft_model_state_dict(self._peft(), state, adapter_name=name)
        except (RuntimeError, ValueError) as error:
            if name in self.versions:
                self.remove(name)
            raise ModelError(
                f"adapter folder {folder} does not fit base {self.base.name_or_path}: "
                f"{' '.join(str(error).splitlines()[:2])} Use the base of its adapter_config.json."
            ) from error
        missing = [key for key in report.missing_keys if f".{name}." in key and "lora_" in key]
        if missing or report.unexpected_keys:
            self.remove(name)
            raise ModelError(
                f"adapter folder {folder} does not fit base {self.base.name_or_path}: {len(missing)} layers "
                f"have no weights and {len(report.unexpected_keys)} weights no layer. "
                "Use the base of its adapter_config.json."
            )

    # -- scoring
    # ------------------------------------------------------------------------------------------------

    def hidden(self, batch: Batch) -> Tensor:
        """Last hidden states [N, H] of a packed batch under the active adapter."""
        device = self.device
        ids_N, position_N = (torch.from_numpy(x).to(device) for x in (batch.ids_N, batch.positions_N))
        if self.fused is not None:
            name = self._speaker
            return hidden_states(
                self.fused,
                adapt(self.fused, {} if name is None else self.adapter(name), name=str(name)),
                ids_N=ids_N,
                position_N=position_N,
                attend=attention_of(batch.rows, device=device, dtype=self.dtype),
                dropout=self._dropout,
            )
        with self.active(self._speaker):
            output = self.base.base_model(
                input_ids=ids_N[None],
                position_ids=position_N[None],
                attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
                use_cache=False,
                layout=packed.layout(batch.rows, device=device, dtype=self.dtype),
            )
        return output.last_hidden_state[0]  # type: ignore[no-any-return]

    def logprobs(self, batch: Batch, *, hidden: Tensor | None = None) -> Tensor:
        """Log-probabilities [C] of a batch's completion tokens at their own temperatures, active adapter,
        float32."""
        hidden = self.hidden(batch) if hidden is None else hidden
        device = self.device
        return chosen_logprobs(
            hidden[torch.from_numpy(batch.source_C).to(device)],
            self.base.get_output_embeddings().weight,
            torch.from_numpy(batch.target_C).to(device),
            torch.from_numpy(batch.temperature_C).to(device),
        )

    def drops(self, name: str) -> bool:
        """Whether an adapter has dropout."""
        config: Any = self._peft().peft_config[name]
        return bool(config.lora_dropout)

    @contextmanager
    def dropout(self, name: str, *, seed: int) -> Iterator[None]:
        """Within the block the adapter's dropout is on, with random numbers that depend on `seed` alone."""
        modules = [layer.lora_dropout[name] for _, layer in self._layers() if name in layer.lora_dropout]
        with torch.random.fork_rng(devices=[] if self.device.type == "cpu" else [self.device]):
            torch.manual_seed(seed)
            for module in modules:
                module.train()
            config: Any = self._peft().peft_config[name]
            self._dropout = config.lora_dropout
            try:
                yield
            finally:
                self._dropout = 0.0
                for module in modules:
                    module.eval()

    # -- helpers
    # ------------------------------------------------------------------------------------------------

    def _inject(self, name: str, config: LoraConfig) -> None:
        try:
            if self.model is None:
                self.model = adapted(self.base, config, adapter_name=name)
            else:
                self.model.add_adapter(name, config)
        except ValueError as error:
            raise ModelError(
                f"adapter {name!r} cannot be put on {self.base.name_or_path}: {error}"
            ) from error
        self.versions[name] = 0
        self._active = None
        self.base.eval()

    def _layers(self) -> Iterator[tuple[str, Any]]:
        """Adapted layers by path; PEFT's own types say too little of them."""
        return ((path, module) for path, module in self.base.named_modules() if isinstance(module, LoraLayer))

    def _peft(self) -> PeftModel:
        if self.model is None:
            raise ModelError("this policy has no adapters yet; add or load one first.")
        return self.model

    def _check_scoring(self) -> None:
        ids = np.linspace(0.02, 0.9, 30) * self.base.config.vocab_size  # ordinary tokens, few of them special
        ids = ids.astype(np.int64)
        batch = Batch(
            agent="",
            rows=(Row(start=0, prompt=4, lengths=(26,)),),
            ids_N=ids,
            positions_N=np.arange(30),
            source_C=np.arange(3, 29),
            target_C=ids[4:],
            sample_C=np.zeros(26, dtype=np.int64),
            temperature_C=np.ones(26, dtype=np.float32),
            advantage_C=np.zeros(26, dtype=np.float32),
            engine_logprob_C=np.zeros(26, dtype=np.float32),
            length_S=np.array([26]),
            weight_S=np.ones(1, dtype=np.float32),
        )
        with torch.no_grad():
            logits = (
                self.base(torch.from_numpy(ids)[None].to(self.device), use_cache=False)
                .logits[0]
                .float()
                .cpu()
            )
            theirs = logits.log_softmax(-1)[3:29].gather(1, torch.from_numpy(ids[4:, None])).squeeze(1)
            gap = float((self.logprobs(batch).cpu() - theirs).abs().mean())
        if not gap <= SELF_CHECK_TOLERANCE[self.dtype]:
            raise ModelError(
                f"model {self.base.name_or_path}: packed scoring differs from its own forward by {gap:.3g} "
                f"nats a token; at most {SELF_CHECK_TOLERANCE[self.dtype]} is allowed. Its attention or "
                "head is of a kind not supported here (logit scaling, soft capping, sliding windows)."
            )


_FIELDS = ("r", "lora_alpha", "lora_dropout", "target_modules", "task_type")


def load_policy(model: str | os.PathLike[str], *, dtype: torch.dtype, device: str = "cpu") -> Policy:
    """Load a base model and its tokenizer by hub id or folder."""
    try:
        place = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"base.device is {device!r} ({reason}); allowed are cpu and, where torch finds a GPU, cuda or "
            "cuda:N. See what `seminar doctor` says of it."
        ) from error
    if not sys.stderr.isatty():
        disable_progress_bar()  # in the midst of our own lines
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"base.model {model} cannot be loaded: {reason} Give a hub id or a local folder."
        ) from error
    return Policy(base.to(place), tokenizer)


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a completion: of the generation config, the model config and the tokenizer."""
    found: set[int] = set()
    for ids in (
        getattr(model.generation_config, "eos_token_id", None),
        model.config.eos_token_id,
        tokenizer.eos_token_id,
    ):
        found.update([ids] if isinstance(ids, int) else ids or [])
    if not found:
        raise ModelError(
            f"model {model.name_or_path} names no end-of-sequence token; set tokenizer.eos_token."
        )
    return frozenset(found)
