"""The shape of a transformer from the shapes of a module's parameters."""

import collections
import re

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead")


def _refuse(why):
    raise ValueError(f"module: {why}; from_hf, from_megatron and a model file take other models")


def _parameters(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def _split(shapes):
    """The parameters of each layer of the longest stack, and those outside of it."""
    stacks = collections.defaultdict(lambda: collections.defaultdict(dict))
    for name, shape in shapes.items():
        found = re.match(r"(.*?)\.(\d+)\.(.+)", "." + name)
        if found:
            stacks[found[1]][int(found[2])][found[3]] = shape
    if not stacks:
        _refuse("no parameters are of a stack of layers (as layers.0.weight)")
    prefix, layers = max(stacks.items(), key=lambda stack: len(stack[1]))
    outside = {name: shape for name, shape in shapes.items()
               if not re.match(re.escape(prefix) + r"\.\d+\.", "." + name)}
    first = next(iter(layers.values()))
    odd = next((index for index, layer in layers.items() if layer != first), None)
    if odd is not None:
        _refuse(f"layer {odd} of {prefix[1:]} has other parameters than the first one")
    return list(layers.values()), outside


def _heads_of(module, heads):
    if heads:
        return heads
    for part in module.modules():
        for name in HEADS:
            if isinstance(getattr(part, name, None), int):
                return getattr(part, name)
    return _refuse(f"no submodule has {', '.join(HEADS)}: give heads=N")


def _feed_forward(matrices, hidden):
    """Width of the MLP, and whether it is gated: the way back is the only (hidden, width)."""
    for width in sorted({b for a, b in matrices if a == hidden and b != hidden}, reverse=True):
        into = matrices.count((width, hidden))
        if into in (1, 2):
            return width, into == 2
        if matrices.count((2 * width, hidden)) == 1:  # gate and up as one
            return width, True
    return _refuse("no pair of matrices is an MLP's (width x hidden and hidden x width)")


def _attention(matrices, hidden, width, heads):
    """Keys' heads and their size, of what the MLP leaves of the matrices."""
    rest = list(matrices)
    for shape in ((width, hidden), (width, hidden), (2 * width, hidden)):
        if shape in rest:
            rest.remove(shape)
    rest.remove((hidden, width))
    rows = sum(a for a, _ in rest) - hidden  # of queries, keys and values: less the projection's
    columns = next((b for a, b in rest if a == hidden and b != hidden), hidden)
    if columns % heads or any(hidden not in shape for shape in rest):
        _refuse(f"matrices {rest} of a layer are no attention of {heads} heads")
    size = columns // heads
    keys, remainder = divmod(rows - columns, 2 * size)
    if keys < 1 or remainder:
        _refuse(f"matrices {rest} of a layer are no attention of {heads} heads of {size}")
    return keys, size


def _biases(layer, norms):
    """Which linear layers have biases, as a model file says it."""
    biased = [name for name in layer if name.endswith("bias") and name not in norms]
    return "all" if len(biased) > 2 else "none"


def model_of_module(module, heads, sequence_length):
    """A model file's content for a transformer of alike layers. ValueError where it is none."""
    layers, outside = _split(_parameters(module))
    layer = layers[0]
    if any(len(shape) > 2 or "experts" in name for name, shape in layer.items()):
        _refuse("layers with experts or convolutions are not read from parameters")
    tables = [shape for shape in outside.values() if len(shape) == 2]
    if not tables:
        _refuse("no embedding lies outside of the layers")
    vocabulary, hidden = max(tables)
    matrices = [shape for shape in layer.values() if len(shape) == 2]
    width, gated = _feed_forward(matrices, hidden)
    heads = _heads_of(module, heads)
    keys, size = _attention(matrices, hidden, width, heads)
    norms = {name for name, shape in layer.items() if len(shape) == 1 and "norm" in name.lower()}
    position = next((shape for shape in tables if shape != (vocabulary, hidden) and shape[1] == hidden),
                    None)
    shape = {"family": type(module).__name__, "layers": len(layers), "hidden": hidden, "heads": heads,
             "kv_heads": keys, "head_dim": size, "feed_forward": width, "vocabulary": vocabulary,
             "max_sequence": position[0] if position else sequence_length,
             "norm": "layer" if any(name.endswith("bias") for name in norms) else "rms",
             "activation": "swiglu" if gated else "gelu",
             "positions": "learned" if position else "rotary", "biases": _biases(layer, norms),
             "head": "language_model", "tied_head": tables.count((vocabulary, hidden)) < 2}
    return {"name": type(module).__name__.lower(), "source": "the shapes of its parameters",
            "transformer": shape}
