// The backward pass of norms over rows. A team of warps, one of them where the row is narrow
// enough, holds a row in registers and sums with shuffles; it keeps its share of the parameters'
// gradients in registers as well, and asks for its next row before it works on this one.
#include <algorithm>

#include "real/cuda/kernels/norm.cuh"

namespace real::kernels {
namespace {

constexpr int least_warps = 4;  // of a block: teams of fewer share it
constexpr int most_warps = 8;

// A block's warps: `teams` of `warps` each.
struct Teams {
  int warps, teams;
  __device__ int own() const { return warp_id() / warps; }
};

// Where a lane's vectors of 16 bytes lie in a row: `chunks` of them, a team's width apart.
template <int chunks, class T>
struct Lane {
  static constexpr int count = 16 / sizeof(T);
  int first, step, width;
  __device__ int column(int chunk) const { return first + chunk * step; }
  __device__ bool holds(int chunk) const { return column(chunk) < width; }
};

template <int chunks>
struct Held {
  Words at[chunks];
};

// The lane's part of a row; zeros beyond the row's end and beyond the last row.
template <int chunks, class T>
__device__ __forceinline__ Held<chunks> fetch(const Lane<chunks, T>& lane, const T* rows,
                                              std::int64_t row, std::int64_t limit) {
  Held<chunks> held{};
  if (row >= limit) return held;
#pragma unroll
  for (int c = 0; c < chunks; ++c)
    if (lane.holds(c))
      held.at[c] = *reinterpret_cast<const Words*>(rows + row * lane.width + lane.column(c));
  return held;
}

// Sums over a team; every lane gets them. `scratch`: [warps of the block, n], not to be used again
// before another call with other scratch: one barrier each.
template <int n>
__device__ __forceinline__ void combine_team(const Teams& teams, float* scratch,
                                             float (&value)[n]) {
#pragma unroll
  for (float& sum : value)
    sum = combine_warp(sum, Sum{});
  if (teams.warps == 1) return;
  if (lane_id() == 0) {
#pragma unroll
    for (int k = 0; k < n; ++k)
      scratch[warp_id() * n + k] = value[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const float* sums = scratch + teams.own() * teams.warps * n + k;
    value[k] = sums[0];
    for (int warp = 1; warp < teams.warps; ++warp)
      value[k] += sums[warp * n];
  }
}

// x becomes (x - mean) / deviation; returns 1 / deviation. Two passes over registers: the variance
// of differences, which does not cancel. Elements beyond the row stay 0.
template <class Traits, int chunks, int count, class T>
__device__ __forceinline__ float normalise(const Teams& teams, const Lane<chunks, T>& lane,
                                           float epsilon, float* scratch,
                                           float (&x)[chunks][count]) {
  const float inverse_width = 1.0f / static_cast<float>(lane.width);
  if constexpr (Traits::centred) {
    float mean[1] = {};
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int j = 0; j < count; ++j)
        mean[0] += x[c][j];
    combine_team(teams, scratch, mean);
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int j = 0; j < count; ++j)
        x[c][j] = lane.holds(c) ? x[c][j] - mean[0] * inverse_width : 0.0f;
  }
  float squares[1] = {};
#pragma unroll
  for (int c = 0; c < chunks; ++c)
#pragma unroll
    for (int j = 0; j < count; ++j)
      squares[0] += x[c][j] * x[c][j];
  combine_team(teams, scratch + most_warps, squares);
  const float inverse = 1.0f / sqrtf(squares[0] * inverse_width + epsilon);
#pragma unroll
  for (int c = 0; c < chunks; ++c)
#pragma unroll
    for (int j = 0; j < count; ++j)
      x[c][j] *= inverse;
  return inverse;
}

// Adds up what the teams of a block have summed, in their order, and writes it. `shared`: a row.
template <int chunks, int count, class T>
__device__ __forceinline__ void write_sums(const Teams& teams, const Lane<chunks, T>& lane,
                                           float (&sums)[chunks][count], float* shared, float* to) {
  for (int turn = 0; turn < teams.teams; ++turn) {
    if (teams.own() == turn) {
#pragma unroll
      for (int c = 0; c < chunks; ++c) {
        if (!lane.holds(c)) continue;
        float before[count] = {};
        if (turn > 0) load(shared + lane.column(c), before);
#pragma unroll
        for (int j = 0; j < count; ++j)
          before[j] += sums[c][j];
        store(before, (turn + 1 < teams.teams ? shared : to) + lane.column(c));
      }
    }
    __syncthreads();
  }
}

// Shared memory: what combine_team needs, then a row of sums where teams share a block.
constexpr int scratch_floats = 4 * most_warps;

template <class Traits, int chunks, class T>
__global__ void __launch_bounds__(most_warps* warp_size)
    norm_backward_kernel(NormRows<T> o, Teams teams) {
  constexpr int count = Lane<chunks, T>::count;
  auto* scratch = shared_memory<float>();
  const int member = static_cast<int>(threadIdx.x) % (teams.warps * warp_size);
  const Lane<chunks, T> lane{member * count, teams.warps * warp_size * count,
                             static_cast<int>(o.width)};
  const Held<chunks> scale = fetch(lane, o.parameters, 0, 1);
  float scale_sums[chunks][count] = {}, shift_sums[Traits::shifted ? chunks : 1][count] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * teams.teams;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * teams.teams + teams.own();
  Held<chunks> x = fetch(lane, o.input, row, o.rows);
  Held<chunks> dy = fetch(lane, o.gradient, row, o.rows);
  // All teams of a block go as many rounds: they meet at barriers.
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * teams.teams; first < o.rows;
       first += step, row += step) {
    float n[chunks][count], g[chunks][count];
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      unpack<T>(x.at[c], n[c]);
      unpack<T>(dy.at[c], g[c]);
    }
    const Held<chunks> past = fetch(lane, o.residual, row, o.residual != nullptr ? o.rows : 0);
    x = fetch(lane, o.input, row + step, o.rows);
    dy = fetch(lane, o.gradient, row + step, o.rows);
    const float inverse = normalise<Traits>(teams, lane, o.epsilon, scratch, n);
    float means[2] = {};  // of g n and of g
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      float by[count];
      unpack<T>(scale.at[c], by);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        scale_sums[c][j] += g[c][j] * n[c][j];
        if constexpr (Traits::shifted) shift_sums[c][j] += g[c][j];
        g[c][j] *= by[j];
        means[0] += g[c][j] * n[c][j];
        if constexpr (Traits::centred) means[1] += g[c][j];
      }
    }
    combine_team(teams, scratch + 2 * most_warps, means);
    const float along = means[0] / static_cast<float>(lane.width);
    const float mean = Traits::centred ? means[1] / static_cast<float>(lane.width) : 0.0f;
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      if (row >= o.rows || !lane.holds(c)) continue;
      float dx[count];
      unpack<T>(past.at[c], dx);
