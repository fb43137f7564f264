"""How a row is timed, and the operands of kernels.

On a GPU: calls go over as many sets of operands as exceed three times the L2 cache, so that operands
come from device memory as in a step. About a millisecond of calls is captured into a CUDA graph, so
the host's time does not count; where a call cannot be captured it is issued one by one, and the note
says so. Replays run for 8 ms, then for 16 ms and at least 5 samples (3 of what takes 50 ms) between CUDA
events; a sample is a replay's time over its calls. Groups begin behind a second of GEMMs, so the clock is that of the power
limit. Data are normal random numbers. On a CPU the wall clock is read around each call.
"""
import statistics
import time


class Kit:
    """PyTorch, the device, and memory for operands."""

    def __init__(self, torch, device, short):
        self.torch, self.device, self.short = torch, device, short
        self.on_gpu = device == "cuda"
        self.l2 = 50 << 20
        self.sms = 1
        if self.on_gpu:
            properties = torch.cuda.get_device_properties(0)
            self.sms = properties.multi_processor_count
            self.l2 = getattr(properties, "L2_cache_size", 0) or self.l2
            self.stream = torch.cuda.Stream()
        self._pools, self._places = {}, {}

    def _pool(self, dtype, name):
        if (dtype, name) not in self._pools:
            torch = self.torch
            size = self.element(dtype)
            count = (2 << 30) // size if self.on_gpu else (8 << 20) // size
            if size == 1:
                pool = torch.empty(count, dtype=dtype, device=self.device)
                part = 1 << 26
                for begin in range(0, count, part):
                    end = min(count, begin + part)
                    pool[begin:end] = torch.randn(end - begin, device=self.device).to(dtype)
            elif name == "result":
                pool = torch.empty(count, dtype=dtype, device=self.device)
            else:
                pool = torch.empty(count, dtype=dtype, device=self.device).normal_()
            self._pools[dtype, name], self._places[dtype, name] = pool, 0
        return self._pools[dtype, name]

    def element(self, dtype):
        return self.torch.empty(0, dtype=dtype).element_size()

    def operand(self, *sizes, dtype, name="operand"):
        """A contiguous tensor of random numbers, the next part of a pool."""
        pool = self._pool(dtype, name)
        count = 1
        for size in sizes:
            count *= size
        if count > pool.numel():
            return self.torch.empty(*sizes, dtype=dtype, device=self.device).normal_()
        place = self._places[dtype, name]
        if place + count > pool.numel():
            place = 0
        self._places[dtype, name] = (place + count + 511) // 512 * 512
        return pool[place:place + count].view(*sizes)

    def result(self, *sizes, dtype):
        return self.operand(*sizes, dtype=dtype, name="result")

    def sets(self, bytes_of_set, most=256):
        if not self.on_gpu:
            return 2
        return max(1, min(most, -(-3 * self.l2 // max(1, int(bytes_of_set)))))

    def synchronize(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def soak(self, seconds):
        """GEMMs for that long: clock, power and heat as in a step."""
        if not self.on_gpu:
            return
        torch = self.torch
        a = self.operand(8192, 8192, dtype=torch.bfloat16)
        out = self.result(8192, 8192, dtype=torch.bfloat16)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(8):
                torch.mm(a, a, out=out)
            torch.cuda.synchronize()


class OverSets:
    """Calls of `run` over sets of operands, one after the other."""

    def __init__(self, run, sets):
        self.run, self.sets = run, list(sets)

    def __call__(self, i):
        return self.run(*self.sets[i % len(self.sets)])


def statistics_of(times):
    """Of seconds, in microseconds."""
    return {"median_us": round(statistics.median(times) * 1e6, 3),
            "min_us": round(min(times) * 1e6, 3), "max_us": round(max(times) * 1e6, 3),
            "samples": len(times)}


def time_on_host(call, samples, calls, synchronize):
    times = []
    for _ in range(samples):
        synchronize()
        begin = time.perf_counter()
        for i in range(calls):
            call(i)
        times.append((time.perf_counter() - begin) / calls)
    synchronize()
    return times


def spans(torch, run, count):
    """Seconds of each of `count` runs, between events that are all issued before one is waited for."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    events[-1].synchronize()
    return [events[i].elapsed_time(events[i + 1]) * 1e-3 for i in range(count)]


def captured(kit, call, calls):
    """The calls as a CUDA graph. Without torch.cuda.graph(): that collects garbage each time."""
    torch = kit.torch
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        for i in range(calls):
            call(i)
    finally:
        graph.capture_end()
    return graph


GRAPH_SECONDS, WARM_SECONDS, TIMED_SECONDS, MOST_CALLS = 1e-3, 8e-3, 16e-3, 256
LONG_SECONDS = 50e-3


def calls_of(call, seconds):
    """Calls of a graph: a millisecond, or more to use all sets of operands."""
    sets = len(call.sets) if isinstance(call, OverSets) else 1
    wanted = max(GRAPH_SECONDS / seconds, min(sets, 10 * GRAPH_SECONDS / seconds))
    return max(1, min(MOST_CALLS, int(wanted)))


def time_on_gpu(kit, call, eager):
    """Seconds per call, and a note."""
    torch = kit.torch
    call(0)  # libraries are loaded, algorithms chosen
    rough = min(spans(torch, lambda: call(0), 2))
    calls = calls_of(call, rough)
    run, note = None, None
    if not eager:
        try:
            graph = captured(kit, call, calls)
            run = graph.replay
        except Exception as error:  # whatever cannot be captured can be issued
            torch.cuda.synchronize()
            note = f"issued one by one: {error}"
    else:
        note = "issued one by one"
    if run is None:
        def run():
            for i in range(calls):
                call(i)
    rough = spans(torch, run, 1)[0]
    spans(torch, run, max(1, min(200, int(WARM_SECONDS / rough))))
    count = max(5 if rough < LONG_SECONDS else 3, min(200, int(TIMED_SECONDS / rough)))
    return [seconds / calls for seconds in spans(torch, run, count)], note


def measure(kit, case):
    """The cells of a row that are measured."""
    torch = kit.torch
    if case.host:
        call = case.make(kit)
        for i in range(20):
            call(i)
        kit.synchronize()
        times = time_on_host(call, 5, 20 if kit.short else 500, kit.synchronize)
        return statistics_of(times)
    if not kit.on_gpu:
        call = case.make(kit)
        call(0)
        return statistics_of(time_on_host(call, 3, 1, kit.synchronize))
    with torch.cuda.stream(kit.stream):
        call = case.make(kit)
        times, note = time_on_gpu(kit, call, case.eager)
    return {**statistics_of(times), "note": note}
