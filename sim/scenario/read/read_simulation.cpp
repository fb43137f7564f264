#include "sim/scenario/read/read_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "sim/options/device_spread.hpp"

namespace sim {
namespace {

void read_collectives(const Layered& section, SimulationOptions& options) {
  options.collectives = section.word_or("collectives", CollectiveModel::fluid);
  options.tensor_choice.algorithm = section.word_or("tensor_algorithm", Algorithm::automatic);
  options.tensor_choice.protocol = section.word_or("tensor_protocol", Protocol::automatic);
  options.data_choice.algorithm = section.word_or("data_algorithm", Algorithm::automatic);
  options.data_choice.protocol = section.word_or("data_protocol", Protocol::automatic);
  const int shards = section.int_or("server_shards", 1, {1, 1 << 16});
  options.tensor_choice.server_shards = options.data_choice.server_shards = shards;
  const Layered blocks = section.section("most_blocks");
  for (const BlockLimitField& field : block_limit_fields)
    options.most_blocks.*field.member = blocks.int_or(field.name, 0, {0, most_nccl_blocks});
}

Trouble read_trouble(const Layered& section, SimulationOptions& options) {
  Trouble trouble;
  if (const ObjectReader* holder = section.holder("stragglers")) {
    for (const ValueReader& entry : holder->list("stragglers")) {
      const ObjectReader item = entry.object();
      const ValueReader rank = item.at("rank");
      Straggler straggler{.rank = RankId{static_cast<std::uint32_t>(rank.integer({0, 1 << 24}))},
                          .factor = item.real("factor", {0.01, 1e4})};
      options.stragglers.push_back(straggler);
      trouble.straggler_ranks.push_back(rank);
    }
  }
  if (const ObjectReader* holder = section.holder("faults")) {
    for (const ValueReader& entry : holder->list("faults")) {
      const ObjectReader item = entry.object();
      const ValueReader where = item.at("where");
      // Below a millionth a link is dead for any purpose, and times would leave the clock's range.
      const double factor = item.real("factor", {0, 1});
      if (factor > 0 && factor < 1e-6)
        item.problem("factor", "factor is below a millionth; allowed: 0 (dead), or 1e-6 to 1");
      trouble.faults.push_back({.where = where.text(), .factor = factor});
      trouble.fault_places.push_back(where);
    }
  }
  return trouble;
}

// Message by message, collectives have no time of their own to multiply.
void read_time_factors(const Layered& section, SimulationOptions& options) {
  const Layered factors = section.section("time_factors");
  for (const TimeFactorField& field : time_factor_fields)
    options.factors.*field.member =
        factors.real_or(field.name, 1, {least_time_factor, most_time_factor});
  const bool of_collectives = options.factors.tensor != 1 || options.factors.data != 1;
  if (options.collectives == CollectiveModel::stepwise && of_collectives)
    section.problem("time_factors",
                    "tensor and data are factors of fluid collectives: set collectives: fluid, or "
                    "leave them at 1");
}

// Parts of layers, each once.
void read_graph_scope(const Layered& section, SimulationOptions& options) {
  const ObjectReader* holder = section.holder("graph_scope");
  if (!holder) return;
  for (const ValueReader& entry : holder->list("graph_scope")) {
    const std::string text = entry.text();
    const std::optional<GraphModule> named = from_word<GraphModule>(text);
    if (!named)
      entry.problem(
          fmt::format("'{}' is no part of a layer; allowed: attn, mlp, moe, moe_router, "
                      "moe_preprocess, mamba",
                      text.substr(0, 80)));
    const GraphModule module = named.value_or(GraphModule::attn);
    if (named && std::ranges::find(options.graph_scope, module) != options.graph_scope.end())
      entry.problem(fmt::format("{} is named twice", word(module)));
    options.graph_scope.push_back(module);
  }
  if (!options.graphs && !options.graph_scope.empty())
    section.problem("graph_scope", "graph_scope goes with graphs: true");
}

}  // namespace

Trouble read_simulation(const Layered& section, SimulationOptions& options) {
  read_collectives(section, options);
  read_time_factors(section, options);
  options.fold = section.boolean_or("fold", true);
  options.graphs = section.boolean_or("graphs", false);
  read_graph_scope(section, options);
  options.device_spread = section.real_or("device_spread", published_device_spread, {0, 1});
  options.jitter = section.real_or("jitter", 0, {0, 2});
  options.seed = static_cast<std::uint64_t>(
      section.integer_or("seed", 1, {0, std::numeric_limits<std::int64_t>::max()}));
  return read_trouble(section, options);
}

void apply_trouble(const Trouble& trouble, const SimulationOptions& options, int gpus,
                   Cluster& cluster) {
  std::set<std::uint32_t> named;
  for (std::size_t i = 0; i < options.stragglers.size(); ++i) {
    const std::uint32_t rank = options.stragglers[i].rank.value;
    if (static_cast<int>(rank) >= gpus)
      trouble.straggler_ranks[i].problem(
          fmt::format("there is no rank {}: ranks are 0 to {}", rank, gpus - 1));
    else if (!named.insert(rank).second)
      trouble.straggler_ranks[i].problem(
          fmt::format("rank {} is named twice; give it one factor", rank));
  }
  for (std::size_t i = 0; i < trouble.faults.size(); ++i) {
    try {
      cluster.apply(trouble.faults[i]);
    } catch (const std::invalid_argument& error) {
      trouble.fault_places[i].problem(error.what());
    }
  }
}

}  // namespace sim
