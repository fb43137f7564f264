# %% [markdown]
# # Time against memory: which layouts are worth a run?
# Mixtral 8x7B on 64 H100s. The search considers every legal layout; those on the Pareto front are
# faster than all that need less memory. Runs as a script, and cell by cell in an editor that knows
# `# %%`. Needs matplotlib.

# %%
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import stepcast

SCENARIO = "scenarios/search/mixtral-8x7b-64-h100.yaml"

# %% Search, with progress on one line.
def show(now):
    print(f"\r{now['decided']:,} of {now['layouts']:,} layouts decided", end="", file=sys.stderr)


# By default the front ends at layouts 2 % slower than the best; here it goes to twice its time.
found = stepcast.search(SCENARIO, {"search.front_slowdown": 1.0}, progress=show).to_dict()
print(file=sys.stderr)

# %% The front as the search reports it, and the ten best layouts.
front = found["memory_front"]
best = found["best"]
GIB = 2**30

# %% Draw it.
figure, axes = plt.subplots(figsize=(7, 4.5))


def draw(layouts, style, colour, label):
    memory = [layout["peak_mem_bytes"] / GIB for layout in layouts]
    times = [layout["step_time_s"] for layout in layouts]
    axes.plot(memory, times, style, color=colour, label=label)


draw(front, "o-", "#0072b2", "Pareto front")
draw(best, "x", "#d55e00", "ten best")
axes.set_xlabel("memory of the fullest GPU, GiB")
axes.set_ylabel("step time, s")
axes.set_title("Mixtral 8x7B on 64 H100s")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
figure.tight_layout()

# %% Save it.
path = sys.argv[1] if len(sys.argv) > 1 else "pareto.svg"
figure.savefig(path)
print(f"{path}: {len(front)} layouts on the front, the fastest takes {front[0]['step_time_s']:.3f} s")
