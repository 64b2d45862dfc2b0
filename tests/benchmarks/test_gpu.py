"""The benchmark for a GPU, without one: rows, programs of both systems, compiling, merging."""

import dataclasses
import functools
import importlib.util
import xml.etree.ElementTree as ET

import pytest
import torch

from benchmarks import results
from benchmarks.gpu import (
    make,
    measure,
    parameters,
    peers,
    programs,
    rows,
    systems,
    timer,
    with_torch,
    worker,
)
from benchmarks.gpu.rows import Argument, Row
from benchmarks.suites import gpu
from mlirfuse.core import MlirfuseError, UsageError


def tiny(row):
    """The row with small sizes, where its program takes any."""
    return dataclasses.replace(row, arguments=tuple(map(smaller, row.arguments)))


def smaller(argument):
    shape = tuple(min(size, 16) if size >= 64 else size for size in argument.shape)
    return dataclasses.replace(argument, shape=shape)


OPERATORS = {
    row.program: row for row in rows.rows() if row.dtype == "f16" and not row.block
}.values()


def test_rows_are_those_of_the_table_and_the_most_telling_come_first():
    table = rows.rows()
    names = [row.name for row in table]
    assert len({*names}) == len(names)
    assert [row.rank for row in table] == sorted(row.rank for row in table)
    halves = [[r.work for r in table if r.dtype == dtype] for dtype in rows.DTYPES]
    assert halves[0] == halves[1]
    for norm in ("layer norm", "add, layer norm", "RMS norm", "add, RMS norm", "RMS norm, i8"):
        for shape in ("16384x1024", "16384x4096", "16384x8192", "2048x32768"):
            assert f"{norm} {shape}" in halves[0]
    assert sum(row.block for row in table) == 14


def row_of(work, dtype="f16"):
    (found,) = (row for row in rows.rows() if (row.work, row.dtype) == (work, dtype))
    return found


def test_cost_counts_bytes_and_operations():
    norm = rows.cost(row_of("add, RMS norm 16384x4096"))
    assert norm == rows.Cost(0.0, 2 * (4 * 16384 * 4096 + 4096))
    assert norm.memory_bound(3e12, 8e14)
    assert norm.limit_ms(2.0e12, 8e14) == pytest.approx(norm.bytes / 2e9)
    product = rows.cost(row_of("matmul, bias, GELU 4096x4096x4096", "bf16"))
    assert product.flops == 2 * 4096**3
    assert not product.memory_bound(3e12, 8e14)
    assert product.limit_ms(3e12, 5e14) == pytest.approx(product.flops / 5e11)
    quantized = rows.cost(row_of("RMS norm, i8 16384x4096"))
    assert quantized.bytes == 3 * 16384 * 4096 + 2 * 4096
    causal = rows.cost(row_of("causal attention 1x32x4096x128"))
    assert causal.flops == 2 * 32 * 4096**2 * 128


def test_select_takes_any_of_the_words():
    assert {r.work for r in rows.select(["rope", "SwiGLU"])} == {
        "RoPE 4x32x4096x128",
        "SwiGLU 8192x14336",
    }
    assert [r.name for r in rows.select([])] == [r.name for r in rows.rows()]


def small_blocks():
    norm = rows._norm(128)
    layer, bert = rows._transformer_weights(128), rows._bert_weights(128)
    x = Argument((2, 8, 128))
    linear = tuple(Argument((128, 128), "weight") for _ in range(2))
    narrow = tuple(Argument((64, 128), "weight") for _ in range(2))
    scale = Argument((128,), "scale")
    llama = (scale, linear[0], *narrow, linear[0], scale, *linear, linear[0])
    angles = Argument((8, 64), "wave"), Argument((8, 64), "wave")
    one = Argument((1, 64), "wave"), Argument((1, 64), "wave")
    past = Argument((2, 1, 5, 64), layout="heads")
    image = Argument((2, 3, 32, 32), layout="image")
    vit = (
        Argument((128, 3, 16, 16), "weight", "filter"),
        Argument((128,), "shift"),
        Argument((1, 1, 128), "shift"),
        Argument((1, 5, 128), "shift"),
        *layer,
        *norm,
    )
    part = functools.partial
    return [
        Row("bert", "f16", part(programs.bert, layers=2), (x, *bert * 2), 1),
        Row("gpt", "f16", part(programs.gpt, layers=2), (x, *layer * 2), 1),
        Row("vit", "f16", part(programs.vit, layers=1), (image, *vit), 1),
        Row("llama", "f16", part(programs.llama, size=64), (x, *angles, *llama), 3),
        Row(
            "decode",
            "f16",
            part(programs.llama_decode, size=64),
            (Argument((2, 1, 128)), *one, past, past, *llama),
            5,
            result=("", "heads", "heads"),
        ),
        Row("resnet", "f16", programs.resnet50, (image, *rows._resnet_weights()), 1),
    ]


