"""Memory-bound kernels: norms, activations, rotary embedding, loss, optimizer, tokens moved to experts,
weights of 4 bits; issued eagerly and by torch.compile.

`min_bytes` is what the kernels of a row must move: of an eager row the sum over its kernels
(`launches`), of a compiled one every tensor once.
"""
from .clock import OverSets
from .rows import Case, LeftOut, shape_text


def tensors(kit, count, rows, width):
    return [kit.operand(rows, width, dtype=kit.torch.bfloat16) for _ in range(count)]


def compiled(kit, run):
    if not hasattr(kit.torch, "compile"):
        raise LeftOut(f"no torch.compile in torch {kit.torch.__version__}")
    if not kit.on_gpu:
        raise LeftOut("torch.compile is measured on GPUs")
    # Forgets what was compiled before: beyond a number of shapes it would no longer compile.
    kit.torch._dynamo.reset()
    # Backward passes run more than once, so their inputs must outlive them.
    from torch._functorch import config
    config.donated_buffer = False
    return kit.torch.compile(run, dynamic=False)


def pointwise(kind, rows, width, reads, writes, run, launches=1, compile_it=False, moved=None):
    """A row of element-wise kernels over tensors of rows x width in bf16."""
    moved = moved or 2 * rows * width * (reads + writes)

    def make(kit):
        function = run(kit.torch)
        function = compiled(kit, function) if compile_it else function
        sets = kit.sets(2 * rows * width * (reads + writes), most=64)

        def call(*operands):
            with kit.torch.no_grad():
                function(*operands)
        return OverSets(call, [tensors(kit, reads, rows, width) for _ in range(sets)])

    return Case(kind, shape_text(T=rows, H=width, launches=launches), 0, moved, make)


def backward(kind, rows, width, reads, moved, run, compile_it, launches=1, weight=False):
    """The backward pass alone of `run` over tensors of rows x width in bf16."""
    def make(kit):
        torch = kit.torch
        function = run(torch)
        function = compiled(kit, function) if compile_it else function
        sets = []
        for _ in range(kit.sets(moved, most=16)):
            inputs = [x.detach().requires_grad_() for x in tensors(kit, reads, rows, width)]
            if weight:
                inputs.append(torch.ones(width, dtype=torch.bfloat16, device=kit.device,
                                         requires_grad=True))
            output = function(*inputs)
            gradient = kit.operand(*output.shape, dtype=output.dtype)
            sets.append((output, inputs, gradient))
        return OverSets(lambda output, inputs, gradient: torch.autograd.grad(
            output, inputs, gradient, retain_graph=True), sets)

    return Case(kind, shape_text(T=rows, H=width, launches=launches), 0, moved, make)


def norm(torch, name):
    functional = torch.nn.functional
    if name == "layer_norm":
        return lambda x, weight: functional.layer_norm(x, (x.shape[-1],), weight, None)
    if not hasattr(functional, "rms_norm"):
        raise LeftOut(f"no rms_norm in torch {torch.__version__}")
    return lambda x, weight: functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def norm_cases(name, rows, width, compile_it):
    word = "compiled" if compile_it else "eager"
    size = 2 * rows * width

    def forward(kit):
        torch = kit.torch
        function = norm(torch, name)
        function = compiled(kit, function) if compile_it else function
        weight = torch.ones(width, dtype=torch.bfloat16, device=kit.device)

        def call(x):
            with torch.no_grad():
                function(x, weight)
        return OverSets(call, [tensors(kit, 1, rows, width)
                               for _ in range(kit.sets(2 * size, most=64))])

    shape = shape_text(T=rows, H=width, launches=1)
    return [Case(f"{name}_{word}_fwd", shape, 0, 2 * size, forward),
            backward(f"{name}_{word}_bwd", rows, width, 1, 3 * size,
                     lambda torch: norm(torch, name), compile_it, weight=True)]


def swiglu(torch):
    return lambda gate, up: torch.nn.functional.silu(gate) * up


def rotary(torch):
    def run(x, cos, sin):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + turned * sin
    return run


def rotary_case(tokens, heads, width, compile_it):
    """Hugging Face's form. Eager: -x (half), cat, two products, a sum: 5 kernels."""
    size = 2 * tokens * heads * width

    def make(kit):
        torch = kit.torch
        run = rotary(torch)
        run = compiled(kit, run) if compile_it else run
        cos, sin = (torch.randn(tokens, 1, width, device=kit.device).to(torch.bfloat16)
                    for _ in range(2))

        def call(x):
            with torch.no_grad():
                run(x, cos, sin)
        return OverSets(call, [(kit.operand(tokens, heads, width, dtype=torch.bfloat16),)
                               for _ in range(kit.sets(2 * size, most=16))])

    moved = 2 * size if compile_it else (1 + 2 + 2 + 2 + 3) * size
    return Case(f"rotary_{'compiled' if compile_it else 'eager'}_fwd",
                shape_text(T=tokens, H=heads * width, launches=1 if compile_it else 5), 0, moved,
                make)


