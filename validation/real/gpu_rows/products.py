"""Matrix products: cuBLAS in bf16, tf32, fp16 and fp32, in 8 bits, and of experts in one kernel."""
import random

from .clock import OverSets
from .rows import Case, LeftOut, shape_text

SEED = 1  # of the order of rows, so that what is cut off is a sample

TOKENS = (512, 1024, 2048, 4096, 8192, 16384)
# (out, in) of linear layers: hidden sizes of 1k to 16k, whole and as tensor parallelism cuts them.
LINEAR = ((1024, 1024), (4096, 1024), (1024, 4096), (2048, 2048), (5632, 2048), (4096, 4096),
          (6144, 4096), (14336, 4096), (4096, 14336), (5120, 5120), (13824, 5120), (8192, 8192),
          (10240, 8192), (28672, 8192), (8192, 28672), (12288, 12288), (16384, 16384),
          (53248, 16384), (1280, 8192), (8192, 1024), (3584, 8192), (8192, 3584), (2112, 7168),
          (7168, 2048), (4608, 1536), (50304, 1600), (32000, 4096))
FORMS = ("tn", "dgrad_nn", "wgrad_nt")
MOST_FLOPS = 1e13


def mnk(form, tokens, out, inner):
    """(m, n, k) of a linear layer's product: forward, gradient of the input, of the weight."""
    if form == "tn":
        return tokens, out, inner
    return (tokens, inner, out) if form == "dgrad_nn" else (out, inner, tokens)


def gemm_operands(kit, form, m, n, k, dtype):
    """(A, B, C) for torch.mm, as the autograd of a linear layer passes them."""
    if form == "tn":
        a, b = kit.operand(m, k, dtype=dtype), kit.operand(n, k, dtype=dtype).t()
    elif form == "dgrad_nn":
        a, b = kit.operand(m, k, dtype=dtype), kit.operand(k, n, dtype=dtype)
    else:
        a, b = kit.operand(k, m, dtype=dtype).t(), kit.operand(k, n, dtype=dtype)
    return a, b, kit.result(m, n, dtype=dtype)


def gemm(name, form, m, n, k):
    element = 2 if name in ("bf16", "fp16") else 4

    def make(kit):
        torch = kit.torch
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        if name == "tf32" and not kit.on_gpu:
            raise LeftOut("tf32 needs a GPU")
        sets = kit.sets((m * k + k * n + m * n) * element)
        return OverSets(lambda a, b, c: torch.mm(a, b, out=c),
                        [gemm_operands(kit, form, m, n, k, dtype) for _ in range(sets)])

    return Case(f"gemm_{name}_{form}", shape_text(M=m, N=n, K=k), 2.0 * m * n * k,
                (m * k + k * n + m * n) * element, make)


def shapes(small):
    """(form, m, n, k) in a random order, behind the shapes that are looked at first."""
    first = [(form, *mnk(form, *layer)) for form in FORMS
             for layer in ((8192, 8192, 8192), (4096, 14336, 4096), (8192, 28672, 8192))]
    grid = [(form, *mnk(form, tokens, *layer)) for form in FORMS for tokens in TOKENS
            for layer in LINEAR]
    draw = random.Random(SEED)
    sizes = (64, 128, 192, 256, 384, 512, 768, 1024)
    grid += [(form, draw.choice(sizes), draw.choice(sizes), draw.choice(sizes))
             for form in FORMS for _ in range(small)]
    grid = [entry for entry in dict.fromkeys(grid)
            if entry not in first and 2.0 * entry[1] * entry[2] * entry[3] <= MOST_FLOPS]
    draw.shuffle(grid)
    return first + grid


def cases(kit):
    if kit.short:
        return [gemm(name, form, 64, 96, 32) for name in ("bf16", "tf32", "fp16", "fp32")
                for form in FORMS]
    grid = shapes(small=20)
    found = [gemm("bf16", *entry) for entry in grid]
    # The others: a sample, spread over the group so that a short run has some of each.
    few = [entry for entry in grid if 2.0 * entry[1] * entry[2] * entry[3] <= 2e12]
    draw = random.Random(SEED + 1)
    draw.shuffle(few)
    others = []
    for i, entry in enumerate(few[:120]):
        others += [gemm("tf32", *entry)] if i < 90 else []
        others += [gemm("fp16", *entry)] if i < 45 else []
        others += [gemm("fp32", *entry)] if i < 60 and entry[1] * entry[2] * entry[3] < 2e11 else []
    at = 45
    for other in others:
        found.insert(min(at, len(found)), other)
        at += 3
    return found


