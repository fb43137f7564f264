#include "sim/plan/server_exchange.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"

namespace sim {

ServerBytes server_bytes(const Layout& layout, std::int64_t parameters) {
  SIM_CHECK(layout.has_servers());
  const std::int64_t gradient = bytes_of(layout.reduce_dtype);
  const std::int64_t weight = bytes_of(layout.activation_dtype);
  if (!layout.updates_on_servers())
    return {.pushed = Bytes{parameters * gradient},
            .pulled = Bytes{parameters * gradient},
            .updated = Bytes{parameters * 3 * gradient},
            .held = Bytes{parameters * gradient}};
  const std::int64_t states = 4 + layout.moment_bytes();  // a master is kept in any case
  return {.pushed = Bytes{parameters * gradient},
          .pulled = Bytes{parameters * weight},
          .updated = Bytes{parameters * (gradient + 2 * states + weight)},
          .held = Bytes{parameters * states}};
}

std::int64_t server_part(const Layout& layout, std::int64_t parameters) {
  SIM_CHECK(layout.has_servers() && parameters > 0, parameters);
  if (!layout.server_partition) return parameters;
  const std::int64_t each = std::int64_t{bytes_of(layout.reduce_dtype)} * layout.worker_gpus();
  return std::clamp<std::int64_t>(layout.server_partition->count() / each, 1, parameters);
}

double share_on_workers(const Layout& layout, int nodes) {
  SIM_CHECK(layout.has_servers() && nodes >= 1, nodes);
  if (layout.server_place == ServerPlace::workers) return 1;
  if (layout.server_place == ServerPlace::machines) return 0;
  const double n = nodes, k = layout.server_machines;
  const double links = n * n + n * k - 2 * k;
  if (links <= 0) return 0;
  return std::clamp((n * n - n * k) / links, 0.0, 1.0);
}

ServerShares server_shares(const Layout& layout, int gpus_per_node) {
  const int nodes = divide_up(layout.world_size(), gpus_per_node);
  const double on_workers = share_on_workers(layout, nodes);
  return {.nodes = nodes,
          .of_node = on_workers / nodes,
          .of_machine = (1 - on_workers) / std::max(1, layout.server_machines)};
}

}  // namespace sim
