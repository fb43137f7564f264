// Mixtures of experts.
#include "real/host/kernels/host_kernels.hpp"
#include "real/host/kernels/kernels_elementwise.hpp"
#include "real/host/kernels/kernels_experts.hpp"

namespace real::host {

using kernels::StreamHandle;
using sim::DType;

namespace {

std::int64_t scores(const kernels::ChoiceShape& shape) {
  return shape.routing.tokens * shape.routing.experts;
}

WeighedActivation of(const kernels::WeighedShape& shape) {
  return {.function = shape.function, .width = shape.width, .arrived = shape.arrived};
}

std::int64_t inputs(const kernels::WeighedShape& shape) {
  return shape.arrived.rows * shape.width * (is_gated(shape.function) ? 2 : 1);
}

}  // namespace

void choose(const kernels::ChoiceShape& shape, const void* scores_of, float* probabilities,
            float* weights, StreamHandle) {
  real::choose(shape.routing, In{shape.dtype, scores_of, scores(shape)},
               Out{DType::fp32, probabilities, scores(shape)},
               Out{DType::fp32, weights, shape.routing.copies()});
}

void choose_backward(const kernels::ChoiceShape& shape, const float* probabilities,
                     const float* weight_gradients, void* score_gradients, StreamHandle) {
  real::choose_backward(shape.routing, In{DType::fp32, probabilities, scores(shape)},
                        In{DType::fp32, weight_gradients, shape.routing.copies()},
                        Out{shape.dtype, score_gradients, scores(shape)});
}

void copy_tokens(const kernels::CopyShape& shape, const void* tokens, void* copies, StreamHandle) {
  real::copy_tokens(shape.routing, In{shape.dtype, tokens, shape.routing.tokens * shape.width},
                    Out{shape.dtype, copies, shape.routing.copies() * shape.width});
}

void sum_copies(const kernels::CopyShape& shape, const void* copies, void* tokens, StreamHandle) {
  real::sum_copies(shape.routing, In{shape.dtype, copies, shape.routing.copies() * shape.width},
                   Out{shape.dtype, tokens, shape.routing.tokens * shape.width});
}

void sort_copies(const kernels::SortShape& shape, const void* came, void* sorted, StreamHandle) {
  const std::int64_t elements = shape.arrived.rows * shape.width;
  real::sort_copies(shape.arrived, In{shape.dtype, came, elements},
                    Out{shape.dtype, sorted, elements});
}

void restore_order(const kernels::SortShape& shape, const void* sorted, void* came, StreamHandle) {
  const std::int64_t elements = shape.arrived.rows * shape.width;
  real::restore_order(shape.arrived, In{shape.dtype, sorted, elements},
                      Out{shape.dtype, came, elements});
}

void weighed_forward(const kernels::WeighedShape& shape, const void* input, const float* weights,
                     void* output, StreamHandle) {
  real::weighed_forward(of(shape), In{shape.dtype, input, inputs(shape)},
                        In{DType::fp32, weights, shape.arrived.rows},
                        Out{shape.dtype, output, shape.arrived.rows * shape.width});
}

void weighed_backward(const kernels::WeighedShape& shape, const kernels::WeighedBackward& operands,
                      StreamHandle) {
  const In x{shape.dtype, operands.saved, inputs(shape)};
  const In weights{DType::fp32, operands.weights, shape.arrived.rows};
  const In dy{shape.dtype, operands.gradient, shape.arrived.rows * shape.width};
  const Out dx{shape.dtype, operands.input_gradient, inputs(shape)};
  const Out dw{DType::fp32, operands.weight_gradients, shape.arrived.rows};
  real::weighed_backward(
      of(shape), {.x_or_y = x, .weights = weights, .dy = dy, .dx = dx, .weight_gradients = dw});
}

}  // namespace real::host
