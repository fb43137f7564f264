// Cross-entropy of each token, whole or over a slice of the vocabulary; a block per token.
//
// In slices as Megatron-LM's core/tensor_parallel/cross_entropy.py does it: the loss is log(sum of
// exponentials) - target logit, both relative to the maximum; its gradient exp / sum - [is target].
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;
constexpr std::size_t scratch_bytes = block_threads / warp_size * sizeof(float);
constexpr float lowest_float = -3.402823466e38f;

struct Slice {
  std::int64_t first, classes, valid;
};

// Column of the token's target in the slice, or -1.
__device__ __forceinline__ std::int64_t target_column(const Slice& slice, const TokenIds& targets,
                                                      std::int64_t token) {
  const std::int64_t id =
      targets.ids[token / targets.sequence * targets.stride + token % targets.sequence];
  const std::int64_t column = id - slice.first;
  return column >= 0 && column < slice.valid ? column : -1;
}

// visit(column, x) of the thread's share of a row's valid columns.
template <int count, class T, class Visit>
__device__ __forceinline__ void each_logit(const Slice& slice, const T* row, Visit visit) {
  for (std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * count; begin < slice.valid;
       begin += static_cast<std::int64_t>(blockDim.x) * count) {
    float x[count];
    load(row + begin, x);
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (begin + j < slice.valid) visit(begin + j, x[j]);
  }
}

template <int count, class T>
__device__ __forceinline__ float row_maximum(const Slice& slice, const T* row, float* scratch) {
  float maximum = lowest_float;
  each_logit<count>(slice, row, [&](std::int64_t, float x) { maximum = Maximum{}(maximum, x); });
  return combine_block(maximum, Maximum{}, scratch);
}

template <int count, class T>
__global__ void maximum_kernel(Slice slice, const T* logits, float* maximum) {
  const std::int64_t token = blockIdx.x;
  const float result =
      row_maximum<count>(slice, logits + token * slice.classes, shared_memory<float>());
  if (threadIdx.x == 0) maximum[token] = result;
}

// Sum of exp(x - maximum) over a row; keeps the exponentials where `keep` is not null, which may be
// the row itself: visit(column, x - maximum) sees each logit before.
template <int count, class T, class Visit>
__device__ __forceinline__ float row_exponentials(const Slice& slice, const T* row, float maximum,
                                                  float* keep, float* scratch, Visit visit) {
  float sum = 0;
  each_logit<count>(slice, row, [&](std::int64_t column, float x) {
    visit(column, x - maximum);
    const float e = expf(x - maximum);
    sum += e;
    if (keep != nullptr) keep[column] = e;
  });
  if (keep != nullptr) {
    for (std::int64_t i = slice.valid + threadIdx.x; i < slice.classes; i += blockDim.x)
      keep[i] = 0;
  }
  return combine_block(sum, Sum{}, scratch);
}

template <int count, class T>
__global__ void exponentials_kernel(Slice slice, TokenIds targets, LossExponentials operands) {
  const std::int64_t token = blockIdx.x;
  const T* row = static_cast<const T*>(operands.logits) + token * slice.classes;
  float* keep = operands.exponentials;
  if (keep != nullptr) keep += token * slice.classes;
  const float maximum = operands.maximum[token];
  const std::int64_t target = target_column(slice, targets, token);
  const auto note_target = [&](std::int64_t column, float x) {
    if (column == target) operands.target_logit[token] = x;
  };
  const float sum =
      row_exponentials<count>(slice, row, maximum, keep, shared_memory<float>(), note_target);
  if (threadIdx.x != 0) return;
  operands.exponential_sum[token] = sum;
  if (target < 0) operands.target_logit[token] = 0.0f;
}

// All of it, where the vocabulary is whole. A target outside it makes the loss NaN, so that it is
// seen.
template <int count, class T>
__global__ void whole_kernel(Slice slice, TokenIds targets, const T* logits, float* probabilities,
                             float* losses) {
  auto* scratch = shared_memory<float>();
  const std::int64_t token = blockIdx.x;
  const T* row = logits + token * slice.classes;
  const float maximum = row_maximum<count>(slice, row, scratch);
  const float sum =
      row_exponentials<count>(slice, row, maximum, nullptr, scratch, [](std::int64_t, float) {});
  if (threadIdx.x == 0) {
    const std::int64_t target = target_column(slice, targets, token);
    losses[token] = target >= 0 ? logf(sum) - (to_float(row[target]) - maximum) : nanf("");
  }
  if (probabilities == nullptr) return;
  const float inverse = 1.0f / sum;
  float* keep = probabilities + token * slice.classes;
  each_logit<count>(slice, row, [&](std::int64_t column, float x) {
    keep[column] = expf(x - maximum) * inverse;
  });
  for (std::int64_t i = slice.valid + threadIdx.x; i < slice.classes; i += blockDim.x)
    keep[i] = 0;
}

// One block adds the losses of all tokens: log(sum) - target, or, without sums, -target.
constexpr unsigned sum_threads = 1024;
__global__ void sum_losses_kernel(std::int64_t tokens, const float* sums, const float* targets,
                                  double weight, double* loss) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    const double target = static_cast<double>(targets[i]);
    sum += sums != nullptr ? log(static_cast<double>(sums[i])) - target : target;
  }
  sum = combine_block(sum, Sum{}, shared_memory<double>());
  if (threadIdx.x == 0) *loss += weight * sum;
}