@pytest.mark.parametrize(
    "row", [*map(tiny, OPERATORS), *small_blocks()], ids=lambda row: row.work.partition(" ")[0]
)
def test_program_is_the_same_in_both_systems(row):
    jax = pytest.importorskip("jax", reason="JAX is in the extra 'jax'")
    from benchmarks.gpu import with_jax

    arguments = [t.float() for t in worker.make_arguments(row, "cpu")]
    expected = worker.reference(row, arguments)
    found = row.program(with_torch, *arguments)
    assert worker.error(found if isinstance(found, tuple) else [found], expected) < 1e-2

    def array(tensor, layout):
        order = with_jax.LAYOUTS.get(layout)
        return jax.numpy.asarray((tensor.permute(order) if order else tensor).numpy())

    arrays = [array(t, a.layout) for t, a in zip(arguments, row.arguments, strict=True)]
    found = jax.jit(functools.partial(row.program, with_jax))(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    returned = []
    for index, made in enumerate(found):
        tensor = torch.from_numpy(jax.numpy.asarray(made).__array__().copy())
        order = with_jax.LAYOUTS.get(row.layout(index))
        axes = order and [order.index(axis) for axis in range(4)]
        returned.append(tensor.permute(axes) if axes else tensor)
    assert worker.error(returned, expected) < 1e-2


def test_arguments_are_the_same_at_every_run_and_of_their_kind():
    row = tiny(row_of("conv 3x3, batch norm, ReLU 32x64x56x56 to 64"))
    first, again = worker.make_arguments(row, "cpu"), worker.make_arguments(row, "cpu")
    assert all(map(torch.equal, first, again))
    assert all(t.dtype == torch.float16 for t in first)
    assert first[1].float().std() == pytest.approx((16 * 9) ** -0.5, rel=0.2)
    assert 0.5 <= first[5].min() <= first[5].max() <= 1.5


def test_copies_are_larger_than_the_cache_and_blocks_keep_their_weights():
    row = tiny(row_of("softmax 16384x4096"))
    arguments = [torch.zeros(1 << 20, dtype=torch.float16)]
    copies = worker.copies_of(row, arguments)
    assert sum(t.nbytes for copy in copies for t in copy) >= worker.MIN_ROTATED_BYTES
    assert len({t.data_ptr() for copy in copies for t in copy}) == len(copies)
    assert len(worker.copies_of(dataclasses.replace(row, block=True), arguments)) == 1


def test_error_is_over_the_largest_magnitude_and_infinite_for_nan():
    exact = torch.tensor([1.0, -4.0], dtype=torch.float64)
    assert worker.error([torch.tensor([1.5, -4.0])], [exact]) == 0.125
    assert worker.error([torch.tensor([1.0, float("nan")])], [exact]) == float("inf")
    assert worker.error([torch.tensor([1.0])], [exact]) == float("inf")
    with pytest.raises(ValueError, match="zip"):
        worker.error([exact], [exact, exact])


def test_kernels_belong_to_the_call_after_whose_marker_they_ran():
    marker = f"void {timer.MARKER}(long)"
    events = [
        timer.Event("gemm", 40, 30),
        timer.Event(marker, 20, 5),
        timer.Event("before", 0, 10),
        timer.Event("gelu", 60, 20),
        timer.Event(marker, 90, 5),
        timer.Event("Memcpy HtoD (Pageable -> Device)", 96, 50),
        timer.Event("Memcpy DtoD (Device -> Device)", 150, 4),
        timer.Event(marker, 170, 5),
    ]
    busy = [timer.busy(turn) for turn in timer.between_markers(events)]
    assert busy == pytest.approx([40e-9, 4e-9, 0.0])


def test_late_systems_are_stopped_and_no_compiler_swallows_it():
    def stubborn():
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    with pytest.raises(worker.Late, match="not ready after"), worker.limited(0.05):
        stubborn()


RATES = {"copy": 2e12, "product_f16": 5e14, "product_bf16": 5e14}
SOFTMAX, PRODUCT = "softmax 16384x4096", "matmul, bias, GELU 4096x4096x4096"


def system(milliseconds, error=1e-4):
    return {"seconds": [milliseconds * 1e-3] * 3, "error": error}


def enter(work, systems, entry=None, copy=None):
    entry = entry or results.Row(work=work, dtype="f16", ours_ms=None)
    measure.entered(entry, row_of(work), systems, RATES, copy)
    return entry


def test_entry_has_limit_ratios_and_no_wrong_side():
    entry = enter(
        SOFTMAX,
        {
            "kernels": system(0.14),
            "default": system(0.2),
            "eager": system(0.28),
            "xla": system(0.01, error=0.5),
            "max_autotune": {"said": "Late: not ready"},
        },
    )
    assert entry.limit_ms == pytest.approx(16384 * 4096 * 4 / 2e9)
    assert entry.ours_ms == pytest.approx(0.14)
    assert gpu.of_limit(entry) == pytest.approx(0.9587, rel=1e-3)
    assert entry.ratios.keys() == {"default", "eager"}
    assert gpu.best(entry) == ("eager", pytest.approx(2.0))
    assert entry.details["sides"]["xla"]["said"].startswith("wrong: error 5.0e-01")
    assert entry.details["memory_bound"]


def test_later_run_adds_its_systems_and_keeps_the_others():
    entry = enter(SOFTMAX, {"kernels": system(0.14), "eager": system(0.28)})
    enter(SOFTMAX, {"kernels": system(0.20), "max_autotune": system(0.30)}, entry)
    assert entry.ours_ms == pytest.approx(0.20)
    assert entry.ratios["eager"]["median"] == pytest.approx(2.0)
    assert entry.ratios["max_autotune"]["median"] == pytest.approx(1.5)
    assert gpu.best(entry) == ("max_autotune", pytest.approx(1.5))


def test_default_stands_in_where_kernels_fail_and_nothing_where_both_do():
    entry = enter(
        SOFTMAX, {"kernels": {"said": "no"}, "default": system(0.2), "stock": system(0.4)}
    )
    assert entry.details["ours"] == "default"
    assert gpu.best(entry) == ("stock", pytest.approx(2.0))
    entry = enter(SOFTMAX, {"kernels": {"said": "no"}, "stock": system(0.4)})
    assert entry.ours_ms is None
    assert gpu.best(entry) is None


def test_geometric_mean():
    assert gpu.mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    assert gpu.mean([]) is None


def measured():
    made = results.describe("gpu", [], load=0.0, quick=False, complete=True)
    made.device, made.rates = "Some GPU", RATES
    stock = system(0.56)
    made.rows = [
        enter(
            SOFTMAX,
            {"kernels": system(0.14), "stock": stock, "eager": system(0.28)},
            copy=[132e-6] * 3,
        ),
        enter(PRODUCT, {"kernels": system(0.4), "xla": system(0.2), "stock": system(1.6)}),
        enter("softmax 16384x1024", {"kernels": {"said": "a|b"}}),
    ]
    return made


def test_tables_count_and_name_misses():
    summary, operators, blocks, misses, failures = gpu.tables(measured())
    lines = {line[0]: line[1:] for line in summary.rows}
    assert lines["all"] == ["3", "1.00", "4.00", "1", "1 of 2", "1 of 1", "1"]
    assert lines["compute-bound operators"] == ["1", "0.50", "4.00", "1", "", "", "0"]
    assert f"{len(rows.rows()) - 3} rows of the suite were not reached" in summary.text
    assert operators.rows[0][:6] == [SOFTMAX, "f16", "134", "140", "96%", "132"]
    assert [line[-1] for line in operators.rows] == ["2.00", "0.50", ""]
    assert not blocks.rows
    assert misses.rows == [[PRODUCT, "f16", "XLA", "400", "200", "0.50", "69%", ""]]
    assert failures.rows == [["kernels", "a\\|b", "softmax 16384x1024 f16", "1"]]
    for table in (summary, operators, blocks, misses, failures):
        assert all(len(line) == len(table.header) for line in table.rows)


def test_a_row_that_memory_bounds_misses_below_its_limit():
    made = measured()
    made.rows = [enter(SOFTMAX, {"kernels": system(0.16), "eager": system(0.2)}, copy=[15.2e-5])]
    summary, _, _, misses, _ = gpu.tables(made)
    assert summary.rows[0][5:7] == ["0 of 1", "1 of 1"]
    assert misses.rows == [[SOFTMAX, "f16", "eager", "160", "200", "1.25", "84%", "95%"]]


def test_a_copy_of_as_many_bytes_moves_half_of_them_each_way(monkeypatch):
    moved = []
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *pair: moved.append(pair))
    call = worker.copying(1000.0, 2, device="cpu")
    call(0)
    call(1)
    assert [(into.nbytes, source.nbytes) for into, source in moved] == [(500, 500)] * 2
    assert len({tensor.data_ptr() for pair in moved for tensor in pair}) == 4


