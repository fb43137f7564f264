#include "sim/plan/tape/tape_work.hpp"

namespace sim::lowering {

TapeWork interned(ProgramBuilder& builder, const Tape& tape, const std::string& op) {
  TapeWork work;
  work.steps.reserve(tape.steps.size());
  for (const TapeStep& step : tape.steps) {
    TapeWork::Step& to = work.steps.emplace_back();
    if (!step.has_work()) continue;
    to.name = builder.name(op + step.suffix);
    const auto* kernel = std::get_if<Kernel>(&step.work);
    to.work = kernel != nullptr ? builder.kernel(*kernel)
                                : builder.collective(std::get<Collective>(step.work));
  }
  return work;
}

}  // namespace sim::lowering
