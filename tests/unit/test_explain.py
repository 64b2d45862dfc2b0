"""The forms of a report: text, the table of candidates, `--why`, the HTML page."""

import dataclasses
import re
import time

import pytest

from helpers.browser import browse, browser, page_data
from helpers.explained import HOSTILE, REFUSED, decision, report
from mlirfuse import explain
from mlirfuse.boundaries import BoundaryReason
from mlirfuse.core import Kind, MlirfuseError, PassRun, Reason, Report, UsageError
from mlirfuse.explain import page, plain
from mlirfuse.explain.savings import Savings
from mlirfuse.options import FusionOptions, switches
from mlirfuse.targets import model_errors
from mlirfuse.targets.model_errors import SAVING, ModelError

# --- text --------------------------------------------------------------------------------------


def test_text_shows_groups_refusals_and_summary():
    passes = [
        PassRun("add_rms_norm_fusion", True, 1, 0.1),
        PassRun("cse", True, None, 0.1),
        PassRun("softmax_fusion", False, 0, 0.0),
    ]
    entry = report(decision(), REFUSED, passes=passes, dispatches={"stock": 9, "fused": 7})
    notes = "".join(f"{line}\n" for line in Savings(entry).notes())
    shown = explain.text(entry)
    assert shown == (
        "target cpu, IREE 3.13.0\n"
        f"{notes}"
        "function @main\n"
        "  groups (1)\n"
        "    add_rms_norm_fusion match 0: 3 ops;"
        " saves 3.0 MiB of traffic, rank 2 of 2 by time\n"
        "      linalg.generic at net/model.py:10:3\n"
        "      linalg.generic at net/model.py:12:5 (x2)\n"
        "  not fused (1)\n"
        f"    extra_users (1): {Reason.EXTRA_USERS.text}\n"
        f"      hint: {Reason.EXTRA_USERS.hint}\n"
        "      add_rms_norm_fusion: linalg.generic at net/model.py:20:1"
        " + linalg.reduce at net/model.py:21:9\n"
        "        %7 is read by linalg.matmul\n"
        "off by default here, on with --enable-pass=NAME: softmax_fusion\n"
        "applied: add_rms_norm_fusion 1\n"
        "1 group of 3 ops; 1 candidate refused for 1 reason; dispatches: 9 stock, 7 fused\n"
    )


def test_layers_are_beside_locations():
    taken = decision(layers=("blocks/0/norm", "blocks/0/norm", ""))
    shown = explain.text(report(taken))
    assert "linalg.generic at net/model.py:10:3 (blocks.0.norm)\n" in shown
    assert "linalg.generic at net/model.py:12:5 (blocks.0.norm)\n" in shown
    assert "linalg.generic at net/model.py:12:5\n" in shown


def test_passes_that_the_user_switched_off_are_told_from_those_of_the_target():
    passes = [PassRun(n, False, 0, 0.0) for n in ("softmax_fusion", "dequant_fusion")]
    entry = report(passes=passes)
    entry.options = {"disable_pass": ["softmax_fusion"]}
    shown = explain.text(entry)
    assert "switched off: softmax_fusion\n" in shown
    assert "off by default here, on with --enable-pass=NAME: dequant_fusion\n" in shown


def test_code_that_is_left_to_iree_is_no_refused_fusion():
    left = decision(
        pass_name="row_vector_kernel",
        kind=Kind.REWRITE,
        reason=Reason.NOT_PROFITABLE,
        detail="rows of 16 columns, fewer than 32",
    )
    shown = explain.text(report(left))
    assert "code left to IREE by passes that generate kernels (1)" in shown
    assert "IREE's own code was found to be as fast for such sizes" in shown
    assert "rows of 16 columns, fewer than 32" in shown
    assert "--must-fuse" not in shown
    assert "rewrites of layouts" not in shown
    row = next(r for r in explain.candidates_text(report(left)).splitlines() if "row_vector" in r)
    assert row.split()[1] == "kernel"


def test_text_keeps_functions_apart():
    shown = explain.text(report(decision(function="f"), decision(function="g", match=1)))
    f, g = shown.index("function @f"), shown.index("function @g")
    assert f < shown.index("match 0") < g < shown.index("match 1")


