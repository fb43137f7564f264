#include "sim/engine/cost_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/graph_scope.hpp"
#include "sim/options/device_spread.hpp"

namespace sim {
namespace {

constexpr auto compute = static_cast<std::size_t>(Stream::compute);

// boundary[i]: another stream or the host waits for the kernel before compute position i, or the
// kernel at i waits for one of them.
std::vector<char> watched_boundaries(const Program& program, const ProgramIndex& index) {
  std::vector<char> boundary(index.order[compute].size() + 1, 0);
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    for (const OpId dependency : program.dependencies({op})) {
      if (program.stream[dependency.value] == Stream::compute)
        boundary[index.position[dependency.value] + 1] = 1;
      if (program.stream[op] == Stream::compute) boundary[index.position[op]] = 1;
    }
  }
  for (const HostPhase& phase : index.phases)
    boundary[phase.needed[compute]] = 1;
  const std::vector<OpId>& order = index.order[compute];
  for (std::size_t i = 1; i < order.size(); ++i)
    if (index.phase[order[i].value] != index.phase[order[i - 1].value]) boundary[i] = 1;
  return boundary;
}

// Beyond any need, and still a rate that the arithmetic carries.
Bandwidth boundless(Bandwidth rate) {
  return rate * 1e6;
}

// The same bytes in `factor` times the time.
void slow_down(CommCost& cost, double factor) {
  if (factor == 1) return;
  cost.latency = duration_from_seconds(to_seconds(cost.latency) * factor);
  cost.transfer = duration_from_seconds(to_seconds(cost.transfer) * factor);
  cost.rate = std::max<std::int64_t>(1, std::llround(static_cast<double>(cost.rate) / factor));
  cost.memory = std::llround(static_cast<double>(cost.memory) / factor);
}

void slow_down(KernelCost& cost, double factor) {
  if (factor == 1) return;
  cost.time = duration_from_seconds(to_seconds(cost.time) * factor);
  cost.memory = cost.memory * (1 / factor);
}

bool is_product(OpKind kind) {
  return kind == OpKind::gemm || kind == OpKind::attention;
}

void hold_nothing(CommCost& cost) {
  cost.sm = 0;
  cost.memory = 0;
}

std::uint32_t intern_collective(RequestTable& table, const Collective& request) {
  const auto found = std::find(table.collectives.begin(), table.collectives.end(), request);
  if (found != table.collectives.end())
    return static_cast<std::uint32_t>(found - table.collectives.begin());
  table.collectives.push_back(request);
  return static_cast<std::uint32_t>(table.collectives.size() - 1);
}

std::uint32_t intern_transfer(RequestTable& table, Bytes bytes) {
  const auto found = std::find(table.transfers.begin(), table.transfers.end(), bytes);
  if (found != table.transfers.end())
    return static_cast<std::uint32_t>(found - table.transfers.begin());
  table.transfers.push_back(bytes);
  return static_cast<std::uint32_t>(table.transfers.size() - 1);
}

// SMs of a device that communication holds while it moves data: those of its channels, unless the
// device states a share.
std::int32_t held_sm(const CollectiveCost& cost, const Device& device) {
  if (!device.communication_share) return cost.channels * 1024;
  return static_cast<std::int32_t>(std::lround(*device.communication_share * device.sms * 1024));
}

}  // namespace

KernelPricing::KernelPricing(const Cluster& cluster, const SimulationOptions& options, int ranks)
    : device_{cluster.device()},
      options_{options},
      slowest_{slowest_of(ranks, options.device_spread)} {
  const double share = 1.0 / cluster.gpus_per_node();
  host_copy_ = cluster.host_copy();
  host_memory_ = cluster.host().bandwidth * share;
  if (options.host_update > Bandwidth{}) host_memory_ = std::min(host_memory_, options.host_update);
  disk_read_ = cluster.host().disk_read * share;
  disk_write_ = cluster.host().disk_write * share;
  if (options.free_memory_traffic) free_memory_traffic();
  if (!options.measured) device_.measured_kernels.clear();
  for (std::size_t pool = 0; cluster.pool() == cluster.pools() && pool < cluster.pools(); ++pool)
    pools_.emplace_back(cluster.of_pool(pool), options, ranks);
}

// The device that kernels were measured on changes, too, so that their measured times stay.
void KernelPricing::free_memory_traffic() {
  device_.memory_bandwidth = boundless(device_.memory_bandwidth);
  if (!device_.measured_on) return;
  Device measured_on = *device_.measured_on;
  measured_on.memory_bandwidth = boundless(measured_on.memory_bandwidth);
  device_.measured_on = std::make_shared<const Device>(std::move(measured_on));
}

namespace {

double seconds_at(Bytes bytes, Bandwidth rate) {
  if (bytes.count() == 0) return 0;
  SIM_CHECK(rate > Bandwidth{}, "the cluster says nothing of its host");
  return static_cast<double>(bytes.count()) / rate.in_bytes_per_second();
}

}  // namespace

