// Queries, keys and values of latent attention (real/engine/kernels/latent.hpp).
#include <algorithm>
#include <numeric>

#include "real/cuda/kernels/launch.cuh"
#include "real/engine/kernels/latent.hpp"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

Shape grid(const char* name, std::int64_t items, StreamHandle stream) {
  return {.name = name,
          .blocks = {stride_blocks(items, block_threads)},
          .threads = block_threads,
          .stream = stream};
}

template <int count, class T>
__device__ __forceinline__ void copy_vector(const T* from, T* to) {
  *reinterpret_cast<Vector<T, count>*>(to) = *reinterpret_cast<const Vector<T, count>*>(from);
}

// Whole rows to their two parts, or from them.
template <bool joins, int count, class T>
__global__ void rows_kernel(SplitRows shape, std::int64_t vectors, T* whole, T* first, T* second) {
  const std::int64_t width = shape.first + shape.second;
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t row = i * count / width, column = i * count % width;
    T* part = column < shape.first ? first + row * shape.first + column
                                   : second + row * shape.second + column - shape.first;
    if (joins) {
      copy_vector<count>(part, whole + i * count);
    } else {
      copy_vector<count>(whole + i * count, part);
    }
  }
}

template <bool joins>
void move_rows(const char* name, const SplitRows& shape, void* whole, void* first, void* second,
               StreamHandle stream) {
  const std::int64_t elements = shape.rows * (shape.first + shape.second);
  if (elements == 0) return;
  with_type(name, shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({whole, first, second}), std::gcd(shape.first, shape.second),
                   [&](auto count) {
                     constexpr int n = decltype(count)::value;
                     launch(grid(name, elements / n, stream), rows_kernel<joins, n, T>, shape,
                            elements / n, as<T>(whole), as<T>(first), as<T>(second));
                   });
  });
}

// Elements `at` and following of both halves of a part, turned by their angles: a pair of each.
template <int count>
struct Turned {
  float first[count], second[count];
};
template <int count, class T>
__device__ __forceinline__ Turned<count> turned(const LatentHeads& shape, const float* table,
                                                float direction, std::int64_t token, const T* part,
                                                std::int64_t at) {
  const std::int64_t half = shape.rotary / 2;
  const float* angles = table + (shape.tokens.position(token) * half + at) * 2;
  Turned<count> x;
  load(part + at, x.first);
  load(part + at + half, x.second);
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const float cosine = angles[2 * j], sine = angles[2 * j + 1] * direction;
    const float first = x.first[j] * cosine - x.second[j] * sine;
    x.second[j] = x.second[j] * cosine + x.first[j] * sine;
    x.first[j] = first;
  }
  return x;
}

template <class T>
struct HeadParts {
  const T* queries;
  const T* made;
  const T* rotary_keys;
  const float* table;
};

// A thread makes a vector of [q|k|v].
template <int count, class T>
__global__ void put_heads_kernel(LatentHeads shape, std::int64_t vectors, HeadParts<T> from,
                                 T* qkv) {
  const std::int64_t head = shape.head(), all = shape.heads * head, half = shape.rotary / 2;
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t token = i * count / shape.row(), column = i * count % shape.row();
    const bool is_value = column >= 2 * all, is_key = column >= all;
    const std::int64_t width = is_value ? shape.value : head;
    const std::int64_t own = column - (is_value ? 2 * all : is_key ? all : 0);
    const std::int64_t of = token * shape.heads + own / width, element = own % width;
    const T* made = from.made + of * (shape.plain + shape.value);
    T* to = qkv + i * count;
    if (is_value) {
      copy_vector<count>(made + shape.plain + element, to);
    } else if (element < shape.plain) {
      copy_vector<count>((is_key ? made : from.queries + of * head) + element, to);
    } else {
      const T* part =
          is_key ? from.rotary_keys + token * shape.rotary : from.queries + of * head + shape.plain;
      const std::int64_t at = element - shape.plain;
      const bool is_second = at >= half;
      const Turned<count> x =
          turned<count>(shape, from.table, 1.0f, token, part, is_second ? at - half : at);
      if (is_second) {
        store(x.second, to);
      } else {
        store(x.first, to);
      }
    }
  }
}

// The gradient of what was made of the compressed keys and values.
template <int count, class T>
__global__ void made_gradient_kernel(LatentHeads shape, std::int64_t vectors, const T* gradient,
                                     T* made) {
  const std::int64_t head = shape.head(), width = shape.plain + shape.value;
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t of = i * count / width, element = i * count % width;
    const std::int64_t token = of / shape.heads, h = of % shape.heads;
    const std::int64_t at = element < shape.plain
                                ? (shape.heads + h) * head + element
                                : 2 * shape.heads * head + h * shape.value + element - shape.plain;
    copy_vector<count>(gradient + token * shape.row() + at, made + i * count);
  }
}

