"""Modules of dialects without Python classes."""

import collections
import sys

import torch

from mlirfuse.frontends import import_model


class Asked:
    """A finder that counts the modules that are looked for, and finds none."""

    def __init__(self):
        self.names = collections.Counter()

    def find_spec(self, name, path=None, target=None):
        self.names[name] += 1


def test_no_import_fails_again_for_each_op(monkeypatch):
    asked = Asked()
    monkeypatch.setattr(sys, "meta_path", [asked, *sys.meta_path])
    import_model(lambda x: torch.softmax(x, -1).sort(), (torch.randn(2, 3),))
    dialects = [name for name in asked.names if name.startswith("iree.compiler.dialects.")]
    assert {name: asked.names[name] for name in dialects if asked.names[name] > 1} == {}