// A copy of at least some bytes takes the time of a call. The update and the disk work side by
// side, on two buffers in turns; so do the disk and a copy of what it reads (Rajbhandari et al.
// 2021, section 6.2).
KernelCost KernelPricing::host_cost(const Kernel& kernel) const {
  constexpr double call = 10e-6;  // cudaMemcpyAsync and the wait for it, as measured by
                                  // deepspeedai/DeepSpeed blogs/deepnvme for small requests
  double time = 0;
  if (kernel.kind == OpKind::host_copy)
    time = call +
           std::max(seconds_at(kernel.bytes, host_copy_), seconds_at(kernel.disk_read, disk_read_));
  else
    time = std::max(
        seconds_at(kernel.bytes, host_memory_),
        seconds_at(kernel.disk_read, disk_read_) + seconds_at(kernel.disk_written, disk_write_));
  return {.time = duration_from_seconds(time), .memory = {}, .sm_share = 0};
}

std::vector<KernelCost> KernelPricing::least_of_pools(const Program& program) const {
  std::vector<KernelCost> least = pools_.front().costs_of(program);
  for (std::size_t pool = 1; pool < pools_.size(); ++pool) {
    const std::vector<KernelCost> costs = pools_[pool].costs_of(program);
    for (std::size_t i = 0; i < costs.size(); ++i)
      if (costs[i].time < least[i].time) least[i] = costs[i];
  }
  return least;
}

std::vector<KernelCost> KernelPricing::costs_of(const Program& program) const {
  if (!pools_.empty()) return least_of_pools(program);
  std::vector<KernelCost> costs;
  costs.reserve(program.kernels.size());
  for (const Kernel& kernel : program.kernels) {
    if (kernel.kind == OpKind::server_exchange) {
      costs.push_back({.time = {}, .memory = {}, .sm_share = 0});
      continue;
    }
    if (is_of_host(kernel.kind)) {
      costs.push_back(host_cost(kernel));
      continue;
    }
    if (kernel.known) {
      costs.push_back({.time = *kernel.known, .memory = {}, .sm_share = 0});
      continue;
    }
    KernelCost cost = kernel_cost(kernel, device_, Load::step, options_.waves);
    const bool product = is_product(kernel.kind);
    slow_down(cost, product ? options_.factors.products : options_.factors.memory_kernels);
    if (slowest_ > 1 && product)
      cost.time = duration_from_seconds(to_seconds(cost.time) * slowest_);
    const bool replayed = options_.graphs && options_.graph_scope.empty();
    const Duration gap = replayed ? device_.replayed_gap : device_.issued_gap;
    cost.time = std::max(Duration{}, cost.time + gap);
    cost.persistent = cost.persistent && options_.persistent;
    if (options_.free_memory_traffic) cost.memory = {};
    if (options_.free_compute) cost = {.time = Duration{}, .memory = {}, .sm_share = 0};
    costs.push_back(cost);
  }
  return costs;
}

ProgramIndex index_program(const Program& program, const HostIssue& host_issue,
                           const std::vector<GraphModule>& captured) {
  std::vector<std::uint32_t> graphs;  // empty: nothing is captured
  if (!captured.empty()) graphs = graphs_of(program, captured);
  std::uint32_t issued_graphs = 0;  // in issue order
  const auto issues = [&](std::uint32_t op) -> std::int64_t {
    if (graphs.empty() || graphs[op] == no_graph) return launches_of(program, op);
    if (graphs[op] < issued_graphs) return 0;
    issued_graphs = graphs[op] + 1;
    return 1;
  };
  ProgramIndex index;
  index.position.resize(program.size());
  index.issued.resize(program.size());
  index.phase.resize(program.size());
  std::int64_t issued = 0;
  CallParts parts{program};
  auto wait = program.host_waits.begin();
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (wait != program.host_waits.end() && wait->before.value == op) {
      HostPhase& phase = index.phases.emplace_back();
      phase.length = std::exchange(issued, 0);
      for (; wait != program.host_waits.end() && wait->before.value == op; ++wait)
        phase.needed[static_cast<std::size_t>(program.stream[wait->until.value])] =
            index.position[wait->until.value] + 1;
    }
    index.phase[op] = static_cast<std::uint32_t>(index.phases.size());
    const auto stream = static_cast<std::size_t>(program.stream[op]);
    index.position[op] = static_cast<std::uint32_t>(index.order[stream].size());
    index.order[stream].push_back({op});
    issued += host_issue.of(issues(op), parts.is_part(op)).count();
    index.issued[op] = issued;
    index.used_streams |= 1U << stream;
  }
  index.dependency.reserve(program.dependency.size());
  for (const OpId op : program.dependency)
    index.dependency.push_back(
        {.stream = static_cast<std::uint32_t>(program.stream[op.value]) & 15U,
         .position = index.position[op.value] & 0xfffffffU});
  const std::vector<char> boundary = watched_boundaries(program, index);
  index.segment_end.resize(index.order[compute].size());
  auto end = static_cast<std::uint32_t>(index.segment_end.size());
  for (std::uint32_t i = end; i-- > 0;) {
    if (boundary[i + 1]) end = i + 1;
    index.segment_end[i] = end;
  }
  return index;
}