#pragma unroll
      for (int j = 0; j < count; ++j)
        dx[j] += (g[c][j] - mean - n[c][j] * along) * inverse;
      store(dx, o.input_gradient + row * o.width + lane.column(c));
    }
  }
  float* partials = o.partials + blockIdx.x * Traits::vectors * o.width;
  float* shared = scratch + scratch_floats;
  write_sums(teams, lane, scale_sums, shared, partials);
  if constexpr (Traits::shifted) write_sums(teams, lane, shift_sums, shared, partials + o.width);
}

// How many warps share a row and how many vectors a lane has, so that fewest lanes idle, and among
// those fewest warps meet. Blocks: as many as an H100's 132 SMs hold at once (12 warps of at most
// 168 registers, 8 of at most 255), numbers of their own so that results do not depend on the
// device.
struct TeamPlan {
  int chunks = 0;  // 0: too wide
  Teams teams{};
  std::int64_t blocks = 0;
};
TeamPlan team_plan(const NormShape& shape) {
  constexpr std::int64_t processors = 132;
  const std::int64_t vector = 16 / sim::bytes_of(shape.dtype);
  TeamPlan best;
  std::int64_t least = INT64_MAX;
  for (const int chunks : {4, 3, 2}) {
    const std::int64_t warps = divide_up(shape.width, warp_size * vector * chunks);
    if (warps > most_warps || warps * chunks >= least) continue;
    least = warps * chunks;
    const auto own = static_cast<int>(warps);
    best = {chunks, {own, own < least_warps ? least_warps / own : 1}, 0};
  }
  if (best.chunks == 0) return best;
  const int resident = (best.chunks == 2 ? 12 : 8) / (best.teams.warps * best.teams.teams);
  best.blocks = std::min(processors * resident, divide_up(shape.rows, best.teams.teams));
  return best;
}

