// Tables whose rows are looked up by token or by position.
#include "real/cuda/kernels/context.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

constexpr unsigned block_threads = 256;

struct Lookup {
  TokenIds tokens;
  std::int64_t first_row, rows, width;
  // Row of the own slice that token t asks for, or -1.
  __device__ std::int64_t row(std::int64_t token) const {
    const std::int64_t id =
        tokens.ids[token / tokens.sequence * tokens.stride + token % tokens.sequence];
    const std::int64_t row = id - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

template <int count, class T>
__global__ void embedding_kernel(Lookup lookup, const T* table, T* output) {
  const std::int64_t vectors = lookup.width / count;
  for (std::int64_t i = global_thread(); i < lookup.tokens.tokens * vectors;
       i += global_threads()) {
    const std::int64_t row = lookup.row(i / vectors);
    float x[count] = {};
    if (row >= 0) load(table + row * lookup.width + i % vectors * count, x);
    store(x, output + i * count);
  }
}

// A token and its row of the own slice, -1 where it has none.
struct Sorted {
  std::int32_t token, row;
};

// Where each token stands when they are sorted by row, ties by token: the number of tokens that
// come before it. Quadratic in the tokens, but a comparison each: 1e9 of them, of 32768 tokens,
// are a fraction of what the gradients of the embedding cost to read. Tokens without a row are
// last.
__global__ void sort_tokens_kernel(Lookup lookup, Sorted* sorted) {
  auto* tile = shared_memory<std::int32_t>();
  constexpr std::int32_t last = 0x7fffffff;
  const std::int64_t count = lookup.tokens.tokens;
  const auto key = [&](std::int64_t token) {
    const std::int64_t row = token < count ? lookup.row(token) : -1;
    return row < 0 ? last : static_cast<std::int32_t>(row);
  };
  const std::int64_t token = global_thread();
  const std::int32_t own = key(token);
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin < count; begin += blockDim.x) {
    __syncthreads();
    tile[threadIdx.x] = key(begin + threadIdx.x);
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x && begin + i < count; ++i)
      before += tile[i] < own || (tile[i] == own && begin + i < token) ? 1 : 0;
  }
  if (token < count) sorted[before] = {static_cast<std::int32_t>(token), own == last ? -1 : own};
}

// A block per place in the sorted order, and tile of columns: works where a row's tokens begin. Its
// warps take every eighth of them, eight at a time, so that a row that many tokens have costs few
// waits for memory; warp 0 adds up and writes.
constexpr int gradient_warps = 8;
constexpr int tokens_at_once = 8;

template <int count, class T, class G>
__global__ void __launch_bounds__(gradient_warps* warp_size, 2)
    embedding_gradient_kernel(Lookup lookup, const Sorted* sorted, const T* gradient,
                              G* table_gradient) {
  const std::int64_t place = blockIdx.x;
  const std::int64_t tokens = lookup.tokens.tokens;
  const std::int64_t row = sorted[place].row;
  if (row < 0 || (place > 0 && sorted[place - 1].row == row)) return;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.y) * warp_size + lane_id();
  const std::int64_t column = tile * count;
  const bool inside = column < lookup.width;
  float sum[count] = {};
  bool more = true;
  for (std::int64_t first = place + warp_id(); more; first += gradient_warps * tokens_at_once) {
    Sorted own[tokens_at_once];
#pragma unroll
    for (int k = 0; k < tokens_at_once; ++k) {
      const std::int64_t i = first + k * gradient_warps;
      own[k] = i < tokens ? sorted[i] : Sorted{0, -1};
    }
    more = own[tokens_at_once - 1].row == row;
    float x[tokens_at_once][count] = {};
#pragma unroll
    for (int k = 0; k < tokens_at_once; ++k)
      if (inside && own[k].row == row) load(gradient + own[k].token * lookup.width + column, x[k]);
#pragma unroll
    for (int k = 0; k < tokens_at_once; ++k)
#pragma unroll
      for (int j = 0; j < count; ++j)
        sum[j] += x[k][j];
  }
  auto* sums = shared_memory<float>();
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums[(warp_id() * count + j) * warp_size + lane_id()] = sum[j];
  __syncthreads();
  if (warp_id() != 0 || !inside) return;
  G* to = table_gradient + row * lookup.width + column;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    for (int warp = 1; warp < gradient_warps; ++warp)
      sum[j] += sums[(warp * count + j) * warp_size + lane_id()];
    to[j] = from_float<G>(to_float(to[j]) + sum[j]);
  }
}

template <int count, class T>
__global__ void add_table_kernel(Positions positions, std::int64_t width, const T* table,
                                 const T* input, T* output) {
  const std::int64_t vectors = width / count;
  for (std::int64_t i = global_thread(); i < positions.tokens * vectors; i += global_threads()) {
    const std::int64_t position =
        position_of(positions.context, (positions.first_token + i / vectors) % positions.sequence,
                    positions.sequence);
    float x[count], y[count];
    load(input + i * count, x);
    load(table + position * width + i % vectors * count, y);
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[j] += y[j];
    store(x, output + i * count);
  }
}

