// Kernels that work on every element by itself: activations, sums, casts, biases.
#include "real/cuda/kernels/activations.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

// output[i] = function(a[i], b[i]); vectors of `count` elements.
template <int count, class Function, class A, class B, class T>
__global__ void map_kernel(Function function, std::int64_t vectors, const A* a, const B* b,
                           T* output) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    float x[count], y[count];
    load(a + i * count, x);
    load(b + i * count, y);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[j] = function(x[j], y[j]);
    store(x, output + i * count);
  }
}

// Bound of the loop and launch of a map. Vectors: 16 bytes of the wider format.
template <class Function, class A, class B, class T>
void map(const char* name, Function function, std::int64_t elements, const A* a, const B* b,
         T* output, StreamHandle stream) {
  if (elements == 0) return;
  constexpr int full = 16 / (sizeof(A) > sizeof(T) ? sizeof(A) : sizeof(T));
  const bool vectors = aligned({a, b, output}) && elements % full == 0;
  const std::int64_t items = vectors ? elements / full : elements;
  const Shape shape{.name = name,
                    .blocks = {stride_blocks(items, block_threads)},
                    .threads = block_threads,
                    .stream = stream};
  if (vectors) {
    launch(shape, map_kernel<full, Function, A, B, T>, function, items, a, b, output);
  } else {
    launch(shape, map_kernel<1, Function, A, B, T>, function, items, a, b, output);
  }
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float scale;
  __device__ float operator()(float a, float) const { return a * scale; }
};
struct AddScaled {
  float scale;
  __device__ float operator()(float from, float to) const { return to + from * scale; }
};

template <class F>
struct Forward {
  __device__ float operator()(float x, float) const { return F::value(x); }
};
template <class F>
struct Backward {
  __device__ float operator()(float saved, float gradient) const {
    return gradient * F::derivative(saved);
  }
};

// Rows of [gate | value], `width` each, in vectors.
template <class F, int count, class T>
__global__ void gated_forward_kernel(std::int64_t vectors, std::int64_t width, const T* input,
                                     T* output) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t row = i * count / width;
    const T* from = input + i * count + row * width;
    float gate[count], value[count];
    load(from, gate);
    load(from + width, value);
#pragma unroll
    for (int j = 0; j < count; ++j)
      gate[j] = F::value(gate[j]) * value[j];
    store(gate, output + i * count);
  }
}

template <class F, int count, class T>
__global__ void gated_backward_kernel(std::int64_t vectors, std::int64_t width, const T* input,
                                      const T* gradient, T* input_gradient) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t at = i * count + i * count / width * width;
    float gate[count], value[count], dy[count];
    load(input + at, gate);
    load(input + at + width, value);
    load(gradient + i * count, dy);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const float gate_gradient = dy[j] * value[j] * F::derivative(gate[j]);
      value[j] = dy[j] * F::value(gate[j]);
      gate[j] = gate_gradient;
    }
    store(gate, input_gradient + at);
    store(value, input_gradient + at + width);
  }
}

template <class F, class T>
void gated(const ActivationShape& shape, const T* input, const T* gradient, T* output,
           StreamHandle stream) {
  const std::int64_t elements = shape.rows * shape.width;
  if (elements == 0) return;
  with_vector<T>(aligned({input, gradient, output}), shape.width, [&](auto count) {
    constexpr int n = decltype(count)::value;
    const Shape grid{.name = "activation",
                     .blocks = {stride_blocks(elements / n, block_threads)},
                     .threads = block_threads,
                     .stream = stream};
    if (gradient == nullptr) {
      launch(grid, gated_forward_kernel<F, n, T>, elements / n, shape.width, input, output);
    } else {
      launch(grid, gated_backward_kernel<F, n, T>, elements / n, shape.width, input, gradient,
             output);
    }
  });
}

template <class F, class T>
void plain(const ActivationShape& shape, const T* input, const T* gradient, T* output,
           StreamHandle stream) {
  const std::int64_t elements = shape.rows * shape.width;
  if (gradient == nullptr) {
    map("activation", Forward<F>{}, elements, input, input, output, stream);
  } else {
    map("activation", Backward<F>{}, elements, input, gradient, output, stream);
  }
}