def loss_cases(tokens, classes, compile_it):
    """bf16 logits, fp32 loss. Eager forward: cast (2 + 4 bytes), log_softmax (4 + 4); backward:
    nll_loss fills (4), log_softmax's (4 + 4 + 4), cast (4 + 2). Compiled: two reads, read and write."""
    count = tokens * classes
    word = "compiled" if compile_it else "eager"

    def both(kit):
        torch = kit.torch

        def run(logits, targets):
            return torch.nn.functional.cross_entropy(logits.float(), targets)
        logits = kit.operand(tokens, classes, dtype=torch.bfloat16).detach().requires_grad_()
        targets = torch.randint(0, classes, (tokens,), device=kit.device)
        return (compiled(kit, run) if compile_it else run), logits, targets

    def forward(kit):
        run, logits, targets = both(kit)

        def call():
            with kit.torch.no_grad():
                run(logits, targets)
        return OverSets(call, [()])

    def gradient(kit):
        run, logits, targets = both(kit)
        loss = run(logits, targets)
        return OverSets(lambda: kit.torch.autograd.grad(loss, logits, retain_graph=True), [()])

    def shape(launches):
        return shape_text(T=tokens, H=classes, launches=launches)
    moved = (4, 4) if compile_it else (14, 22)
    launches = (1, 1) if compile_it else (3, 4)
    return [Case(f"cross_entropy_{word}_fwd", shape(launches[0]), 0, moved[0] * count, forward),
            Case(f"cross_entropy_{word}_bwd", shape(launches[1]), 0, moved[1] * count, gradient)]


def adamw(form, millions):
    """AdamW of fp32 parameters, in tensors of 16 million: reads four, writes three."""
    def make(kit):
        torch = kit.torch
        each = min(millions, 16) << 20 if not kit.short else 1 << 12
        parameters = []
        for _ in range(max(1, (millions << 20) // each) if not kit.short else 2):
            parameter = torch.zeros(each, device=kit.device, requires_grad=True)
            parameter.grad = torch.full_like(parameter, 1e-3)
            parameters.append(parameter)
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, **{form: True})
        return OverSets(lambda: optimizer.step(), [()])

    return Case(f"adamw_{form}_fp32", shape_text(P=millions << 20, launches=1), 0,
                28 * (millions << 20), make, eager=True)


def permutation(kind, tokens, width):
    """Tokens to the order of their experts and back: rows by index."""
    def make(kit):
        torch = kit.torch
        order = torch.randperm(tokens, device=kit.device)
        out = kit.result(tokens, width, dtype=torch.bfloat16)

        def gather(x):
            torch.index_select(x, 0, order, out=out)

        def scatter(x):
            out.index_copy_(0, order, x)
        return OverSets(gather if kind == "gather_rows" else scatter,
                        [tensors(kit, 1, tokens, width)
                         for _ in range(kit.sets(4 * tokens * width, most=16))])

    return Case(kind, shape_text(T=tokens, H=width, launches=1), 0, 4 * tokens * width, make)


def nf4(rows, width, compile_it):
    """A weight of 4 bits by a table of 16 values, with a scale for each 64 elements, in plain
    operators."""
    count = rows * width

    def make(kit):
        torch = kit.torch
        table = torch.linspace(-1, 1, 16, device=kit.device).to(torch.bfloat16)
        packed = torch.randint(0, 256, (count // 2,), device=kit.device).to(torch.uint8)
        scales = torch.rand(count // 64, 1, device=kit.device).to(torch.bfloat16)

        def run(codes, factors):
            pairs = torch.stack((codes >> 4, codes & 15), dim=-1).view(-1)
            values = table[pairs.to(torch.int32) if compile_it else pairs.long()]
            return (values.view(-1, 64) * factors).view(rows, width)
        run = compiled(kit, run) if compile_it else run
        return OverSets(run, [(packed, scales)])

    moved = count // 2 + count // 32 + 2 * count
    word = "compiled" if compile_it else "eager"
    return Case(f"nf4_dequantise_{word}", shape_text(T=rows, H=width, launches=1), 0, moved, make)


def adds(torch):
    return lambda a, b: a + b


def gelu(torch):
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh")


def eager_of(rows, width):
    found = [pointwise("add_eager", rows, width, 2, 1, adds),
             pointwise("gelu_eager", rows, width, 1, 1, gelu),
             pointwise("swiglu_eager_fwd", rows, width, 2, 1, swiglu, launches=2,
                       moved=2 * rows * width * 5)]
    for name in ("layer_norm", "rms_norm"):
        found += norm_cases(name, rows, width, False)
    return found + [permutation("gather_rows", rows, width), permutation("scatter_rows", rows, width)]


def cases(kit):
    if kit.short:
        return eager_of(16, 64) + [rotary_case(16, 2, 32, False), *loss_cases(16, 128, False),
                                   adamw("fused", 1), adamw("foreach", 1), nf4(64, 64, False)]
    found = []
    for rows, width in ((8192, 4096), (4096, 8192), (16384, 2048), (2048, 16384), (8192, 14336),
                        (4096, 1024), (1024, 4096), (512, 2048), (32768, 7168)):
        found += eager_of(rows, width)
    for millions in (256, 32, 1024):
        found += [adamw("fused", millions), adamw("foreach", millions)]
    for tokens, heads, width in ((8192, 32, 128), (4096, 8, 128), (16384, 64, 64)):
        found.append(rotary_case(tokens, heads, width, False))
    for tokens, classes in ((4096, 32000), (8192, 128256), (16384, 50304)):
        found += loss_cases(tokens, classes, False)
    return found + [nf4(4096, 14336, False), nf4(8192, 8192, False)]


def compiled_cases(kit):
    shapes = ((16, 64),) if kit.short else ((8192, 4096), (4096, 8192), (16384, 2048))
    found = []
    for rows, width in shapes:
        found += norm_cases("rms_norm", rows, width, True)
        found += [pointwise("swiglu_compiled_fwd", rows, width, 2, 1, swiglu, compile_it=True),
                  backward("swiglu_compiled_bwd", rows, width, 2, 2 * rows * width * 5, swiglu, True),
                  rotary_case(rows, max(1, width // 128), min(128, width), True)]
        found += loss_cases(rows, 32000 if not kit.short else 128, True)
        found.append(nf4(rows, width, True))
    for rows, width in shapes[:1]:
        found += norm_cases("layer_norm", rows, width, True)
    return found
