"""Forecasts of distributed training steps.

    import stepcast
    step = stepcast.forecast("scenarios/llama-3.1-70b-512-h100.yaml", {"layout.tensor_parallel": 4})
    print(step.step_time_s, step.mfu, step.fits)

Every figure has its unit in its name. Mistakes in the input raise `InputError`, which knows file,
line and column of each. Long calls can be interrupted with Ctrl-C.
"""

from . import _stepcast
from ._live_objects import from_hf, from_megatron, from_torch, from_torchtitan
from ._notebook import attach as _attach
from ._stepcast import (
    Explanation,
    Forecast,
    InputError,
    Problem,
    RankedLayout,
    Scenario,
    SearchResult,
    Stopped,
    Sweep,
    Timeline,
    __version__,
    budget,
    explain,
    forecast,
    import_job,
    memory,
    search,
    search_workload,
    sweep,
)
from ._progress import shown as _shown
from ._watch import Watch, trainer_callback, watch

_attach(_stepcast)
forecast, search, search_workload, sweep = map(_shown, (forecast, search, search_workload, sweep))

__all__ = [
    "Explanation",
    "Forecast",
    "InputError",
    "Problem",
    "RankedLayout",
    "Scenario",
    "SearchResult",
    "Stopped",
    "Sweep",
    "Timeline",
    "Watch",
    "__version__",
    "budget",
    "explain",
    "forecast",
    "from_hf",
    "from_megatron",
    "from_torch",
    "from_torchtitan",
    "import_job",
    "memory",
    "search",
    "search_workload",
    "sweep",
    "trainer_callback",
    "watch",
]