// Forward where there is no gradient.
void activation(const ActivationShape& shape, const void* input, const void* gradient, void* output,
                StreamHandle stream) {
  with_type("activation", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto* x = as<T>(input);
    const auto* dy = as<T>(gradient);
    auto* to = as<T>(output);
    switch (shape.function) {
      case sim::Function::gelu:
        return plain<Gelu>(shape, x, dy, to, stream);
      case sim::Function::relu:
        return plain<Relu>(shape, x, dy, to, stream);
      case sim::Function::squared_relu:
        return plain<SquaredRelu>(shape, x, dy, to, stream);
      case sim::Function::swiglu:
        return gated<Silu>(shape, x, dy, to, stream);
      case sim::Function::geglu:
        return gated<Gelu>(shape, x, dy, to, stream);
      default:
        refuse("activation", "is not a function of this kind");
    }
  });
}

template <int count, class T>
__global__ void add_bias_kernel(std::int64_t vectors, std::int64_t width, const T* bias,
                                T* output) {
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    float x[count], b[count];
    load(output + i * count, x);
    load(bias + i * count % width, b);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[j] += b[j];
    store(x, output + i * count);
  }
}

}  // namespace

void activation_forward(const ActivationShape& shape, const void* input, void* output,
                        StreamHandle stream) {
  activation(shape, input, nullptr, output, stream);
}

void activation_backward(const ActivationShape& shape, const void* saved, const void* gradient,
                         void* input_gradient, StreamHandle stream) {
  activation(shape, saved, gradient, input_gradient, stream);
}

void add(sim::DType dtype, std::int64_t elements, const void* a, const void* b, void* output,
         StreamHandle stream) {
  with_type("add", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map("add", Add{}, elements, as<T>(a), as<T>(b), as<T>(output), stream);
  });
}

void cast(const Cast& how, std::int64_t elements, const void* from, void* to, StreamHandle stream) {
  with_type("cast", how.from, [&](auto from_type) {
    using A = typename decltype(from_type)::type;
    with_type("cast", how.to, [&](auto to_type) {
      using B = typename decltype(to_type)::type;
      if (how.accumulate) {
        map("cast", AddScaled{how.scale}, elements, as<A>(from),
            as<B>(static_cast<const void*>(to)), as<B>(to), stream);
      } else {
        map("cast", Scale{how.scale}, elements, as<A>(from), as<A>(from), as<B>(to), stream);
      }
    });
  });
}

void zero(void* memory, std::int64_t bytes, StreamHandle stream) {
  if (bytes > 0) {
    check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream), "cudaMemsetAsync");
  }
}

void add_bias(sim::DType dtype, std::int64_t rows, std::int64_t width, const void* bias,
              void* output, StreamHandle stream) {
  const std::int64_t elements = rows * width;
  if (elements == 0) return;
  with_type("add_bias", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({bias, output}), width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "add_bias",
              .blocks = {stride_blocks(elements / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             add_bias_kernel<n, T>, elements / n, width, as<T>(bias), as<T>(output));
    });
  });
}

void pack(sim::DType dtype, const Range* ranges, std::int64_t count, const void* from, void* packed,
          StreamHandle stream) {
  const std::int64_t element = sim::bytes_of(dtype);
  auto* to = static_cast<std::byte*>(packed);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bytes = static_cast<std::size_t>(ranges[i].elements * element);
    check(cudaMemcpyAsync(to, static_cast<const std::byte*>(from) + ranges[i].at * element, bytes,
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    to += bytes;
  }
}

void unpack(sim::DType dtype, const Range* ranges, std::int64_t count, const void* packed, void* to,
            StreamHandle stream) {
  const std::int64_t element = sim::bytes_of(dtype);
  const auto* from = static_cast<const std::byte*>(packed);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bytes = static_cast<std::size_t>(ranges[i].elements * element);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + ranges[i].at * element, from, bytes,
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
    from += bytes;
  }
}

}  // namespace real::kernels
