from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

Path: TypeAlias = str | PathLike[str]
Value: TypeAlias = str | bool | int | float | Sequence[str | bool | int | float]
Overrides: TypeAlias = Mapping[str, Value] | None

__version__: str

class Problem:
    """One mistake in the input, and where it is."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int:
        """From 1; 0: the file as a whole."""
    @property
    def column(self) -> int: ...
    @property
    def what(self) -> str: ...
    @property
    def source_line(self) -> str: ...

class InputError(ValueError):
    """A mistake in a scenario, in a file that it names or in an override."""

    problems: list[Problem]
    file: str
    line: int
    column: int

class Stopped(RuntimeError):
    """A computation was told to stop before it had a result."""

class Int32Column:
    """A column; numpy.asarray() takes it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> int: ...

class Int64Column:
    """A column; numpy.asarray() takes it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int) -> int: ...

class Timeline:
    """What ran when: one array per property, a row per operator."""

    def __len__(self) -> int: ...
    def columns(self) -> dict[str, Int32Column | Int64Column]:
        """rank, represents, stage, name, stream, layer, micro_batch; begin_ps, active_ps, end_ps."""
    def to_pandas(self) -> Any: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def streams(self) -> list[str]: ...

class Scenario:
    """A scenario that was read from a job; str() is its file's text."""

    @property
    def notes(self) -> list[str]:
        """What the forecast leaves out or reads otherwise, a line each."""
    @property
    def gpus(self) -> int: ...
    def save(self, path: Path) -> None: ...

AnyScenario: TypeAlias = Path | dict[str, Any] | Scenario

