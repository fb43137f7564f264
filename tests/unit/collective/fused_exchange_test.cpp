// DeepEP and HybridEP: closed forms, and published rates.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/collective/algorithms.hpp"
#include "sim/program/expert_routing.hpp"
#include "tests/catch.hpp"
#include "tests/unit/collective/fused_exchange_rows.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;
namespace published = fused_exchange_test;

namespace {

constexpr double tokens = 4096, features = 7168;

// Payload of an NVLink domain per GPU: 18 links of 20.6 GB/s, of H800 8; of Blackwell 721.8 GB/s. A
// NIC of 400 Gb/s carries 48.9 GB/s.
double nvlink_of(published::Gpu gpu) {
  return gpu == published::Gpu::h800 ? 8 * 20.6e9 : gpu == published::Gpu::h100 ? 370.8e9 : 721.8e9;
}

FormInput input_of(const published::Row& row) {
  const bool hopper = row.gpu == published::Gpu::h800 || row.gpu == published::Gpu::h100;
  const int nodes = std::max(1, row.ranks / row.per_node);
  FormInput in;
  in.shape.ranks = row.ranks;
  in.shape.nodes = nodes;
  in.shape.ranks_per_node = std::min(row.ranks, row.per_node);
  in.shape.intra_bandwidth = Bandwidth::bytes_per_second(nvlink_of(row.gpu));
  if (nodes > 1) in.shape.inter_bandwidth = Bandwidth::bytes_per_second(row.per_node * 48.9e9);
  in.group.generation = hopper ? Generation::hopper : Generation::blackwell;
  in.group.nccl = true;
  in.group.ranks = row.ranks;
  in.group.nodes = nodes;
  in.group.ranks_per_node = in.shape.ranks_per_node;
  in.kind = CollectiveKind::all_to_all;
  in.protocol = Protocol::simple;
  in.bytes = tokens * features * row.element;
  return in;
}

ExpertRouting routing_of(const published::Row& row) {
  const bool deepep = row.kernel == published::Kernel::deepep;
  const int nodes = std::max(1, row.ranks / row.per_node);
  ExpertRouting routing{.experts = deepep ? 256 : 8 * row.ranks, .per_token = 8};
  if (deepep && nodes > 1) {
    routing.groups = nodes;
    routing.groups_per_token = std::min(nodes, 4);
  }
  return routing;
}

double predicted(const published::Row& row) {
  const FormInput in = input_of(row);
  const ExpertRouting routing = routing_of(row);
  const Collective request{
      .kind = CollectiveKind::all_to_all,
      .group = GroupRole::expert,
      .bytes = Bytes{static_cast<std::int64_t>(in.bytes)},
      .carrier = row.kernel == published::Kernel::deepep ? Carrier::deepep : Carrier::hybridep,
      .blocks = row.sms,
      .routing = routing};
  const Form form = fused_exchange_form(in, request, 0);
  const std::int64_t each = routing.experts / (in.nodes() > 1 ? in.nodes() : in.ranks());
  const double copies =
      (in.nodes() > 1 ? in.nodes() : in.ranks()) * share_that_chooses(routing, each);
  return copies * in.bytes / (form.latency + form.transfer) / 1e9;
}

struct Errors {
  double median = 0, worst = 0;
};
Errors errors_of(published::Kernel kernel, bool calibration) {
  std::vector<double> errors;
  for (const published::Row& row : published::rows)
    if (row.kernel == kernel && row.calibration == calibration)
      errors.push_back(std::abs(predicted(row) / row.rate - 1));
  std::sort(errors.begin(), errors.end());
  return {errors[errors.size() / 2], errors.back()};
}

Collective request_of(Bytes bytes, Carrier carrier, int sms) {
  return {.kind = CollectiveKind::all_to_all,
          .group = GroupRole::expert,
          .bytes = bytes,
          .carrier = carrier,
          .blocks = sms,
          .routing = {.experts = 64, .per_token = 8}};
}

}  // namespace

TEST_CASE("published rates of fused exchanges, held-out rows", "[collective]") {
  for (const published::Row& row : published::rows) {
    CAPTURE(row.ranks, row.sms, row.operation, row.rate, predicted(row));
    CHECK(std::abs(predicted(row) / row.rate - 1) < 0.2);
  }
  const Errors deepep = errors_of(published::Kernel::deepep, false);
  const Errors hybridep = errors_of(published::Kernel::hybridep, false);
  CAPTURE(deepep.median, deepep.worst, hybridep.median, hybridep.worst);
  CHECK(deepep.median < 0.06);
  CHECK(hybridep.median < 0.06);
}

TEST_CASE("on one node a fused exchange sends a token once to each rank", "[collective]") {
  const Cluster cluster = load("dgx-h100", 1);
  const std::vector<GpuId> members = block(cluster, 1, 8);
  const GroupShape shape = group_shape(cluster, members);
  const double link = shape.intra_bandwidth.in_bytes_per_second();
  const auto cost = [&](int sms) {
    return collective_cost(cluster, shape, request_of(64_MiB, Carrier::hybridep, sms), {});
  };
  // A token with 64 experts misses the 8 of a rank with C(56, 8) / C(64, 8).
  double missed = 1;
  for (int i = 0; i < 8; ++i)
    missed *= (56.0 - i) / (64.0 - i);
  const double arriving = 8 * (1 - missed) * 67108864;
  CHECK_THAT(to_seconds(cost(16).transfer), WithinRel(arriving * 7 / 8 / (0.92 * link), 1e-6));
  CHECK(cost(16).channels == 16);
  // Few SMs bound it: 42 GB/s each.
  CHECK_THAT(to_seconds(cost(2).transfer), WithinRel(arriving / (2 * 42e9), 1e-6));
  CHECK(cost(16).latency == cost(2).latency);
}

TEST_CASE("between nodes a fused exchange sends less than an all-to-all of all copies",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const std::vector<GpuId> members = block(cluster, 4, 8);
  const GroupShape shape = group_shape(cluster, members);
  const CollectiveCost fused =
      collective_cost(cluster, shape, request_of(64_MiB, Carrier::deepep, 20), {});
  const CollectiveCost copies = collective_cost(
      cluster, shape, {CollectiveKind::all_to_all, GroupRole::expert, DType::bf16, 64_MiB * 8},
      {.use_measured = false});
  CHECK(fused.transfer < copies.transfer);
  // No link is asked for more than it has.
  for (const Hop& hop :
       collective_pattern(cluster, members, CollectiveKind::all_to_all, fused.algorithm, 1))
    CHECK(fused.rate.in_bytes_per_second() * hop.share / 65536 <=
          1.001 * cluster.link(hop.link).capacity.in_bytes_per_second());
  // The fullest rank's tokens.
  Collective uneven = request_of(64_MiB, Carrier::deepep, 20);
  uneven.routing.imbalance = 2;
  CHECK(collective_cost(cluster, shape, uneven, {}).transfer > fused.transfer);
}
