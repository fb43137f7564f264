// The interface of the CUDA kernels, played by those of the host backend: mixtures of experts.
#include "real/cuda/kernels/kernels.hpp"
#include "real/host/kernels_elementwise.hpp"
#include "real/host/kernels_experts.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/gpu/fakes/naive_kernels.hpp"

namespace real::kernels {

using fakes::enqueue_call;
using fakes::put;
using fakes::take;
using sim::DType;

namespace {

std::vector<float> floats(std::int64_t elements) {
  return std::vector<float>(static_cast<std::size_t>(elements));
}

WeighedActivation of(const WeighedShape& shape) {
  return {.function = shape.function, .width = shape.width, .arrived = shape.arrived};
}

// A kernel of the host that makes `made` elements of `taken`.
template <class Kernel>
void move_rows(DType dtype, const void* from, std::int64_t taken, void* to, std::int64_t made,
               StreamHandle stream, Kernel kernel) {
  enqueue_call(stream, [=] {
    const auto x = take(dtype, from, taken);
    std::vector<float> y = floats(made);
    kernel(x, y);
    put(dtype, to, y);
  });
}

}  // namespace

void choose(const ChoiceShape& shape, const void* scores, float* probabilities, float* weights,
            StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto x = take(shape.dtype, scores, shape.routing.tokens * shape.routing.experts);
    std::vector<float> all(x.size());
    std::vector<float> chosen = floats(shape.routing.copies());
    real::choose(shape.routing, x, all, chosen);
    put(DType::fp32, probabilities, all);
    put(DType::fp32, weights, chosen);
  });
}

void choose_backward(const ChoiceShape& shape, const float* probabilities,
                     const float* weight_gradients, void* score_gradients, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const auto all = take(DType::fp32, probabilities, shape.routing.tokens * shape.routing.experts);
    const auto dweights = take(DType::fp32, weight_gradients, shape.routing.copies());
    std::vector<float> dscores(all.size());
    real::choose_backward(shape.routing, all, dweights, dscores);
    put(shape.dtype, score_gradients, dscores);
  });
}

void copy_tokens(const CopyShape& shape, const void* tokens, void* copies, StreamHandle stream) {
  move_rows(shape.dtype, tokens, shape.routing.tokens * shape.width, copies,
            shape.routing.copies() * shape.width, stream,
            [=](const auto& x, auto& y) { real::copy_tokens(shape.routing, x, y); });
}

void sum_copies(const CopyShape& shape, const void* copies, void* tokens, StreamHandle stream) {
  move_rows(shape.dtype, copies, shape.routing.copies() * shape.width, tokens,
            shape.routing.tokens * shape.width, stream,
            [=](const auto& x, auto& y) { real::sum_copies(shape.routing, x, y); });
}

void sort_copies(const SortShape& shape, const void* came, void* sorted, StreamHandle stream) {
  const std::int64_t elements = shape.arrived.rows * shape.width;
  move_rows(shape.dtype, came, elements, sorted, elements, stream,
            [=](const auto& x, auto& y) { real::sort_copies(shape.arrived, x, y); });
}

void restore_order(const SortShape& shape, const void* sorted, void* came, StreamHandle stream) {
  const std::int64_t elements = shape.arrived.rows * shape.width;
  move_rows(shape.dtype, sorted, elements, came, elements, stream,
            [=](const auto& x, auto& y) { real::restore_order(shape.arrived, x, y); });
}

void weighed_forward(const WeighedShape& shape, const void* input, const float* weights,
                     void* output, StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t outputs = shape.arrived.rows * shape.width;
    const auto x = take(shape.dtype, input, outputs * (is_gated(shape.function) ? 2 : 1));
    const auto w = take(DType::fp32, weights, shape.arrived.rows);
    std::vector<float> y = floats(outputs);
    real::weighed_forward(of(shape), x, w, y);
    put(shape.dtype, output, y);
  });
}

void weighed_backward(const WeighedShape& shape, const WeighedBackward& operands,
                      StreamHandle stream) {
  enqueue_call(stream, [=] {
    const std::int64_t outputs = shape.arrived.rows * shape.width;
    const auto x = take(shape.dtype, operands.saved, outputs * (is_gated(shape.function) ? 2 : 1));
    const auto w = take(DType::fp32, operands.weights, shape.arrived.rows);
    const auto dy = take(shape.dtype, operands.gradient, outputs);
    std::vector<float> dx(x.size());
    std::vector<float> dw(w.size());
    real::weighed_backward(of(shape),
                           {.x_or_y = x, .weights = w, .dy = dy, .dx = dx, .weight_gradients = dw});
    put(shape.dtype, operands.input_gradient, dx);
    put(DType::fp32, operands.weight_gradients, dw);
  });
}

}  // namespace real::kernels
