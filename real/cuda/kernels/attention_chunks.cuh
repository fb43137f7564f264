// Who sees whom: the queries and the keys of a sequence as lists of chunks, in its order.
//
// A block owns a tile of one chunk and walks over tiles of the other side's chunks; no tile crosses
// the end of a chunk. A causal mask leaves a chunk of queries the first chunks of keys, and a chunk
// of keys the last chunks of queries; of its own chunk it leaves a triangle. So a block skips whole
// tiles, and masks scores in one chunk only.
#pragma once

#include <algorithm>

#include "real/cuda/kernels/attention.cuh"
#include "real/engine/kernels/context.hpp"

namespace real::kernels {

// The chunks [from, to) of the other side's list that a chunk meets; `own` is the number of its own
// chunk where a mask cuts it, else -1.
struct Met {
  int from, to, own;
};

// Whole: a sequence is one chunk.
struct Whole {
  static constexpr bool is_one = true;
  static constexpr bool has_window = false;
  // Whether a key lies before the window of a query.
  __device__ bool is_before(int, int) const { return false; }
  __host__ __device__ int tokens(const AttentionSizes& s) const { return s.sequence; }
  __host__ __device__ int query_chunks() const { return 1; }
  __host__ __device__ int key_chunks() const { return 1; }
  // The whole sequence, and the places of chunks in it.
  __device__ int sequence(const AttentionSizes& s) const { return s.sequence; }
  __device__ int query_place(int) const { return 0; }
  __device__ int key_place(int) const { return 0; }
  __device__ Met keys_of(const AttentionSizes& s, int) const { return {0, 1, s.causal ? 0 : -1}; }
  __device__ Met queries_of(const AttentionSizes& s, int) const { return keys_of(s, 0); }
  __device__ std::int64_t query_token(const AttentionSizes& s, int) const {
    return static_cast<std::int64_t>(blockIdx.z) * s.sequence;
  }
  __device__ std::int64_t key_token(const AttentionSizes& s, int) const {
    return query_token(s, 0);
  }
  __device__ KeyRows keys(const AttentionSizes& s) const { return s.in_qkv(); }
  __device__ KeyRows gradients(const AttentionSizes& s) const { return s.in_qkv(); }
};

// Windows: a sequence is one chunk, under a causal mask, and a query sees `window` keys.
struct Windows : Whole {
  static constexpr bool has_window = true;
  int window;
  __device__ bool is_before(int query, int key) const { return query - key >= window; }
};

// Slices (SliceShape): of each sequence this rank has the queries of chunks `rank` and
// 2 ranks - 1 - rank of 2 ranks; keys are those of one rank, or of all ranks, slice by slice.
struct Slices {
  static constexpr bool is_one = false;
  static constexpr bool has_window = false;
  int chunk;               // tokens
  int ranks, rank, first;  // first: of the one slice
  bool all;
  KeyRows from, to;  // of keys and values, and of their gradients

