"""In a Jupyter notebook long calls say how far they are, in a line that goes when they end."""

import functools
import sys
import time

EVERY_S = 0.2


def _in_notebook():
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _text(*told):
    """A line of what a call tells its `progress`."""
    if isinstance(told[0], dict):  # a search
        best = told[0].get("best_step_time_s")
        line = ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in told[0].items()
                         if isinstance(value, int) and not isinstance(value, bool))
        return line + (f", best step: {best:.4g} s" if best else "")
    if isinstance(told[0], str):  # a forecast: a phase, and the share of it that is done
        return f"{told[0]}: {told[1]:.0%}"
    return f"{told[0]:,} of {told[1]:,} points"


class _Line:
    """A line of the notebook's output."""

    def __init__(self):
        self._shown, self._last = None, time.monotonic()

    def __call__(self, *told):
        now = time.monotonic()
        if now - self._last < EVERY_S:  # a short call shows nothing
            return
        self._last = now
        from IPython.display import display

        data = {"text/plain": _text(*told)}
        if self._shown is None:
            self._shown = display(data, raw=True, display_id=True)
        else:
            self._shown.update(data, raw=True)

    def close(self):
        if self._shown is not None:
            self._shown.update({"text/plain": ""}, raw=True)


def shown(function):
    """`function`, whose keyword `progress` is a line of the notebook where none is given."""

    @functools.wraps(function)
    def called(*arguments, **named):
        if named.get("progress") is not None or not _in_notebook():
            return function(*arguments, **named)
        line = _Line()
        try:
            return function(*arguments, **{**named, "progress": line})
        finally:
            line.close()

    return called
