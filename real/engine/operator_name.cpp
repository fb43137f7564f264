#include "real/engine/operator_name.hpp"

#include <fmt/format.h>

namespace real {

std::string operator_name(const sim::Plan& plan, int rank, std::int64_t op) {
  if (rank < 0 || rank >= plan.world_size()) return fmt::format("operator {}", op);
  const sim::Program& program = plan.program(sim::RankId{static_cast<std::uint32_t>(rank)});
  if (op < 0 || op >= static_cast<std::int64_t>(program.size()))
    return fmt::format("operator {}", op);
  const sim::OpId id{static_cast<std::uint32_t>(op)};
  const sim::OpLabel& label = program.label[id.value];
  std::string text = fmt::format("{} of ", sim::word(program.pass[id.value]));
  if (label.layer >= 0) text += fmt::format("layers.{}.", label.layer);
  text += program.name(id);
  if (label.microbatch >= 0) text += fmt::format(", micro-batch {}", label.microbatch);
  return text;
}

}  // namespace real
