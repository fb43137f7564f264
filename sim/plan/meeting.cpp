#include "sim/plan/meeting.hpp"

#include <algorithm>

#include "sim/program/unroll.hpp"

namespace sim {
namespace {

// Fragments meet at even distances.
std::optional<int> fragment_at(const Layout& layout, std::int64_t step) {
  const std::int64_t in_round = step % layout.local_steps;
  for (int fragment = 0; fragment < layout.outer_fragments; ++fragment)
    if (in_round == std::int64_t{fragment} * layout.local_steps / layout.outer_fragments)
      return fragment;
  return std::nullopt;
}

}  // namespace

std::optional<int> meeting_that_begins(const Layout& layout, std::int64_t step) {
  if (!layout.trains_apart()) return std::nullopt;
  if (layout.outer_overlap == 0) return fragment_at(layout, step + 1);
  return step > 0 ? fragment_at(layout, step) : std::nullopt;
}

std::optional<int> meeting_that_ends(const Layout& layout, std::int64_t step) {
  if (layout.outer_overlap == 0) return meeting_that_begins(layout, step);
  const std::int64_t begun = step - layout.outer_overlap + 1;
  return begun > 0 ? meeting_that_begins(layout, begun) : std::nullopt;
}

bool runs_in_step(const Program& program, OpId op, std::optional<int> begins,
                  std::optional<int> ends) {
  const Action action = program.action[op.value];
  if (!is_of_meeting(action)) return true;
  const bool is_end = action == Action::apply_outer || action == Action::outer_from_host ||
                      action == Action::outer_to_host;
  const std::optional<int>& meeting = is_end ? ends : begins;
  return meeting == program.parameter_buckets[program.subject[op.value]].fragment;
}

int steps_of_meeting(const Layout& layout) {
  return std::max(1, layout.outer_overlap);
}

Plan plan_of_steps(const Plan& plan, int steps, std::optional<int> fragment) {
  Plan made = plan;
  for (Program& program : made.programs) {
    std::vector<std::vector<bool>> runs;
    for (int step = 0; step < steps; ++step) {
      const std::optional<int> begins = step == 0 ? fragment : std::nullopt;
      const std::optional<int> ends = step + 1 == steps ? fragment : std::nullopt;
      std::vector<bool>& keeps = runs.emplace_back(program.size());
      for (std::uint32_t op = 0; op < program.size(); ++op)
        keeps[op] = runs_in_step(program, OpId{op}, begins, ends);
    }
    program = unroll(program, runs);
  }
  return made;
}

}  // namespace sim
