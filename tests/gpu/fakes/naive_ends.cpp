// As naive_kernels.cpp: tables, loss, and the end of the step.
#include <cmath>

#include "real/cuda/kernels/kernels.hpp"
#include "real/host/kernels_embedding.hpp"
#include "real/host/kernels_loss.hpp"
#include "real/host/kernels_optimizer.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/gpu/fakes/naive_kernels.hpp"

namespace real::kernels {

using fakes::enqueue_call;
using fakes::put;
using fakes::put_gradient;
using fakes::take;
using sim::DType;

namespace {

TableSlice of(const TableShape& shape) {
  return {.first = shape.first_row, .rows = shape.rows, .width = shape.width};
}
PositionShape of(const TableShape& shape, const Positions& positions) {
  return {.first_token = positions.first_token,
          .tokens = positions.tokens,
          .sequence = positions.sequence,
          .width = shape.width};
}
ClassSlice of(const LossShape& shape) {
  return {.first = shape.first, .width = shape.classes, .classes = shape.first + shape.valid};
}
std::vector<std::int32_t> of(const TokenIds& tokens) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens.tokens; ++t) {
    ids.push_back(tokens.ids[t / tokens.sequence * tokens.stride + t % tokens.sequence]);
  }
  return ids;
}

}  // namespace

void embedding_forward(const TableShape& shape, const TokenIds& tokens, const void* table,
                       void* output, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto rows = take(shape.dtype, table, shape.rows * shape.width);
    std::vector<float> out(static_cast<std::size_t>(tokens.tokens * shape.width));
    lookup(of(shape), of(tokens), rows, out);
    put(shape.dtype, output, out);
  });
}
void embedding_backward(const TableShape& shape, const TokenIds& tokens,
                        const TableGradient& operands, Workspace, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto dout = take(shape.dtype, operands.gradient, tokens.tokens * shape.width);
    std::vector<float> table(static_cast<std::size_t>(shape.rows * shape.width));
    lookup_backward(of(shape), of(tokens), dout, table, false);
    put_gradient(operands.gradient_dtype, operands.accumulate, operands.table_gradient, table);
  });
}
std::int64_t embedding_backward_workspace(std::int64_t) {
  return 0;
}

void add_table_forward(const TableShape& shape, const Positions& positions, const void* table,
                       const void* input, void* output, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto rows = take(shape.dtype, table, shape.rows * shape.width);
    const auto x = take(shape.dtype, input, positions.tokens * shape.width);
    std::vector<float> out(x.size());
    add_positions(of(shape, positions), x, rows, out);
    put(shape.dtype, output, out);
  });
}
void add_table_backward(const TableShape& shape, const Positions& positions,
                        const TableGradient& operands, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto dout = take(shape.dtype, operands.gradient, positions.tokens * shape.width);
    std::vector<float> table(static_cast<std::size_t>(shape.rows * shape.width));
    add_positions_backward(of(shape, positions), dout, table, false);
    put_gradient(operands.gradient_dtype, operands.accumulate, operands.table_gradient, table);
  });
}

