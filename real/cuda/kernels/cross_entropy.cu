// Cross-entropy of each token, over the vocabulary or a slice of it; a block per token.
//
// In slices as Megatron-LM's core/tensor_parallel/cross_entropy.py does it: the loss is log(sum of
// exponentials) - target logit, both relative to the maximum; its gradient exp / sum - [is target].
#include <algorithm>

#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

// A block takes its row's whole width in a few rounds. Wide blocks, two on an SM: the rows that are
// under way (100 KB each of 50,000 classes in bf16) stay in the L2 cache between two visits.
constexpr unsigned least_threads = 128;
constexpr unsigned most_threads = 1024;
constexpr int blocks_per_sm = 2;
constexpr std::size_t scratch_bytes = most_threads / warp_size * sizeof(float);
constexpr float lowest_float = -3.402823466e38f;

struct Slice {
  std::int64_t first;
  int classes, valid;
  // The place of the first class of a token's row.
  __device__ std::int64_t row(std::int64_t token) const { return token * classes; }
};

// Elements of a vector of 16 bytes; 1 where the arrays do not begin at such a boundary.
template <bool whole, class T>
inline constexpr int vector_length = whole ? 16 / static_cast<int>(sizeof(T)) : 1;

// Column of the token's target in the slice, or -1.
__device__ __forceinline__ int target_column(const Slice& slice, const TokenIds& targets,
                                             std::int64_t token) {
  const std::int64_t id =
      targets.ids[token / targets.sequence * targets.stride + token % targets.sequence];
  const std::int64_t column = id - slice.first;
  return column >= 0 && column < slice.valid ? static_cast<int>(column) : -1;
}

// visit(Constant<n>{}, column) of the thread's share of columns begin ... end of a row: whole
// vectors of `count` (n = count) wherever one begins in memory, single columns (n = 1) before the
// first and after the last. Any width and any row has whole vectors so. `row`: element at which the
// row begins.
template <int count, class Visit>
__device__ __forceinline__ void each_vector(std::int64_t row, int begin, int end, Visit visit) {
  const int phase = static_cast<int>((row + begin) % count);
  const int boundary = begin + (phase == 0 ? 0 : count - phase);
  const int first = boundary < end ? boundary : end;
  const int last = first + (end - first) / count * count;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (count > 1) {
    if (begin + thread < first) visit(Constant<1>{}, begin + thread);
    if (last + thread < end) visit(Constant<1>{}, last + thread);
  }
  for (int column = first + thread * count; column < last;
       column += static_cast<int>(blockDim.x) * count)
    visit(Constant<count>{}, column);
}

template <bool whole, class T>
__device__ __forceinline__ float row_maximum(const Slice& slice, std::int64_t row, const T* logits,
                                             float* scratch) {
  float maximum = lowest_float;
  each_vector<vector_length<whole, T>>(row, 0, slice.valid, [&](auto count, int column) {
    float x[decltype(count)::value];
    load(logits + row + column, x);
#pragma unroll
    for (const float value : x)
      maximum = Maximum{}(maximum, value);
  });
  return combine_block(maximum, Maximum{}, scratch);
}

template <bool whole, class T>
__global__ void __launch_bounds__(most_threads, blocks_per_sm)
    maximum_kernel(Slice slice, const T* logits, float* maximum) {
  const std::int64_t token = blockIdx.x;
  const float result = row_maximum<whole>(slice, slice.row(token), logits, shared_memory<float>());
  if (threadIdx.x == 0) maximum[token] = result;
}

// Writes zeros where the vocabulary is padded.
template <int count>
__device__ __forceinline__ void clear_padding(const Slice& slice, std::int64_t row, float* to) {
  each_vector<count>(row, slice.valid, slice.classes, [&](auto n, int column) {
    const float zeros[decltype(n)::value] = {};
    store(zeros, to + row + column);
  });
}

