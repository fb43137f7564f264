// Tables, loss, and the end of the step.
#include <cmath>
#include <limits>

#include "real/host/kernels/host_kernels.hpp"
#include "real/host/kernels/kernels_elementwise.hpp"
#include "real/host/kernels/kernels_embedding.hpp"
#include "real/host/kernels/kernels_loss.hpp"
#include "real/host/kernels/kernels_optimizer.hpp"

namespace real::host {

using kernels::StreamHandle;
using kernels::Workspace;
using sim::DType;

namespace {

TableSlice of(const kernels::TableShape& shape) {
  return {.first = shape.first_row, .rows = shape.rows, .width = shape.width};
}
PositionShape of(const kernels::TableShape& shape, const kernels::Positions& positions) {
  return {.positions = positions, .width = shape.width};
}
ClassSlice of(const kernels::LossShape& shape) {
  return {.first = shape.first, .width = shape.classes, .classes = shape.first + shape.valid};
}

}  // namespace

void embedding_forward(const kernels::TableShape& shape, const kernels::TokenIds& tokens,
                       const void* table, void* output, StreamHandle) {
  lookup(of(shape), tokens, In{shape.dtype, table, shape.rows * shape.width},
         Out{shape.dtype, output, tokens.tokens * shape.width});
}
void embedding_backward(const kernels::TableShape& shape, const kernels::TokenIds& tokens,
                        const kernels::TableGradient& operands, Workspace, StreamHandle) {
  lookup_backward(of(shape), tokens,
                  In{shape.dtype, operands.gradient, tokens.tokens * shape.width},
                  Out{operands.gradient_dtype, operands.table_gradient, shape.rows * shape.width},
                  operands.accumulate);
}
std::int64_t embedding_backward_workspace(std::int64_t) {
  return 0;
}

void add_table_forward(const kernels::TableShape& shape, const kernels::Positions& positions,
                       const void* table, const void* input, void* output, StreamHandle) {
  const std::int64_t elements = positions.tokens * shape.width;
  add_positions(of(shape, positions), In{shape.dtype, input, elements},
                In{shape.dtype, table, shape.rows * shape.width},
                Out{shape.dtype, output, elements});
}
void add_table_backward(const kernels::TableShape& shape, const kernels::Positions& positions,
                        const kernels::TableGradient& operands, StreamHandle) {
  add_positions_backward(
      of(shape, positions), In{shape.dtype, operands.gradient, positions.tokens * shape.width},
      Out{operands.gradient_dtype, operands.table_gradient, shape.rows * shape.width},
      operands.accumulate);
}

void loss_maximum(const kernels::LossShape& shape, std::int64_t tokens, const void* logits,
                  float* maximum, StreamHandle) {
  real::loss_maximum(of(shape), In{shape.dtype, logits, tokens * shape.classes},
                     Out{DType::fp32, maximum, tokens});
}
void loss_exponentials(const kernels::LossShape& shape, const kernels::TokenIds& targets,
                       const kernels::LossExponentials& operands, StreamHandle) {
  const In logits{shape.dtype, operands.logits, targets.tokens * shape.classes};
  const In maximum{DType::fp32, operands.maximum, targets.tokens};
  real::loss_exponentials(of(shape), logits, targets, maximum,
                          Out{DType::fp32, operands.exponentials, targets.tokens * shape.classes},
                          Out{DType::fp32, operands.target_logit, targets.tokens},
                          Out{DType::fp32, operands.exponential_sum, targets.tokens});
}
void loss_finish(const kernels::LossShape&, std::int64_t tokens,
                 const kernels::LossFinish& operands, StreamHandle) {
  SIM_CHECK(operands.exponentials == nullptr);
  *operands.loss += loss_of(In{DType::fp32, operands.target_logit, tokens},
                            In{DType::fp32, operands.exponential_sum, tokens}) /
                    operands.parts;
}
void loss_gradient(const kernels::LossShape& shape, const kernels::TokenIds& targets,
                   const kernels::LossGradient& operands, StreamHandle) {
  const std::int64_t elements = targets.tokens * shape.classes;
  const In sums{DType::fp32, operands.exponential_sum, targets.tokens};
  Out gradient{shape.dtype, operands.logit_gradient, elements};
  if (operands.saved != nullptr)
    return real::loss_gradient(of(shape), In{DType::fp32, operands.saved, elements}, sums, targets,
                               operands.scale, gradient);
  const In logits{shape.dtype, operands.logits, elements};
  const In maximum{DType::fp32, operands.maximum, targets.tokens};
  const In target_logit{DType::fp32, operands.target_logit, targets.tokens};
  real::loss_gradient(of(shape), {logits, maximum, target_logit, sums}, targets, operands.scale,
                      gradient);
}

// The sum goes on in double, in the workspace, over all calls that add to it.
void square_sum(const kernels::SquareSum& how, std::int64_t elements, const void* values,
                float* sum, Workspace workspace, StreamHandle) {
  SIM_CHECK(workspace.bytes >= square_sum_workspace() && how.weight == 1, workspace.bytes);
  double& total = *static_cast<double*>(workspace.memory);
  if (!how.accumulate) total = 0;
  total += sum_of_squares(In{how.dtype, values, elements});
  *sum = static_cast<float>(total);
}
std::int64_t square_sum_workspace() {
  return sizeof(double);
}

void require_finite(const double* value, float* sum, StreamHandle) {
  if (!std::isfinite(*value)) *sum = std::numeric_limits<float>::quiet_NaN();
}

void finish_norm(const float* sum, double clip, float* norm, float* scale, StreamHandle) {
  const double exact = std::sqrt(static_cast<double>(*sum));
  *norm = static_cast<float>(exact);
  *scale = std::isfinite(exact) ? static_cast<float>(clip_scale(exact, clip)) : 1.0F;
}

void adam(const kernels::Adam& settings, const kernels::AdamState& state, std::int64_t elements,
          const kernels::DecayRanges& decay, StreamHandle) {
  if (state.gate != nullptr && !std::isfinite(*state.gate)) return;
  real::AdamStep step{.learning_rate = state.step->rate,
                      .beta1 = settings.beta1,
                      .beta2 = settings.beta2,
                      .epsilon = settings.epsilon,
                      .weight_decay = 0,
                      .gradient_scale = state.clip_scale != nullptr ? *state.clip_scale : 1.0F,
                      .correction1 = state.step->correction1,
                      .correction2 = state.step->correction2};
  const Out weight{state.weight_dtype, state.weight, elements};
  const In gradient{state.gradient_dtype, state.gradient, elements};
  const Out master{DType::fp32, state.master, elements};
  const Out m{state.moment_dtype, state.m, elements};
  const Out v{state.moment_dtype, state.v, elements};
  const auto update = [&](std::int64_t first, std::int64_t count, double decayed) {
    if (count == 0) return;
    const auto part = [&](auto all) {
      return all.empty()
                 ? all
                 : all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    step.weight_decay = decayed;
    adamw(step, part(std::span<const float>{gradient}), part(std::span<float>{weight}),
          part(std::span<float>{master}), part(std::span<float>{m}), part(std::span<float>{v}));
  };
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < decay.count; ++r) {
    const kernels::Range& range = decay.ranges[r];
    update(at, range.at - at, 0);
    update(range.at, range.elements, settings.decay);
    at = range.at + range.elements;
  }
  update(at, elements - at, 0);
}

void find_not_finite(DType dtype, std::int64_t elements, const void* values, std::int32_t index,
                     std::int32_t* first, StreamHandle) {
  if (index < *first && !all_finite(In{dtype, values, elements})) *first = index;
}

}  // namespace real::host
