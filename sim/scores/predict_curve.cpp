// Predicts a curve by the formulas of sim/collective on the shipped cluster nearest to its machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/rounding.hpp"
#include "sim/collective/collective_cost.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scores/curves.hpp"
#include "sim/scores/score.hpp"

namespace sim {
namespace {

constexpr std::int64_t smallest = 1024;                 // below it a time is all latency
constexpr std::int64_t large = std::int64_t{64} << 20;  // above it, all bandwidth

struct CurveMachine {
  std::string_view gpu;     // lower case, as it stands in the column
  double gbps;              // of all NICs of a node
  std::string_view fabric;  // a word of the fabric, lower case; empty: none of the words below it
  std::string_view file;
};

// "gb200" before "b200", which it holds; the fabrics with a word before those without.
constexpr std::array curve_machines{
    CurveMachine{"gb200", 3200, "nvl72",
                 "topologies/gb200-nvl72.yaml"},  // as some list its 4 x 400
    CurveMachine{"gb200", 1600, "nvl72", "topologies/gb200-nvl72.yaml"},
    CurveMachine{"gb300", 3200, "nvl72", "topologies/gb300-nvl72.yaml"},
    CurveMachine{"a100", 400, "efa", "topologies/aws-p4d.yaml"},
    CurveMachine{"a100", 1600, "roce", "topologies/oci-a100.yaml"},
    CurveMachine{"a100", 1600, "", "topologies/dgx-a100-80.yaml"},
    CurveMachine{"h100", 3200, "efa", "topologies/aws-p5.yaml"},
    CurveMachine{"h100", 1600, "tcpxo", "topologies/gcp-a3-mega.yaml"},
    CurveMachine{"h100", 800, "tcpx", "topologies/gcp-a3-high.yaml"},
    CurveMachine{"h100", 3200, "roce", "topologies/h100-roce.yaml"},
    CurveMachine{"h100", 3200, "", "topologies/dgx-h100.yaml"},
    CurveMachine{"h200", 3200, "efa", "topologies/aws-p5en.yaml"},
    CurveMachine{"h200", 3200, "different sockets", "validation/machines/h200-roce-apart.yaml"},
    CurveMachine{"h200", 3200, "roce", "topologies/h200-roce.yaml"},
    CurveMachine{"h200", 3200, "", "topologies/dgx-h200.yaml"},
    CurveMachine{"b200", 3200, "efa", "topologies/aws-p6-b200.yaml"},
    CurveMachine{"b200", 3200, "(a4)", "topologies/gcp-a4.yaml"},
    CurveMachine{"b200", 3200, "roce", "topologies/b200-roce.yaml"},
    CurveMachine{"b200", 3200, "", "topologies/dgx-b200.yaml"},
    CurveMachine{"b300", 6400, "", "topologies/dgx-b300.yaml"},
    CurveMachine{"v100", 100, "efa", "topologies/cloud-v100-100g.yaml"},
    CurveMachine{"mi300x", 3200, "", "topologies/mi300x-8.yaml"},
    CurveMachine{"mi325x", 3200, "", "topologies/mi325x-8.yaml"},
    CurveMachine{"mi355x", 3200, "", "topologies/mi355x-8.yaml"},
};
constexpr std::array<std::string_view, 3> other_fabrics{"efa", "tcpx", "nvl72"};

bool fits_fabric(const CurveMachine& machine, const std::string& fabric) {
  if (!machine.fabric.empty()) return contains(fabric, machine.fabric);
  return std::none_of(other_fabrics.begin(), other_fabrics.end(),
                      [&](std::string_view word) { return contains(fabric, word); });
}

// NVL72 racks, whatever joins them but EFA and TCPX; a job on one of them uses no NIC. The NICs are
// those of a tray, or of all trays that a node of the table has.
bool fits_rack(const CurveMachine& machine, const Curve& curve, const std::string& fabric) {
  constexpr int tray = 4, rack = 72;
  if (contains(fabric, "efa") || contains(fabric, "tcpx")) return false;
  if (curve.gpus <= rack) return true;
  const double gbps = curve.nics * curve.nic_gbps;
  const double of_tray = gbps * tray / std::max(tray, curve.gpus / curve.nodes);
  return std::min(std::abs(gbps - machine.gbps), std::abs(of_tray - machine.gbps)) <
         0.02 * machine.gbps;
}

std::string rack_file(const CurveMachine& machine, const std::string& fabric) {
  const bool infiniband = contains(fabric, "infiniband") || contains(fabric, "quantum");
  return infiniband && machine.gpu == "gb200" ? "validation/machines/gb200-nvl72-ib.yaml"
                                              : std::string{machine.file};
}

std::string cluster_of(const Curve& curve) {
  const std::string gpu = lower_case(curve.gpu);
  const std::string fabric = lower_case(curve.fabric);
  const int per_node = curve.gpus / curve.nodes;
  for (const CurveMachine& machine : curve_machines) {
    if (!contains(gpu, machine.gpu) || contains(gpu, fmt::format("g{}", machine.gpu))) continue;
    const bool rack = machine.fabric == "nvl72";
    if (curve.nodes == 1 && (machine.fabric.empty() || rack)) return std::string{machine.file};
    if (rack && fits_rack(machine, curve, fabric)) return rack_file(machine, fabric);
    if (rack) continue;
    if (!fits_fabric(machine, fabric)) continue;
    // A GPU alone on its node has one NIC of the eight to itself.
    const double gbps = curve.nics * curve.nic_gbps * (per_node == 1 && curve.nics == 1 ? 8 : 1);
    if (std::abs(gbps - machine.gbps) < 0.02 * machine.gbps) return std::string{machine.file};
  }
  throw NotSimulated(curve.nodes == 1
                         ? fmt::format("no cluster file for the GPU '{}'", curve.gpu)
                         : fmt::format("no cluster file for {} with {} x {:g} Gb/s per node ({})",
                                       curve.gpu, curve.nics, curve.nic_gbps, curve.fabric));
}

// "2.26.2" -> 226; the latest where the text says nothing.
int nccl_version(const std::string& text) {
  const auto version = version_behind(text, "");
  return version ? 100 * version->first + version->second : latest_nccl;
}

// loop_overhead() is what a loop adds to each call that does not keep the stream filled: PyTorch's
// launches between two events, or one process that launches on eight GPUs in turn (-g 8). One
// value, read off eight A100 with -g 8, 32 KiB; eight B200 in PyTorch follow.
Duration loop_overhead(const Curve& curve) {
  const std::string text = lower_case(curve.notes) + " ";
  const bool waits = contains(text, "pytorch") || contains(text, "-g 8");
  return waits ? std::chrono::microseconds{28} : Duration{};
}

// The algorithm that the run was forced to, if its remarks say so.
CollectiveChoice choice_of(const Curve& curve) {
  const std::string text =
      lower_case(curve.fabric + " | " + curve.version + " | " + curve.notes) + " ";
  CollectiveChoice choice;
  choice.use_measured = false;
  choice.nccl = nccl_version(curve.version);
  if (contains(text, "nccl_nvls_enable=0") || contains(text, "nccl_algo=ring") ||
      contains(text, "tree_threshold=0") || contains(text, "nvswitch ring") ||
      contains(text, "ring latency"))
    choice.algorithm = Algorithm::ring;
  if (const auto blocks = number_behind(text, "nccl_min_ctas=")) choice.least_blocks = *blocks;
  return choice;
}

std::optional<CollectiveKind> kind_of(const std::string& op) {
  if (op == "alltoall") return CollectiveKind::all_to_all;
  // sendrecv_perf: every rank sends to the next and receives from the last.
  if (op == "sendrecv") return CollectiveKind::ring_shift;
  return from_word<CollectiveKind>(op);
}

// The group of the run: spread evenly over its nodes, or over racks where those are the nodes.
std::vector<GpuId> members_of(const Curve& curve, const Cluster& cluster) {
  const int per_node = curve.gpus / cluster.nodes();
  std::vector<GpuId> members;
  for (int node = 0; node < cluster.nodes(); ++node)
    for (int gpu = 0; gpu < per_node; ++gpu)
      members.push_back(GpuId{static_cast<std::uint32_t>(node * cluster.gpus_per_node() + gpu)});
  return members;
}

// How many nodes of the cluster the run was on. Racks may be the nodes of the table, or its trays:
// then as few as give each the same number of whole trays.
int nodes_of(const Curve& curve, const NodeRoom& room) {
  const int tray = room.gpus / room.trays;
  if (room.trays == 1 || curve.gpus / curve.nodes > 2 * tray) return curve.nodes;
  const int least = divide_up(curve.gpus, room.gpus);
  if (least == 1) return 1;
  for (int racks = least; racks <= 2 * least; ++racks)
    if (curve.gpus % (racks * tray) == 0) return racks;
  throw NotSimulated(fmt::format("{} GPUs are not the same number of trays of {} on {} to {} racks",
                                 curve.gpus, tray, least, 2 * least));
}

void predict_points(Curve& curve, const Cluster& cluster) {
  const std::vector<GpuId> members = members_of(curve, cluster);
  const std::optional<CollectiveKind> kind = kind_of(curve.op);
  if (!kind) throw NotSimulated(fmt::format("op is '{}', which is not known", curve.op));
  const CollectiveChoice choice = choice_of(curve);
  const GroupShape shape = group_shape(cluster, members);
  const Duration loop = loop_overhead(curve);
  for (CurvePoint& point : curve.points) {
    const Collective request{.kind = *kind, .dtype = DType::fp32, .bytes = point.size};
    const CollectiveCost cost = collective_cost(cluster, shape, request, choice);
    point.predicted = cost.latency + cost.transfer + loop;
  }
}

void summarise(CurveResult& result) {
  std::vector<double> errors, large_errors;
  for (const CurvePoint& point : result.curve.points) {
    if (point.size.count() < smallest) continue;
    errors.push_back(std::abs(point.error()));
    if (point.size.count() > large) large_errors.push_back(errors.back());
  }
  result.points = static_cast<int>(errors.size());
  result.large_points = static_cast<int>(large_errors.size());
  if (!errors.empty()) result.median_abs_error = quantile(errors, 0.5);
  if (!large_errors.empty()) result.median_large_abs_error = quantile(large_errors, 0.5);
}

}  // namespace

double CurvePoint::error() const {
  const double seconds = to_seconds(measured);
  return (to_seconds(predicted) - seconds) / seconds;
}

CurveResult predict_curve(Curve curve, const std::string& data_folder) {
  CurveResult result;
  result.curve = std::move(curve);
  Curve& it = result.curve;
  try {
    if (it.gpus % it.nodes != 0)
      throw NotSimulated(
          fmt::format("{} GPUs do not spread evenly over {} nodes", it.gpus, it.nodes));
    result.cluster = cluster_of(it);
    const std::string path = data_folder + "/" + result.cluster;
    const NodeRoom room = room_of(Cluster::load(path, 1));
    const int per_node = room.gpus;
    const int nodes = nodes_of(it, room);
    if (it.gpus % nodes != 0 || it.gpus / nodes > per_node)
      throw NotSimulated(
          fmt::format("{} GPUs do not fit on {} nodes of {}", it.gpus, nodes, result.cluster));
    predict_points(it, Cluster::load(path, nodes));
  } catch (const InputError& error) {
    result.skipped = error.problems().front().what;
  } catch (const std::runtime_error& reason) {
    result.skipped = reason.what();
  } catch (const std::invalid_argument& reason) {  // an algorithm that this group cannot run
    result.skipped = reason.what();
  }
  if (result.skipped.empty()) summarise(result);
  return result;
}

}  // namespace sim
