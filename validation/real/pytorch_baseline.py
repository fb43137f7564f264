#!/usr/bin/env python3
"""Trains the same shapes with PyTorch on one GPU: what our single-GPU throughput is compared with.

As fast as PyTorch is without writing kernels: torch.compile of the layer (once for all of them) and
of the head with its loss, scaled_dot_product_attention by flash or by cuDNN (`--attention`), fused
AdamW, and the arithmetic of our engine: parameters in bf16 with fp32 masters (`--dtype bf16`), or
fp32 parameters under autocast (`--dtype autocast`). Token ids are uniform; `--write-ids` writes such
ids for our side (16 bits each).
Prints one CSV line per model and attention: tokens per second and TFLOP/s, with the FLOPs counted
as `stepcast simulate` counts them (6 per parameter of a matrix and token, and causal attention in
full: 12 layers hidden sequence).
`--attention-only` times attention alone, forward and backward, of the shapes of both models. Under
CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=FILE its log holds the graph that PyTorch gives to cuDNN.
"""
import argparse
import array
import contextlib
import csv
import random
import statistics
import sys
import time

SHAPES = {  # name: layers, hidden, heads; vocabulary and sequence as in models/*.yaml
    "gpt-20m": (6, 384, 6),
    "gpt-124m": (12, 768, 12),
    "gpt-350m": (24, 1024, 16),
    "gpt-1.5b": (48, 1600, 25),
}
VOCABULARY, SEQUENCE = 50304, 1024


def parameters_of(layers, hidden):
    """Weights of matrices that multiply every token: blocks and the tied head."""
    return layers * 12 * hidden * hidden + VOCABULARY * hidden


def flops_per_token(layers, hidden):
    return 6 * parameters_of(layers, hidden) + 12 * layers * hidden * SEQUENCE


@contextlib.contextmanager
def attention_by(torch, name):
    """Attention by one backend only; `auto` leaves the choice to PyTorch."""
    if name == "auto":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
    with sdpa_kernel([backend]):
        yield


def chosen_backend(torch, q, k, v):
    """The backend that scaled_dot_product_attention takes for these tensors, in PyTorch's word."""
    try:
        from torch.nn.attention import SDPBackend
        number = torch._fused_sdp_choice(q, k, v, None, 0.0, True)
        members = getattr(SDPBackend, "__members__", {})
        return next((n for n, b in members.items() if int(b) == int(number)), str(number))
    except Exception as error:  # a private function: what it says is a remark, not a result
        return f"unknown ({type(error).__name__})"


def heads_of(torch, heads, head_dim, micro_batch):
    """Query, key and value as the model's permuted view has them, and the gradient of the output."""
    qkv = torch.randn(micro_batch, SEQUENCE, 3, heads, head_dim, device="cuda",
                      dtype=torch.bfloat16, requires_grad=True)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    gradient = torch.randn(micro_batch, heads, SEQUENCE, head_dim, device="cuda",
                           dtype=torch.bfloat16)
    return q, k, v, gradient


def print_versions(torch):
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}; "
          f"cuDNN attention allowed: {torch.backends.cuda.cudnn_sdp_enabled()}", flush=True)