class Forecast:
    """The forecast of one training step. Units are in the names."""

    @property
    def step_time_s(self) -> float: ...
    @property
    def step_time_ps(self) -> int: ...
    @property
    def tokens_per_s(self) -> float: ...
    @property
    def tokens_per_s_per_gpu(self) -> float: ...
    @property
    def mfu(self) -> float: ...
    @property
    def hfu(self) -> float: ...
    @property
    def gpus(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def parameters(self) -> int: ...
    @property
    def tokens_per_step(self) -> int: ...
    @property
    def bubble_share(self) -> float: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def provenance(self) -> list[str]: ...
    @property
    def fits(self) -> bool: ...
    @property
    def memory_in_doubt(self) -> bool: ...
    @property
    def fits_chance(self) -> float | None: ...
    @property
    def peak_memory_bytes(self) -> int: ...
    @property
    def device_memory_bytes(self) -> int: ...
    @property
    def breakdown_s(self) -> dict[str, float]: ...
    @property
    def stages(self) -> list[dict[str, Any]]: ...
    @property
    def what_if_s(self) -> dict[str, float]: ...
    @property
    def layout(self) -> dict[str, Any]: ...
    @property
    def timeline(self) -> Timeline: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_json(self) -> str: ...
    def to_svg(self) -> str: ...
    def save_trace(self, path: Path) -> None: ...
    def to_pandas(self) -> Any:
        """The timeline: a row per operator."""
    def plot_breakdown(self, axes: Any = None) -> Any:
        """Returns Matplotlib's axes."""

class RankedLayout:
    @property
    def step_time_s(self) -> float: ...
    @property
    def peak_memory_bytes(self) -> int: ...
    @property
    def tokens_per_s_per_gpu(self) -> float: ...
    @property
    def mfu(self) -> float: ...
    @property
    def gpus(self) -> int: ...
    @property
    def gpus_per_node(self) -> int: ...

class SearchResult:
    @property
    def best(self) -> list[RankedLayout]: ...
    @property
    def within_margin(self) -> list[RankedLayout]: ...
    @property
    def complete(self) -> bool: ...
    @property
    def favourite(self) -> RankedLayout | None: ...
    @property
    def layouts_considered(self) -> int: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_pandas(self) -> Any:
        """A row per best layout."""
    def plot_front(self, axes: Any = None) -> Any:
        """Returns Matplotlib's axes."""

class Sweep:
    @property
    def points(self) -> list[dict[str, Any]]: ...
    @property
    def notes(self) -> list[str]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_svg(self) -> str: ...
    def __len__(self) -> int: ...
    def to_pandas(self) -> Any:
        """A row per point."""
    def plot_step_time(self, axes: Any = None) -> Any:
        """Returns Matplotlib's axes."""

class Explanation:
    """Where the time of a traced run goes."""

    @property
    def step_time_s(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_pandas(self) -> Any:
        """A row per cause of the difference; without a forecast, per traced step."""
    def plot_causes(self, axes: Any = None) -> Any:
        """Returns Matplotlib's axes."""

class Watch:
    """Watch times the steps of a loop. It raises nothing and waits for nothing."""

    forecast: Forecast | None
    def __init__(
        self,
        scenario: Any = None,
        overrides: Overrides = None,
        *,
        log: Path | None = None,
        warm_up: int = 10,
        window: int = 20,
        say: Callable[[str], object] | None = None,
        rank: int | None = None,
        **job: Any,
    ) -> None: ...
    def __enter__(self) -> Watch: ...
    def __exit__(self, *_: object) -> None: ...
    def start(self) -> Watch: ...
    def step(self) -> None: ...
    def around(self, function: Callable[..., Any]) -> Callable[..., Any]: ...
    def close(self) -> None: ...
    def summary(self) -> dict[str, Any]: ...

def forecast(
    scenario: AnyScenario,
    overrides: Overrides = None,
    *,
    what_if: bool = False,
    every_rank: bool = False,
    progress: Callable[[str, float], object] | None = None,
    threads: int = 0,
) -> Forecast: ...
def memory(scenario: AnyScenario, overrides: Overrides = None) -> Forecast: ...
def search(
    scenario: AnyScenario,
    overrides: Overrides = None,
    *,
    progress: Callable[[dict[str, Any]], object] | None = None,
    threads: int = 0,
) -> SearchResult: ...
def search_workload(
    model: Path,
    cluster: Path,
    *,
    gpus: int,
    global_batch: int,
    sequence_length: int = 0,
    overrides: Overrides = None,
    progress: Callable[[dict[str, Any]], object] | None = None,
    threads: int = 0,
) -> SearchResult: ...
def sweep(
    scenario: Path,
    over: Mapping[str, str | Sequence[Any]],
    overrides: Overrides = None,
    *,
    best: bool = False,
    progress: Callable[[int, int], object] | None = None,
    threads: int = 0,
) -> Sweep: ...
def budget(scenario: Path, overrides: Overrides = None) -> dict[str, Any]: ...
def explain(
    traces: Path | Sequence[Path], scenario: AnyScenario | None = None, overrides: Overrides = None
) -> Explanation: ...
def import_job(
    kind: str,
    file: Path,
    *,
    cluster: Path,
    gpus: int = 0,
    model: Path = "",
    sequence_length: int = 0,
    micro_batch: int = 0,
    global_batch: int = 0,
    accumulation_steps: int = 0,
    precision: str = "",
    model_inside: bool = False,
    overrides: Overrides = None,
) -> Scenario: ...
def from_megatron(
    args: Any, *, cluster: Path, gpus: int = 0, model: Path = "", overrides: Overrides = None
) -> Scenario: ...
def from_torchtitan(
    config: Any, *, cluster: Path, gpus: int = 0, model: Path = "", overrides: Overrides = None
) -> Scenario: ...
def from_hf(
    model_or_config: Any,
    training_arguments: Any,
    *,
    cluster: Path,
    gpus: int = 0,
    sequence_length: int = 0,
    overrides: Overrides = None,
) -> Scenario: ...
def from_torch(
    module: Any,
    *,
    cluster: Path,
    micro_batch: int,
    sequence_length: int,
    gpus: int = 0,
    accumulation_steps: int = 1,
    strategy: str = "ddp",
    precision: str = "bf16",
    heads: int = 0,
    recompute: bool = False,
    compiled: bool = False,
    overrides: Overrides = None,
) -> Scenario: ...
def watch(scenario: Any = None, overrides: Overrides = None, **options: Any) -> Watch: ...
def trainer_callback(scenario: Any = None, **options: Any) -> Any: ...