def test_text_of_nothing():
    assert explain.text(report()) == (
        "target cpu, IREE 3.13.0\n0 groups of 0 ops; 0 candidates refused\n"
    )


def test_text_shows_each_refused_candidate_and_counts_equal_ones():
    alike = [REFUSED] * 400
    others = [decision(reason=Reason.STRUCTURE, ops=(f"m.py:{i}:1",) * 3) for i in range(40)]
    shown = explain.text(report(*alike, *others))
    assert "add_rms_norm_fusion (x400): linalg.generic at net/model.py:20:1" in shown
    for i in range(40):
        assert shown.count(f"linalg.generic at m.py:{i}:1 (x3)") == 1
    assert shown.count(f"hint: {Reason.STRUCTURE.hint}") == 1
    assert len(shown.splitlines()) < 60


def test_rewrites_are_applied_but_are_no_groups():
    rewrite = decision(kind=Kind.REWRITE, pass_name="transpose_matmul_fusion")
    passes = [PassRun("transpose_matmul_fusion", True, 1, 0.0)]
    shown = explain.text(report(rewrite, passes=passes))
    assert "groups (0)" in shown
    assert "applied: transpose_matmul_fusion 1" in shown
    assert "0 groups of 0 ops" in shown


def test_unknown_location_is_left_out():
    shown = explain.text(report(decision(ops=("-",) * 3)))
    assert "      linalg.generic (x3)\n" in shown


@pytest.mark.parametrize("render", [explain.text, explain.candidates_text])
def test_control_characters_of_the_model_are_escaped(render):
    hostile = decision(
        ops=(HOSTILE,) * 3, detail=HOSTILE, reason=Reason.STRUCTURE, pass_name=HOSTILE
    )
    shown = render(report(hostile, hostile.__class__(**(vars_of(hostile) | {"function": HOSTILE}))))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[31m" in shown


def vars_of(entry):
    return {name: getattr(entry, name) for name in entry.__dataclass_fields__}


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")],
)
def test_byte_size(count, shown):
    assert plain.byte_size(count) == shown


# --- candidates --------------------------------------------------------------------------------


def test_candidates_are_ranked_by_gain_and_unpriced_ones_are_last(monkeypatch):
    small = ModelError(device="a card", of=SAVING, groups=9, scale=1.0, median=0.1, p90=0.2)
    monkeypatch.setattr(model_errors, "known", lambda target: small)
    unpriced = decision(gain_us=None, bytes_saved=None, reason=Reason.SINGLE_OP)
    lines = explain.candidates_text(report(unpriced, decision(), REFUSED)).splitlines()
    assert lines[0].split() == [
        "rank", "kind", "pass", "saved", "gain", "margin", "taken", "ops",
    ]  # fmt: skip
    assert re.split(r"  +", lines[1].strip())[:6] == [
        "1", "producer-consumer", "add_rms_norm_fusion", "3.0 MiB", "50.5 us", "8.5 us",
    ]  # fmt: skip
    assert re.split(r"  +", lines[1].strip())[6] == "extra_users"
    assert re.split(r"  +", lines[2].strip())[2:7] == [
        "add_rms_norm_fusion match 0", "3.0 MiB", "42.0 us", "-", "yes",
    ]  # fmt: skip
    assert re.split(r"  +", lines[3].strip())[3:7] == ["-", "-", "-", "single_op"]


def test_candidates_do_not_depend_on_the_order_of_decisions():
    entries = [decision(match=i, ops=(f"m.py:{i}:1",) * 3) for i in range(20)]
    assert explain.candidates_text(report(*entries)) == explain.candidates_text(
        report(*reversed(entries))
    )


