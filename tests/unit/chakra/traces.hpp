// Small execution traces for tests.
#pragma once

#include "sim/chakra/run.hpp"

namespace sim::test {

inline EtNode et_compute(std::uint64_t id, std::uint64_t micros,
                         std::vector<std::uint64_t> after = {}) {
  EtNode node{.id = id, .name = "kernel", .type = EtType::compute};
  node.duration_micros = micros;
  node.dependencies = std::move(after);
  return node;
}

inline EtNode et_collective(std::uint64_t id, EtCollective kind, std::uint64_t bytes,
                            std::vector<std::uint64_t> after = {}, std::string group = {}) {
  EtNode node{.id = id, .name = "collective", .type = EtType::collective};
  node.collective = kind;
  node.comm_bytes = bytes;
  node.dependencies = std::move(after);
  node.group = std::move(group);
  return node;
}

inline EtNode et_message(std::uint64_t id, EtType type, std::uint32_t from, std::uint32_t to,
                         std::uint64_t bytes = 1000, std::vector<std::uint64_t> after = {}) {
  EtNode node{.id = id, .name = "message", .type = type};
  node.source = from;
  node.destination = to;
  node.comm_bytes = bytes;
  node.dependencies = std::move(after);
  return node;
}

inline EtRun et_run(std::vector<std::vector<EtNode>> ranks) {
  EtRun run{.name = "job"};
  for (auto& nodes : ranks)
    run.ranks.push_back({.path = "job." + std::to_string(run.ranks.size()) + ".et",
                         .version = "0.0.4",
                         .nodes = std::move(nodes)});
  return run;
}

}  // namespace sim::test
