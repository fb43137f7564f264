"""Matrix products beside a kernel that holds SMs: what a posted receive costs a pipeline.

A kernel of spin.ptx is started on one stream and holds its SMs to the end; 100 us later, when it is
there, a product (or four in a row) begins on another. Columns beside the times:
  late_blocks    forecast of today's rule (sim/engine/RULES.md, persistent GEMMs): twice as long
  share_of_sms   forecast where blocks give way: S / (S - held) times as long
  tile_less      forecast of late blocks that have floor(N / S) of ceil(N / S) tiles
  grid, kernel   of the product, by the profiler: as many blocks as SMs is a persistent kernel
The tiles are of 128 x 256, as cuBLAS takes them for products of this size; see `kernel` for what it
took.
"""
import json
import math
import os
import statistics
import tempfile

from .products import gemm_operands
from .rows import plain
from .spin import Holder

COLUMNS = ("kind", "shape", "waves", "held_by", "held_sms", "in_row", "alone_us", "median_us",
           "min_us", "max_us", "ratio", "late_blocks", "share_of_sms", "tile_less", "samples", "grid",
           "kernel", "note")
HELD = (1, 2, 4, 8, 24)
LEAD_SECONDS = 100e-6
SAMPLES = 9


def shapes(sms):
    """(m, n, k) of 1 to 40 waves of tiles of 128 x 256, and three of models."""
    rows = max(divisor for divisor in range(1, 17) if sms % divisor == 0)
    found = []
    for waves in (2, 6, 1, 30.5, 1.5, 3, 4, 10, 16, 20, 40):
        columns = round(waves * sms / rows)
        found.append((128 * rows, 256 * columns, 4096))
    return found + [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096)]


def tiles_of(m, n):
    return math.ceil(m / 128) * math.ceil(n / 256)


def plan(sms):
    """(kind, shape, held_by, held, in_row), the most important first."""
    rows = []
    for held_by, in_row, held in (("wait", 1, (4, 1, 24)), ("wait", 1, (2, 8)), ("move", 1, (4, 24)),
                                  ("wait", 4, (4,)), ("move", 1, (1, 2, 8))):
        for kind in ("bf16", "fp8"):
            rows += [(kind, shape, held_by, count, in_row) for shape in shapes(sms)
                     for count in held]
    return rows


class Product:
    def __init__(self, kit, kind, m, n, k):
        torch = kit.torch
        if kind == "bf16":
            a, b, c = gemm_operands(kit, "tn", m, n, k, torch.bfloat16)
            self.run = lambda: torch.mm(a, b, out=c)
        else:
            one = torch.ones((), device=kit.device)
            a = kit.operand(m, k, dtype=torch.float8_e4m3fn)
            b = kit.operand(n, k, dtype=torch.float8_e4m3fn).t()
            self.run = lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one,
                                                out_dtype=torch.bfloat16, use_fast_accum=True)


class Beside:
    def __init__(self, kit):
        self.kit, self.torch = kit, kit.torch
        self.holder = Holder(kit.torch)
        self.held, self.compute = (kit.torch.cuda.Stream() for _ in range(2))

    def sample(self, run, in_row, held_by, sms, seconds):
        """Seconds of the products, with `sms` SMs held for `seconds`; 0: with none."""
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if sms:
            self.holder.start(held_by, sms, seconds, self.held)
        with torch.cuda.stream(self.compute):
            # The same lead where nothing is held: the host issues the products meanwhile.
            self.holder.start("wait", 1, LEAD_SECONDS, self.compute)
            begin.record()
            for _ in range(in_row):
                run()
            end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def times(self, *arguments):
        self.sample(*arguments)
        return [self.sample(*arguments) for _ in range(SAMPLES)]

    def grids(self, run):
        """Name and grid of the product's largest kernel, by the profiler's trace."""
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
            self.torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(path)
            with open(path) as file:
                events = json.load(file)["traceEvents"]
        kernels = [event for event in events if event.get("cat") == "kernel"]
        if not kernels:
            return None, "the profiler saw no kernel"
        largest = max(kernels, key=lambda event: event.get("dur", 0))
        return "x".join(str(size) for size in largest["args"].get("grid", [])), largest["name"]


def expectations(sms, held, waves):
    """Times as long, by the three rules of COLUMNS."""
    whole = math.ceil(waves)
    return {"late_blocks": 2.0, "share_of_sms": round(sms / (sms - held), 3),
            "tile_less": round(1 + max(0.0, 2 * math.floor(waves) / whole - 1), 3)}


def short_row(kind, shape, held_by, held, in_row):
    return {"kind": "beside_" + kind, "held_by": held_by, "held_sms": held, "in_row": in_row,
            "shape": "M={} N={} K={}".format(*shape)}


def key_of(row):
    """What tells a row apart in the table."""
    return row["kind"], f"{row['shape']} {row['held_by']} {row['held_sms']} {row['in_row']}"


def measure_all(kit, table, time_is_up):
    """Appends the rows to `table` until the time is up; returns how many."""
    torch = kit.torch
    if not kit.on_gpu:
        table.add({**short_row("bf16", (128, 256, 64), "wait", 1, 1),
                   **expectations(132, 1, 1), "note": "left out: it needs a GPU"})
        return 0
    beside = Beside(kit)
    alone, grids, count = {}, {}, 0
    for kind, shape, held_by, held, in_row in plan(kit.sms):
        if time_is_up():
            break
        row = short_row(kind, shape, held_by, held, in_row)
        if key_of(row) in table.done:
            continue
        waves = tiles_of(*shape[:2]) / kit.sms
        row.update(waves=round(waves, 2), **expectations(kit.sms, held, waves))
        try:
            run = Product(kit, kind, *shape).run
            key = kind, shape, in_row
            if key not in alone:
                alone[key] = statistics.median(beside.times(run, in_row, held_by, 0, 0))
            if (kind, shape) not in grids:
                grids[kind, shape] = beside.grids(run)
            times = beside.times(run, in_row, held_by, held, 3 * alone[key] + 2e-4)
        except (RuntimeError, AttributeError, OSError) as error:
            torch.cuda.synchronize()
            table.add({**row, "note": "left out: " + plain(error)})
            continue
        median = statistics.median(times)
        grid, kernel = grids[kind, shape]
        table.add({**row, "alone_us": round(alone[key] * 1e6, 2), "median_us": round(median * 1e6, 2),
                   "min_us": round(min(times) * 1e6, 2), "max_us": round(max(times) * 1e6, 2),
                   "ratio": round(median / alone[key], 3), "samples": len(times), "grid": grid,
                   "kernel": plain(kernel)})
        count += 1
    return count