void loss_maximum(const LossShape& shape, std::int64_t tokens, const void* logits, float* maximum,
                  StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto x = take(shape.dtype, logits, tokens * shape.classes);
    std::vector<float> out(static_cast<std::size_t>(tokens));
    real::loss_maximum(of(shape), x, out);
    put(DType::fp32, maximum, out);
  });
}
void loss_exponentials(const LossShape& shape, const TokenIds& targets,
                       const LossExponentials& operands, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto x = take(shape.dtype, operands.logits, targets.tokens * shape.classes);
    auto maximum = std::vector<float>(static_cast<std::size_t>(targets.tokens));
    if (operands.maximum != nullptr) {
      maximum = take(DType::fp32, operands.maximum, targets.tokens);
    } else {
      real::loss_maximum(of(shape), x, maximum);
    }
    std::vector<float> exponentials(x.size());
    std::vector<float> target(maximum.size());
    std::vector<float> sum(maximum.size());
    real::loss_exponentials(of(shape), x, of(targets), maximum, exponentials, target, sum);
    if (operands.exponentials != nullptr) put(DType::fp32, operands.exponentials, exponentials);
    put(DType::fp32, operands.target_logit, target);
    put(DType::fp32, operands.exponential_sum, sum);
  });
}
void loss_finish(const LossShape&, std::int64_t tokens, const LossFinish& operands,
                 StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto target = take(DType::fp32, operands.target_logit, tokens);
    const auto sum = take(DType::fp32, operands.exponential_sum, tokens);
    *operands.loss += operands.weight * loss_of(target, sum);
  });
}
void loss_gradient(const LossShape& shape, const TokenIds& targets, const LossGradient& operands,
                   StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto saved = take(DType::fp32, operands.saved, targets.tokens * shape.classes);
    const auto sum = take(DType::fp32, operands.exponential_sum, targets.tokens);
    std::vector<float> gradient(saved.size());
    real::loss_gradient(of(shape), saved, sum, of(targets), operands.scale, gradient);
    put(shape.dtype, operands.logit_gradient, gradient);
  });
}

void square_sum(const SquareSum& how, std::int64_t elements, const void* values, float* sum,
                Workspace, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto squares =
        static_cast<float>(sum_of_squares(take(how.dtype, values, elements))) * how.weight;
    *sum = how.accumulate ? *sum + squares : squares;
  });
}
std::int64_t square_sum_workspace() {
  return 0;
}
void require_finite(const double* value, float* sum, StreamHandle stream) {
  enqueue_call(stream, [=] {
    if (!std::isfinite(*value)) *sum = NAN;
  });
}
void finish_norm(const float* sum, float clip, float* norm, float* scale, StreamHandle stream) {
  enqueue_call(stream, [=] {
    *norm = std::sqrt(*sum);
    *scale =
        std::isfinite(*norm)
            ? static_cast<float>(clip_scale(static_cast<double>(*norm), static_cast<double>(clip)))
            : 1.0F;
  });
}

void adam(const Adam& settings, const AdamState& state, std::int64_t elements,
          const DecayRanges& decay_ranges, StreamHandle stream) {
  enqueue_call(stream, [=] {
    if (state.gate != nullptr && !std::isfinite(*state.gate)) return;
    auto weight = take(state.weight_dtype, state.weight, elements);
    const auto gradient = take(state.gradient_dtype, state.gradient, elements);
    const AdamStep step = *state.step;
    const auto rate = static_cast<float>(step.rate);
    const float clip = state.clip_scale != nullptr ? *state.clip_scale : 1.0F;
    std::vector<bool> decays(weight.size());
    for (std::int64_t r = 0; r < decay_ranges.count; ++r) {
      const Range& range = decay_ranges.ranges[r];
      for (std::int64_t i = 0; i < range.elements; ++i) {
        decays[static_cast<std::size_t>(range.at + i)] = true;
      }
    }
    const auto beta1 = static_cast<float>(settings.beta1);
    const auto beta2 = static_cast<float>(settings.beta2);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      float w = state.master != nullptr ? state.master[i] : weight[i];
      const float g = gradient[i] * clip;
      if (decays[i]) w -= rate * static_cast<float>(settings.decay) * w;
      float& m = state.m[i];
      float& v = state.v[i];
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      const double mean = static_cast<double>(m) / step.correction1;
      const double root = std::sqrt(static_cast<double>(v) / step.correction2);
      w -= static_cast<float>(step.rate * mean / (root + settings.epsilon));
      if (state.master != nullptr) state.master[i] = w;
      weight[i] = w;
    }
    put(state.weight_dtype, state.weight, weight);
  });
}

void find_not_finite(DType dtype, std::int64_t elements, const void* values, std::int32_t index,
                     std::int32_t* first, StreamHandle stream) {
  enqueue_call(stream, [=] {
    for (const float value : take(dtype, values, elements)) {
      if (!std::isfinite(value) && index < *first) *first = index;
    }
  });
}

}  // namespace real::kernels
