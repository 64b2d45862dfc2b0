"""The engine's decisions for users: text, answers to "why not?", graphs, an HTML report.

Everything here is computed from a `core.Report`; nothing here decides anything.
"""

from __future__ import annotations

from mlirfuse.explain.files import write_graph
from mlirfuse.explain.kernels import kernels_text, stock_text
from mlirfuse.explain.locations import why
from mlirfuse.explain.page import html
from mlirfuse.explain.plain import candidates_text, text

__all__ = ["candidates_text", "html", "kernels_text", "stock_text", "text", "why", "write_graph"]
