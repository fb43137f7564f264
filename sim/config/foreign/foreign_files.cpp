// Logs, traces, topologies and settings of other programs, by words that only they have.
#include "sim/config/foreign/foreign_format.hpp"

namespace sim {
namespace {

const std::vector<ForeignFormat> measurements{
    {.name = "the JSON of nccl-tests (-J)",
     .instead = "`stepcast calibrate --from-nccl-tests FILE --cluster NAME --write-cluster OUT` "
                "reads it.",
     .all = {"out_of_place:", "average_bus_bandwidth:"},
     .use = ForeignUse::measurement,
     .readers = {"calibrate --from-nccl-tests"}},
    {.name = "JSON lines of NCCL's Inspector",
     .instead = "`stepcast calibrate --from-nccl-tests FILE --cluster NAME --write-cluster OUT` "
                "reads it.",
     .all = {},
     .some = {"coll_perf:", "inspector_output_format_version:"},
     .least = 1,
     .use = ForeignUse::measurement,
     .readers = {"calibrate --from-nccl-tests"}},
    {.name = "a dump of PyTorch's Flight Recorder",
     .instead = "`stepcast explain FILE...`, with the dumps of all ranks, says which rank has not "
                "entered which collective. It has no times of kernels, so nothing is calibrated "
                "from it: give `stepcast calibrate` a trace of the PyTorch profiler "
                "(--from-kineto) or a log of nccl-tests (--from-nccl-tests).",
     .all = {"~profiling_name"},
     .some = {"~pg_config", "~pg_status", "~collective_seq_id", "~time_created_ns",
              "~time_discovered_completed_ns"},
     .least = 3,
     .use = ForeignUse::measurement,
     .readers = {"explain"}},
    {.name = "a log of nccl-tests",
     .instead = "`stepcast calibrate --from-nccl-tests FILE --cluster NAME --write-cluster OUT` "
                "reads it.",
     .all = {"~algbw", "~busbw"},
     .use = ForeignUse::measurement,
     .readers = {"calibrate --from-nccl-tests"}},
    {.name = "a trace of the PyTorch profiler (Kineto)",
     .instead = "`stepcast explain FILE` says where the time of its steps goes, `stepcast "
                "calibrate --from-kineto FILE --base DEVICE --write-device OUT` takes measured "
                "kernels from it, and `stepcast ui` shows it beside a forecast. "
                "`stepcast compare` takes records: `--record` of simulate and run.",
     .all = {"traceEvents:"},
     .some = {"deviceProperties:", "schemaVersion:"},
     .least = 1,
     .use = ForeignUse::measurement,
     .readers = {"calibrate --from-kineto", "explain"}},
    {.name = "a trace for Perfetto (of Stepcast or another program)",
     .instead = "Open it at ui.perfetto.dev or with `stepcast ui`; `stepcast explain FILE` says "
                "where the time goes. `stepcast compare` takes records: `--record` of simulate "
                "and run.",
     .all = {"traceEvents:"},
     .use = ForeignUse::measurement,
     .readers = {"calibrate --from-kineto", "explain"}},
    {.name = "an execution trace of PyTorch (Chakra, host)",
     .instead = "It has operators without the times of kernels. Give the trace of the PyTorch "
                "profiler (Kineto) of the same run to `stepcast calibrate --from-kineto`.",
     .all = {"schema:", "nodes:"},
     .some = {"~execution_trace", "~execution_graph", "~-chakra."},
     .least = 1,
     .use = ForeignUse::measurement},
    {.name = "an execution trace of Chakra (.et)",
     .instead = "It is the work of a rank for ASTRA-sim. Stepcast makes that work from a "
                "scenario: a model, a layout and a cluster.",
     .all = {"~is_cpu_op"},
     .some = {"~comm_type", "~comm_size", "~num_ops", "~tensor_size"},
     .least = 1,
     .use = ForeignUse::measurement},
    {.name = "an export of Nsight Systems (SQLite)",
     .instead = "`stepcast explain FILE` says where the time of its steps goes. It has no shapes: "
                "for a device file, record the step with the PyTorch profiler "
                "(record_shapes=True) and give that to `stepcast calibrate --from-kineto`.",
     .all = {"~SQLite format 3"},
     .some = {"~CUPTI_ACTIVITY_KIND_", "~NVTX_EVENTS", "~TARGET_INFO_"},
     .least = 1,
     .use = ForeignUse::measurement,
     .readers = {"explain"}},
    {.name = "a database of SQLite",
     .instead = "Of databases, those that `nsys export --type sqlite` writes are read: by "
                "`stepcast explain`.",
     .all = {"~SQLite format 3"},
     .use = ForeignUse::measurement,
     .readers = {"explain"}},
    {.name = "a report of Nsight Systems",
     .instead = "It is not read. Export it with `nsys export --type sqlite REPORT.nsys-rep`, and "
                "give that to `stepcast explain`.",
     .all = {},
     .some = {"~Total Time (ns),Instances", "CUPTI_ACTIVITY_KIND_KERNEL"},
     .least = 1,
     .use = ForeignUse::measurement},
    {.name = "a table of kernels of rocprof",
     .instead = "It is not read. Record the step with the PyTorch profiler "
                "(record_shapes=True) and give that to `stepcast calibrate --from-kineto`.",
     .all = {},
     .some = {"~\"KernelName\",\"gpu-id\"", "~\"Kind\",\"Agent_Id\"", "~KernelName,gpu-id",
              "~Index,KernelName"},
     .least = 1,
     .use = ForeignUse::measurement},
    {.name = "a memory snapshot of PyTorch",
     .instead = "It is not read. `stepcast memory SCENARIO` forecasts what such a run allocates.",
     .all = {"~device_traces", "~segments"},
     .use = ForeignUse::measurement},
    {.name = "the output of perftest (ib_write_bw and its kin)",
     .instead = "The rate of one NIC: write it as node.nics.bandwidth of a cluster file. Curves "
                "of collectives come from nccl-tests.",
     .all = {"~ BW Test", "~BW average"},
     .use = ForeignUse::measurement},
    {.name = "the output of the OSU micro-benchmarks",
     .instead = "It is not read. Give a log of nccl-tests to `stepcast calibrate "
                "--from-nccl-tests`.",
     .all = {"~# OSU "},
     .use = ForeignUse::measurement},
    {.name = "a workload of SimAI",
     .instead = "It lists compute times and messages of each layer. Stepcast makes them from a "
                "scenario:",
     .all = {"model_parallel_NPU_group:"},
     .use = ForeignUse::measurement,
     .keys = {{"model_parallel_NPU_group", "layout.tensor_parallel"},
              {"ep", "layout.expert_parallel"},
              {"pp", "layout.pipeline_parallel"},
              {"vpp", "layout.virtual_stages"},
              {"ga", "layout.global_batch / (layout.micro_batch x layout.data_parallel)"},
              {"all_gpus", "cluster.nodes x cluster.gpus_per_node"}}},
    {.name = "a workload of ASTRA-sim",
     .instead = "It lists compute times and messages of each layer. Stepcast makes them from a "
                "scenario: a model, a layout and a cluster.",
     .all = {},
     .some = {"HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DATA_MODEL",
              "HYBRID_MODEL_DATA", "HYBRID_DLRM", "~\tALLREDUCE\t", "~ ALLREDUCE "},
     .least = 1,
     .use = ForeignUse::measurement},
};

const std::vector<ForeignFormat> machines{
    {.name = "an NCCL topology (NCCL_TOPO_DUMP_FILE)",
     .instead = "`stepcast import nccl-xml FILE` shows it, and a cluster file names it as 'node: "
                "{kind: imported, file: FILE}'.",
     .all = {"~<system", "~<cpu", "~<pci"},
     .use = ForeignUse::machine,
     .readers = {"import nccl-xml", "import nvidia-smi"}},
    {.name = "the matrix of `nvidia-smi topo -m`",
     .instead = "`stepcast import nvidia-smi FILE` shows it, and a cluster file names it as "
                "'node: {kind: imported, file: FILE}'.",
     .all = {"GPU0", "GPU1", "~CPU Affinity"},
     .use = ForeignUse::machine,
     .readers = {"import nccl-xml", "import nvidia-smi"}},
    {.name = "the output of ibnetdiscover",
     .instead = "`stepcast import fabric FILE` shows the fabric in it.",
     .all = {"switchguid="},
     .some = {"vendid=", "caguid=", "~Ca\t", "~Switch\t"},
     .least = 1,
     .use = ForeignUse::machine,
     .readers = {"import fabric", "topo check", "topo show"}},
    {.name = "Slurm's topology.conf",
     .instead = "`stepcast import fabric FILE` shows the fabric in it.",
     .all = {},
     .some = {"~SwitchName=", "~BlockName="},
     .least = 1,
     .use = ForeignUse::machine,
     .readers = {"import fabric", "topo check", "topo show"}},
    {.name = "Slurm's topology.yaml",
     .instead = "`stepcast import fabric FILE` shows the fabrics in it.",
     .all = {"topology:"},
     .some = {"cluster_default:", "block_sizes:", "switches:", "switch:"},
     .least = 2,
     .use = ForeignUse::machine,
     .readers = {"import fabric", "topo check", "topo show"}},
    {.name = "a node's XML of lstopo (hwloc)",
     .instead = "It has neither NVLink nor NICs' rates. Give NCCL_TOPO_DUMP_FILE of the same "
                "node to `stepcast import nccl-xml`, or `nvidia-smi topo -m` to `stepcast import "
                "nvidia-smi`.",
     .all = {"~<topology"},
     .some = {"~hwloc", "complete_cpuset=", "gp_index=", "os_index="},
     .least = 1,
     .use = ForeignUse::machine},
    {.name = "the text of lstopo (hwloc)",
     .instead = "It has neither NVLink nor NICs' rates. Give NCCL_TOPO_DUMP_FILE of the same "
                "node to `stepcast import nccl-xml`, or `nvidia-smi topo -m` to `stepcast import "
                "nvidia-smi`.",
     .all = {"~Machine ("},
     .some = {"NUMANode", "Package", "PCIBridge", "HostBridge"},
     .least = 2,
     .use = ForeignUse::machine},
    {.name = "a network of ASTRA-sim",
     .instead = "Write a cluster file (topologies/FORMAT.md): each dimension is a level of it "
                "(node, fabric), npus_count its GPUs, bandwidth and latency those of its links.",
     .all = {"npus_count:"},
     .some = {"topology:", "bandwidth:", "latency:"},
     .least = 1,
     .use = ForeignUse::machine},
    {.name = "a network of ASTRA-sim",
     .instead = "Write a cluster file (topologies/FORMAT.md).",
     .all = {},
     .some = {"topology_name:", "topologies_per_dim:", "dimension_type:", "units_count:",
              "logical_dims:"},
     .least = 1,
     .use = ForeignUse::machine},
    {.name = "a system layer of ASTRA-sim",
     .instead = "Stepcast chooses the algorithms of collectives as NCCL and RCCL do; "
                "local-mem-bw and peak-perf are memory_bandwidth and gemm.bf16.peak of a device "
                "file (topologies/devices/README.md).",
     .all = {},
     .some = {"scheduling_policy:", "preferred_dataset_splits:", "active_chunks_per_dimension:",
              "all_reduce_implementation:", "endpoint_delay:", "local_mem_bw:",
              "all_reduce_implementation_custom:"},
     .least = 2,
     .use = ForeignUse::machine},
    {.name = "a remote memory of ASTRA-sim",
     .instead = "Memory of the host is `host` of a cluster file (topologies/FORMAT.md).",
     .all = {"memory_type:"},
     .some = {"NO_MEMORY_EXPANSION",
              "remote_mem_latency:", "remote_mem_bw:", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL"},
     .least = 1,
     .use = ForeignUse::machine},
    {.name = "a network config of ns-3 (ASTRA-sim, SimAI)",
     .instead = "Write a cluster file (topologies/FORMAT.md).",
     .all = {},
     .some = {"ENABLE_QCN", "USE_DYNAMIC_PFC_THRESHOLD", "CC_MODE", "TOPOLOGY_FILE",
              "RATE_DECREASE_INTERVAL"},
     .least = 3,
     .use = ForeignUse::machine},
    {.name = "a graph of NCCL (NCCL_GRAPH_DUMP_FILE)",
     .instead = "It has NCCL's rings and trees, not the node. Give NCCL_TOPO_DUMP_FILE to "
                "`stepcast import nccl-xml`.",
     .all = {"~<graphs", "~<channel"},
     .use = ForeignUse::machine},
    {.name = "a log of NCCL (NCCL_DEBUG=INFO)",
     .instead = "Set NCCL_TOPO_DUMP_FILE and give that file to `stepcast import nccl-xml`; times "
                "of collectives come from nccl-tests.",
     .all = {"~NCCL INFO"},
     .use = ForeignUse::machine,
     .readers = {"calibrate --from-nccl-tests"}},
    {.name = "the output of rocm-smi or amd-smi",
     .instead = "It has no rates. Take a cluster file as mi300x-8 (`stepcast topo list`), or "
                "RCCL's topology: NCCL_TOPO_DUMP_FILE for `stepcast import nccl-xml`.",
     .all = {},
     .some = {"~Weight between two GPUs", "~= ROCm System Management Interface ="},
     .least = 1,
     .use = ForeignUse::machine,
     .readers = {"import nvidia-smi"}},
    {.name = "the table or log of nvidia-smi",
     .instead = "Give the output of `nvidia-smi topo -m` to `stepcast import nvidia-smi`.",
     .all = {},
     .some = {"~NVIDIA-SMI version", "~| NVIDIA-SMI", "nvidia_smi_log", "~==NVSMI LOG=="},
     .least = 1,
     .use = ForeignUse::machine,
     .readers = {"import nvidia-smi"}},
    {.name = "Slurm's slurm.conf",
     .instead = "Its topology is in topology.conf or topology.yaml: `stepcast import fabric FILE`.",
     .all = {"~ClusterName=", "~NodeName="},
     .use = ForeignUse::machine},
};

const std::vector<ForeignFormat> settings{
    {.name = "an index of weights (safetensors)",
     .instead = "Give config.json, which lies beside it, to `stepcast import hf`.",
     .all = {"weight_map:", "metadata:"},
     .use = ForeignUse::other},
    {.name = "the params.json of a checkpoint",
     .instead = "Give the config.json of the same model on Hugging Face to `stepcast import hf`.",
     .all = {"dim:", "n_layers:", "n_heads:", "norm_eps:"},
     .some = {"multiple_of:", "ffn_dim_multiplier:", "n_kv_heads:", "hidden_dim:"},
     .least = 1,
     .use = ForeignUse::other,
     .keys = {{"n_layers", "transformer.layers"},
              {"dim", "transformer.hidden"},
              {"n_heads", "transformer.heads"},
              {"n_kv_heads", "transformer.kv_heads"}}},
    {.name = "the adapter_config.json of PEFT",
     .instead = "Give the config.json of the base model as the model, and layout.lora.rank for "
                "the adapters:",
     .all = {"peft_type:"},
     .some = {"base_model_name_or_path:", "target_modules:"},
     .least = 1,
     .use = ForeignUse::other,
     .keys = {{"r", "layout.lora.rank"}}},
    {.name = "the state of a trainer (trainer_state.json)",
     .instead = "Give the arguments of the run to `stepcast import trl`.",
     .all = {"log_history:", "global_step:"},
     .use = ForeignUse::other},
};

}  // namespace

std::span<const ForeignFormat> foreign_files() {
  static const std::vector<ForeignFormat> rows = [] {
    std::vector<ForeignFormat> all = measurements;
    for (const std::vector<ForeignFormat>& more : {machines, settings})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

}  // namespace sim
