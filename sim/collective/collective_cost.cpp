#include "sim/collective/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/base/check.hpp"
#include "sim/collective/algorithms.hpp"

namespace sim {
namespace {

// The network path that NCCL's constants contain: 2.75 us for a small write from host to host
// (ib_write_lat, 400 Gb/s, one switch block; OCI GPU quick start for GB300) and 1 us of proxy at
// each end (NCCL_NET_OVERHEAD).
constexpr double infiniband_path = 4.75e-6;

Form ideal_form_of(const FormInput& in, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      if (in.kind == CollectiveKind::all_to_all)
        refuse(algorithm, in.kind, "NCCL sends pairwise messages (direct)");
      return ring_form(in);
    case Algorithm::tree:
      return tree_form(in);
    case Algorithm::halving_doubling:
      return halving_doubling_form(in);
    case Algorithm::hierarchical:
      return hierarchical_form(in);
    case Algorithm::in_switch:
      return in_switch_form(in);
    case Algorithm::parameter_server:
      return parameter_server_form(in);
    case Algorithm::direct:
      return direct_form(in);
    case Algorithm::automatic:
      break;
  }
  SIM_CHECK(algorithm != Algorithm::automatic);
  return {};
}

Form form_of(const FormInput& in, Algorithm algorithm) {
  Form form = ideal_form_of(in, algorithm);
  form.latency += tail_seconds(in, algorithm, form);
  return form;
}

double seconds_of(const Form& form) {
  return form.latency + form.transfer;
}

// Beyond the ends of a curve the formula goes on, scaled to meet the curve there.
double measured_seconds(const MeasuredCurve& curve, FormInput in, Algorithm algorithm,
                        const Form& form) {
  const auto first = static_cast<double>(curve.points.front().size.count());
  const auto last = static_cast<double>(curve.points.back().size.count());
  const double nearest = std::clamp(in.bytes, first, last);
  const double known = interpolate(curve, nearest);
  if (nearest == in.bytes) return known;
  in.bytes = nearest;
  return known * seconds_of(form) / seconds_of(form_of(in, algorithm));
}

// The links take as long as before; what differs from the formula is latency first, then speed.
void replace_time(Form& form, double seconds) {
  form.latency = std::min(form.latency, seconds);
  form.transfer = seconds - form.latency;
  if (form.transfer < form.link_time) {
    form.transfer = std::min(form.link_time, seconds);
    form.latency = seconds - form.transfer;
  }
}

FormInput form_input(const Cluster& cluster, const GroupShape& shape, const Collective& request,
                     CollectiveChoice choice) {
  const NetworkTraits& network = cluster.network();
  FormInput in{.shape = shape,
               .group = nccl_group(cluster, shape, choice),
               .kind = request.kind,
               .bytes = static_cast<double>(payload(request).count()),
               .shards = choice.server_shards,
               .network_overhead = to_seconds(network.network_overhead),
               .simple_overhead = to_seconds(network.simple_overhead),
               .most_ll = network.most_ll,
               .most_ll128 = network.most_ll128,
               .nvls = network.nvls,
               .sharp = network.sharp,
               .transport = transport_of(cluster)};
  apply_transport(cluster, in);
  return in;
}

CollectiveCost cost_of(const Form& form, CollectiveCost cost) {
  cost.latency = duration_from_seconds(form.latency);
  cost.transfer = duration_from_seconds(form.transfer);
  cost.link_time = duration_from_seconds(std::min(form.link_time, form.transfer));
  // Rounded down, and no more than the links allow where a measured curve beats them: a link that
  // the pattern just fills must not count as over-asked.
  cost.rate = Bandwidth::bytes_per_second(
      std::floor(form.traffic / std::max(form.transfer, form.link_time)));
  cost.memory = Bandwidth::bytes_per_second(form.memory_bytes / form.transfer);
  cost.channels = form.channels;
  cost.flows = form.flows;
  cost.rounds = form.rounds;
  return cost;
}

}  // namespace

void refuse(Algorithm algorithm, CollectiveKind kind, const char* why) {
  throw std::invalid_argument(fmt::format("collective algorithm {} cannot do {} here: {}",
                                          word(algorithm), word(kind), why));
}

HopSeconds hop_seconds(const FormInput& in, Algorithm algorithm) {
  const HopLatency nccl = hop_latency(in.group, algorithm, in.protocol);
  const double path = to_seconds(in.shape.inter_latency) + 2 * in.network_overhead;
  const double simple = in.protocol == Protocol::simple ? in.simple_overhead : 0;
  return {.base = nccl.base * 1e-6,
          .intra = std::max(nccl.intra * 1e-6, to_seconds(in.shape.intra_latency)),
          .inter = nccl.inter * 1e-6 + std::max(0.0, path - infiniband_path) + simple};
}

