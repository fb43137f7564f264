"""The clocks of validation/real/gpu_rows on a GPU that is none: work takes as long as it says."""
import contextlib
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "validation/real"))
from gpu_rows import attention, beside, clock, memory, products  # noqa: E402

now = [0.0]  # seconds of the device


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = now[0]

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


class Stream:
    cuda_stream = 0


class Graph:
    capturable = True

    def capture_begin(self, capture_error_mode):
        if not self.capturable:
            raise RuntimeError("not while capturing")
        self.begin = now[0]

    def capture_end(self):
        self.seconds, now[0] = now[0] - self.begin, self.begin

    def replay(self):
        now[0] += self.seconds


class Holder:
    """Products are late while SMs are held."""
    held = 0

    def __init__(self, _torch):
        pass

    def start(self, name, sms, seconds, stream):
        if seconds != beside.LEAD_SECONDS:
            Holder.held = sms


class Product:
    def __init__(self, kit, kind, m, n, k):
        pass

    def run(self):
        now[0] += 2e-4 if Holder.held else 1e-4


class Rows:
    done = set()

    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        Holder.held = 0


def gpu_that_is_none():
    cuda = torch.cuda
    cuda.Event, cuda.Stream, cuda.CUDAGraph = Event, Stream, Graph
    cuda.stream = lambda stream: contextlib.nullcontext()
    cuda.synchronize = lambda: None
    kit = clock.Kit(torch, "cpu", False)
    kit.on_gpu, kit.stream, kit.sms = True, Stream(), 132
    kit._pool = lambda dtype, name: kit._pools.setdefault((dtype, name), torch.ones(1 << 20).to(dtype))
    kit._places.update({(torch.bfloat16, name): 0 for name in ("operand", "result")})
    return kit


def check_rows(kit):
    multiply = torch.mm

    def five_microseconds(a, b, out):
        now[0] += 5e-6
        return multiply(a, b, out=out)

    torch.mm = five_microseconds
    case = products.gemm("bf16", "wgrad_nt", 64, 96, 32)
    row = clock.measure(kit, case)
    assert abs(row["median_us"] - 5) < 1e-3 and row["samples"] >= 5 and row["note"] is None, row
    Graph.capturable = False
    row = clock.measure(kit, case)
    assert abs(row["median_us"] - 5) < 1e-3 and "not while capturing" in row["note"], row
    torch.mm = multiply


def check_beside(kit):
    beside.Holder, beside.Product = Holder, Product
    beside.Beside.grids = lambda self, run: ("132x1x1", "a, kernel")
    table = Rows()
    count = beside.measure_all(kit, table, lambda: len(table.rows) == 40)
    assert count == 40 and all(row["ratio"] == 2.0 for row in table.rows), table.rows
    assert {row["held_sms"] for row in table.rows} == {1, 4, 24}
    assert table.rows[0]["share_of_sms"] == round(132 / 128, 3)


def check_plans(kit):
    """Every row is planned once, and on the GPU there are enough to fit."""
    for cases, least in ((products.cases, 500), (products.scaled_cases, 200),
                         (products.grouped_cases, 200), (attention.cases, 100), (memory.cases, 60),
                         (memory.compiled_cases, 20), (attention.flex_cases, 10)):
        keys = [case.key for case in cases(kit)]
        assert len(keys) == len(set(keys)) >= least, (cases, len(keys))
    assert [beside.expectations(132, 24, waves)["tile_less"] for waves in (1.5, 30.5)] == [1.0, 1.935]


fake = gpu_that_is_none()
check_rows(fake)
check_beside(fake)
check_plans(fake)