// Exponentials of a row, which may lie where its logits do: a thread reads a vector before it
// writes there, and the target's logit is read before the barrier. Vectors by the wider format,
// that of the exponentials: neighbouring lanes then write neighbouring vectors.
template <bool whole, class T>
__global__ void __launch_bounds__(most_threads, blocks_per_sm)
    exponentials_kernel(Slice slice, TokenIds targets, LossExponentials operands) {
  auto* scratch = shared_memory<float>();
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = slice.row(token);
  const T* logits = static_cast<const T*>(operands.logits);
  float* keep = operands.exponentials;
  const bool alone = operands.maximum == nullptr;  // no other slices
  const float maximum =
      alone ? row_maximum<whole>(slice, row, logits, scratch) : operands.maximum[token];
  if (threadIdx.x == 0) {
    const int target = target_column(slice, targets, token);
    const float missing = alone ? nanf("") : 0.0f;
    operands.target_logit[token] = target >= 0 ? to_float(logits[row + target]) - maximum : missing;
  }
  __syncthreads();
  float sum = 0;
  constexpr int count = vector_length<whole, float>;
  each_vector<count>(row, 0, slice.valid, [&](auto n, int column) {
    float x[decltype(n)::value];
    load(logits + row + column, x);
#pragma unroll
    for (float& value : x) {
      value = expf(value - maximum);
      sum += value;
    }
    if (keep != nullptr) store(x, keep + row + column);
  });
  if (keep != nullptr) clear_padding<count>(slice, row, keep);
  sum = combine_block(sum, Sum{}, scratch);
  if (threadIdx.x == 0) operands.exponential_sum[token] = sum;
}

// One block adds the losses of all tokens: log(sum) - target.
constexpr unsigned sum_threads = 1024;
__global__ void sum_losses_kernel(std::int64_t tokens, const float* sums, const float* targets,
                                  double weight, double* loss) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    sum += log(static_cast<double>(sums[i])) - static_cast<double>(targets[i]);
  }
  sum = combine_block(sum, Sum{}, shared_memory<double>());
  if (threadIdx.x == 0) *loss += weight * sum;
}

template <bool whole>
__global__ void __launch_bounds__(most_threads, blocks_per_sm)
    divide_kernel(Slice slice, const float* sums, float* exponentials) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = slice.row(token);
  const float inverse = 1.0f / sums[token];
  each_vector<vector_length<whole, float>>(row, 0, slice.valid, [&](auto n, int column) {
    float x[decltype(n)::value];
    load(exponentials + row + column, x);
#pragma unroll
    for (float& value : x)
      value *= inverse;
    store(x, exponentials + row + column);
  });
}

// The gradient of a row from `from`, of which share(x) is a class's probability times the scale.
// Vectors by the format of `from`, which is at least as wide.
template <bool whole, class From, class T, class Share>
__device__ __forceinline__ void write_gradient(const Slice& slice, std::int64_t row, int target,
                                               float scale, const From* from, T* to, Share share) {
  each_vector<vector_length<whole, From>>(row, 0, slice.classes, [&](auto n, int column) {
    constexpr int count = decltype(n)::value;
    float x[count];
    load(from + row + column, x);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      x[j] = column + j < slice.valid ? share(x[j]) : 0.0f;
      if (column + j == target) x[j] -= scale;
    }
    store(x, to + row + column);
  });
}

template <bool whole, class T>
__global__ void __launch_bounds__(most_threads, blocks_per_sm)
    gradient_kernel(Slice slice, TokenIds targets, LossGradient operands) {
  const std::int64_t token = blockIdx.x;
  const float factor = operands.exponential_sum == nullptr
                           ? operands.scale
                           : operands.scale / operands.exponential_sum[token];
  write_gradient<whole>(slice, slice.row(token), target_column(slice, targets, token),
                        operands.scale, operands.saved, static_cast<T*>(operands.logit_gradient),
                        [=](float saved) { return saved * factor; });
}

// The same of kept logits, over which the gradient may be written: the target's is read before.
template <bool whole, class T>
__global__ void __launch_bounds__(most_threads, blocks_per_sm)
    gradient_of_logits_kernel(Slice slice, TokenIds targets, LossGradient operands) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = slice.row(token);
  const int target = target_column(slice, targets, token);
  const T* logits = static_cast<const T*>(operands.logits);
  const float logit = target >= 0 ? to_float(logits[row + target]) : nanf("");
  const float maximum =
      operands.maximum == nullptr ? logit - operands.target_logit[token] : operands.maximum[token];
  const float factor = operands.scale / operands.exponential_sum[token];
  __syncthreads();
  write_gradient<whole>(slice, row, target, operands.scale, logits,
                        static_cast<T*>(operands.logit_gradient),
                        [=](float x) { return expf(x - maximum) * factor; });
}