  __device__ bool is_before(int, int) const { return false; }
  __host__ __device__ int tokens(const AttentionSizes&) const { return chunk; }
  __host__ __device__ int query_chunks() const { return 2; }
  __host__ __device__ int key_chunks() const { return all ? 2 * ranks : 2; }
  __device__ int sequence(const AttentionSizes&) const { return 2 * ranks * chunk; }
  // The place in the sequence of one of the two chunks of a rank.
  __device__ int place(int of, int which) const { return which == 0 ? of : 2 * ranks - 1 - of; }
  __device__ int query_place(int query_chunk) const { return place(rank, query_chunk); }
  __device__ int key_place(int key_chunk) const {
    return all ? key_chunk : place(first, key_chunk);
  }
  __device__ Met keys_of(const AttentionSizes& s, int query_chunk) const {
    if (!s.causal) return {0, key_chunks(), -1};
    const int own = place(rank, query_chunk);
    const int seen = all ? own + 1 : (key_place(0) <= own ? 1 : 0) + (key_place(1) <= own ? 1 : 0);
    return {0, seen, all || first == rank ? seen - 1 : -1};
  }
  __device__ Met queries_of(const AttentionSizes& s, int key_chunk) const {
    if (!s.causal) return {0, 2, -1};
    const int own = key_place(key_chunk);
    const int before = (place(rank, 0) < own ? 1 : 0) + (place(rank, 1) < own ? 1 : 0);
    return {before, 2, before < 2 && place(rank, before) == own ? before : -1};
  }
  __device__ std::int64_t query_token(const AttentionSizes& s, int query_chunk) const {
    return static_cast<std::int64_t>(blockIdx.z) * s.sequence + query_chunk * chunk;
  }
  // In all slices rank i has chunks i and 2 ranks - 1 - i.
  __device__ std::int64_t key_token(const AttentionSizes& s, int key_chunk) const {
    const int half = all ? (key_chunk >= ranks ? 1 : 0) : key_chunk;
    const int slice = all ? place(key_chunk, half) : 0;
    return static_cast<std::int64_t>(slice) * s.tokens + query_token(s, half);
  }
  __device__ KeyRows keys(const AttentionSizes&) const { return from; }
  __device__ KeyRows gradients(const AttentionSizes&) const { return to; }
};

// The tile of `rows` rows that a block owns, and how many there are of them.
struct OwnTile {
  int chunk, begin;
};
template <class Chunks>
__device__ __forceinline__ OwnTile own_tile(const AttentionSizes& s, const Chunks& c, int block,
                                            int rows) {
  if constexpr (Chunks::is_one) return {0, block * rows};
  const int in_chunk = (c.tokens(s) + rows - 1) / rows;
  return {block / in_chunk, block % in_chunk * rows};
}
inline unsigned own_tiles(std::int64_t chunks, std::int64_t tokens, std::int64_t rows) {
  return static_cast<unsigned>(chunks * divide_up(tokens, rows));
}

// The tiles of the other side that a block walks over, `walk` rows at a time: [from, to), counted
// through all chunks.
struct TileAt {
  int chunk, first;
  bool own;  // a causal mask cuts the chunk
};
template <class Chunks>
struct TileRange {
  int from, to, own;
  // In chunks of so many tokens.
  __device__ __forceinline__ TileAt at(int tile, int walk, int tokens) const {
    const int in_chunk = (tokens + walk - 1) / walk;
    const int chunk = Chunks::is_one ? 0 : tile / in_chunk;
    return {chunk, (tile - chunk * in_chunk) * walk, own == chunk};
  }
};
template <bool own_keys, class Chunks>
__device__ __forceinline__ TileRange<Chunks> tiles_met(const AttentionSizes& s, const Chunks& c,
                                                       const OwnTile& tile, int rows, int walk) {
  const Met met = own_keys ? c.queries_of(s, tile.chunk) : c.keys_of(s, tile.chunk);
  const int in_chunk = (c.tokens(s) + walk - 1) / walk;
  TileRange<Chunks> range{met.from * in_chunk, met.to * in_chunk, met.own};
  if (met.own < 0) return range;
  const int seen = (tile.begin + rows + walk - 1) / walk;
  if (own_keys) range.from += tile.begin / walk;
  if (!own_keys && seen < in_chunk) range.to += seen - in_chunk;
  if constexpr (Chunks::has_window) {
    // The first key that the first own query sees; the query behind the last that sees an own key.
    const int first = tile.begin + 1 - c.window, end = tile.begin + rows - 1 + c.window;
    if (!own_keys && first > 0) range.from = first / walk;
    if (own_keys && end / walk < range.to) range.to = (end + walk - 1) / walk;
  }
  return range;
}

// visit(Whole{}) or visit(Windows{})
template <class Visit>
void with_chunks(const char* name, const AttentionShape& shape, Visit visit) {
  if (shape.window == 0) return visit(Whole{});
  if (!shape.causal) refuse(name, "knows no window without a causal mask");
  Windows windows;
  windows.window = static_cast<int>(std::min(shape.window, shape.heads.sequence));
  visit(windows);
}

// The same queries, as of an attention without slices.
inline AttentionShape whole_of(const SliceShape& shape) {
  return {.heads = shape.heads, .causal = shape.causal, .rules = shape.rules};
}
// `from_slices`, `to_slices`: keys, or their gradients, lie in slices, else in [q|k|v].
Slices slices_of(const char* name, const SliceShape& shape, bool from_slices, bool to_slices);

// Without tensor cores; T: float or bf16. Keys and values may lie in qkv, their gradients in its
// gradient.
template <class T>
struct PlainForward {
  const T *qkv, *keys;
  T* output;
  float* log_sum_exp;
};
template <class T>
struct PlainBackward {
  const T *qkv, *keys;
  const float *log_sum_exp, *delta;
  const T* gradient;
  T *qkv_gradient, *keys_gradient;
};
template <class T, class Chunks>
void plain_attention(const PlainSizes& sizes, const Chunks& chunks, const ScoreRules& rules,
                     const PlainForward<T>& operands, StreamHandle stream);
template <class T, class Chunks>
void plain_attention_backward(const PlainSizes& sizes, const Chunks& chunks,
                              const ScoreRules& rules, const PlainBackward<T>& operands,
                              StreamHandle stream);

}  // namespace real::kernels