// The gradient of the rotary keys, which all heads share: summed in their order, then turned back.
template <class T>
__global__ void rotary_keys_kernel(LatentHeads shape, const float* table, const T* gradient,
                                   T* keys) {
  const std::int64_t half = shape.rotary / 2;
  for (std::int64_t i = global_thread(); i < shape.tokens.tokens * half; i += global_threads()) {
    const std::int64_t token = i / half, at = i % half;
    const T* part = gradient + token * shape.row() + shape.heads * shape.head() + shape.plain + at;
    float first = 0, second = 0;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      first += to_float(part[h * shape.head()]);
      second += to_float(part[h * shape.head() + half]);
    }
    const float* angle = table + (shape.tokens.position(token) * half + at) * 2;
    T* to = keys + token * shape.rotary + at;
    to[0] = from_float<T>(first * angle[0] + second * angle[1]);
    to[half] = from_float<T>(second * angle[0] - first * angle[1]);
  }
}

// Queries of tokens first ... end to their place without gaps, turned back. A thread moves a vector
// of the plain part, or one of each half of the other: the rows of token 0 stay where they are.
template <int count, class T>
__global__ void move_queries_kernel(LatentHeads shape, const float* table, std::int64_t first,
                                    std::int64_t end, T* gradient) {
  const std::int64_t head = shape.head(), half = shape.rotary / 2;
  const std::int64_t vectors = (shape.plain + half) / count;  // of a head
  const std::int64_t items = (end - first) * shape.heads * vectors;
  for (std::int64_t i = global_thread(); i < items; i += global_threads()) {
    const std::int64_t of = i / vectors, element = i % vectors * count;
    const std::int64_t token = first + of / shape.heads, h = of % shape.heads;
    const T* from = gradient + token * shape.row() + h * head;
    T* to = gradient + (token * shape.heads + h) * head;
    if (element < shape.plain) {
      copy_vector<count>(from + element, to + element);
    } else {
      const std::int64_t at = element - shape.plain;
      const Turned<count> x = turned<count>(shape, table, -1.0f, token, from + shape.plain, at);
      store(x.first, to + shape.plain + at);
      store(x.second, to + shape.plain + half + at);
    }
  }
}

// The rows of tokens n ... 2 n end where those of token n began, or before: a row of [q|k|v] is
// more than twice as wide as its queries. So the tokens move in as many launches as they have
// binary digits.
template <int count, class T>
void move_queries(const LatentHeads& shape, const float* table, T* gradient, StreamHandle stream) {
  const std::int64_t tokens = shape.tokens.tokens;
  for (std::int64_t first = 0, end = 1; first < tokens; first = end, end = 2 * end) {
    const std::int64_t last = std::min(end, tokens);
    const std::int64_t items = (last - first) * shape.heads * (shape.plain + shape.rotary / 2);
    launch(grid("latent_gradients (queries)", items / count, stream), move_queries_kernel<count, T>,
           shape, table, first, last, gradient);
  }
}

std::int64_t unit_of(const LatentHeads& shape) {
  return std::gcd(std::gcd(shape.plain, shape.value), shape.rotary / 2);
}

void require_pairs(const char* name, const LatentHeads& shape) {
  if (shape.rotary % 2 != 0) refuse(name, "the rotary part of a head is odd");
}

}  // namespace

void split_rows(const SplitRows& shape, const void* whole, void* first, void* second,
                StreamHandle stream) {
  move_rows<false>("split_rows", shape, const_cast<void*>(whole), first, second, stream);
}

void join_rows(const SplitRows& shape, const void* first, const void* second, void* whole,
               StreamHandle stream) {
  move_rows<true>("join_rows", shape, whole, const_cast<void*>(first), const_cast<void*>(second),
                  stream);
}

void put_latent_heads(const LatentHeads& shape, const LatentInputs& inputs, void* qkv,
                      StreamHandle stream) {
  require_pairs("put_latent_heads", shape);
  const std::int64_t elements = shape.tokens.tokens * shape.row();
  if (elements == 0) return;
  const bool is_aligned = aligned({inputs.queries, inputs.made, inputs.rotary_keys, qkv});
  with_type("put_latent_heads", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(is_aligned, unit_of(shape), [&](auto count) {
      constexpr int n = decltype(count)::value;
      const HeadParts<T> from{as<T>(inputs.queries), as<T>(inputs.made), as<T>(inputs.rotary_keys),
                              inputs.table};
      launch(grid("put_latent_heads", elements / n, stream), put_heads_kernel<n, T>, shape,
             elements / n, from, as<T>(qkv));
    });
  });
}

void latent_gradients(const LatentHeads& shape, const LatentGradients& operands,
                      StreamHandle stream) {
  require_pairs("latent_gradients", shape);
  const std::int64_t tokens = shape.tokens.tokens;
  const std::int64_t elements = tokens * shape.heads * (shape.plain + shape.value);
  if (elements == 0) return;
  with_type("latent_gradients", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({operands.gradient, operands.made}), unit_of(shape), [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch(grid("latent_gradients (keys, values)", elements / n, stream),
             made_gradient_kernel<n, T>, shape, elements / n, as<T>(operands.gradient),
             as<T>(operands.made));
      launch(grid("latent_gradients (rotary keys)", tokens * shape.rotary / 2, stream),
             rotary_keys_kernel<T>, shape, operands.table, as<T>(operands.gradient),
             as<T>(operands.rotary_keys));
      move_queries<n>(shape, operands.table, as<T>(operands.gradient), stream);
    });
  });
}

}  // namespace real::kernels
