"""Times of steps: what they say of themselves, and beside a forecast."""

import array
import statistics

# A change below the error that a forecast has in the median is not worth a word (docs/accuracy.md).
LEAST_CHANGE = 0.05
LONG_STEP = 1.5  # times the median: a step of another kind
SIGMAS = 3
EXPLAIN = "trace some steps, and ask: stepcast explain TRACES --scenario FILE"


def _quantile(values, share):
    """By linear interpolation between the sorted values."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def _change(now, before):
    """The relative change; 0 where a clock that stood still gives nothing to compare with."""
    return now / before - 1 if before > 0 else 0.0


def _noticeable(values):
    """The relative change of a median that is more than the scatter of these values."""
    median = statistics.median(values)
    if not median > 0:
        return LEAST_CHANGE
    spread = (_quantile(values, 0.9) - _quantile(values, 0.1)) / 2.56  # of a normal distribution
    error = 1.25 * spread / len(values) ** 0.5  # of a median
    return max(LEAST_CHANGE, SIGMAS * error / median)


def duration(seconds):
    """As text, with the unit that suits: "512.3 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-6:.4g} us"


class StepTimes:
    """StepTimes holds times of steps in seconds, and compares windows of them with the first one."""

    def __init__(self, warm_up, window):
        if warm_up < 0 or window < 2:
            raise ValueError(f"warm_up is {warm_up}, window {window}; allowed: from 0, from 2")
        self.warm_up, self.window = warm_up, window
        self.steps = 0  # with those of the warm-up
        self.measured = array.array("d")
        self._first = None  # median and noticeable change of the first window
        self._state = 0  # of the last window: -1 faster than the first, 0 alike, 1 slower

    @property
    def enough(self):
        """Whether there is a window to judge."""
        return len(self.measured) >= self.window

    def add(self, seconds):
        """Adds a step. Returns a warning where a window differs otherwise than the one before."""
        self.steps += 1
        if self.steps <= self.warm_up:
            return None
        self.measured.append(seconds)
        return self._drift() if len(self.measured) % self.window == 0 else None

    def _drift(self):
        last = self.measured[-self.window:]
        median = statistics.median(last)
        if self._first is None:
            self._first = median, _noticeable(last)
            return None
        first, noticeable = self._first
        change = _change(median, first)
        state = 0 if abs(change) <= noticeable else 1 if change > 0 else -1
        if state == self._state:
            return None
        self._state = state
        text = f"steps {self.steps - self.window + 1} to {self.steps} take {duration(median)}"
        if state == 0:
            return f"{text}, again as the first ones ({duration(first)})"
        return (f"{text}, {abs(change):.0%} {'more' if change > 0 else 'less'} than the first ones "
                f"({duration(first)})" + ("; " + EXPLAIN if change > 0 else ""))

    def summary(self):
        """A dict: steps, median_s, p10_s, p90_s (None without steps)."""
        values = self.measured
        told = {"steps": len(values)}
        for name, share in (("median_s", 0.5), ("p10_s", 0.1), ("p90_s", 0.9)):
            told[name] = _quantile(values, share) if values else None
        return told


def _period(places):
    """How many steps lie between places that are evenly spaced; 0: they are not."""
    gaps = {b - a for a, b in zip(places, places[1:])}
    return gaps.pop() if len(places) > 2 and len(gaps) == 1 else 0


def findings(values):
    """What the times of steps show by themselves, a sentence each."""
    if len(values) < 6:
        return []
    median = statistics.median(values)
    long = [i for i, value in enumerate(values) if value > LONG_STEP * median]
    usual = [value for value in values if value <= LONG_STEP * median]
    found = []
    if long:
        every = _period(long)
        found.append(
            f"{len(long)} of {len(values)} steps take more than {LONG_STEP:g} x the median"
            + (f", one in {every}: checkpoints, evaluation, logging" if every
               else ": data loading, garbage collection, pauses of other ranks"))
    low, high = _quantile(usual, 0.1), _quantile(usual, 0.9)
    if high - low > 2 * LEAST_CHANGE * median:
        found.append(f"steps vary from {duration(low)} to {duration(high)} (p10 to p90): data loading, "
                     "other jobs on the network or the nodes")
    third = len(usual) // 3
    first = usual[:third]
    change = _change(statistics.median(usual[-third:]), statistics.median(first))
    if abs(change) > _noticeable(first):
        found.append(f"the last third takes {abs(change):.0%} {'more' if change > 0 else 'less'} than "
                     "the first: clocks that throttle, memory that fragments, longer sequences")
    return found


def verdict(values, forecast):
    """One sentence or two on steps, beside their forecast (or None)."""
    median = statistics.median(values)
    if forecast is None:
        return f"step {duration(median)}, median of {len(values)}; no forecast to compare with"
    told = forecast.to_dict()
    low, high = told.get("step_time_s_low"), told.get("step_time_s_high")
    text = (f"step {duration(median)}, median of {len(values)}: {median / forecast.step_time_s:.2f} x "
            f"the forecast ({duration(forecast.step_time_s)}")
    if low is not None:
        text += f"; {told['interval']['share']:.0%} of such runs: {duration(low)} to {duration(high)}"
    text += ")"
    if high is None:
        high = forecast.step_time_s * (1 + LEAST_CHANGE)
    if median <= high:
        return text
    causes = findings(values) or ["all steps are alike: slow kernels, exposed communication, a host "
                                  "that is too slow, or a scenario of another job"]
    return f"{text}: look for: {'; '.join(causes)}; {EXPLAIN}"