LaneCosts lane_costs(const Program& program, const ProgramIndex& index,
                     std::span<const KernelCost> kernels, const Device& device, double factor) {
  const std::vector<OpId>& order = index.order[compute];
  LaneCosts costs;
  costs.device_sm = std::int64_t{device.sms} * 1024;
  costs.shares_device = device.communication_share.has_value();
  costs.device_memory = std::llround(device.memory_bandwidth.in_bytes_per_second());
  costs.start.reserve(order.size() + 1);
  costs.start.push_back(0);
  costs.sm.reserve(order.size());
  costs.memory.reserve(order.size());
  costs.persistent.reserve(order.size());
  costs.late_blocks.reserve(order.size());
  for (const KernelCost& cost : kernels) {
    costs.kernel_time.push_back(
        factor == 1 ? cost.time : duration_from_seconds(to_seconds(cost.time) * factor));
    costs.kernel_memory.push_back(std::llround(cost.memory.in_bytes_per_second() / factor));
  }
  for (const OpId op : order) {
    SIM_CHECK(runs_kernel(program.kind[op.value]), word(program.kind[op.value]));
    const std::uint32_t work = program.work[op.value];
    costs.start.push_back(costs.start.back() + costs.kernel_time[work].count());
    costs.sm.push_back(
        static_cast<std::int32_t>(std::lround(kernels[work].sm_share * device.sms * 1024)));
    costs.memory.push_back(costs.kernel_memory[work]);
    costs.persistent.push_back(kernels[work].persistent);
    costs.late_blocks.push_back(kernels[work].persistent && !kernels[work].abreast);
  }
  costs.host_slack.resize(order.size());
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t own = index.issued[order[i].value] - costs.start[i];
    const bool last = i + 1 == index.segment_end[i];
    costs.host_slack[i] = last ? own : std::max(own, costs.host_slack[i + 1]);
  }
  return costs;
}

RequestTable collect_requests(std::span<const Program> programs) {
  RequestTable table;
  for (const Program& program : programs) {
    auto& collectives = table.of_collective.emplace_back();
    for (const Collective& request : program.collectives)
      collectives.push_back(intern_collective(table, request));
    auto& transfers = table.of_transfer.emplace_back();
    for (const Transfer& transfer : program.transfers)
      transfers.push_back(intern_transfer(table, transfer.bytes));
  }
  return table;
}

CommCost comm_cost(const CollectiveCost& cost, const Device& device) {
  constexpr std::int64_t packet = 4096;
  // Rounded down: a transfer alone must not ask a link for a fraction more than it has.
  const auto rate = static_cast<std::int64_t>(std::floor(cost.rate.in_bytes_per_second()));
  CommCost comm{
      .latency = cost.latency,
      .transfer = cost.transfer,
      .rate = std::max<std::int64_t>(1, rate),
      .link_bytes = std::llround(cost.rate.in_bytes_per_second() * to_seconds(cost.transfer)),
      .memory = std::llround(cost.memory.in_bytes_per_second()),
      .sm = held_sm(cost, device),
      .flows = cost.flows,
      .algorithm = cost.algorithm,
      .protocol = cost.protocol,
      .measured = cost.measured};
  if (comm.link_bytes < packet) {
    comm.latency += comm.transfer;
    comm.transfer = Duration{};
    comm.link_bytes = 0;
  }
  return comm;
}

CollectiveChoice choice_for(const Collective& request, const SimulationOptions& options) {
  CollectiveChoice choice =
      is_within_layers(request.group) ? options.tensor_choice : options.data_choice;
  choice.most_blocks = limit_of(options.most_blocks, request.group);
  if (request.kind == CollectiveKind::all_to_all) choice.algorithm = Algorithm::automatic;
  return choice;
}

bool is_free(GroupRole group, const SimulationOptions& options) {
  if (!is_within_layers(group)) return options.free_data;
  if (group == GroupRole::tensor) return options.free_tensor;
  return is_of_context(group) ? options.free_context : options.free_expert;
}

CommCost priced_collective(const Cluster& cluster, const GroupShape& shape,
                           const Collective& request, const SimulationOptions& options) {
  CollectiveChoice choice = choice_for(request, options);
  choice.use_measured = choice.use_measured && options.measured;
  CommCost cost = comm_cost(collective_cost(cluster, shape, request, choice),
                            cluster.of_pool(shape.pool).device());
  const TimeFactors& factors = options.factors;
  slow_down(cost, is_within_layers(request.group) ? factors.tensor : factors.data);
  const bool free = is_free(request.group, options);
  if (!options.interference || free) hold_nothing(cost);
  if (free) cost.latency = cost.transfer = Duration{};
  return cost;
}

CommCost priced_transfer(const Cluster& cluster, const Route& route, Bytes bytes,
                         const SimulationOptions& options) {
  CommCost cost = comm_cost(transfer_cost(cluster, route, bytes, options.most_blocks.pipeline),
                            cluster.of_pool(route.pool).device());
  slow_down(cost, options.factors.pipeline);
  if (!options.interference || options.free_pipeline) hold_nothing(cost);
  if (options.free_pipeline) cost.latency = cost.transfer = Duration{};
  return cost;
}

}  // namespace sim
