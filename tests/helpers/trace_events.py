"""The JSON object form of Chrome's Trace Event Format, by which Perfetto reads a trace.

Source: "Trace Event Format", the document that Perfetto's page on JSON traces refers to: sections
"JSON Object Format", "Complete Events", "Metadata Events"; and Perfetto's `JsonTraceParser`, which
drops complete events of a thread that overlap without one being inside the other.
"""

import itertools
import json

NUMBER = (int, float)

COMMON = {"name": str, "ph": str, "pid": int, "tid": int, "ts": NUMBER}

PHASES = {
    "X": COMMON | {"cat": str, "dur": NUMBER, "args": dict},
    "M": COMMON | {"args": dict},
}
"""Phase of an event -> its fields."""

METADATA = {
    "process_name": str,
    "process_labels": str,
    "process_sort_index": int,
    "thread_name": str,
    "thread_sort_index": int,
}
"""Name of a metadata event -> type of its one argument."""

TOP = {"traceEvents": list, "displayTimeUnit": str, "otherData": dict, "metadata": dict}


def check(document):
    """Asserts that a document is a trace, as a file would hold it."""
    read = json.loads(json.dumps(document, allow_nan=False))
    assert read.keys() <= TOP.keys()
    assert all(isinstance(value, TOP[name]) for name, value in read.items())
    assert read.get("displayTimeUnit", "ms") in ("ms", "ns")
    for event in read["traceEvents"]:
        _event(event)
    named = {(e["pid"], e["tid"]) for e in read["traceEvents"] if e["name"] == "thread_name"}
    lanes = {}
    for event in read["traceEvents"]:
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
    assert lanes.keys() <= named
    for events in lanes.values():
        _nested(events)


def _event(event):
    fields = PHASES[event["ph"]]
    assert fields.keys() <= event.keys(), event
    assert all(isinstance(event[name], kind) for name, kind in fields.items()), event
    assert not any(isinstance(event[name], bool) for name in ("pid", "tid", "ts"))
    assert event["ts"] >= 0
    if event["ph"] == "X":
        assert event["dur"] >= 0
    else:
        (argument,) = event["args"].values()
        assert isinstance(argument, METADATA[event["name"]])
        assert event["args"].keys() <= {"name", "labels", "sort_index"}


def _nested(events):
    """Events of a thread follow one another, or are one in the other."""
    ordered = sorted(events, key=lambda e: (e["ts"], -e["dur"]))
    for one, other in itertools.pairwise(ordered):
        end = one["ts"] + one["dur"]
        assert other["ts"] >= end - 1e-6 or other["ts"] + other["dur"] <= end + 1e-6, (one, other)
