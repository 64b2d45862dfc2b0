"""The bytes of PyTorch's tensors."""

from __future__ import annotations

import sys
from typing import Any


def bytes_of(tensor: Any) -> Any:
    """The elements of a tensor as uint8, in order, on the host; a view of contiguous ones there."""
    flat = tensor.detach().cpu().contiguous()
    # One element is contiguous with any stride, but a view in bytes needs a stride of 1.
    return flat.as_strided((flat.numel(),), (1,)).view(sys.modules["torch"].uint8)
