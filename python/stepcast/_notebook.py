"""What notebooks show of results: tables in HTML, plots with Matplotlib, frames of pandas.

`attach` gives them to the classes of the module. Matplotlib and pandas are imported when asked for.
"""

import html

GIB = 2**30


def _cell(value):
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def _table(rows, head=None):
    """Rows of cells; the first cell of a row is its name where there is no head."""
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table>{line(head, 'th') if head else ''}{body}</table>"


def _titled(title, *parts):
    return f"<div><strong>{html.escape(title)}</strong>{''.join(parts)}</div>"


def _axes(axes):
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7, 4), layout="constrained")[1]


def _bars(axes, seconds, title):
    """Horizontal bars of parts that are not zero, the first on top."""
    parts = {name.replace("_", " "): value for name, value in seconds.items() if value}
    axes.barh(list(parts), list(parts.values()))
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.set_title(title)
    return axes


def _frame(rows):
    import pandas

    return pandas.json_normalize(rows)


def _memory_text(forecast):
    return (f"{forecast.peak_memory_bytes / GIB:.1f} of {forecast.device_memory_bytes / GIB:.1f} GiB"
            f"{'' if forecast.fits else ': does not fit'}")


def forecast_html(forecast):
    """Step time, MFU, memory; the parts of the step."""
    if not forecast.step_time_ps:
        return _titled("memory of a step", _table([("fullest GPU", _memory_text(forecast))]))
    told = forecast.to_dict()
    step = f"{forecast.step_time_s:.4g} s"
    if "step_time_s_low" in told:
        step += f" ({told['step_time_s_low']:.4g} to {told['step_time_s_high']:.4g} s)"
    rows = [("step time", step), ("GPUs", f"{forecast.gpus:,}"), ("MFU", f"{forecast.mfu:.1%}"),
            ("tokens/s per GPU", forecast.tokens_per_s_per_gpu), ("memory", _memory_text(forecast))]
    parts = [(name.replace("_", " "), f"{seconds:.4g} s", f"{seconds / forecast.step_time_s:.1%}")
             for name, seconds in forecast.breakdown_s.items() if seconds]
    return _titled("forecast of a step", _table(rows), _table(parts, ("part", "time", "of step")))


def forecast_plot(forecast, axes=None):
    """The parts of the step as bars. Returns the axes."""
    return _bars(_axes(axes), forecast.breakdown_s, f"one step: {forecast.step_time_s:.4g} s")


def forecast_frame(forecast):
    """What ran when: a row per operator, times in picoseconds."""
    return timeline_frame(forecast.timeline)


def timeline_frame(timeline):
    """A row per operator, with the names of operators and streams; times in picoseconds."""
    import numpy
    import pandas

    frame = pandas.DataFrame({name: numpy.asarray(column) for name, column in timeline.columns().items()})
    for column, names in (("name", timeline.names), ("stream", timeline.streams)):
        frame[column] = pandas.Categorical.from_codes(frame[column], names)
    return frame


def search_html(result):
    """The best layouts, fastest first."""
    rows = [(rank, str(one), one.step_time_s, f"{one.mfu:.1%}", f"{one.peak_memory_bytes / GIB:.1f}")
            for rank, one in enumerate(result.best, 1)]
    title = f"best of {result.layouts_considered:,} layouts"
    return _titled(title, _table(rows, ("rank", "layout", "step, s", "MFU", "memory, GiB")))


def search_plot(result, axes=None):
    """Step time over memory: the front of both, and the best layouts. Returns the axes."""
    axes, told = _axes(axes), result.to_dict()
    for key, style, label in (("memory_front", "o-", "front"), ("best", "x", "best")):
        layouts = told[key]
        axes.plot([one["peak_mem_bytes"] / GIB for one in layouts],
                  [one["step_time_s"] for one in layouts], style, label=label)
    axes.set_xlabel("memory of the fullest GPU, GiB")
    axes.set_ylabel("step time, s")
    axes.legend()
    return axes


def search_frame(result):
    """A row per best layout; keys of the layout are columns `layout.*`."""
    return _frame(result.to_dict()["best"])


def _points(sweep):
    """The points with a column per axis in place of their values."""
    told = sweep.to_dict()
    keys = [axis["key"] for axis in told["axes"]]
    for point in told["points"]:
        yield {**dict(zip(keys, point.pop("values"))), **point}


def sweep_html(sweep):
    """A row per point of the grid."""
    keys = [axis["key"] for axis in sweep.to_dict()["axes"]]
    rows = [[point[key] for key in keys]
            + ([point["problem"], "", ""] if "problem" in point else
               [point["step_time_s"], f"{point['mfu']:.1%}", "yes" if point["fits"] else "no"])
            for point in _points(sweep)]
    return _titled("sweep", _table(rows, [*keys, "step, s", "MFU", "fits"]))


def sweep_plot(sweep, axes=None):
    """Step time over the first axis, a line per value of the others. Returns the axes."""
    axes = _axes(axes)
    keys = [axis["key"] for axis in sweep.to_dict()["axes"]]
    lines = {}
    for point in _points(sweep):
        if "problem" not in point:
            label = ", ".join(f"{key} {point[key]}" for key in keys[1:])
            lines.setdefault(label, []).append((point[keys[0]], point["step_time_s"]))
    for label, points in lines.items():
        axes.plot(*zip(*points), "o-", label=label or None)
    axes.set_xlabel(keys[0])
    axes.set_ylabel("step time, s")
    if len(keys) > 1:
        axes.legend()
    return axes


def sweep_frame(sweep):
    """A row per point of the grid."""
    return _frame(list(_points(sweep)))


def _causes(explanation):
    return explanation.to_dict().get("waterfall", {}).get("parts", [])


def explanation_html(explanation):
    """The mean step by states; with a forecast, what makes the difference."""
    mean = explanation.to_dict()["mean"]
    rows = [(name.removesuffix("_s").replace("_", " "), f"{value:.4g} s")
            for name, value in mean.items() if isinstance(value, (int, float)) and value]
    tables = [_table(rows)]
    if _causes(explanation):
        tables.append(_table([(part["cause"], f"{part['of_step']:+.1%}", part["sentence"])
                              for part in _causes(explanation)], ("cause", "of step", "")))
    return _titled(f"mean step: {explanation.step_time_s:.4g} s", *tables)


def explanation_plot(explanation, axes=None):
    """What makes the difference from the forecast; without one, the mean step. Returns the axes."""
    causes = {part["cause"]: part["time_ps"] / 1e12 for part in _causes(explanation)}
    if causes:
        return _bars(_axes(axes), causes, "measured less forecast")
    mean = {name.removesuffix("_s"): value for name, value in explanation.to_dict()["mean"].items()
            if isinstance(value, (int, float))}
    return _bars(_axes(axes), mean, "mean step")


def explanation_frame(explanation):
    """A row per cause of the difference; without a forecast, a row per traced step."""
    return _frame(_causes(explanation) or explanation.to_dict()["steps"])


def attach(module):
    """Gives the classes of the module what is here."""
    for owner, show, plot, name, frame in (
            (module.Forecast, forecast_html, forecast_plot, "plot_breakdown", forecast_frame),
            (module.SearchResult, search_html, search_plot, "plot_front", search_frame),
            (module.Sweep, sweep_html, sweep_plot, "plot_step_time", sweep_frame),
            (module.Explanation, explanation_html, explanation_plot, "plot_causes", explanation_frame)):
        owner._repr_html_ = show
        setattr(owner, name, plot)
        owner.to_pandas = frame
    module.Timeline.to_pandas = timeline_frame
