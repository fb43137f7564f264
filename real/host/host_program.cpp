#include "real/host/host_program.hpp"

#include <cstring>
#include <limits>

#include "real/engine/operator_facts.hpp"
#include "real/host/kernels/kernels_compression.hpp"
#include "real/host/kernels/kernels_context.hpp"
#include "real/host/kernels/kernels_dropout.hpp"
#include "real/host/kernels/kernels_lamb.hpp"
#include "real/host/kernels/kernels_latent.hpp"
#include "real/host/kernels/kernels_local_steps.hpp"
#include "real/host/kernels/kernels_routed.hpp"
#include "real/host/kernels/kernels_shared_heads.hpp"
#include "sim/base/check.hpp"

namespace real {

HostProgram::HostProgram(const BoundProgram& program, const sim::Training& training,
                         RoutingTables* routing)
    : program_{program},
      training_{training},
      arena_{program.arena_bytes},
      host_{program.host_bytes, program.host_on_disk ? ArenaPlace::disk : ArenaPlace::memory},
      layout_{scratch_layout(program, host_kernels(), host_attentions(), 0)},
      scratch_{layout_.bytes},
      memory_{step_memory(layout_, program, scratch_.bytes(0, layout_.bytes).data())} {
  for (std::size_t i = 0; i < program.buckets.size(); ++i) {
    const std::vector<kernels::Range> ranges = decay_ranges(program.buckets[i]);
    const auto to = scratch_.bytes(layout_.decay[i], layout_.bytes - layout_.decay[i]);
    if (!ranges.empty())
      std::memcpy(to.data(), ranges.data(), ranges.size() * sizeof(kernels::Range));
  }
  reset_scales(memory_.coded, host_kernels(), nullptr);
  KernelLaunches launches{{.program = program,
                           .training = training,
                           .arena = arena_.bytes(0, arena_.size()).data(),
                           .host = host_.bytes(0, host_.size()).data(),
                           .memory = memory_,
                           .kernels = host_kernels(),
                           .attentions = host_attentions(),
                           .products = products_,
                           .compression = &host_compression(),
                           .outer = &host::host_local_steps(),
                           .dropout = &host_dropout(),
                           .lamb = &host::host_lamb(),
                           .latent = &host::host_latent(),
                           .context = &host::host_context(),
                           .shared_heads = &host::host_shared_heads(),
                           .turns = &turns_,
                           .routing = routing,
                           .routed = &host::host_routed()}};
  for (const BoundOp& op : program.ops) {
    const auto index = static_cast<std::int32_t>(launches_.size());
    launches_.push_back(sim::runs_by_itself(op.kind) ? launches.launch_of(op) : kernels::Launch{});
    // Operators of experts write only the beginning of a buffer: numbers that are not finite show
    // behind them.
    const bool partly = routing != nullptr && is_of_experts(op);
    scans_.push_back(partly ? [](kernels::StreamHandle) {} : launches.scan_of(op, index));
  }
}

void HostProgram::begin_step(const StepInput& input) {
  const std::int64_t bytes = layout_.upload_bytes - (layout_.ids - layout_.upload);
  SIM_CHECK(static_cast<std::int64_t>(input.tokens.size_bytes()) == bytes, input.tokens.size(),
            bytes);
  std::memcpy(memory_.ids, input.tokens.data(), input.tokens.size_bytes());
  take_turn(input.step);
  *memory_.adam = adam_step(training_, input.step);
  *memory_.loss = 0;
  *memory_.square_sum = 0;
  *memory_.first_not_finite = std::numeric_limits<std::int32_t>::max();
}

// If a step runs again, nothing waits: its first run has updated with it. Behind the last step of a
// delay, and in the first one, there are no new weights.
void HostProgram::take_turn(std::int64_t step) {
  const sim::Layout& layout = program_.plan->layout;
  const bool again = step == last_step_;
  const bool waited = turns_.delays && step == last_step_ + 1;
  turns_.adam = adam_step(training_, step - 1);
  turns_.pending = layout.offload_delay && waited;
  turns_.delays = layout.offload_delay && step >= layout.offload_delay_after;
  turns_.has_weights = turns_.pending || !turns_.delays || (again && turns_.has_weights);
  last_step_ = step;
}

}  // namespace real
