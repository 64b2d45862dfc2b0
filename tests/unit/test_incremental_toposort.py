"""The order of units remains topological after any merge, and finds every path."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from mlirfuse.pipelines.incremental_toposort import Order


@st.composite
def graphs(draw):
    count = draw(st.integers(2, 12))
    return [
        draw(st.sets(st.integers(0, unit - 1), max_size=3)) if unit else set()
        for unit in range(count)
    ]


def reaches(after: dict[int, set[int]], first: int, last: int) -> bool:
    waiting, seen = [first], set()
    while waiting:
        for unit in after[waiting.pop()]:
            if unit == last:
                return True
            if unit not in seen:
                seen.add(unit)
                waiting.append(unit)
    return False


def check(order: Order) -> None:
    assert len(set(order.place.values())) == len(order.place)
    for unit, readers in order.after.items():
        for reader in readers:
            assert order.place[unit] < order.place[reader]
            assert unit in order.before[reader]


@settings(deadline=None)
@given(graphs(), st.data())
def test_merges_keep_an_order_and_paths_are_found(graph, data):
    order = Order()
    for unit, read in enumerate(graph):
        order.add(unit, read)
    fresh = itertools.count(len(graph))
    while len(order.place) > 1:
        check(order)
        units = sorted(order.place, key=order.place.__getitem__)
        first, last = sorted(
            data.draw(st.lists(st.sampled_from(units), min_size=2, max_size=2, unique=True)),
            key=order.place.__getitem__,
        )
        between = any(
            reaches(order.after, middle, last) for middle in order.after[first] if middle != last
        )
        found = order.path(first, last)
        assert (found is not None) == between
        if between:
            assert reaches(order.after, first, found)
            assert last in order.after[found]
            break
        order.merge(first, last, next(fresh))


def test_a_dissolved_unit_leaves_its_edges():
    order = Order()
    for unit, read in enumerate([[], [0], [1], [1]]):
        order.add(unit, read)
    order.dissolve(1)
    assert order.after == {0: {2, 3}, 2: set(), 3: set()}
    check(order)