Slice slice_of(const char* name, const LossShape& shape) {
  if (shape.valid < 0 || shape.valid > shape.classes || shape.classes > INT32_MAX / 2)
    refuse(name, std::to_string(shape.valid) + " of " + std::to_string(shape.classes) + " classes");
  return {shape.first, static_cast<int>(shape.classes), static_cast<int>(shape.valid)};
}

// As many threads as a row has vectors, within the limits.
Shape block_per_token(const char* name, const Slice& slice, std::int64_t tokens,
                      StreamHandle stream) {
  constexpr std::int64_t per_thread = 8;
  const std::int64_t wanted =
      divide_up(divide_up(slice.classes, per_thread), warp_size) * warp_size;
  return {.name = name,
          .blocks = {static_cast<unsigned>(tokens)},
          .threads =
              static_cast<unsigned>(std::clamp<std::int64_t>(wanted, least_threads, most_threads)),
          .shared_bytes = scratch_bytes,
          .stream = stream};
}

// visit(Type<T>{}, true or false as a constant: whole vectors).
template <class Visit>
void with_form(const char* name, sim::DType dtype, bool is_aligned, Visit visit) {
  with_type(name, dtype, [&](auto type) {
    if (is_aligned) return visit(type, std::bool_constant<true>{});
    visit(type, std::bool_constant<false>{});
  });
}

}  // namespace

void loss_maximum(const LossShape& shape, std::int64_t tokens, const void* logits, float* maximum,
                  StreamHandle stream) {
  const Slice slice = slice_of("loss_maximum", shape);
  if (tokens == 0) return;
  with_form("loss_maximum", shape.dtype, aligned({logits}), [&](auto type, auto whole) {
    using T = typename decltype(type)::type;
    launch(block_per_token("loss_maximum", slice, tokens, stream),
           maximum_kernel<decltype(whole)::value, T>, slice, as<T>(logits), maximum);
  });
}

void loss_exponentials(const LossShape& shape, const TokenIds& targets,
                       const LossExponentials& operands, StreamHandle stream) {
  const Slice slice = slice_of("loss_exponentials", shape);
  if (targets.tokens == 0) return;
  with_form("loss_exponentials", shape.dtype, aligned({operands.logits, operands.exponentials}),
            [&](auto type, auto whole) {
              using T = typename decltype(type)::type;
              launch(block_per_token("loss_exponentials", slice, targets.tokens, stream),
                     exponentials_kernel<decltype(whole)::value, T>, slice, targets, operands);
            });
}

void loss_finish(const LossShape& shape, std::int64_t tokens, const LossFinish& operands,
                 StreamHandle stream) {
  const Slice slice = slice_of("loss_finish", shape);
  if (tokens == 0) return;
  launch({.name = "sum of losses",
          .blocks = {1},
          .threads = sum_threads,
          .shared_bytes = sum_threads / warp_size * sizeof(double),
          .stream = stream},
         sum_losses_kernel, tokens, operands.exponential_sum, operands.target_logit,
         1 / operands.parts, operands.loss);
  if (operands.exponentials == nullptr) return;
  const Shape form = block_per_token("division of exponentials", slice, tokens, stream);
  launch(form, aligned({operands.exponentials}) ? divide_kernel<true> : divide_kernel<false>, slice,
         operands.exponential_sum, operands.exponentials);
}

void loss_gradient(const LossShape& shape, const TokenIds& targets, const LossGradient& operands,
                   StreamHandle stream) {
  const Slice slice = slice_of("loss_gradient", shape);
  if (targets.tokens == 0) return;
  const bool kept = operands.saved == nullptr;  // the logits
  const void* from = kept ? operands.logits : operands.saved;
  with_form("loss_gradient", shape.dtype, aligned({from, operands.logit_gradient}),
            [&](auto type, auto whole) {
              using T = typename decltype(type)::type;
              constexpr bool vectors = decltype(whole)::value;
              launch(block_per_token("loss_gradient", slice, targets.tokens, stream),
                     kept ? gradient_of_logits_kernel<vectors, T> : gradient_kernel<vectors, T>,
                     slice, targets, operands);
            });
}

}  // namespace real::kernels