CollectiveCost collective_cost(const Cluster& machine, const GroupShape& shape,
                               const Collective& request, CollectiveChoice choice) {
  const Cluster cluster = machine.of_pool(shape.pool);
  CollectiveCost cost{.algorithm = choice.algorithm, .protocol = choice.protocol};
  if (cost.algorithm == Algorithm::automatic) cost.algorithm = Algorithm::ring;
  if (cost.protocol == Protocol::automatic) cost.protocol = Protocol::simple;
  if (shape.ranks == 1 || payload(request).count() == 0) return cost;
  FormInput in = form_input(cluster, shape, request, choice);
  if (is_fused_exchange(request.carrier)) {
    cost.algorithm = Algorithm::direct;
    cost.protocol = Protocol::simple;
    const double small = to_seconds(cluster.device().memory_kernels.fixed);
    Form form = fused_exchange_form(in, request, small);
    form.latency += tail_seconds(in, Algorithm::direct, form);
    return cost_of(form, cost);
  }
  // User buffers lie on one node; over several the group has NCCL.
  if (request.carrier != Carrier::nccl && shape.nodes == 1) {
    cost.algorithm =
        request.kind == CollectiveKind::ring_shift ? Algorithm::direct : Algorithm::ring;
    cost.protocol = Protocol::simple;
    const double small = to_seconds(cluster.device().memory_kernels.fixed);
    return cost_of(user_buffer_form(in, request, small), cost);
  }
  const Selected selected = select(in, choice);
  cost.algorithm = selected.algorithm;
  cost.protocol = in.protocol = selected.protocol;
  Form form = form_of(in, cost.algorithm);
  if (const MeasuredCurve* curve =
          choice.use_measured
              ? find_curve(cluster, word(request.kind), shape.ranks, shape.nodes, choice.algorithm)
              : nullptr) {
    cost.measured = true;
    replace_time(form, measured_seconds(*curve, in, cost.algorithm, form));
  }
  return cost_of(form, cost);
}

std::vector<Hop> collective_pattern(const Cluster& machine, std::span<const GpuId> members,
                                    CollectiveKind kind, Algorithm algorithm, int server_shards) {
  if (members.size() < 2) return {};
  const Cluster cluster = machine.of_group(members);
  const GroupLayout layout{cluster, members};
  if (kind == CollectiveKind::all_to_all) return direct_pattern(cluster, layout);
  if (kind == CollectiveKind::ring_shift) return shift_pattern(cluster, members);
  switch (algorithm) {
    case Algorithm::tree:
      return tree_pattern(cluster, layout);
    case Algorithm::halving_doubling:
      return halving_doubling_pattern(cluster, layout);
    case Algorithm::hierarchical:
      return hierarchical_pattern(cluster, layout);
    case Algorithm::in_switch:
      return in_switch_pattern(cluster, layout);
    case Algorithm::parameter_server:
      return parameter_server_pattern(cluster, layout, server_shards);
    case Algorithm::direct:
      return direct_pattern(cluster, layout);
    default:
      return ring_pattern(cluster, layout);
  }
}

double bus_factor(CollectiveKind kind, int ranks) {
  const double p = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (p - 1) / p;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return (p - 1) / p;
    default:
      return 1;
  }
}

std::unique_ptr<StepSequence> step_sequence(const Collective& request, const CollectiveCost& cost,
                                            const GroupShape& shape, int server_shards) {
  if (!shape.uniform || !shape.contiguous)
    refuse(cost.algorithm, request.kind,
           "its messages are known only for members listed node by node, as many on each");
  switch (cost.algorithm) {
    case Algorithm::ring:
      return ring_steps(request, shape, cost.channels);
    case Algorithm::tree:
      return tree_steps(request, shape, cost.channels, cost.protocol);
    case Algorithm::halving_doubling:
      return halving_doubling_steps(request, shape);
    case Algorithm::hierarchical:
      return hierarchical_steps(request, shape);
    case Algorithm::parameter_server:
      return parameter_server_steps(request, shape, server_shards);
    case Algorithm::direct:
      return direct_steps(request, shape);
    default:
      break;
  }
  refuse(cost.algorithm, request.kind, "the switches' work is no sequence of messages");
}

Duration step_overhead(const CollectiveCost& cost, const GroupShape& shape, PathKind path) {
  if (cost.rounds == 0) return Duration{};
  const Duration beyond = cost.latency + cost.transfer - cost.link_time;
  const Duration route = path == PathKind::network ? shape.inter_latency : shape.intra_latency;
  return beyond / cost.rounds - route;
}

}  // namespace sim
