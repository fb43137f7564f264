#!/usr/bin/env python3
"""Trains the same shapes with PyTorch on one GPU: what our single-GPU throughput is compared with.

As fast as PyTorch is without writing kernels: torch.compile of the whole model, fused attention
(scaled_dot_product_attention, flash), fused AdamW, and the arithmetic of our engine: parameters in
bf16 with fp32 masters (`--dtype bf16`), or fp32 parameters under autocast (`--dtype autocast`).
Prints one CSV line per model: tokens per second and TFLOP/s, with the FLOPs counted as
`stepcast simulate` counts them (6 per parameter of a matrix and token, and causal attention in
full: 12 layers hidden sequence).
"""
import argparse
import csv
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


def make_model(torch, layers, hidden, heads):
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

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
            for layer in self.layers:
                x = layer(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    return Gpt()


class Trainer:
    def __init__(self, torch, shape, dtype, compiled):
        self.torch = torch
        self.autocast = dtype == "autocast"
        torch.manual_seed(1)
        self.model = make_model(torch, *shape).cuda()
        self.masters = None
        if not self.autocast:
            self.masters = [p.detach().clone() for p in self.model.parameters()]  # fp32
            self.model = self.model.bfloat16()
        trained = self.masters if self.masters else list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=True)
        self.run = torch.compile(self.model) if compiled else self.model

    def step(self, batches):
        torch = self.torch
        for ids, targets in batches:
            with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
                loss = self.run(ids, targets) / len(batches)
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
            torch._foreach_copy_(parameters, self.masters)
        for parameter in parameters:
            parameter.grad = None
        return loss


def measure(torch, name, micro_batch, micro_batches, dtype, compiled, steps, warm_up):
    layers, hidden, heads = SHAPES[name]
    trainer = Trainer(torch, (layers, hidden, heads), dtype, compiled)
    batches = []
    for _ in range(micro_batches):
        ids = torch.randint(0, VOCABULARY, (micro_batch, SEQUENCE + 1), device="cuda")
        batches.append((ids[:, :-1].contiguous(), ids[:, 1:].contiguous()))
    times = []
    for i in range(warm_up + steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        trainer.step(batches)
        torch.cuda.synchronize()
        if i >= warm_up:
            times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    tokens = micro_batch * micro_batches * SEQUENCE
    return {
        "model": name, "dtype": dtype, "compiled": compiled, "micro_batch": micro_batch,
        "micro_batches": micro_batches, "step_s": round(seconds, 6),
        "tokens_per_s": round(tokens / seconds, 1),
        "tflops": round(tokens / seconds * flops_per_token(layers, hidden) / 1e12, 1),
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
        "torch": torch.__version__, "device": torch.cuda.get_device_name(),
    }


# Our scenario of the suite gpu-1 with the same shape and batch.
OURS = {("gpt-124m", 16, 1): "124m-micro-16", ("gpt-1.5b", 8, 1): "1.5b-micro-8"}


def print_ratio(path, row):
    name = OURS.get((row["model"], row["micro_batch"], row["micro_batches"]))
    try:
        with open(path, newline="") as file:
            found = [r for r in csv.DictReader(file) if r["scenario"] == name and r["measured_s"]]
    except OSError as error:
        print(f"no results of ours: {error}")
        return
    if not found:
        print(f"{row['model']}: no measurement of ours ({name})")
        return
    tokens = row["micro_batch"] * row["micro_batches"] * SEQUENCE
    ours = tokens / float(found[-1]["measured_s"])
    print(f"{row['model']}: ours {ours:.0f} tokens/s, PyTorch {row['tokens_per_s']:.0f}, "
          f"ratio {ours / row['tokens_per_s']:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", metavar="NAME:MICRO_BATCH:MICRO_BATCHES",
                        help="default: gpt-124m:16:1 and gpt-1.5b:8:1")
    parser.add_argument("--dtype", choices=["bf16", "autocast"], default="bf16")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="check the arguments, count FLOPs")
    parser.add_argument("-o", "--output", help="CSV file; default: stdout")
    parser.add_argument("--beside", metavar="FILE",
                        help="results of the suite gpu-1 (CSV): prints ours beside PyTorch's")
    options = parser.parse_args()
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
    out = open(options.output, "w", newline="") if options.output else sys.stdout
    writer = None
    for name, micro_batch, micro_batches in jobs:
        row = measure(torch, name, micro_batch, micro_batches, options.dtype,
                      not options.no_compile, options.steps, options.warm_up)
        if writer is None:
            writer = csv.DictWriter(out, fieldnames=list(row))
            writer.writeheader()
        writer.writerow(row)
        out.flush()
        if options.beside:
            print_ratio(options.beside, row)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
