"""A watch over a training loop: its steps beside their forecast and beside their own past.

`step()` only takes the time. A thread of its own does the rest: the forecast, the log, what is said.
"""

import atexit
import collections
import contextlib
import json
import os
import sys
import threading
import time

from ._live_objects import scenario_of
from ._stepcast import forecast
from ._step_times import StepTimes, findings, verdict

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
BETWEEN_LOOKS_S = 1.0  # how often the thread looks at new steps
LONGEST_CLOSE_S = 10.0  # a file system that hangs does not keep a job from ending


def _rank():
    texts = (os.environ.get(name) for name in RANK_VARIABLES)
    return next((int(text) for text in texts if text and text.isdecimal()), 0)


def _to_stderr(text):
    print("stepcast: " + text, file=sys.stderr, flush=True)


class _TooLate(Exception):
    """The forecast takes longer than a job waits for it at its end."""


class Watch:
    """Watch times the steps of a loop. It raises nothing and waits for nothing.

    Attributes: `forecast` (None until it is there), `times` (StepTimes).
    """

    def __init__(self, scenario=None, overrides=None, *, log=None, warm_up=10, window=20, say=None,
                 rank=None, **job):
        self.forecast = None
        self.times = StepTimes(warm_up=int(warm_up), window=int(window))
        self._scenario, self._overrides, self._job = scenario, overrides, job
        self._path, self._log = log, None
        self._say = say or _to_stderr
        self._here = (_rank() if rank is None else rank) == 0
        self._marks = collections.deque()
        self._last = None
        self._told = False
        self._closing, self._leaving = threading.Event(), threading.Event()
        self._thread = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Begins the first step. Of a job of many processes, rank 0 alone watches."""
        if not self._here or self._thread is not None:
            return self
        self._last = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name="stepcast-watch", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        return self

    def step(self):
        """Ends a step, and begins the next one."""
        if self._here:
            self._marks.append(time.perf_counter())

    def around(self, function):
        """The function, with a step() behind each of its calls; the first one starts the watch."""

        def watched(*arguments, **named):
            self.start()
            result = function(*arguments, **named)
            self.step()
            return result

        return watched

    def close(self):
        """Ends the watch, and says how the steps were if that was not said yet."""
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LONGEST_CLOSE_S)
            self._leaving.set()
            atexit.unregister(self.close)

    def summary(self):
        """A dict: steps, median_s, p10_s, p90_s, forecast_s and ratio (or None), findings."""
        told = self.times.summary()
        told["forecast_s"] = self.forecast.step_time_s if self.forecast else None
        told["ratio"] = told["median_s"] / told["forecast_s"] if told["steps"] and self.forecast else None
        told["findings"] = findings(self.times.measured)
        return told

    # What follows runs on the watch's own thread.

    def _run(self):
        self._try("log", self._open)
        self._try("forecast", self._predict)
        while not self._closing.wait(BETWEEN_LOOKS_S):
            if not self._try("steps", self._look):
                break
        self._try("steps", self._look)
        self._try("end", self._end)

    def _try(self, what, action):
        """Whether it worked. What went wrong is said, and never raised into the job."""
        try:
            action()
            return True
        except Exception as error:  # of whatever kind: the job goes on
            with contextlib.suppress(Exception):
                self._say(f"watch: no {what}: {error}")
            return False

    def _open(self):
        if self._path is None:
            return
        self._log = open(self._path, "w", encoding="utf-8")
        self._write({"stepcast_watch": 1, "scenario": str(self._scenario)[:200],
                     "started_unix_s": time.time(), "warm_up": self.times.warm_up})

    def _write(self, entry):
        self._to_log(lambda log: log.write(json.dumps(entry) + "\n"))

    def _to_log(self, action):
        """Without the log, as on a disk that is full, the steps are watched all the same."""
        if self._log is not None and not self._try("log", lambda: action(self._log)):
            with contextlib.suppress(Exception):
                self._log.close()
            self._log = None

    def _predict(self):
        if self._scenario is None:
            return

        def look(*_):
            if self._leaving.is_set():
                raise _TooLate("the job is over")

        scenario = scenario_of(self._scenario, **self._job)
        made = forecast(scenario, self._overrides, progress=look, threads=1)
        self.forecast = made
        told = made.to_dict()
        keys = ("step_time_s_low", "step_time_s_high")
        self._write({"event": "forecast", "forecast_s": made.step_time_s,
                     **{"forecast_s" + key[11:]: told[key] for key in keys if key in told}})

    def _look(self):
        while self._marks:
            mark = self._marks.popleft()
            self._write({"step": self.times.steps + 1, "step_time_s": mark - self._last})
            warning = self.times.add(mark - self._last)
            self._last = mark
            if warning:
                self._tell("drift", warning)
            if self.times.enough and not self._told:
                self._judge()
        self._to_log(lambda log: log.flush())

    def _judge(self):
        self._told = True
        self._tell("verdict", verdict(self.times.measured, self.forecast))

    def _tell(self, event, text):
        self._write({"event": event, "at_step": self.times.steps, "text": text})
        self._say(text)

    def _end(self):
        if self.times.measured and not self._told:
            self._judge()
        self._to_log(lambda log: log.close())
        self._log = None


def watch(scenario=None, overrides=None, **options):
    """A Watch over a training loop, for `with`; `start()` and `close()` where that does not suit.

    `scenario`: as `forecast` takes it, or what a trainer has at hand: Megatron-LM's arguments or
    torchtitan's configuration, with `cluster=` beside it. None: the steps' own past alone.
    `log`: a file for a line of JSON per step, which `stepcast anchor --log` reads. `warm_up`: steps
    that do not count. `window`: steps that are judged together. `say`: takes each text, instead of
    the standard error.
    """
    return Watch(scenario, overrides, **options)


def trainer_callback(scenario=None, **options):
    """A TrainerCallback of Hugging Face's transformers that watches `Trainer.train()`.

    Without a scenario it is that of the trainer's own model and arguments: `cluster=` names where.
    """
    import transformers

    from ._live_objects import from_hf

    class WatchCallback(transformers.TrainerCallback):
        """Starts, times and ends a Watch with the training."""

        watch = None

        def on_train_begin(self, args, state, control, model=None, **_):
            wanted = scenario
            if wanted is None and "cluster" in options:
                job = {key: options[key] for key in ("cluster", "gpus", "sequence_length")
                       if key in options}
                wanted = lambda: from_hf(model, args, **job)  # noqa: E731 (on the watch's thread)
            rest = {key: value for key, value in options.items()
                    if key not in ("cluster", "gpus", "sequence_length")}
            self.watch = Watch(wanted, rank=0 if state.is_world_process_zero else 1, **rest).start()

        def on_step_end(self, args, state, control, **_):
            self.watch.step()

        def on_train_end(self, args, state, control, **_):
            self.watch.close()

    return WatchCallback()
