// Parts that the attention kernels share: who they work on, tiles in shared memory, fragments.
//
// FlashAttention-2 (Dao 2023): a block owns a tile of rows and walks over the tiles of the other
// side, so that no matrix of sequence x sequence is ever written. Tiles are copied in the
// background, two of each kind; the products run on tensor cores with fp32 accumulation.
#pragma once

#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/ptx.cuh"

namespace real::kernels {

// Rows of the other side at a time: wide heads leave registers for half of them, or they spill.
template <int width>
inline constexpr int walk_rows = width > 64 ? 32 : 64;
inline constexpr int attention_warps = 4;
inline constexpr int attention_threads = attention_warps * warp_size;
inline constexpr float log2_e = 1.4426950408889634f;
inline constexpr float natural_log_2 = 0.6931471805599453f;
inline constexpr float infinity = __builtin_huge_valf();
inline constexpr float lowest_float = -3.402823466e+38f;

// Rows of one operand of one head: element (r, c) is rows[r * stride + c].
template <class T>
struct HeadView {
  T* rows;
  int stride;
};

// Where keys and values lie: in rows of so many elements, behind so many heads.
struct KeyRows {
  int row, before;
};

// Values have a size of their own, or that of queries: the kernels of the tensor cores take no
// others, and have no register for another number.
template <bool own_values>
struct Sizes {
  int tokens, sequence, heads, kv_heads, head_dim, value_dim;
  float scale;
  bool causal;
  __host__ __device__ int values() const {
    if constexpr (own_values) return value_dim;
    return head_dim;
  }
  __host__ __device__ int row() const {
    return (heads + kv_heads) * head_dim + kv_heads * values();
  }
  __host__ __device__ KeyRows in_qkv() const { return {row(), heads}; }
  __device__ int kv_head(int head) const { return head / (heads / kv_heads); }
  template <class T>
  __device__ HeadView<T> query(T* qkv, std::int64_t first, int head) const {
    return {qkv + first * row() + head * head_dim, row()};
  }
  template <class T>
  __device__ HeadView<T> key(T* keys, KeyRows in, std::int64_t first, int kv) const {
    return {keys + first * in.row + (in.before + kv) * head_dim, in.row};
  }
  template <class T>
  __device__ HeadView<T> value(T* keys, KeyRows in, std::int64_t first, int kv) const {
    return {keys + first * in.row + (in.before + kv_heads) * head_dim + kv * values(), in.row};
  }
  template <class T>
  __device__ HeadView<T> output(T* rows, std::int64_t first, int head) const {
    return {rows + first * heads * values() + head * values(), heads * values()};
  }
};
using AttentionSizes = Sizes<false>;
using PlainSizes = Sizes<true>;

// A tile in shared memory: rows of `width` bf16 in chunks of 16 bytes. The chunks of a row are
// permuted by its number, so that the eight rows of an 8 x 8 matrix lie in different banks: rows of
// 64 or 128 elements all begin at bank 0 and take the row modulo 8; rows of 32 or 96 begin at bank
// 0 or 16 in turn and take half of it modulo 4.
template <int width>
struct Tile {
  static constexpr int chunks = width / 8;
  Bf16* memory;
  static __device__ __forceinline__ int turn(int row) {
    return chunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  }
  __device__ __forceinline__ Bf16* at(int row, int chunk) const {
    return memory + row * width + (chunk ^ turn(row)) * 8;
  }
  // The same of chunk `even` + `odd` (0 or 1), where `row` is a multiple of 8 and the number of a
  // lane, `turn` depends on the lane alone and `even` is known when compiled: addresses differ by
  // constants and an exclusive or, and take few registers.
  const __device__ __forceinline__ Bf16* at(int row, int even, int odd) const {
    return memory + row * width + even / 8 * 64 + ((odd ^ turn(lane_id())) ^ even % 8) * 8;
  }
};

// Starts copying `rows` rows from row `first` on; zeros beyond `limit` rows and `head_dim` columns.
template <int width, int rows>
__device__ __forceinline__ void start_tile(const Tile<width>& tile,
                                           const HeadView<const Bf16>& from, int first, int limit,
                                           int head_dim) {
  constexpr int chunks = Tile<width>::chunks;
#pragma unroll
  for (int i = 0; i < rows * chunks / attention_threads; ++i) {
    const int item = i * attention_threads + static_cast<int>(threadIdx.x);
    const int row = item / chunks;
    const int chunk = item % chunks;
    const bool valid = first + row < limit && chunk * 8 < head_dim;
    const Bf16* source =
        valid ? from.rows + static_cast<std::int64_t>(first + row) * from.stride + chunk * 8
              : from.rows;
    start_copy_16(tile.at(row, chunk), source, valid);
  }
}

// The 16 x 16 part at (row, column) as operand A, or as operand B transposed where its rows are the
// inner dimension.
template <int width>
const __device__ __forceinline__ Bf16* a_row(const Tile<width>& tile, int row, int column) {
  const int lane = lane_id();
  return tile.at(row + lane % 16, column / 8, lane / 16);
}
// The same part as operand B where its columns are the inner dimension.
template <int width>
const __device__ __forceinline__ Bf16* b_row(const Tile<width>& tile, int row, int column) {
  const int lane = lane_id();
  return tile.at(row + lane / 16 * 8 + lane % 8, column / 8, lane / 8 % 2);
}

// scores[m][n] = A B^T for the warp's 16 m_tiles rows of `a`, from row `first` on, and all rows of
// `b`. `at_once`: steps along the width that are unrolled; fewer take fewer registers.
template <int width, int at_once = width / 16, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_transposed(const Tile<width>& a, int first,
                                                    const Tile<width>& b,
                                                    float (&scores)[m_tiles][n_tiles][4]) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        scores[m][n][j] = 0;
#pragma unroll at_once
  for (int k = 0; k < width; k += 16) {
    std::uint32_t fragment[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      load_matrices(fragment[m], a_row(a, first + 16 * m, k));
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      std::uint32_t other[4];
      load_matrices(other, b_row(b, n * 8, k));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        multiply_16x8x16(scores[m][n], fragment[m], other[0], other[1]);
        multiply_16x8x16(scores[m][n + 1], fragment[m], other[2], other[3]);
      }
    }
  }
}

