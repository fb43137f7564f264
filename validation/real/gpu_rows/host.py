"""The host's time for one operator: issued eagerly, with autograd, compiled, and per collective of a
group of one rank. Kernels are so small that the device never holds up the host."""
import os
import tempfile

from .clock import OverSets
from .rows import Case, LeftOut


def small(kit, *sizes, grad=False):
    return kit.torch.randn(*sizes, device=kit.device, requires_grad=grad)


def add(kit):
    x = small(kit, 1)
    return OverSets(lambda: x.add_(1), [()])


def product(kit):
    a, b = small(kit, 16, 16), small(kit, 16, 16)
    return OverSets(lambda: kit.torch.mm(a, b), [()])


def norm(kit):
    x = small(kit, 16, 64)
    return OverSets(lambda: kit.torch.nn.functional.layer_norm(x, (64,)), [()])


def linear_forward(kit):
    layer = kit.torch.nn.Linear(16, 16, device=kit.device)
    x = small(kit, 16, 16)
    return OverSets(lambda: layer(x), [()])


def linear_both(kit):
    """A linear layer forward and backward: what autograd adds is in it."""
    layer = kit.torch.nn.Linear(16, 16, device=kit.device)
    x = small(kit, 16, 16, grad=True)
    gradient = small(kit, 16, 16)

    def run():
        layer(x).backward(gradient)
    return OverSets(run, [()])


def compiled_call(kit):
    """A compiled function of one kernel: guards, the call, the launch."""
    torch = kit.torch
    if not hasattr(torch, "compile") or not kit.on_gpu:
        raise LeftOut("torch.compile is measured on GPUs")
    run = torch.compile(lambda x: (x + 1) * 2, dynamic=False)
    x = small(kit, 256)
    return OverSets(lambda: run(x), [()])


def graph_replay(kit):
    """The replay of a CUDA graph of one kernel."""
    torch = kit.torch
    if not kit.on_gpu:
        raise LeftOut("a CUDA graph needs a GPU")
    x = small(kit, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    return OverSets(graph.replay, [()])


def group_of_one(torch, on_gpu):
    distributed = torch.distributed
    if not distributed.is_available():
        raise LeftOut("this PyTorch has no torch.distributed")
    if not distributed.is_initialized():
        place = os.path.join(tempfile.mkdtemp(), "store")
        distributed.init_process_group("nccl" if on_gpu else "gloo", init_method="file://" + place,
                                       rank=0, world_size=1)
    return distributed


def collective(name):
    def make(kit):
        distributed = group_of_one(kit.torch, kit.on_gpu)
        x, y = small(kit, 64), small(kit, 64)
        into = {"all_gather": getattr(distributed, "all_gather_into_tensor", None),
                "reduce_scatter": getattr(distributed, "reduce_scatter_tensor", None)}
        if name == "all_reduce":
            return OverSets(lambda: distributed.all_reduce(x), [()])
        if into[name] is None or not kit.on_gpu:
            raise LeftOut(f"{name} of tensors needs a GPU")
        return OverSets(lambda: into[name](y, x), [()])
    return make


ROWS = {"launch_eager_host": add, "host_mm": product, "host_layer_norm": norm,
        "host_linear_fwd": linear_forward, "host_linear_fwd_bwd": linear_both,
        "host_compiled_call": compiled_call, "host_graph_replay": graph_replay,
        "host_all_reduce": collective("all_reduce"), "host_all_gather": collective("all_gather"),
        "host_reduce_scatter": collective("reduce_scatter")}


def cases(_kit):
    return [Case(kind, "", 0, 0, make, host=True) for kind, make in ROWS.items()]
