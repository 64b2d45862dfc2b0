"""Repeated-layer deduplication: a run on representatives, replicated for all layers.

A model repeats a layer many times, and the passes do the same to each. A block whose ops repeat
`shorten.MIN_LAYERS` times or more is cut to `shorten.REPRESENTATIVES` layers, the passes run on
these, and the result is replicated. The docs/repeated-layers.md of the repository is the design
note.

    detect         finds the longest repetition of ops in a block
    shorten        cuts the layers of a clone; tags every location with its op in the whole module
    short_result   positions of the layers in the grouped short module
    compare        proves that the passes did the same to layer 0 and to layer 1
    decisions      the decisions about all layers, in the order of a run on all of them
    packed_globals the globals that passes made for each layer, e.g. packed weights
    replicate      the grouped module with all layers

A run on representatives equals a run on all layers: IR, locations, decisions, indices of matches.
Wherever that is not proven, `NotReplicable` makes the engine run on all layers.
"""
