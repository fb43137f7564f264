"""Rows of measurements: the cases to measure, the table that they are appended to, and what it says
of the machine."""
import csv
import dataclasses
import datetime
import os
import platform
import subprocess
import tempfile
import typing

# The first nine are those of topologies/devices/measurements; sim/cost/measurements.cpp reads all.
COLUMNS = ("kind", "sms", "shape", "flops", "min_bytes", "median_us", "min_us", "max_us", "samples",
           "load", "forecast_us", "note")

class LeftOut(Exception):
    """A row that this PyTorch or this device has not: the reason."""


@dataclasses.dataclass
class Case:
    """A row to measure. `make(kit)` returns `call(i)`, which runs the kernel on operand set i.

    A pass that needs the one before it (backward) makes that outside of `call`.
    """
    kind: str
    shape: str
    flops: float
    bytes: int
    make: typing.Callable
    host: bool = False   # the host's time for a call counts, not the device's
    eager: bool = False  # not captured into a graph

    @property
    def key(self):
        return self.kind, self.shape


def shape_text(**values):
    return " ".join(f"{name}={int(value)}" for name, value in values.items() if value is not None)


def plain(text, most=160):
    """Text of one CSV cell that needs no quotes."""
    line = str(text).strip().splitlines()[0] if str(text).strip() else "no reason given"
    return line.replace(",", ";").replace('"', "'")[:most]


class Table:
    """A CSV file that rows are appended to as they come. What it holds already, measured or left
    out, is not tried again."""

    def __init__(self, path, columns, facts, key=lambda row: (row["kind"], row["shape"])):
        self.path, self.columns, self.key = path, columns, key
        self.done = set()
        fresh = not os.path.exists(path) or os.path.getsize(path) == 0
        if not fresh:
            self._read_done()
        self.file = open(path, "a", newline="")
        if fresh:
            self.file.write(",".join(columns) + "\n")
        for key, value in facts:
            self.comment(key, value)

    def _read_done(self):
        with open(self.path, newline="") as file:
            lines = [line for line in file if not line.startswith("#")]
        for row in csv.DictReader(lines):
            self.done.add(self.key(row))

    def comment(self, key, value):
        self.file.write(f"# {key}: {value}\n")
        self.file.flush()

    def add(self, row):
        cells = ("" if row.get(name) is None else str(row[name]) for name in self.columns)
        self.file.write(",".join(cells) + "\n")
        self.file.flush()


def nvidia_smi(fields):
    """The first GPU's values of `nvidia-smi --query-gpu`, or why there are none."""
    try:
        return subprocess.run(
            ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader", "-i", "0"],
            capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__})"


def cublas_version(torch):
    import ctypes
    for name in ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11"):
        try:
            library = ctypes.CDLL(name)  # PyTorch has loaded it
            numbers = []
            for part in range(3):  # major, minor, patch
                value = ctypes.c_int()
                library.cublasGetProperty(part, ctypes.byref(value))
                numbers.append(str(value.value))
            return ".".join(numbers)
        except (OSError, AttributeError):
            continue
    return "unknown"


def facts_of(torch, on_gpu):
    """What stands at the head of a table: `stepcast calibrate --from-kernels` puts it into the
    device file."""
    now = datetime.datetime.now(datetime.timezone.utc)
    facts = [("gpu", torch.cuda.get_device_name() if on_gpu else "CPU " + platform.machine()),
             ("host", platform.node()), ("date", now.strftime("%Y-%m-%dT%H:%M:%SZ")),
             ("version", f"torch {torch.__version__}")]
    if not on_gpu:
        return facts
    facts += [("version", f"CUDA {torch.version.cuda}"),
              ("version", f"cuBLAS {cublas_version(torch)}"),
              ("version", f"cuDNN {torch.backends.cudnn.version()}"),
              ("version", f"driver {nvidia_smi('driver_version')}")]
    fields = "clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,mig.mode.current"
    facts.append(("condition", f"at the start ({fields}): {nvidia_smi(fields)}"))
    return facts


def forecasts(stepcast, base, cases, sms, gpu):
    """Microseconds by (kind, shape), as the program forecasts them; empty where it cannot."""
    if not stepcast:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        plan, result = os.path.join(folder, "plan.csv"), os.path.join(folder, "forecast.csv")
        table = Table(plan, COLUMNS, [("gpu", gpu)])
        for case in cases:
            table.add({"kind": case.kind, "sms": sms, "shape": case.shape,
                       "flops": int(case.flops), "min_bytes": int(case.bytes), "load": "step"})
        table.file.close()
        command = [stepcast, "calibrate", "--from-kernels", plan, "--write-rows", result]
        command += ["--base", base] if base else []
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            with open(result, newline="") as file:
                return {(row["kind"], row["shape"]): float(row["forecast_us"])
                        for row in csv.DictReader(file)}
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no forecasts: {getattr(error, 'stderr', None) or error}", flush=True)
            return {}