def test_candidates_on_a_terminal_show_the_same_cells(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    colored = explain.candidates_text(report(decision(), REFUSED), color=True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert bare != colored
    for cell in ("add_rms_norm_fusion match 0", "3.0 MiB", "extra_users", "net/model.py:21:9"):
        assert cell in bare


def test_candidates_of_nothing_is_the_header():
    assert len(explain.candidates_text(report()).splitlines()) == 1


def test_five_thousand_decisions_are_quick():
    many = report(
        *(
            decision(
                match=i,
                ops=(f"m.py:{i}:1",) * 3,
                gain_us=float(i),
                reason=Reason.STRUCTURE if i % 3 else None,
                detail=f"op {i}",
            )
            for i in range(5000)
        )
    )
    began = time.process_time()
    notes = list(Savings(many).notes())
    assert len(explain.candidates_text(many).splitlines()) == 5001 + len(notes)
    assert explain.text(many).count("match ") == 1667
    assert "match 4998" in explain.why(many, "m.py:4998", "m.py:4998:1")
    assert time.process_time() - began < 10  # a quadratic step takes minutes


# --- why ---------------------------------------------------------------------------------------


def test_why_same_group():
    shown = explain.why(report(decision(), REFUSED), "net/model.py:10:3", "net/model.py:12:5")
    assert shown == "yes: add_rms_norm_fusion match 0 of @main put both in one group\n"


def test_why_not_names_the_decision_about_both_with_its_hint():
    shown = explain.why(report(decision(), REFUSED), "model.py:20:1", "model.py:21").splitlines()
    assert shown[0] == "no: model.py:20:1 and model.py:21 are in no common group"
    assert Reason.EXTRA_USERS.text in shown[1]
    assert "%7 is read by linalg.matmul" in shown[1]
    assert shown[2] == f"  hint: {Reason.EXTRA_USERS.hint}"


def test_why_of_two_groups_says_where_each_is():
    other = decision(
        pass_name="softmax_fusion", match=4, ops=("m.py:1:1", "m.py:2:1"), op_names=("a.b", "a.c")
    )
    shown = explain.why(report(decision(), other), "net/model.py:10", "m.py:2")
    assert "no pass considered the two together" in shown
    assert "net/model.py:10 is in the group of add_rms_norm_fusion match 0 of @main" in shown
    assert "m.py:2 is in the group of softmax_fusion match 4 of @main" in shown


def test_why_of_two_ops_of_one_line():
    shown = explain.why(report(decision()), "model.py:12:5", "model.py:12:5")
    assert shown.startswith("yes: ")
    alone = explain.why(report(decision()), "model.py:10:3", "model.py:10:3")
    assert alone.startswith("no: ")


def test_why_counts_equal_decisions():
    shown = explain.why(report(*[REFUSED] * 50), "model.py:20", "model.py:21")
    assert len(shown.splitlines()) < 10
    assert "(x50)" in shown


@pytest.mark.parametrize("query", ["net/model.py:19:1", "model.py:19"])
def test_why_suggests_the_nearest_lines_of_the_same_file(query):
    with pytest.raises(UsageError, match=r"nearest: 'net/model.py:20:1', 'net/model.py:21:9'"):
        explain.why(report(decision(), REFUSED), query, "net/model.py:10")


def test_why_suggests_by_spelling():
    with pytest.raises(UsageError, match=r"nearest: 'encoder/softmax'"):
        explain.why(report(decision(ops=("encoder/softmax", "x", "y"))), "encoder/sofmax", "x")


def test_why_without_any_candidate():
    with pytest.raises(UsageError, match="no pass considered any op"):
        explain.why(report(), "a:1", "b:2")


def test_a_location_is_not_found_inside_a_longer_name():
    with pytest.raises(UsageError):
        explain.why(report(decision()), "odel.py:10:3", "model.py:12:5")
    with pytest.raises(UsageError):
        explain.why(report(decision()), "model.py:1", "model.py:12:5")


def test_why_takes_layers_and_ops_before_there_are_kernels():
    """As in mlirfuse-opt."""
    entry = report(
        dataclasses.replace(
            decision(), layers=("blocks/0/add", *("blocks/0/norm",) * (len(decision().ops) - 1))
        )
    )
    assert explain.why(entry, "blocks.0.add", "blocks.0.norm").startswith("yes: ")
    assert explain.why(entry, "blocks.0", "linalg.generic").startswith("yes: ")
    with pytest.raises(UsageError, match=r"nearest: 'blocks\.0\.norm'"):
        explain.why(entry, "blocks.0.nrom", "blocks.0.add")


# --- page --------------------------------------------------------------------------------------


def written(tmp_path, entry, **changes):
    path = tmp_path / "report.html"
    explain.html(entry, path, **changes)
    return path


def test_page_has_the_whole_report(tmp_path):
    options = FusionOptions(numerics="any").to_dict()
    entry = Report(target="vulkan", iree="3.13.0", options=options, decisions=[decision(), REFUSED])
    found = page_data(written(tmp_path, entry, title="net", timings={"stock": 2.0, "fused": 1.0}))
    assert found["title"] == "net"
    assert found["options"] == [{"name": "numerics", "value": "any", "default": "reassociating"}]
    assert found["switches"] == {switch.name: switch.plain_summary for switch in switches()}
    savings = [d.pop("saving") for d in found["decisions"]]
    assert savings[0] == {"bytes": 3 << 20, "time": "rank 2 of 2"}
    assert found["decisions"] == entry.to_dict()["decisions"]
    assert found["savings"] == Savings(entry).to_dict()
    assert found["savings"]["bytes"] == 3 << 20
    assert found["timings"] == {"stock": 2.0, "fused": 1.0}
    assert found["speedups"] == {"stock": 1.0, "fused": 2.0}
    assert set(found["reasons"]) == {r.code for kind in (Reason, BoundaryReason) for r in kind}


def test_page_refers_to_nothing_outside_it(tmp_path):
    text = written(tmp_path, report(decision())).read_text(encoding="utf-8")
    assert not re.search(r"""\b(?:src|href)\s*=\s*["']?(?!#)[\w/]""", text)
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", text)
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in text


def test_page_does_not_let_a_model_leave_its_data(tmp_path):
    entry = report(decision(ops=(HOSTILE,) * 3, detail=HOSTILE, pass_name=HOSTILE))
    path = written(tmp_path, entry, title=HOSTILE, before=HOSTILE, steps=[(HOSTILE, HOSTILE, "")])
    text = path.read_text(encoding="utf-8")
    assert text.count("<script") == 3  # the data, dagre and our code
    assert text.count("</script") == 3
    assert "<!--" not in text
    assert page_data(path)["decisions"][0]["ops"][0] == HOSTILE


def test_page_shows_ir_without_locations_and_cuts_long_modules(tmp_path):
    body = '%1 = "a.b"(%0) : (i1) -> i1'
    located = f'{body} loc(callsite("x"("f)":1:2) at #loc3))\n#loc3 = loc("g":1:1)\n}}\n'
    assert page_data(written(tmp_path, report(), before=located))["before"] == f"{body}\n}}\n"
    long = "x" * (page._MAX_IR_CHARACTERS + 5)
    assert page_data(written(tmp_path, report(), before=long))["before"].endswith(
        "// cut: 5 more characters\n"
    )


def test_difference_ignores_renumbering():
    before = "%0 = a\n%1 = b %0\n%2 = c %1\n"
    after = "%0 = a\n%1 = c %0\n"
    assert page.difference(before, after) == [
        "@@ -1,3 +1,2 @@",
        " %0 = a",
        "-%1 = b %0",
        " %1 = c %0",
    ]
    assert page.difference(before, before.replace("%1", "%7")) == []


def test_difference_of_long_modules_is_not_computed():
    lines = page.difference("x\n" * page._MAX_DIFF_LINES, "y\n")
    assert lines == [f"@@ too long to compare: {page._MAX_DIFF_LINES} lines before, 1 after @@"]


@pytest.mark.parametrize("name", ["", "missing/report.html", "file/report.html", "folder"])
def test_page_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(MlirfuseError, match="cannot write"):
        explain.html(report(), name)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder"]


# --- page in a browser -------------------------------------------------------------------------


def rows(dom):
    body = re.search(r'<tbody id="decision-rows">(.*?)</tbody>', dom, re.DOTALL)[1]
    return re.findall(r'<tr class="row".*?</tr>', body, re.DOTALL)


@browser
def test_browser_shows_a_hostile_report_without_errors(tmp_path):
    hostile = decision(ops=(HOSTILE,) * 3, detail=HOSTILE, pass_name=HOSTILE, function=HOSTILE)
    refused = decision(ops=(HOSTILE,) * 3, detail=HOSTILE, reason=Reason.STRUCTURE)
    path = written(
        tmp_path, report(hostile, refused, passes=[PassRun(HOSTILE, True, 1, 0.1)]), title=HOSTILE
    )
    dom, console = browse(path)
    assert console == []
    assert 'data-ready="true"' in dom
    assert "data-broken" not in dom
    assert len(rows(dom)) == 2


@browser
def test_browser_shows_an_empty_report(tmp_path):
    dom, console = browse(written(tmp_path, report()))
    assert console == []
    assert 'data-ready="true"' in dom
    assert "No pass considered any op of this module." in dom


@browser
def test_browser_filters_five_thousand_decisions(tmp_path):
    entries = [
        decision(match=i) if i % 2 else decision(reason=Reason.STRUCTURE, detail=f"op{i}")
        for i in range(4999)
    ]
    path = written(tmp_path, report(*entries, REFUSED))
    dom, console = browse(path)
    assert console == []
    assert 'data-found="5000"' in dom
    assert len(rows(dom)) == 50
    for fragment, count in [
        ("#outcome=refused", 2501),
        ("#pass=softmax_fusion", 0),
        ("#reason=extra_users", 1),
        ("#q=reduce%20model.py", 1),
    ]:
        dom, console = browse(path, fragment)
        assert console == []
        assert f'data-found="{count}"' in dom
        assert len(rows(dom)) == min(count, 50)


LAYERED = {
    "ops": [
        {
            "function": "main",
            "name": "linalg.generic",
            "location": f"m.py:{i}:1",
            "layer": f"blocks/{i // 2}",
            "group": i // 2 if i < 4 else None,
            "outputs": [{"type": "tensor<4x4xf32>", "size": 64}],
        }
        for i in range(6)
    ],
    "groups": [
        {"function": "main", "pass_name": name, "match": 0, "layer": f"blocks/{i}"}
        for i, name in enumerate(("softmax_fusion", "rms_norm_fusion"))
    ],
    "edges": [{"source": i, "output": 0, "target": i + 1} for i in range(5)],
}
"""Six ops in a row, two in each layer; two groups."""


def layered(*more):
    def of(name, *lines, **changes):
        places = tuple(f"m.py:{i}:1" for i in lines)
        names = ("linalg.generic",) * len(lines)
        return decision(pass_name=name, ops=places, op_names=names, **changes)

    rewrite = {"kind": Kind.REWRITE, "match": None}
    return report(
        of("softmax_fusion", 0, 1),
        of("tidy_rewrite", 2, **rewrite),
        of("tidy_rewrite", 3, **rewrite),
        of("rms_norm_fusion", 2, 3),
        of("rms_norm_fusion", 3, 4, reason=Reason.WOULD_CYCLE, detail="m.py:9"),
        *more,
        graph=LAYERED,
    )


TIMES = "\u00d7"
CLICK = "dispatchEvent(new MouseEvent('click'));"


def side_of(dom):
    return re.search(r'id="node">(.*?)</div></div><div class="legend">', dom, re.DOTALL)[1]


def keys(dom):
    return re.findall(r'data-key="([^"]+)"', dom)


@browser
def test_browser_selects_a_group_and_reads_a_reason(tmp_path):
    script = f"""
      document.querySelector("[data-key=g1]").{CLICK}
      const pick = document.querySelector("select[aria-label=outcome]");
      pick.value = "refused";
      pick.dispatchEvent(new Event("input"));
      document.querySelector("#decision-rows tr").click();
    """
    dom, console = browse(written(tmp_path, layered()), script=script)
    assert console == []
    chosen = re.search(r'<g class="node[^"]*chosen.*?</g>', dom, re.DOTALL)[0]
    assert "rms_norm_fusion #0" in chosen
    side = side_of(dom)
    assert "linalg.generic" in side
    assert "m.py:2:1" in side
    assert "64 B" in side
    assert len(rows(dom)) == 1
    assert Reason.WOULD_CYCLE.hint in dom.partition('class="more"')[2].partition("</tr>")[0]


@browser
def test_browser_shows_bytes_on_edges_and_the_reason_of_a_refused_one(tmp_path):
    dom, console = browse(written(tmp_path, layered()))
    assert console == []
    assert dom.count('class="bytes"') == 3
    (kept,) = re.findall(r'<g class="kept".*?</g>', dom, re.DOTALL)
    title = re.search(r"<title>(.*?)</title>", kept, re.DOTALL)[1]
    assert title.startswith("64 B from rms_norm_fusion #0 to linalg.generic\n")
    assert f"rms_norm_fusion: {Reason.WOULD_CYCLE.text}: m.py:9" in title
    assert 'class="edge lit refused"' not in kept
    dom, console = browse(
        written(tmp_path, layered()), script=f"document.querySelector('.kept').{CLICK}"
    )
    assert console == []
    assert "Not fused" in side_of(dom)
    assert Reason.WOULD_CYCLE.hint in side_of(dom)
    hide = "document.querySelector('[aria-label=\"refused fusions\"]').click();"
    dom, console = browse(written(tmp_path, layered()), script=hide)
    assert console == []
    assert 'class="kept"' not in dom


@browser
def test_browser_steps_through_the_rewrites(tmp_path):
    def after(steps):
        back = f"document.querySelector('[aria-label=\"previous step\"]').{CLICK}"
        dom, console = browse(written(tmp_path, layered()), script=back * steps)
        assert console == []
        return dom, re.search(r'id="step">(.*?)<', dom)[1]

    dom, label = after(0)
    assert (keys(dom), label) == (["g0", "g1", "o4", "o5"], "3 of 3: the result")
    dom, label = after(1)
    assert (keys(dom), label) == (["g0", "o2", "o3", "o4", "o5"], f"2 of 3: tidy_rewrite {TIMES}2")
    assert "m.py:3:1" in side_of(dom)
    dom, label = after(2)
    assert (keys(dom), label) == (["g0", "o2", "o3", "o4", "o5"], "1 of 3: softmax_fusion #0")
    assert 'class="node group chosen" data-key="g0"' in dom
    dom, label = after(4)
    assert keys(dom) == [f"o{i}" for i in range(6)]
    assert label == "0 of 3: before the first rewrite"


@browser
def test_browser_opens_and_closes_layers(tmp_path):
    shut = f"document.querySelector('.crumbs a').{CLICK}"
    dom, console = browse(written(tmp_path, layered()), script=shut)
    assert console == []
    assert keys(dom) == ["lblocks"]
    assert "2 groups, 2 ops" in dom
    into = "document.querySelector('.node').dispatchEvent(new MouseEvent('dblclick'));"
    dom, console = browse(written(tmp_path, layered()), script=shut + into)
    assert console == []
    assert keys(dom) == ["g0", "g1", "o4", "o5"]
    assert ">blocks/2</text>" in dom


@browser
def test_browser_opens_only_as_many_layers_as_can_be_seen(tmp_path):
    count = 200
    made = [
        LAYERED["ops"][5] | {"layer": f"blocks/{i // 10}", "location": "-"} for i in range(count)
    ]
    edges = [{"source": i, "output": 0, "target": i + 1} for i in range(count - 1)]
    drawn = {"ops": made, "groups": [], "edges": edges}
    dom, console = browse(written(tmp_path, report(graph=drawn)))
    assert console == []
    assert keys(dom) == [f"lblocks/{i}" for i in range(20)]
    for i, op in enumerate(made):
        op["layer"] = f"blocks/{i // 5}/{i}"
    dom, console = browse(written(tmp_path, report(graph=drawn)))
    assert console == []
    assert keys(dom) == [f"lblocks/{i}" for i in range(40)]


@browser
def test_browser_pages_through_a_large_graph(tmp_path):
    count = 1500
    made = [LAYERED["ops"][5] | {"layer": "", "location": f"m.py:{i}:1"} for i in range(count)]
    made[1] |= {"group": 0}
    edges = [{"source": i, "output": 0, "target": i + 1} for i in range(count - 1)]
    edges.append({"source": 0, "output": 0, "target": count - 1})
    formed = [LAYERED["groups"][0] | {"layer": ""}]
    path = written(tmp_path, report(graph={"ops": made, "groups": formed, "edges": edges}))
    dom, console = browse(path)
    assert console == []
    assert "60 of 1500 in program order" in dom
    assert len(keys(dom)) == 60
    hide = "document.querySelector('[aria-label=\"ops in no group\"]').click();"
    dom, console = browse(path, script=hide)
    assert console == []
    assert keys(dom) == ["g0"]


@browser
def test_the_browser_tests_see_errors(tmp_path):
    path = written(tmp_path, report(decision()))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("  graph();\n", "  graphs();\n"), encoding="utf-8")
    dom, console = browse(path)
    assert console
    assert 'data-ready="true"' not in dom
