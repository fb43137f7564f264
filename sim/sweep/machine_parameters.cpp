#include "sim/sweep/machine_parameters.hpp"

#include <array>
#include <optional>
#include <string_view>

#include "sim/config/change.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"

namespace sim {
namespace {

struct Known {
  std::string_view name;
  bool of_device = false;
  std::array<std::string_view, 6> keys{};  // those that a file has are scaled together
};

// Keys in one row belong together physically: products and attention share the rate of the tensor
// cores (the latter are shares of the bf16 peak), a link's usable rate follows its data-sheet rate,
// a fabric's links may be named apart from the NICs'.
constexpr std::array table{
    Known{
        "matrix rate",
        true,
        {"gemm.bf16.peak", "gemm.fp16.peak", "gemm.fp8.peak", "gemm.tf32.peak", "gemm.fp32.peak"}},
    Known{"memory bandwidth", true, {"memory_bandwidth"}},
    Known{"memory bandwidth of one SM", true, {"memory_kernels.per_sm"}},
    Known{"operand feed of the SMs", true, {"operand_feed.per_sm", "operand_feed.device"}},
    Known{"launch and tail of kernels",
          true,
          {"memory_kernels.fixed", "gemm.bf16.fixed", "gemm.fp16.fixed", "gemm.fp8.fixed",
           "gemm.tf32.fixed", "attention.fixed"}},
    Known{"host time per kernel", true, {"host_issue"}},
    Known{"NVLink bandwidth", false, {"node.nvlink.rate", "node.nvlink.usable"}},
    Known{"NVLink latency", false, {"node.nvlink.latency"}},
    Known{"xGMI bandwidth", false, {"node.xgmi.rate", "node.xgmi.usable"}},
    Known{"xGMI latency", false, {"node.xgmi.latency"}},
    Known{"PCIe latency", false, {"node.pcie.latency"}},
    Known{"NIC bandwidth", false, {"node.nics.bandwidth", "fabric.link"}},
    Known{"NIC latency", false, {"node.nics.latency"}},
    Known{"switch latency", false, {"fabric.switch_latency"}},
    Known{"over-subscription", false, {"fabric.oversubscription"}},
    Known{"over-subscription of pods", false, {"fabric.pod_oversubscription"}},
    Known{"network efficiency", false, {"network.efficiency"}},
    Known{"overhead per network message", false, {"network.overhead"}},
};

std::optional<std::string> value_at(ObjectReader object, std::string_view key) {
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    const std::optional<ValueReader> section = object.find(key.substr(0, dot));
    if (!section || !section->is_object()) return std::nullopt;
    object = section->object();
    key.remove_prefix(dot + 1);
  }
  const std::optional<ValueReader> value = object.find(key);
  return value ? value->peek_text() : std::nullopt;
}

MachineParameter parameter_of(const Known& known, const ObjectReader& file) {
  const std::string prefix = known.of_device ? "cluster.device." : "cluster.change.";
  MachineParameter parameter{std::string{known.name}, {}, {}};
  for (const std::string_view key : known.keys) {
    if (key.empty()) break;
    const std::optional<std::string> value = value_at(file, key);
    if (!value) continue;
    parameter.keys.push_back(prefix + std::string{key});
    parameter.values.push_back(*value);
  }
  return parameter;
}

}  // namespace

std::vector<MachineParameter> machine_parameters(const std::string& cluster_path,
                                                 const ClusterChanges& changes) {
  Document cluster = Document::load(cluster_path);
  cluster.change(changes.cluster);
  const ObjectReader top = cluster.root_object();
  std::optional<Document> device;  // pools have several, which no key changes
  if (top.has("device")) {
    device =
        Document::load(referenced_file(cluster_path, top.text("device"), "topologies/devices"));
    device->change(changes.device);
  }
  std::vector<MachineParameter> parameters;
  for (const Known& known : table) {
    if (known.of_device && !device) continue;
    MachineParameter parameter = parameter_of(known, known.of_device ? device->root_object() : top);
    if (!parameter.keys.empty()) parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::vector<std::string> scaled(const std::vector<std::string>& overrides,
                                const MachineParameter& parameter, double factor) {
  std::vector<std::string> all = overrides;
  for (std::size_t i = 0; i < parameter.keys.size(); ++i)
    set_override(all, parameter.keys[i], scaled_text(parameter.values[i], factor));
  return all;
}

}  // namespace sim
