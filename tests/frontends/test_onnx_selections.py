"""ONNX operators whose results, or whose ends, depend on the values, against ONNX's reference."""

import numpy as np
import pytest

import mlirfuse
from helpers.onnx_programs import check, floats
from helpers.onnx_text import saved
from mlirfuse.core import ImportFailedError

NAN = float("nan")

BODY = """<body = b (int64 i, bool c, float[2,4] s) => (bool d, float[2,4] r) {
  r = Add(s, x)
  q = ReduceSum<keepdims=0>(r)
  m = Constant<value_float=30.0>()
  d = Less(q, m)
}>"""


@pytest.mark.parametrize(
    ("trips", "holds", "scale"), [(10, True, 1.0), (2, True, 1.0), (9, False, 1.0), (5, True, 9.0)]
)
def test_condition_of_a_loop(tmp_path, trips, holds, scale):
    """IREE 3.13 ignores it."""
    check(
        f"net (float[2,4] x, int64 n, bool h) => (float[2,4] y) {{ y = Loop(n, h, x){BODY} }}",
        tmp_path,
        [np.full((2, 4), scale, np.float32), np.array(trips), np.array(holds)],
    )


def test_loop_that_only_its_condition_ends(tmp_path):
    _, path = saved(
        f"net (float[2,4] x, bool h) => (float[2,4] y) {{ y = Loop(, h, x){BODY} }}", tmp_path
    )
    with pytest.raises(ImportFailedError, match="only the condition ends"):
        mlirfuse.compile(path, target="cpu")


def test_choice_by_computed_values(tmp_path):
    for scale in (1.0, 100.0):
        check(
            """net (float[2,4] x) => (float[K,4] y) {
              s = ReduceSum<keepdims=0>(x)
              z = Constant<value_float=50.0>()
              c = Greater(s, z)
              y = If(c)<then_branch = t () => (float[4,4] a) { a = Concat<axis=0>(x, x) },
                        else_branch = e () => (float[2,4] b) { b = Neg(x) }>
            }""",
            tmp_path,
            [np.full((2, 4), scale, np.float32)],
        )


def test_elements_that_a_condition_keeps(tmp_path):
    check(
        """net (float[8] x, bool[3] c, float[2,3] m) => (float[K] y, float[2,L] z) {
          zero = Constant<value_float=0.0>()
          p = Greater(x, zero)
          y = Compress(x, p)
          z = Compress<axis=1>(m, c)
        }""",
        tmp_path,
        [floats(8), np.array([True, False, True]), floats(2, 3)],
    )


def test_unique_elements(tmp_path):
    check(
        """net (float[7] x, int32[2,3] w, float16[4,2] r)
               => (float[K] y, int64[K] i, int64[7] j, int64[K] c,
                   int32[L] v, int64[L] vi, int64[6] vj, float16[M,2] u) {
          y, i, j, c = Unique(x)
          v, vi, vj = Unique<sorted=1>(w)
          u = Unique<axis=0>(r)
        }""",
        tmp_path,
        [
            np.array([3, 1, NAN, 3, -2, 1, NAN], np.float32),
            np.array([[4, 1, 4], [0, 1, -3]], np.int32),
            np.array([[2, 1], [0, 5], [2, 1], [0, -1]], np.float16),
        ],
    )


def test_unique_elements_in_their_order(tmp_path):
    check(
        """net (float[6] x) => (float[K] y, int64[K] i, int64[6] j, int64[K] c) {
          y, i, j, c = Unique<sorted=0>(x)
        }""",
        tmp_path,
        [np.array([2, 1, 1, 3, 4, 3], np.float32)],
    )


@pytest.mark.parametrize("has_centers", [0, 1])
def test_boxes_without_overlap(tmp_path, has_centers):
    random = np.random.default_rng(has_centers)
    boxes = random.uniform(0, 1, (2, 20, 4)).astype(np.float32)
    scores = random.uniform(0, 1, (2, 3, 20)).astype(np.float32)
    check(
        f"""net (float[2,20,4] b, float[2,3,20] s, int64[1] most)
               => (int64[K,3] y, int64[L,3] z, float[L] w) {{
          t = Constant<value_floats=[0.3]>()
          u = Constant<value_floats=[0.2]>()
          five = Constant<value_ints=[5]>()
          y = NonMaxSuppression<center_point_box={has_centers}>(b, s, most, t)
          z = NonMaxSuppression<center_point_box={has_centers}>(b, s, five, t, u)
          w = GatherND(s, z)
        }}""",
        tmp_path,
        [boxes, scores, np.array([7])],
    )