def median_seconds(torch, run, runs=11, warm_up=3):
    times = []
    for i in range(warm_up + runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= warm_up:
            times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def time_attention(torch, model, micro_batch, name):
    """One attention forward and backward; FLOPs as the FlashAttention-2 paper counts them."""
    _, hidden, heads = SHAPES[model]
    q, k, v, gradient = heads_of(torch, heads, hidden // heads, micro_batch)
    attend = torch.nn.functional.scaled_dot_product_attention
    with attention_by(torch, name):
        backend = chosen_backend(torch, q, k, v)
        forward = median_seconds(torch, lambda: attend(q, k, v, is_causal=True))
        output = attend(q, k, v, is_causal=True)
        backward = median_seconds(
            torch, lambda: torch.autograd.grad(output, (q, k, v), gradient, retain_graph=True))
    flops = 2.0 * micro_batch * SEQUENCE * SEQUENCE * hidden  # causal: half of 4
    return {
        "attention": name, "backend": backend, "model": model, "micro_batch": micro_batch,
        "sequence": SEQUENCE, "heads": heads, "head_dim": hidden // heads,
        "forward_us": round(forward * 1e6, 1), "backward_us": round(backward * 1e6, 1),
        "forward_tflops": round(flops / forward * 1e-12, 1),
        "backward_tflops": round(2.5 * flops / backward * 1e-12, 1),
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
    }


def make_model(torch, layers, hidden, heads, compiled):
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.projection = nn.Linear(hidden, hidden)
            self.mlp_norm = nn.LayerNorm(hidden)
            self.up = nn.Linear(hidden, 4 * hidden)
            self.down = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, sequence, _ = x.shape
            qkv = self.qkv(self.attention_norm(x)).view(batch, sequence, 3, heads, hidden // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(batch, sequence, hidden))
            return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, hidden)
            self.positions = nn.Embedding(SEQUENCE, hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = nn.LayerNorm(hidden)

        def loss(self, x, targets):
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
            for layer in self.layers:
                x = layer(x)
            return self.loss(x, targets)

    model = Gpt()
    if compiled:
        # All layers share one compilation: 48 unrolled ones would take minutes.
        for layer in model.layers:
            layer.compile()
        model.loss = torch.compile(model.loss)
    return model


class Trainer:
    def __init__(self, torch, shape, dtype, compiled):
        self.torch = torch
        self.autocast = dtype == "autocast"
        torch.manual_seed(1)
        self.model = make_model(torch, *shape, compiled).cuda()
        self.masters = None
        if not self.autocast:
            self.masters = [p.detach().clone() for p in self.model.parameters()]  # fp32
            self.model = self.model.bfloat16()
        trained = self.masters if self.masters else list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=True)

    def step(self, batches):
        torch = self.torch
        for ids, targets in batches:
            with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
                loss = self.model(ids, targets) / len(batches)
            loss.backward()
        parameters = list(self.model.parameters())
        if self.masters is None:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            self.optimizer.step()
        else:
            for master, parameter in zip(self.masters, parameters):
                master.grad = parameter.grad.float()
            torch.nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
            self.optimizer.step()
            with torch.no_grad():
                torch._foreach_copy_(parameters, self.masters)
        for parameter in parameters:
            parameter.grad = None
        return loss


def trace_step(torch, trainer, batches, path):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        trainer.step(batches)
        torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def measure(torch, job, attention, options):
    name, micro_batch, micro_batches = job
    layers, hidden, heads = SHAPES[name]
    began = time.perf_counter()
    trainer = Trainer(torch, (layers, hidden, heads), options.dtype, not options.no_compile)
    batches = []
    for _ in range(micro_batches):
        ids = torch.randint(0, VOCABULARY, (micro_batch, SEQUENCE + 1), device="cuda")
        batches.append((ids[:, :-1].contiguous(), ids[:, 1:].contiguous()))
    times = []
    with attention_by(torch, attention):
        backend = chosen_backend(torch, *heads_of(torch, heads, hidden // heads, micro_batch)[:3])
        for i in range(options.warm_up + options.steps):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            trainer.step(batches)
            torch.cuda.synchronize()
            if i == 0:
                print(f"{name}, {attention} ({backend}): first step done after "
                      f"{time.perf_counter() - began:.1f} s", flush=True)
            if i >= options.warm_up:
                times.append(time.perf_counter() - begin)
        if options.trace:
            trace_step(torch, trainer, batches, options.trace)
    seconds = statistics.median(times)
    tokens = micro_batch * micro_batches * SEQUENCE
    return {
        "model": name, "attention": attention, "backend": backend, "dtype": options.dtype,
        "compiled": not options.no_compile, "micro_batch": micro_batch,
        "micro_batches": micro_batches, "step_s": round(seconds, 6),
        "tokens_per_s": round(tokens / seconds, 1),
        "tflops": round(tokens / seconds * flops_per_token(layers, hidden) / 1e12, 1),
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
    }


# Our scenario of the suite gpu-1 with the same shape and batch.
OURS = {("gpt-124m", 16, 1): "124m-micro-16", ("gpt-1.5b", 8, 1): "1.5b-micro-8"}


def our_step_seconds(path, row):
    """From the output of `stepcast run -o csv`, also with its log, or the results of suite gpu-1."""
    name = OURS.get((row["model"], row["micro_batch"], row["micro_batches"]))
    with open(path, newline="") as file:
        lines = file.read().splitlines()
        header = next((i for i, line in enumerate(lines) if line.startswith("metric,")), 0)
        for line in csv.DictReader(lines[header:]):
            if line.get("metric") == "step_time":
                return float(line["value"])
            if line.get("scenario") == name and line.get("measured_s"):
                return float(line["measured_s"])
    return None


def print_ratio(path, row):
    try:
        step = our_step_seconds(path, row)
    except OSError as error:
        print(f"no results of ours: {error}", flush=True)
        return
    if not step:
        print(f"{row['model']}: no measurement of ours in {path}", flush=True)
        return
    ours = row["micro_batch"] * row["micro_batches"] * SEQUENCE / step
    print(f"{row['model']}: ours {ours:.0f} tokens/s, PyTorch ({row['backend']}) "
          f"{row['tokens_per_s']:.0f}, ratio {ours / row['tokens_per_s']:.3f}", flush=True)


def write_ids(path):
    """4 million token ids of equal probability, 16 bits each, little-endian, without a header."""
    ids = array.array("H", random.Random(1).choices(range(VOCABULARY), k=4_000_000))
    if sys.byteorder == "big":
        ids.byteswap()
    with open(path, "wb") as file:
        ids.tofile(file)


def rows_of(torch, jobs, options):
    """The results, one by one. A backend that this PyTorch or GPU lacks is told and left out."""
    for job in jobs:
        for attention in options.attention or ["flash", "cudnn"]:
            try:
                if options.attention_only:
                    yield time_attention(torch, job[0], job[1], attention)
                else:
                    yield measure(torch, job, attention, options)
            except RuntimeError as error:
                print(f"{job[0]}, {attention}: {error}", flush=True)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", metavar="NAME:MICRO_BATCH:MICRO_BATCHES",
                        help="default: gpt-124m:16:1 and gpt-1.5b:8:1")
    parser.add_argument("--attention", action="append", choices=["flash", "cudnn", "auto"],
                        help="backend of attention (may be repeated); default: flash and cudnn")
    parser.add_argument("--attention-only", action="store_true",
                        help="time attention alone, of the models' shapes")
    parser.add_argument("--trace", metavar="FILE", help="trace of one more step (Chrome's format)")
    parser.add_argument("--write-ids", metavar="FILE", help="write uniform token ids, and end")
    parser.add_argument("--dtype", choices=["bf16", "autocast"], default="bf16")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="check the arguments, count FLOPs")
    parser.add_argument("-o", "--output", help="CSV file; default: stdout")
    parser.add_argument("--beside", metavar="FILE",
                        help="`stepcast run -o csv`, or results of the suite gpu-1: prints ours "
                             "beside PyTorch's")
    options = parser.parse_args()
    if options.write_ids:
        write_ids(options.write_ids)
        return
    jobs = []
    for text in options.model or ["gpt-124m:16:1", "gpt-1.5b:8:1"]:
        name, *counts = text.split(":")
        if name not in SHAPES or len(counts) != 2 or not all(c.isdigit() and int(c) for c in counts):
            parser.error(f"--model: '{text}' is not NAME:MICRO_BATCH:MICRO_BATCHES with a name of "
                         + ", ".join(SHAPES))
        jobs.append((name, int(counts[0]), int(counts[1])))
    if options.dry_run:
        for name, micro_batch, micro_batches in jobs:
            layers, hidden, _ = SHAPES[name]
            tokens = micro_batch * micro_batches * SEQUENCE
            print(f"{name}: {tokens} tokens, "
                  f"{tokens * flops_per_token(layers, hidden) / 1e12:.2f} TFLOP per step")
        return
    import torch  # only here: a dry run needs no PyTorch
    torch.set_float32_matmul_precision("high")
    print_versions(torch)
    out = open(options.output, "w", newline="") if options.output else sys.stdout
    writer = None
    for row in rows_of(torch, jobs, options):
        if writer is None:
            writer = csv.DictWriter(out, fieldnames=list(row))
            writer.writeheader()
        writer.writerow(row)
        out.flush()
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if options.beside and not options.attention_only:
            print_ratio(options.beside, row)
    if writer is None:
        sys.exit("nothing was measured")


if __name__ == "__main__":
    main()
