// Mixtures of experts: the choice, copies of tokens, their sums and their order, and activations
// that the weight of a choice multiplies. The rules are those of real/engine/kernels/routing.hpp,
// whose functions are the host's only.
#include "real/cuda/kernels/activations.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned row_threads = 128;  // of a row whose sum is taken

// Which choice of a token an expert is; per_token or more: none.
__device__ std::int64_t choice_of(const Routing& routing, std::int64_t token, std::int64_t expert) {
  const std::int64_t first = token * routing.per_token % routing.experts;
  return expert >= first ? expert - first : expert - first + routing.experts;
}

// Where the copy for that choice stands among those that are sent.
__device__ std::int64_t sent_row(const Routing& routing, std::int64_t copy) {
  const std::int64_t each = routing.tokens * routing.per_token / routing.experts;
  return copy % routing.experts * each + copy / routing.experts;
}

__device__ std::int64_t came_at(const Arrived& arrived, std::int64_t row) {
  const std::int64_t block = arrived.rows / (arrived.experts * arrived.parts);
  const std::int64_t expert = row / (arrived.parts * block);
  const std::int64_t part = row / block % arrived.parts;
  return (part * arrived.experts + expert) * block + row % block;
}

// A warp per token, a lane for every 32nd expert.
template <class T>
__global__ void choose_kernel(Routing routing, const T* scores, float* probabilities,
                              float* weights) {
  const std::int64_t warps = global_threads() / warp_size;
  for (std::int64_t token = global_thread() / warp_size; token < routing.tokens; token += warps) {
    const T* from = scores + token * routing.experts;
    float* to = probabilities + token * routing.experts;
    const auto scored = [&](std::int64_t expert) {
      return routing.per_token == 1 || choice_of(routing, token, expert) < routing.per_token;
    };
    float most = -3.402823466e38f;
    for (std::int64_t expert = lane_id(); expert < routing.experts; expert += warp_size)
      if (scored(expert)) most = Maximum{}(most, to_float(from[expert]));
    most = combine_warp(most, Maximum{});
    float sum = 0;
    for (std::int64_t expert = lane_id(); expert < routing.experts; expert += warp_size) {
      to[expert] = scored(expert) ? expf(to_float(from[expert]) - most) : 0.0f;
      sum += to[expert];
    }
    sum = combine_warp(sum, Sum{});
    for (std::int64_t expert = lane_id(); expert < routing.experts; expert += warp_size) {
      to[expert] /= sum;
      const std::int64_t choice = choice_of(routing, token, expert);
      if (choice < routing.per_token)
        weights[sent_row(routing, token * routing.per_token + choice)] = to[expert];
    }
  }
}

// d score_e = p_e (d p_e - sum over f of p_f d p_f)
template <class T>
__global__ void choose_backward_kernel(Routing routing, const float* probabilities,
                                       const float* weight_gradients, T* score_gradients) {
  const std::int64_t warps = global_threads() / warp_size;
  for (std::int64_t token = global_thread() / warp_size; token < routing.tokens; token += warps) {
    const float* own = probabilities + token * routing.experts;
    const auto gradient = [&](std::int64_t expert) {
      const std::int64_t choice = choice_of(routing, token, expert);
      if (choice >= routing.per_token) return 0.0f;
      return weight_gradients[sent_row(routing, token * routing.per_token + choice)];
    };
    float mean = 0;
    for (std::int64_t expert = lane_id(); expert < routing.experts; expert += warp_size)
      mean += own[expert] * gradient(expert);
    mean = combine_warp(mean, Sum{});
    for (std::int64_t expert = lane_id(); expert < routing.experts; expert += warp_size)
      score_gradients[token * routing.experts + expert] =
          from_float<T>(own[expert] * (gradient(expert) - mean));
  }
}

struct TokenOfCopy {
  Routing routing;
  __device__ std::int64_t operator()(std::int64_t row) const {
    const std::int64_t each = routing.tokens * routing.per_token / routing.experts;
    return (row % each * routing.experts + row / each) / routing.per_token;
  }
};
struct CameAt {
  Arrived arrived;
  __device__ std::int64_t operator()(std::int64_t row) const { return came_at(arrived, row); }
};