// Scores outside the mask become -infinity: of keys that do not exist, of those before the window
// of the query (Windows) and, with `causal`, of those behind it. Rows are queries and columns keys,
// or the other way round. Row and column of element j of (m, n): a lane holds two neighbouring
// columns of row l / 4, and of the row eight below.
template <bool rows_are_keys, class Chunks, int m_tiles, int n_tiles>
__device__ __forceinline__ void mask_scores(const Chunks& c, int keys, bool causal, int first_row,
                                            int first_column,
                                            float (&scores)[m_tiles][n_tiles][4]) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = first_row + 16 * m + j / 2 * 8 + lane_id() / 4;
        const int column = first_column + n * 8 + lane_id() % 4 * 2 + j % 2;
        const int query = rows_are_keys ? column : row;
        const int key = rows_are_keys ? row : column;
        if (key >= keys || (causal && key > query) || c.is_before(query, key))
          scores[m][n][j] = -infinity;
      }
}

// sum[m] += P B with P in registers as the product above left it, rounded to bf16.
template <int width, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_add(const float (&p)[m_tiles][n_tiles][4],
                                             const Tile<width>& b,
                                             float (&sum)[m_tiles][width / 8][4]) {
#pragma unroll
  for (int k = 0; k < n_tiles; k += 2) {
    std::uint32_t fragment[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      fragment[m][0] = pack(p[m][k][0], p[m][k][1]);
      fragment[m][1] = pack(p[m][k][2], p[m][k][3]);
      fragment[m][2] = pack(p[m][k + 1][0], p[m][k + 1][1]);
      fragment[m][3] = pack(p[m][k + 1][2], p[m][k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < width / 8; n += 2) {
      std::uint32_t other[4];
      load_matrices_transposed(other, a_row(b, k * 8, n * 8));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        multiply_16x8x16(sum[m][n], fragment[m], other[0], other[1]);
        multiply_16x8x16(sum[m][n + 1], fragment[m], other[2], other[3]);
      }
    }
  }
}

// Two neighbouring results of a lane, as bf16.
__device__ __forceinline__ void store_pair(Bf16* to, float first, float second) {
  *reinterpret_cast<std::uint32_t*>(to) = pack(first, second);
}

// Writes the rows of an accumulator times a factor per row: `factor[2 m]` of row l / 4,
// `factor[2 m + 1]` of eight rows on.
template <int width, int m_tiles>
__device__ __forceinline__ void store_rows(const float (&sum)[m_tiles][width / 8][4],
                                           const float (&factor)[2 * m_tiles],
                                           const HeadView<Bf16>& to, int first, int limit,
                                           int head_dim) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane_id() / 4;
      if (row >= limit) continue;
      Bf16* out = to.rows + static_cast<std::int64_t>(row) * to.stride + lane_id() % 4 * 2;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {
        if (n * 8 >= head_dim) continue;
        store_pair(out + n * 8, sum[m][n][2 * half] * factor[2 * m + half],
                   sum[m][n][2 * half + 1] * factor[2 * m + half]);
      }
    }
  }
}

PlainSizes attention_sizes(const char* name, const AttentionShape& shape);
__host__ __device__ inline AttentionSizes of_tensor_cores(const PlainSizes& s) {
  return {s.tokens, s.sequence, s.heads, s.kv_heads, s.head_dim, s.head_dim, s.scale, s.causal};
}
// Whether the kernels of the tensor cores take it; those of attention_plain.cu take all.
bool takes_tensor_cores(const AttentionShape& shape);

// visit(Constant<width>{}): the narrowest tile that holds a head; the rest of it is zeros.
template <class Visit>
void with_head_width(std::int64_t head_dim, Visit visit) {
  if (head_dim <= 32) return visit(Constant<32>{});
  if (head_dim <= 64) return visit(Constant<64>{});
  if (head_dim <= 96) return visit(Constant<96>{});
  visit(Constant<128>{});
}

}  // namespace real::kernels