// Parts of the parameters' sums. The plain kernel, whose row of sums fills an SM when it is wide,
// takes as many or fewer.
std::int64_t parts_of(const NormShape& shape) {
  constexpr std::int64_t plain_blocks = 132;
  const TeamPlan plan = team_plan(shape);
  return plan.chunks > 0 ? plan.blocks : std::min(shape.rows, plain_blocks);
}

template <class Visit>
void with_chunks(int chunks, Visit visit) {
  if (chunks == 2) return visit(Constant<2>{});
  if (chunks == 3) return visit(Constant<3>{});
  visit(Constant<4>{});
}

int vectors_of(sim::Function function) {
  int vectors = 0;
  with_norm("norm_backward", function, [&](auto traits) { vectors = decltype(traits)::vectors; });
  return vectors;
}

void norm_backward_teams(const NormShape& shape, const NormBackward& operands, const TeamPlan& plan,
                         const Partials& partials, StreamHandle stream) {
  const std::int64_t shared = scratch_floats + (plan.teams.teams > 1 ? shape.width : 0);
  with_type("norm_backward", shape.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormRows<T> rows = norm_rows<T>(shape, operands, partials);
    with_norm("norm_backward", shape.function, [&](auto traits) {
      with_chunks(plan.chunks, [&](auto chunks) {
        launch({.name = "norm_backward",
                .blocks = {static_cast<unsigned>(plan.blocks)},
                .threads = static_cast<unsigned>(plan.teams.warps * plan.teams.teams * warp_size),
                .shared_bytes = static_cast<std::size_t>(shared) * sizeof(float),
                .stream = stream},
               norm_backward_kernel<decltype(traits), decltype(chunks)::value, T>, rows,
               plan.teams);
      });
    });
  });
}

}  // namespace

std::int64_t norm_backward_workspace(const NormShape& shape) {
  return parts_of(shape) * 2 * shape.width * static_cast<std::int64_t>(sizeof(float));
}

void norm_backward(const NormShape& shape, const NormBackward& operands, Workspace workspace,
                   StreamHandle stream) {
  require_norm_width("norm_backward", shape.width);
  require_workspace("norm_backward", workspace, norm_backward_workspace(shape));
  const NormBackward& o = operands;
  const Partials partials{.sums = static_cast<float*>(workspace.memory),
                          .parts = parts_of(shape),
                          .width = vectors_of(shape.function) * shape.width};
  const bool is_aligned =
      aligned({o.input, o.parameters, o.gradient, o.residual_gradient, o.input_gradient});
  const TeamPlan plan = team_plan(shape);
  const bool whole = shape.width * sim::bytes_of(shape.dtype) % 16 == 0;
  if (shape.rows > 0 && is_aligned && whole && plan.chunks > 0) {
    norm_backward_teams(shape, operands, plan, partials, stream);
  } else if (shape.rows > 0) {
    norm_backward_plain(shape, operands, is_aligned, partials, stream);
  }
  if (o.parameter_gradient != nullptr)
    reduce_partials(partials, o.gradient_dtype, o.accumulate, o.parameter_gradient, stream);
}

}  // namespace real::kernels
