"""Forecasts of distributed training steps.

    import stepcast
    step = stepcast.forecast("scenarios/llama-3.1-70b-512-h100.yaml", {"layout.tensor_parallel": 4})
    print(step.step_time_s, step.mfu, step.fits)

Every figure has its unit in its name. Mistakes in the input raise `InputError`, which knows file,
line and column of each. Long calls can be interrupted with Ctrl-C.
"""

import os as _os

# An installed package carries the shipped models and clusters.
_data = _os.path.join(_os.path.dirname(__file__), "data")
if "STEPCAST_DATA" not in _os.environ and _os.path.isdir(_data):
    _os.environ["STEPCAST_DATA"] = _data

from ._stepcast import (  # noqa: E402
    Forecast,
    InputError,
    Problem,
    RankedLayout,
    SearchResult,
    Stopped,
    Sweep,
    Timeline,
    __version__,
    budget,
    forecast,
    memory,
    search,
    search_workload,
    sweep,
)

__all__ = [
    "Forecast",
    "InputError",
    "Problem",
    "RankedLayout",
    "SearchResult",
    "Stopped",
    "Sweep",
    "Timeline",
    "__version__",
    "budget",
    "forecast",
    "memory",
    "search",
    "search_workload",
    "sweep",
]
