#!/usr/bin/env python3
"""Measures PyTorch's kernels as training frameworks use them, for the rates of a device file.

    python3 torch_kernels.py -o FOLDER [--limit SECONDS] [--stepcast PROGRAM] [--base h100_sxm]

Groups of rows in the order of their importance, each with a share of the time; what one leaves the
next ones get. Rows go into FOLDER/torch-kernels.csv and FOLDER/torch-beside.csv as they come, and rows
that are there are not measured again: a run that was cut short goes on where it ended. What this
PyTorch or GPU lacks is a row with the note "left out: ...". Comments in the tables name the machine,
its versions and clocks.

Methods: on a GPU by CUDA events over replays of CUDA graphs, operands in device memory, the clock of
the power limit, medians (gpu_rows/clock.py); products beside a kernel that holds SMs:
gpu_rows/beside.py. Each module says what its rows count.

`forecast_us` is what PROGRAM forecasts of a row before it is measured, by the file of this GPU (or
--base). Afterwards, anywhere:
    stepcast calibrate --from-kernels FOLDER/torch-kernels.csv --write-device mine.yaml
prints how far off the forecasts are, fits a device file to 70 % of the shapes and prints the errors on
both parts.

--device cpu --short: a few tiny rows of each group, to try the script.
"""
import argparse
import os
import signal
import statistics
import sys
import time

from gpu_rows import attention, beside, clock, host, memory, products, rows

BESIDE = "beside"
GROUPS = (  # name, share of the time, cases
    ("products", 0.26, products.cases),
    ("attention", 0.16, attention.cases),
    (BESIDE, 0.14, None),
    ("8 bits", 0.11, products.scaled_cases),
    ("memory", 0.10, memory.cases),
    ("host", 0.03, host.cases),
    ("experts", 0.07, products.grouped_cases),
    ("compiled", 0.09, memory.compiled_cases),
    ("windows", 0.04, attention.flex_cases),
)
SOAK_SECONDS = 1.0
STARTED = time.time()  # before PyTorch is loaded
stopped = []  # signals that came


class Run:
    def __init__(self, torch, options):
        self.options = options
        self.began = options.began or STARTED
        self.kit = clock.Kit(torch, options.device, options.short)
        self.groups = [(name, share, cases(self.kit) if cases else []) for name, share, cases in GROUPS
                       if not options.group or name in options.group]
        facts = rows.facts_of(torch, self.kit.on_gpu)
        every = [case for _, _, cases in self.groups for case in cases]
        self.forecasts = rows.forecasts(options.stepcast, options.base, every, self.kit.sms,
                                        facts[0][1])
        self.table = rows.Table(os.path.join(options.output, "torch-kernels.csv"), rows.COLUMNS, facts)
        self.beside = rows.Table(os.path.join(options.output, "torch-beside.csv"), beside.COLUMNS,
                                 facts, beside.key_of)
        self.ratios = {}

    def deadline(self, share):
        return self.began + self.options.limit * share

    @staticmethod
    def is_up(deadline):
        return bool(stopped) or time.time() > deadline

    def measure(self):
        passed = 0.0
        whole = sum(share for _, share, _ in self.groups)
        for name, share, cases in self.groups:
            passed += share / whole
            deadline, begin = self.deadline(passed), time.time()
            self.kit.soak(min(SOAK_SECONDS, self.options.limit * share / 10))
            if name == BESIDE:
                count = beside.measure_all(self.kit, self.beside, lambda: self.is_up(deadline))
                planned = len(beside.plan(self.kit.sms)) if self.kit.on_gpu else 0
            else:
                count, planned = self.measure_cases(cases, deadline), len(cases)
            text = f"{name}: {count} rows of {planned} in {time.time() - begin:.1f} s"
            if self.kit.on_gpu:
                text += "; " + rows.nvidia_smi("clocks.sm,clocks.mem,power.draw,temperature.gpu")
            self.table.comment("condition", text)
            print(text, flush=True)
            if stopped:
                break
        self.report()

    def measure_cases(self, cases, deadline):
        count = 0
        for case in cases:
            if self.is_up(deadline):
                break
            if case.key in self.table.done:
                continue
            row = {"kind": case.kind, "sms": self.kit.sms, "shape": case.shape,
                   "flops": int(case.flops), "min_bytes": int(case.bytes), "load": "step",
                   "forecast_us": self.forecasts.get(case.key)}
            try:
                row.update(clock.measure(self.kit, case))
                count += 1
            except rows.LeftOut as reason:
                row["note"] = "left out: " + rows.plain(reason)
            except Exception as error:  # any row may fail; the others are measured
                row["note"] = f"left out: {type(error).__name__}: {rows.plain(error)}"
                self.recover(row)
            self.keep(row)
        return count

    def recover(self, row):
        """Behind an error of the GPU that does not go away only a new process measures on."""
        if not self.kit.on_gpu:
            return
        torch = self.kit.torch
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except RuntimeError:
            self.keep({**row, "note": "the device was lost: " + row["note"]})
            print(f"{row['kind']} {row['shape']}: the device was lost; a new process goes on",
                  flush=True)
            arguments = [word for word in sys.argv if not word.startswith("--began=")]
            os.execv(sys.executable, [sys.executable, *arguments, f"--began={self.began}"])

    def keep(self, row):
        if row.get("note"):
            row["note"] = rows.plain(row["note"])
        self.table.add(row)
        if row.get("median_us") and row["forecast_us"]:
            ratio = row["forecast_us"] / row["median_us"]
            self.ratios.setdefault(row["kind"], []).append(ratio)

    def report(self):
        """The forecasts beside the rows, by kind."""
        for kind, ratios in sorted(self.ratios.items()):
            print(f"{kind:32} {len(ratios):4} rows, forecast over measured: median "
                  f"{statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", default=".", metavar="FOLDER")
    parser.add_argument("--limit", type=float, default=200, metavar="SECONDS")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--short", action="store_true", help="a few tiny rows of each group")
    parser.add_argument("--group", action="append", choices=[name for name, _, _ in GROUPS],
                        help="this group alone (may be repeated)")
    parser.add_argument("--stepcast", metavar="PROGRAM", help="forecasts the rows")
    parser.add_argument("--base", metavar="DEVICE", help="file that forecasts; default: by the GPU")
    parser.add_argument("--dry-run", action="store_true", help="the groups and their shares")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.dry_run:
        for name, share, _ in GROUPS:
            print(f"{name}: {share * options.limit:.0f} s")
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _frame: stopped.append(caught))
    import torch  # only here: a dry run needs no PyTorch
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU that PyTorch can use; --device cpu tries the script without one")
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":  # times of such a run are no measurements
        options.output = os.path.join(options.output, "again")
    os.makedirs(options.output, exist_ok=True)
    torch.manual_seed(1)
    Run(torch, options).measure()


if __name__ == "__main__":
    main()