// Row r of the result is row source(r).
template <class Source, int count, class T>
__global__ void take_rows_kernel(Source source, std::int64_t vectors, std::int64_t width,
                                 const T* from, T* to) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t row = i * count / width;
    float x[count];
    load(from + source(row) * width + (i * count - row * width), x);
    store(x, to + i * count);
  }
}

template <class Source>
void take_rows(const char* name, Source source, sim::DType dtype, std::int64_t rows,
               std::int64_t width, const void* from, void* to, StreamHandle stream) {
  if (rows * width == 0) return;
  with_type(name, dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({from, to}), width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      const std::int64_t vectors = rows * width / n;
      launch({.name = name,
              .blocks = {stride_blocks(vectors, block_threads)},
              .threads = block_threads,
              .stream = stream},
             take_rows_kernel<Source, n, T>, source, vectors, width, as<T>(from), as<T>(to));
    });
  });
}

template <int count, class T>
__global__ void sum_copies_kernel(Routing routing, std::int64_t vectors, std::int64_t width,
                                  const T* copies, T* tokens) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t token = i * count / width;
    const std::int64_t column = i * count - token * width;
    float sum[count] = {};
    for (std::int64_t choice = 0; choice < routing.per_token; ++choice) {
      float x[count];
      load(copies + sent_row(routing, token * routing.per_token + choice) * width + column, x);
#pragma unroll
      for (int j = 0; j < count; ++j)
        sum[j] += x[j];
    }
    store(sum, tokens + i * count);
  }
}

// Gated: rows of [gate | value]. A block per row. Without gradient the forward pass.
template <class F, bool gated, class T>
__global__ void weighed_forward_kernel(Arrived arrived, std::int64_t width, const T* input,
                                       const float* weights, T* output) {
  for (std::int64_t row = blockIdx.x; row < arrived.rows; row += gridDim.x) {
    const float weight = weights[came_at(arrived, row)];
    const T* from = input + row * width * (gated ? 2 : 1);
    for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      const float other = gated ? to_float(from[width + i]) : 1.0f;
      output[row * width + i] = from_float<T>(weight * F::value(to_float(from[i])) * other);
    }
  }
}

// `from_output` (ReLU): saved is weight times the activation.
template <class F, bool gated, bool from_output, class T>
__global__ void weighed_backward_kernel(Arrived arrived, std::int64_t width, const T* saved,
                                        const float* weights, const T* gradient, T* input_gradient,
                                        float* weight_gradients) {
  auto* scratch = shared_memory<float>();  // a number per warp
  for (std::int64_t row = blockIdx.x; row < arrived.rows; row += gridDim.x) {
    const std::int64_t came = came_at(arrived, row);
    const float weight = weights[came];
    const std::int64_t at = row * width * (gated ? 2 : 1);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      const float x = to_float(saved[at + i]);
      const float other = gated ? to_float(saved[at + width + i]) : 1.0f;
      const float dy = to_float(gradient[row * width + i]);
      const float value = from_output ? x : F::value(x);
      sum += dy * value * other;
      input_gradient[at + i] = from_float<T>(weight * dy * other * F::derivative(x));
      if (gated) input_gradient[at + width + i] = from_float<T>(weight * dy * value);
    }
    sum = combine_block(sum, Sum{}, scratch);
    if (from_output) sum = weight > 0 ? sum / weight : 0.0f;
    if (threadIdx.x == 0) weight_gradients[came] = sum;
  }
}

template <class F, bool gated, bool from_output, class T>
void weighed(const WeighedShape& shape, const T* input, const float* weights,
             const WeighedBackward* backward, T* output, StreamHandle stream) {
  if (shape.arrived.rows == 0) return;
  const Shape grid{.name = "weighed activation",
                   .blocks = {stride_blocks(shape.arrived.rows, 1)},
                   .threads = row_threads,
                   .shared_bytes = row_threads / warp_size * sizeof(float),
                   .stream = stream};
  if (backward == nullptr) {
    launch(grid, weighed_forward_kernel<F, gated, T>, shape.arrived, shape.width, input, weights,
           output);
  } else {
    launch(grid, weighed_backward_kernel<F, gated, from_output, T>, shape.arrived, shape.width,
           input, weights, as<T>(backward->gradient), output, backward->weight_gradients);
  }
}