// A thread owns an element of the table, of a position that is here, and adds the tokens there in
// their order.
template <class T, class G>
__global__ void add_table_gradient_kernel(Positions positions, std::int64_t width,
                                          const T* gradient, G* table_gradient, bool accumulate) {
  for (std::int64_t i = global_thread(); i < positions.sequence * width; i += global_threads()) {
    const std::int64_t begin = positions.first_token % positions.sequence;
    std::int64_t token = (i / width + positions.sequence - begin) % positions.sequence;
    const std::int64_t position = position_of(positions.context, i / width, positions.sequence);
    G* to = table_gradient + position * width + i % width;
    float sum = accumulate ? to_float(*to) : 0.0f;
    for (; token < positions.tokens; token += positions.sequence)
      sum += to_float(gradient[token * width + i % width]);
    *to = from_float<G>(sum);
  }
}

Lookup lookup_of(const TableShape& shape, const TokenIds& tokens) {
  return {tokens, shape.first_row, shape.rows, shape.width};
}

void check_positions(const char* name, const TableShape& shape, const Positions& positions) {
  const std::int64_t sequence = positions.sequence * positions.context.ranks;
  if (shape.first_row != 0 || sequence > shape.rows)
    refuse(name, "a sequence of " + std::to_string(sequence) + " on a table of " +
                     std::to_string(shape.rows) + " positions");
}

}  // namespace

void embedding_forward(const TableShape& shape, const TokenIds& tokens, const void* table,
                       void* output, StreamHandle stream) {
  if (tokens.tokens * shape.width == 0) return;
  with_type("embedding_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({table, output}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "embedding_forward",
              .blocks = {stride_blocks(tokens.tokens * shape.width / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             embedding_kernel<n, T>, lookup_of(shape, tokens), as<T>(table), as<T>(output));
    });
  });
}

std::int64_t embedding_backward_workspace(std::int64_t tokens) {
  return tokens * static_cast<std::int64_t>(sizeof(Sorted));
}

void embedding_backward(const TableShape& shape, const TokenIds& tokens,
                        const TableGradient& operands, Workspace workspace, StreamHandle stream) {
  require_workspace("embedding_backward", workspace, embedding_backward_workspace(tokens.tokens));
  if (!operands.accumulate) {
    zero(operands.table_gradient, shape.rows * shape.width * sim::bytes_of(operands.gradient_dtype),
         stream);
  }
  if (tokens.tokens * shape.width == 0) return;
  auto* sorted = static_cast<Sorted*>(workspace.memory);
  launch({.name = "sort of tokens",
          .blocks = {static_cast<unsigned>(divide_up(tokens.tokens, block_threads))},
          .threads = block_threads,
          .shared_bytes = block_threads * sizeof(std::int32_t),
          .stream = stream},
         sort_tokens_kernel, lookup_of(shape, tokens), sorted);
  with_type("embedding_backward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_type("embedding_backward", operands.gradient_dtype, [&](auto gradient_type) {
      using G = typename decltype(gradient_type)::type;
      with_vector<T>(aligned({operands.gradient}), shape.width, [&](auto count) {
        constexpr int n = decltype(count)::value;
        const auto tiles = static_cast<unsigned>(divide_up(shape.width / n, warp_size));
        launch({.name = "embedding_backward",
                .blocks = {static_cast<unsigned>(tokens.tokens), tiles},
                .threads = gradient_warps * warp_size,
                .shared_bytes = gradient_warps * warp_size * n * sizeof(float),
                .stream = stream},
               embedding_gradient_kernel<n, T, G>, lookup_of(shape, tokens), sorted,
               as<T>(operands.gradient), as<G>(operands.table_gradient));
      });
    });
  });
}

void add_table_forward(const TableShape& shape, const Positions& positions, const void* table,
                       const void* input, void* output, StreamHandle stream) {
  check_positions("add_table_forward", shape, positions);
  if (positions.tokens * shape.width == 0) return;
  with_type("add_table_forward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_vector<T>(aligned({table, input, output}), shape.width, [&](auto count) {
      constexpr int n = decltype(count)::value;
      launch({.name = "add_table_forward",
              .blocks = {stride_blocks(positions.tokens * shape.width / n, block_threads)},
              .threads = block_threads,
              .stream = stream},
             add_table_kernel<n, T>, positions, shape.width, as<T>(table), as<T>(input),
             as<T>(output));
    });
  });
}

void add_table_backward(const TableShape& shape, const Positions& positions,
                        const TableGradient& operands, StreamHandle stream) {
  check_positions("add_table_backward", shape, positions);
  const std::int64_t items = positions.sequence * shape.width;
  with_type("add_table_backward", operands.gradient_dtype, [&](auto gradient_type) {
    using G = typename decltype(gradient_type)::type;
    // Positions beyond the sequence, and those of other context ranks, have no gradient.
    if (!operands.accumulate) {
      const std::int64_t first = positions.context.ranks > 1 ? 0 : items;
      zero(as<G>(operands.table_gradient) + first,
           (shape.rows * shape.width - first) * static_cast<std::int64_t>(sizeof(G)), stream);
    }
    if (items == 0) return;
    with_type("add_table_backward", shape.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      launch({.name = "add_table_backward",
              .blocks = {stride_blocks(items, block_threads)},
              .threads = block_threads,
              .stream = stream},
             add_table_gradient_kernel<T, G>, positions, shape.width, as<T>(operands.gradient),
             as<G>(operands.table_gradient), operands.accumulate);
    });
  });
}

}  // namespace real::kernels
