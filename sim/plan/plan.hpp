// The Plan: a program per rank, and who communicates with whom. It knows nothing of time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/layout/batch_loads.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/program/program.hpp"

namespace sim {

// A communicator: its ranks in communicator order.
struct Group {
  GroupRole role = GroupRole::tensor;
  std::vector<RankId> ranks;
};

struct RankCoordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;
  int context = 0;
};

struct Plan {
  Layout layout;
  std::vector<Program> programs;               // distinct programs
  std::vector<std::uint32_t> program_of_rank;  // index into `programs`
  std::vector<Group> groups;
  // group_of[rank][role]: index into `groups`, or no_group.
  std::vector<std::array<std::uint32_t, group_role_count>> group_of;
  std::vector<std::array<RankId, 2>> peer_of;  // [rank][Peer]; the rank itself without pipeline

  Flops model_flops{};          // of one step over all ranks, without recomputation
  Flops hardware_flops{};       // executed: with recomputation
  std::int64_t tokens = 0;      // of one step (samples for layer lists)
  std::int64_t parameters = 0;  // of the model
  // The loads of a data set's sequences that `programs` stand for. Where micro-batches are padded
  // to different lengths, memory is that of `longest`, whose micro-batches all are the longest;
  // empty: that of `programs`.
  std::optional<BatchLoads> loads;
  std::vector<Program> longest;
  const std::vector<Program>& memory_programs() const {
    return longest.empty() ? programs : longest;
  }
  bool caching_allocator = false;  // memory is taken as caching_allocator.hpp says
  Bytes workspaces{};              // Execution::workspaces

  static constexpr std::uint32_t no_group = UINT32_MAX;
  int world_size() const { return static_cast<int>(program_of_rank.size()); }
  const Program& program(RankId rank) const { return programs[program_of_rank[rank.value]]; }
};

// Whether the ranks of each tensor group lie on one node of so many GPUs.
bool tensor_within_nodes(const Layout& layout, int gpus_per_node);

// rank <-> coordinates for the placement order of the layout (first dimension fastest).
RankCoordinates coordinates_of(const Layout& layout, RankId rank);
RankId rank_of(const Layout& layout, RankCoordinates at);
// Rank i of a stage, tensor ranks next to each other, then those of one sequence.
RankCoordinates rank_of_stage(const Layout& layout, int pipeline, int i);

// LayoutProblem is an error of the layout for this model: one sentence, and the key of the scenario
// ("tensor_parallel"). The sentence names the allowed values.
struct LayoutProblem {
  std::string key;
  std::string what;
};
std::vector<LayoutProblem> layout_problems(const Layout& layout, const Model& model);

// REQUIRES: layout_problems() is empty.
Plan make_plan(const Model& model, const Layout& layout);

// The same in two parts: the first has the program of one stage alone, which says what that needs
// of memory. REQUIRES: no Layout::has_lengths().
Plan plan_of_stage(const Model& model, const Layout& layout, int stage);
void plan_other_stages(Plan& plan, const Model& model);

// Puts the ranks of a plan into the order of `layout`: as if it had been planned so.
// REQUIRES: the two layouts differ in nothing but their placement.
void place_ranks(Plan& plan, const Model& model, const Layout& layout);

}  // namespace sim