void weighed(const WeighedShape& shape, const void* input, const float* weights,
             const WeighedBackward* backward, void* output, StreamHandle stream) {
  with_type("weighed activation", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto* x = as<T>(input);
    auto* to = as<T>(output);
    switch (shape.function) {
      case sim::Function::gelu:
        return weighed<Gelu, false, false>(shape, x, weights, backward, to, stream);
      case sim::Function::relu:
        return weighed<Relu, false, true>(shape, x, weights, backward, to, stream);
      case sim::Function::squared_relu:
        return weighed<SquaredRelu, false, false>(shape, x, weights, backward, to, stream);
      case sim::Function::swiglu:
        return weighed<Silu, true, false>(shape, x, weights, backward, to, stream);
      case sim::Function::geglu:
        return weighed<Gelu, true, false>(shape, x, weights, backward, to, stream);
      default:
        refuse("weighed activation", "is not a function of this kind");
    }
  });
}

// A warp for each token.
Shape choice_grid(const ChoiceShape& shape, StreamHandle stream) {
  return {.name = "choose",
          .blocks = {stride_blocks(shape.routing.tokens, block_threads / warp_size)},
          .threads = block_threads,
          .stream = stream};
}

}  // namespace

void choose(const ChoiceShape& shape, const void* scores, float* probabilities, float* weights,
            StreamHandle stream) {
  with_type("choose", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(choice_grid(shape, stream), choose_kernel<T>, shape.routing, as<T>(scores),
           probabilities, weights);
  });
}

void choose_backward(const ChoiceShape& shape, const float* probabilities,
                     const float* weight_gradients, void* score_gradients, StreamHandle stream) {
  with_type("choose", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(choice_grid(shape, stream), choose_backward_kernel<T>, shape.routing, probabilities,
           weight_gradients, as<T>(score_gradients));
  });
}

void copy_tokens(const CopyShape& shape, const void* tokens, void* copies, StreamHandle stream) {
  take_rows("copy_tokens", TokenOfCopy{shape.routing}, shape.dtype, shape.routing.copies(),
            shape.width, tokens, copies, stream);
}

void sum_copies(const CopyShape& shape, const void* copies, void* tokens, StreamHandle stream) {
  with_type("sum_copies", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({copies, tokens}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      const std::int64_t vectors = shape.routing.tokens * shape.width / n;
      launch({.name = "sum_copies",
              .blocks = {stride_blocks(vectors, block_threads)},
              .threads = block_threads,
              .stream = stream},
             sum_copies_kernel<n, T>, shape.routing, vectors, shape.width, as<T>(copies),
             as<T>(tokens));
    });
  });
}

void sort_copies(const SortShape& shape, const void* came, void* sorted, StreamHandle stream) {
  take_rows("sort_copies", CameAt{shape.arrived}, shape.dtype, shape.arrived.rows, shape.width,
            came, sorted, stream);
}

// The way back is the same exchange of two dimensions, the other way round.
void restore_order(const SortShape& shape, const void* sorted, void* came, StreamHandle stream) {
  const Arrived back{shape.arrived.parts, shape.arrived.experts, shape.arrived.rows};
  take_rows("restore_order", CameAt{back}, shape.dtype, shape.arrived.rows, shape.width, sorted,
            came, stream);
}

void weighed_forward(const WeighedShape& shape, const void* input, const float* weights,
                     void* output, StreamHandle stream) {
  weighed(shape, input, weights, nullptr, output, stream);
}

void weighed_backward(const WeighedShape& shape, const WeighedBackward& operands,
                      StreamHandle stream) {
  weighed(shape, operands.saved, operands.weights, &operands, operands.input_gradient, stream);
}

}  // namespace real::kernels
