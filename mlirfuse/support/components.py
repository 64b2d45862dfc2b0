"""Members of two lists that belong together because they share keys."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence


def components(
    first: Sequence[Collection[Hashable]], second: Sequence[Collection[Hashable]]
) -> list[tuple[list[int], list[int]]]:
    """The components of the graph whose edges join members that share a key.

    Args:
      first: keys of each member of a list.
      second: keys of each member of another one.

    Returns:
      Indices into both lists for each component, in the order of their first members.
    """
    parent = list(range(len(first) + len(second)))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    holder: dict[Hashable, int] = {}
    for index, keys in enumerate([*first, *second]):
        for key in keys:
            parent[root(index)] = root(holder.setdefault(key, index))
    members: dict[int, tuple[list[int], list[int]]] = {}
    for index in range(len(parent)):
        ours, others = members.setdefault(root(index), ([], []))
        if index < len(first):
            ours.append(index)
        else:
            others.append(index - len(first))
    return list(members.values())