def scales_of(kit, recipe, rows, k, second):
    """Scales and their torch.nn.functional.ScalingType. 1 x 128: [rows, k / 128], rows innermost;
    128 x 128: [k / 128 up to a multiple of 4, rows / 128], k innermost."""
    torch = kit.torch
    kind = torch.nn.functional.ScalingType
    if recipe == "blocks" and second:
        padded = -(-(k // 128) // 4) * 4
        return torch.ones(rows // 128, padded, device=kit.device).t(), kind.BlockWise128x128
    return torch.ones(k // 128, rows, device=kit.device).t(), kind.BlockWise1x128


def scaled_call(kit, recipe, a, b):
    torch = kit.torch
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    if recipe in ("blocks", "rows"):
        scaled_mm = getattr(torch.nn.functional, "scaled_mm", None)
        if scaled_mm is None:
            raise LeftOut("no torch.nn.functional.scaled_mm")
        sa, ka = scales_of(kit, recipe, m, k, False)
        sb, kb = scales_of(kit, recipe, n, k, True)
        return lambda: scaled_mm(a, b, sa, ka, sb, kb, output_dtype=torch.bfloat16)
    by_rows = recipe.startswith("row_scales")
    sa = torch.ones((m, 1) if by_rows else (), device=kit.device)
    sb = torch.ones((1, n) if by_rows else (), device=kit.device)
    fast = not recipe.endswith("promoted")
    return lambda: torch._scaled_mm(a, b, scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16,
                                    use_fast_accum=fast)


def scaled(recipe, m, n, k):
    def make(kit):
        torch = kit.torch
        if not hasattr(torch, "_scaled_mm") or not hasattr(torch, "float8_e4m3fn"):
            raise LeftOut(f"no torch._scaled_mm in torch {torch.__version__}")
        if not kit.on_gpu:
            raise LeftOut("8 bits need a GPU")
        calls = []
        for _ in range(kit.sets(m * k + k * n + 2 * m * n, most=32)):
            a = kit.operand(m, k, dtype=torch.float8_e4m3fn)
            b = kit.operand(n, k, dtype=torch.float8_e4m3fn).t()
            calls.append((scaled_call(kit, recipe, a, b),))
        return OverSets(lambda run: run(), calls)

    return Case(f"gemm_fp8_{recipe}", shape_text(M=m, N=n, K=k), 2.0 * m * n * k,
                m * k + k * n + 2 * m * n, make)


RECIPES = ("soaked", "promoted", "row_scales", "row_scales_promoted", "blocks", "rows")


def scaled_cases(kit):
    if kit.short:
        return [scaled(recipe, 128, 256, 128) for recipe in RECIPES]
    grid = [entry[1:] for entry in shapes(small=0)
            if all(size % 128 == 0 for size in entry[1:]) and entry[1] * entry[2] * entry[3] >= 1e9]
    found = []
    for i, entry in enumerate(dict.fromkeys(grid)):
        found += [scaled(recipe, *entry) for recipe in RECIPES if i < 60 or recipe == "soaked"]
    return found


def experts(form, cut, count, tokens, out, inner):
    """Products of `count` experts; m or k is what an expert has in the mean."""
    each = tokens // count
    m, n, k = mnk(form, each, out, inner)

    def offsets(torch, kit):
        if not cut:
            ends = [each * (i + 1) for i in range(count)]
        else:
            draw = random.Random(SEED + count)
            ends = sorted(draw.randrange(0, tokens + 1, 16) for _ in range(count - 1)) + [tokens]
        return torch.tensor(ends, dtype=torch.int32, device=kit.device)

    def make(kit):
        torch = kit.torch
        grouped = getattr(torch, "_grouped_mm", None)
        if grouped is None:
            raise LeftOut(f"no torch._grouped_mm in torch {torch.__version__}")
        if not kit.on_gpu:
            raise LeftOut("products of experts in one kernel need a GPU")
        offs, bf16 = offsets(torch, kit), torch.bfloat16
        if form == "tn":
            a = kit.operand(tokens, inner, dtype=bf16)
            b = kit.operand(count, out, inner, dtype=bf16).transpose(-2, -1)
        elif form == "dgrad_nn":
            a = kit.operand(tokens, out, dtype=bf16)
            b = kit.operand(count, out, inner, dtype=bf16)
        else:
            a = kit.operand(tokens, out, dtype=bf16).t()
            b = kit.operand(tokens, inner, dtype=bf16)
        return OverSets(lambda x, y: grouped(x, y, offs=offs), [(a, b)])

    work = 2.0 * tokens * out * inner
    moved = 2 * (tokens * (out + inner) + count * out * inner)
    return Case(f"grouped_bf16_{form}_{'cut' if cut else 'even'}",
                shape_text(M=m, N=n, K=k, E=count), work, moved, make)


def grouped_cases(kit):
    if kit.short:
        return [experts(form, cut, 4, 256, 64, 32) for form in FORMS for cut in (False, True)]
    layers = ((4096, 7168), (7168, 2048), (1536, 2048), (2048, 768), (2816, 2048), (2048, 1408),
              (28672, 4096), (4096, 14336))
    grid = [(form, cut, count, tokens, *layer) for form in FORMS for cut in (False, True)
            for count in (8, 16, 32, 64, 128) for tokens in (8192, 32768, 65536) for layer in layers
            if count * layer[0] * layer[1] <= 8e8]
    random.Random(SEED).shuffle(grid)
    return [experts(*entry) for entry in grid]