__global__ void divide_kernel(Slice slice, const float* sums, float* exponentials) {
  const std::int64_t token = blockIdx.x;
  const float inverse = 1.0f / sums[token];
  for (std::int64_t i = threadIdx.x; i < slice.valid; i += blockDim.x)
    exponentials[token * slice.classes + i] *= inverse;
}

// Blocks of a row in y; vectors of 4 fp32, where they fit.
template <int count, class T>
__global__ void gradient_kernel(Slice slice, TokenIds targets, LossGradient operands) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t target = target_column(slice, targets, token);
  const float* saved = operands.saved + token * slice.classes;
  T* to = static_cast<T*>(operands.logit_gradient) + token * slice.classes;
  const float factor = operands.exponential_sum == nullptr
                           ? operands.scale
                           : operands.scale / operands.exponential_sum[token];
  for (std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * count; begin < slice.classes;
       begin += static_cast<std::int64_t>(blockDim.x) * count) {
    float x[count];
    load(saved + begin, x);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      x[j] = begin + j < slice.valid ? x[j] * factor : 0.0f;
      if (begin + j == target) x[j] -= operands.scale;
    }
    store(x, to + begin);
  }
}

Slice slice_of(const char* name, const LossShape& shape) {
  if (shape.valid < 0 || shape.valid > shape.classes)
    refuse(name, std::to_string(shape.valid) + " of " + std::to_string(shape.classes) + " classes");
  return {shape.first, shape.classes, shape.valid};
}

Shape block_per_token(const char* name, std::int64_t tokens, StreamHandle stream) {
  return {.name = name,
          .blocks = {static_cast<unsigned>(tokens)},
          .threads = block_threads,
          .shared_bytes = scratch_bytes,
          .stream = stream};
}

void sum_losses(std::int64_t tokens, const float* sums, const float* targets, double weight,
                double* loss, StreamHandle stream) {
  launch({.name = "sum of losses",
          .blocks = {1},
          .threads = sum_threads,
          .shared_bytes = sum_threads / warp_size * sizeof(double),
          .stream = stream},
         sum_losses_kernel, tokens, sums, targets, weight, loss);
}

}  // namespace

std::int64_t cross_entropy_workspace(std::int64_t tokens) {
  return tokens * static_cast<std::int64_t>(sizeof(float));
}

void cross_entropy_forward(const LossShape& shape, const TokenIds& targets, const void* logits,
                           float* probabilities, double weight, double* loss, Workspace workspace,
                           StreamHandle stream) {
  const Slice slice = slice_of("cross_entropy_forward", shape);
  require_workspace("cross_entropy_forward", workspace, cross_entropy_workspace(targets.tokens));
  if (targets.tokens == 0) return;
  auto* losses = static_cast<float*>(workspace.memory);
  with_type("cross_entropy_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({logits}), shape.classes, [&](auto count) {
      launch(block_per_token("cross_entropy_forward", targets.tokens, stream),
             whole_kernel<decltype(count)::value, T>, slice, targets, as<T>(logits), probabilities,
             losses);
    });
  });
  sum_losses(targets.tokens, nullptr, losses, weight, loss, stream);
}

void loss_maximum(const LossShape& shape, std::int64_t tokens, const void* logits, float* maximum,
                  StreamHandle stream) {
  const Slice slice = slice_of("loss_maximum", shape);
  if (tokens == 0) return;
  with_type("loss_maximum", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({logits}), shape.classes, [&](auto count) {
      launch(block_per_token("loss_maximum", tokens, stream),
             maximum_kernel<decltype(count)::value, T>, slice, as<T>(logits), maximum);
    });
  });
}

void loss_exponentials(const LossShape& shape, const TokenIds& targets,
                       const LossExponentials& operands, StreamHandle stream) {
  const Slice slice = slice_of("loss_exponentials", shape);
  if (targets.tokens == 0) return;
  with_type("loss_exponentials", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({operands.logits}), shape.classes, [&](auto count) {
      launch(block_per_token("loss_exponentials", targets.tokens, stream),
             exponentials_kernel<decltype(count)::value, T>, slice, targets, operands);
    });
  });
}

void loss_finish(const LossShape& shape, std::int64_t tokens, const LossFinish& operands,
                 StreamHandle stream) {
  const Slice slice = slice_of("loss_finish", shape);
  if (tokens == 0) return;
  sum_losses(tokens, operands.exponential_sum, operands.target_logit, operands.weight,
             operands.loss, stream);
  if (operands.exponentials == nullptr) return;
  launch(block_per_token("division of exponentials", tokens, stream), divide_kernel, slice,
         operands.exponential_sum, operands.exponentials);
}

void loss_gradient(const LossShape& shape, const TokenIds& targets, const LossGradient& operands,
                   StreamHandle stream) {
  const Slice slice = slice_of("loss_gradient", shape);
  if (targets.tokens == 0) return;
  with_type("loss_gradient", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    // Vectors by the wider format, that of the saved.
    with_vector<float>(
        aligned({operands.saved, operands.logit_gradient}), shape.classes, [&](auto count) {
          launch(block_per_token("loss_gradient", targets.tokens, stream),
                 gradient_kernel<decltype(count)::value, T>, slice, targets, operands);
        });
  });
}

}  // namespace real::kernels