def test_chart_is_a_picture_with_a_bar_for_each_ratio():
    picture = ET.fromstring(gpu.chart(measured()))
    texts = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {SOFTMAX, PRODUCT, "2.00", "0.50"} <= {*texts}


class Workers:
    """Stands for the processes that measure: each says its lines and ends."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.asked = []

    def __call__(self, asked, end):
        self.asked.append(asked)
        yield from self.scripts.pop(0)


START = {"rates": RATES, "device": "Some GPU", "versions": {"jax": "0"}}
NAMES = [row_of(SOFTMAX).name, row_of(PRODUCT).name]


def begin(name, system):
    return {"begin": name, "system": system}


def start(monkeypatch, tmp_path, *scripts):
    workers = Workers(*scripts)
    monkeypatch.setattr(measure, "_lines", workers)
    chosen = [row_of(SOFTMAX), row_of(PRODUCT)]
    made = measure.run(chosen, ["kernels", "eager"], tmp_path, warm=0, into=tmp_path)
    return workers, made


def test_a_system_that_breaks_the_device_is_left_out_of_its_row(monkeypatch, tmp_path):
    whole = {"systems": {"kernels": system(0.2), "eager": {"said": "x"}}}
    workers, made = start(
        monkeypatch,
        tmp_path,
        [START, begin(NAMES[0], "kernels"), begin(NAMES[0], "eager")],
        [START, {"row": NAMES[0], **whole}, {"row": NAMES[1], **whole}],
    )
    assert workers.asked[1]["skip"] == {NAMES[0]: {"eager": "its process died or hung"}}
    assert [row.work for row in made.rows] == [SOFTMAX, PRODUCT]
    assert results.load("gpu", tmp_path).rows[0].ours_ms == pytest.approx(0.2)


def test_a_row_whose_calls_die_is_left_out_and_the_others_go_on(monkeypatch, tmp_path):
    workers, made = start(
        monkeypatch,
        tmp_path,
        [START, begin(NAMES[0], "timing")],
        [START, {"row": NAMES[1], "systems": {"kernels": system(0.2)}}],
    )
    assert workers.asked[1]["rows"] == NAMES[1:]
    assert [row.work for row in made.rows] == [PRODUCT]


def test_a_process_that_always_dies_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(MlirfuseError, match="dies"):
        start(monkeypatch, tmp_path, [START])


def test_results_of_another_device_are_not_added_to(monkeypatch, tmp_path):
    script = [START, *({"row": n, "systems": {"kernels": system(0.2)}} for n in NAMES)]
    start(monkeypatch, tmp_path, script)
    (old,) = {row.ours_ms for row in results.load("gpu", tmp_path).rows}
    assert old == pytest.approx(0.2)
    script = [{**START, "device": "Other"}, {"row": NAMES[1], "systems": {"kernels": system(0.1)}}]
    with pytest.raises(MlirfuseError, match="dies"):
        start(monkeypatch, tmp_path, script)
    found = results.load("gpu", tmp_path)
    assert (found.device, len(found.rows)) == ("Other", 1)


def test_unknown_systems_and_rows_are_usage_errors(capsys):
    with pytest.raises(UsageError, match="unknown system 'cpu'"):
        measure.check_systems(["cpu"])
    assert measure.check_systems(["xla"]) == ["replayed", "kernels", "xla"]
    assert measure.main(["no such row"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_two_small_rows_compile_without_a_gpu(tmp_path):
    systems = ["stock", "default", "kernels"]
    if importlib.util.find_spec("triton") is None:
        systems.remove("kernels")
    for work in ("softmax 16384x1024", "RMS norm, i8 16384x1024"):
        row = tiny(row_of(work))
        assert make.make(row, tmp_path, systems) == {}
        made = [tmp_path / make.file_of(row, system) for system in systems]
        assert all(path.stat().st_size > 1000 for path in made)
        stamps = [path.stat().st_mtime_ns for path in made]
        assert make.make(row, tmp_path, systems, again=["stock"]) == {}
        again = [path.stat().st_mtime_ns for path in made]
        assert [a != b for a, b in zip(stamps, again, strict=True)] == [
            system == "stock" for system in systems
        ]


def test_a_row_without_its_program_says_so(tmp_path):
    with pytest.raises(MlirfuseError, match=r"no program softmax_16384x1024_f16\.stock\.vmfb"):
        peers.make_system("stock", row_of("softmax 16384x1024"), [], tmp_path)


def test_torch_holds_weights_as_parameters():
    row = small_blocks()[1]
    arguments = [t.float() for t in worker.make_arguments(row, "cpu")]
    held = peers.WithParameters(row, arguments[row.inputs :])
    assert len(list(held.parameters())) == len(row.arguments) - row.inputs
    made = torch.compile(held, backend="eager", fullgraph=True)
    with torch.inference_mode():
        assert torch.allclose(made(arguments[0]), row.program(with_torch, *arguments), atol=1e-5)


def test_a_run_continues_with_missing_rows(tmp_path):
    chosen = rows.rows()
    assert measure.without(chosen, tmp_path) == chosen
    measured().save(tmp_path)
    left = measure.without(chosen, tmp_path)
    assert 0 < len(left) < len(chosen)
    assert {r.work for r in measured().rows}.isdisjoint({r.work for r in left if r.dtype == "f16"})


def test_rows_missing_from_a_later_run_are_marked(tmp_path):
    measured().save(tmp_path)
    later = measured()
    later.rows = [enter(SOFTMAX, {"kernels": system(0.07), "stock": system(0.56)})]
    later.save(tmp_path / "later")
    assert measure.main(["--merge", str(tmp_path / "later"), "--results", str(tmp_path)]) == 0
    found = results.load("gpu", tmp_path)
    summary, operators, _, misses, _ = gpu.tables(found)
    lines = {line[0]: line[1:] for line in summary.rows}
    assert lines["rows of the last run"][:2] == ["1", "8.00"]
    assert lines[gpu.EARLIER][:2] == ["2", "0.50"]
    assert [line[0] for line in operators.rows] == [SOFTMAX, f"{PRODUCT} *", "softmax 16384x1024 *"]
    assert misses.rows[0][0] == f"{PRODUCT} *"
    other = measured()
    other.device = "Another GPU"
    other.save(tmp_path / "later")
    assert measure.main(["--merge", str(tmp_path / "later"), "--results", str(tmp_path)]) == 2


def test_no_system_finds_its_arguments_in_the_cache():
    order = timer.turns(["ours", "stock", "eager"], rounds=4, copies=8)
    rounds = [[name for name, _ in order[n : n + 3]] for n in range(0, 12, 3)]
    assert all({*names} == {"ours", "stock", "eager"} for names in rounds)
    assert len({*map(tuple, rounds)}) > 1
    assert order == timer.turns(["ours", "stock", "eager"], rounds=4, copies=8)
    copies = [copy for _, copy in order]
    assert all(len({*copies[n : n + 8]}) == 8 for n in range(5))


def test_weights_of_blocks_are_parameters_of_the_program(tmp_path):
    import iree.runtime as rt
    from iree.compiler import ir

    import mlirfuse
    from mlirfuse.runtime.devices import open_device

    row = small_blocks()[0]
    arguments = [t.float() for t in worker.make_arguments(row, "cpu")]
    program = make.Program(row, {}).eval()
    imported = mlirfuse.frontends.import_model(program, tuple(arguments))
    with ir.Context():
        module = ir.Module.parse(imported.path.read_bytes())
    parameters.weights_to_parameters(module, row.inputs)
    mlirfuse.compile(module, cache=False).save(tmp_path / "held.vmfb")
    image = (tmp_path / "held.vmfb").read_bytes()
    instance, device = rt.VmInstance(), open_device("local-task")
    weights = [t.numpy().tobytes() for t in arguments[row.inputs :]]
    loaded = rt.VmModule.copy_buffer(instance, image)
    hal = rt.create_hal_module(instance, device)
    context = rt.VmContext(instance, [hal, parameters.provider(instance, weights), loaded])
    call = rt.FunctionInvoker(context, device, loaded.lookup_function("main"))
    found = torch.from_numpy(call(*(t.numpy() for t in arguments[: row.inputs])).to_host())
    assert torch.allclose(found, row.program(with_torch, *arguments), atol=1e-4)


def test_names_of_the_systems():
    ours = {systems.PROGRAM.get(system, system) for system in systems.OURS}
    assert {*ours, *systems.STOCK} == {*make.VARIANTS}
    assert {*gpu.COLUMNS} == {*systems.SYSTEMS} - {"replayed", "kernels"}
