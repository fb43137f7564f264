"""Flash attention of PyTorch: scaled_dot_product_attention by one backend at a time."""
import random

from .clock import OverSets
from .memory import compiled
from .rows import Case, LeftOut, shape_text

TOKENS_OF_A_CALL = 16384


def attention_sizes(b, h, kv, s, d, causal):
    work = 4.0 * b * h * s * s * d * (0.5 if causal else 1)
    return work, 2 * b * s * d * (2 * h + 2 * kv)


def heads(kit, b, h, kv, s, d):
    """Query, key, value and the gradient of the output, as a permuted view has them."""
    torch = kit.torch
    dtype = torch.bfloat16

    def of(count):
        return kit.operand(b, s, count, d, dtype=dtype).detach().transpose(1, 2).requires_grad_()

    return of(h), of(kv), of(kv), kit.operand(b, s, h, d, dtype=dtype).transpose(1, 2)


def backend_of(torch, name):
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as error:
        raise LeftOut(f"no torch.nn.attention in torch {torch.__version__}") from error
    return sdpa_kernel, {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]


def sdpa(name, part, b, h, kv, s, d, causal):
    work, moved = attention_sizes(b, h, kv, s, d, causal)
    backward = part == "bwd"

    def make(kit):
        torch = kit.torch
        sdpa_kernel, backend = backend_of(torch, name)
        if not kit.on_gpu:
            raise LeftOut(f"{name} attention needs a GPU")
        attend = torch.nn.functional.scaled_dot_product_attention
        q, k, v, gradient = heads(kit, b, h, kv, s, d)

        def forward():
            with sdpa_kernel([backend]):
                return attend(q, k, v, is_causal=causal, enable_gqa=kv != h)

        if not backward:
            def run():
                with torch.no_grad():
                    forward()
            return OverSets(run, [()])
        output = forward()
        return OverSets(lambda: torch.autograd.grad(output, (q, k, v), gradient, retain_graph=True),
                        [()])

    return Case(f"sdpa_{name}_{part}",
                shape_text(B=b, H=h, KV=kv if kv != h else None, S=s, D=d, causal=causal),
                work * (2.5 if backward else 1), moved * (2 if backward else 1), make)


def cases(kit):
    if kit.short:
        return [sdpa(name, part, 1, 2, 2, 64, 32, True) for name in ("flash", "cudnn")
                for part in ("fwd", "bwd")]
    grid = []
    for s in (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072):
        b = max(1, TOKENS_OF_A_CALL // s)
        h = 32 if s <= 16384 else 8
        grid += [(b, h, h, s, d, causal) for d in (64, 128) for causal in (True, False)
                 if causal or s <= 65536]
    for s in (2048, 8192):
        b = TOKENS_OF_A_CALL // s
        grid += [(b, 32, 32, s, d, True) for d in (96, 192, 256)]
        grid += [(b, 32, kv, s, 128, True) for kv in (8, 4, 1)]
        grid += [(b, 64, 8, s, 128, True), (b, 16, 16, s, 128, True), (1, 16, 16, s, 128, True)]
    random.Random(1).shuffle(grid)
    first = [(2, 32, 32, 8192, 128, True), (4, 32, 32, 4096, 128, True)]
    grid = first + [entry for entry in grid if entry not in first]
    return [sdpa(name, part, *entry) for entry in grid for name in ("cudnn", "flash")
            for part in ("fwd", "bwd")]


def flex(part, b, h, s, d, window):
    """flex_attention under a causal mask, with a window of keys or without."""
    share = 0.5 if not window else window / s * (1 - window / s / 2)
    backward = part == "bwd"

    def make(kit):
        torch = kit.torch
        if not kit.on_gpu:
            raise LeftOut("flex_attention needs a GPU")
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def mask(_b, _h, query, key):
            seen = query >= key
            return seen & (query - key < window) if window else seen

        blocks = create_block_mask(mask, None, None, s, s, device=kit.device)
        attend = compiled(kit, flex_attention)
        q, k, v, gradient = heads(kit, b, h, h, s, d)
        if not backward:
            def run():
                with torch.no_grad():
                    attend(q, k, v, block_mask=blocks)
            return OverSets(run, [()])
        output = attend(q, k, v, block_mask=blocks)
        return OverSets(lambda: torch.autograd.grad(output, (q, k, v), gradient, retain_graph=True),
                        [()])

    return Case(f"flex_{part}", shape_text(B=b, H=h, S=s, D=d, causal=1, W=window or None),
                4.0 * b * h * s * s * d * share * (2.5 if backward else 1),
                8 * b * s * d * h * (2 if backward else 1), make)


def flex_cases(kit):
    if kit.short:
        return [flex("fwd", 1, 2, 256, 32, 64)]
    return [flex(part, max(1, TOKENS_OF_A_CALL // s), 16, s, 128, window)
            for s, window in ((8192, 1024), (8192, 0), (8192, 128), (32768, 4096), (32768, 1024))
            for part in ("fwd", "bwd")]
