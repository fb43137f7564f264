#!/usr/bin/env python3
"""Trains a small GPT on two ranks of CPUs with PyTorch, and keeps the profiler's trace of each.

  train.py FOLDER [--parallel fsdp] [--slow-rank 1 --trouble sleep]

The ranks communicate with gloo: DDP in buckets of 1 MB, FSDP with each layer in a shard of its own.
Writes rank0.json.gz and rank1.json.gz to FOLDER. Prints how many parameters the model has.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

RANKS, LAYERS, WIDTH, HEADS, TOKENS, VOCABULARY, BATCH = 2, 2, 128, 1, 64, 256, 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(BATCH, TOKENS, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        scores = q @ k.transpose(-2, -1) * q.shape[-1]**-0.5
        masked = scores.masked_fill(torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1), -1e9)
        attended = (masked.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.position = torch.nn.Parameter(torch.zeros(TOKENS, WIDTH))
        self.layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.layers(self.embedding(tokens) + self.position)))


def parallel(model, how):
    if how == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=1)
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Layer}),
                                    device_id=torch.device("cpu"))


def train(rank, options):
    store = os.path.abspath(os.path.join(options.folder, "rendezvous"))
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Gpt()
    if rank == 0:
        print(sum(p.numel() for p in model.parameters()), "parameters")
    model = parallel(model, options.parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def save(profiler):
        profiler.export_chrome_trace(os.path.join(options.folder, f"rank{rank}.json.gz"))

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, on_trace_ready=save,
                 schedule=schedule(wait=1, warmup=1, active=2)) as profiler:
        for _ in range(4):
            tokens = torch.randint(VOCABULARY, (BATCH, TOKENS + 1))
            logits = model(tokens[:, :-1])
            if rank == options.slow_rank and options.trouble == "sleep":
                time.sleep(0.05)
            elif rank == options.slow_rank:
                torch.rand(512, 512) @ torch.rand(512, 512)
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--trouble", choices=["sleep", "product"], default="sleep")
    torch.multiprocessing.spawn(train, (parser.parse_args(),), nprocs=RANKS)
