"""Messages <-> token ids. The one place where a chat template is applied and where text is cut to a token
budget."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from seminar.errors import ModelError
from seminar.types import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Chat:
    """A tokenizer with its chat template."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        """Wrap `tokenizer`; one without a chat template is refused."""
        if not tokenizer.chat_template:
            raise ModelError(
                f"tokenizer {tokenizer.name_or_path or type(tokenizer).__name__} has no chat template; "
                f"agents are "
                "asked through one. Use an instruction-tuned model, or set tokenizer.chat_template and save "
                "it."
            )
        self._tokenizer = tokenizer

    def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Render `messages` with the opening of the assistant's turn and encode them once."""
        plain: Any = list(messages)
        ids: Any = self._tokenizer.apply_chat_template(plain, add_generation_prompt=True, return_dict=False)
        return tuple(int(i) for i in ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of sampled ids without special tokens; for reading only, never encoded again for training."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Characters (start, end) of each id within `decode(ids)`; an id without text of its own has an empty
        one."""
        ends = [0, *(len(self.decode(ids[: t + 1])) for t in range(len(ids)))]
        return list(pairwise(ends))

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Ids of bare text without special tokens: for targets of imitation and for counting."""
        return tuple(int(i) for i in self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def tail(self, text: str, *, tokens: int) -> str:
        """The longest suffix of `text`, cut at a token edge, that has at most `tokens` tokens (as encoded
        whole)."""
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = encoded["offset_mapping"]
        if len(spans) <= tokens:
            return text
        return text[spans[len(spans) - tokens][0] :] if tokens > 0 else ""
