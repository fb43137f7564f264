// The end of a step: gradient norm, AdamW, the search for numbers that are not finite.
#include "real/cuda/kernels/launch.cuh"

namespace real::kernels {
namespace {

__device__ __forceinline__ bool is_finite(float value) {
  return fabsf(value) <= 3.402823466e38f;
}

constexpr unsigned block_threads = 256;
// Partial sums of squares: four blocks for every SM of an H100, a number of its own so that the
// result does not depend on the device.
constexpr std::int64_t square_blocks = 528;

template <int count, class T>
__global__ void square_kernel(std::int64_t elements, const T* values, float* partials) {
  float sum = 0;
  const std::int64_t vectors = elements / count;
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    float x[count];
    load(values + i * count, x);
#pragma unroll
    for (int j = 0; j < count; ++j)
      sum += x[j] * x[j];
  }
  const std::int64_t rest = vectors * count + global_thread();
  if (rest < elements) sum += to_float(values[rest]) * to_float(values[rest]);
  sum = combine_block(sum, Sum{}, shared_memory<float>());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void finish_squares_kernel(std::int64_t parts, const float* partials, float weight,
                                      bool accumulate, float* result) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < parts; i += blockDim.x)
    sum += static_cast<double>(partials[i]);
  sum = combine_block(sum, Sum{}, shared_memory<double>());
  if (threadIdx.x != 0) return;
  const double before = accumulate ? static_cast<double>(*result) : 0.0;
  *result = static_cast<float>(before + static_cast<double>(weight) * sum);
}

__global__ void finish_norm_kernel(const float* sum, float clip, float* norm, float* clip_scale) {
  if (threadIdx.x != 0) return;
  const float value = sqrtf(*sum);
  *norm = value;
  const float scale = clip / (value + 1e-6f);
  *clip_scale = clip > 0.0f && is_finite(value) && scale < 1.0f ? scale : 1.0f;
}

__global__ void require_finite_kernel(const double* value, float* sum) {
  // The test of is_finite(), for a double.
  if (threadIdx.x == 0 && !(fabs(*value) <= 1.7976931348623157e308)) *sum = nanf("");
}

struct AdamConstants {
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta^step
};

__device__ __forceinline__ bool decays(const DecayRanges& ranges, std::int64_t element) {
  // The last range that begins at or before the element.
  std::int64_t low = 0, high = ranges.count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (ranges.ranges[middle].at <= element) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const Range& range = ranges.ranges[low - 1];
  return element < range.at + range.elements;
}

// An element of the update; the master goes in and out, m and v too.
__device__ __forceinline__ float adam_element(const AdamConstants& c, float g, bool decay, float w,
                                              float& m, float& v) {
  if (decay) w -= c.rate * c.decay * w;
  m = c.beta1 * m + (1.0f - c.beta1) * g;
  v = c.beta2 * v + (1.0f - c.beta2) * g * g;
  return w - c.rate * (m / c.correction1) / (sqrtf(v / c.correction2) + c.epsilon);
}

template <int count, class W, class G, class M>
__global__ void adam_kernel(AdamConstants c, AdamState state, std::int64_t vectors,
                            DecayRanges ranges) {
  if (state.gate != nullptr && !is_finite(*state.gate)) return;
  if (state.step != nullptr) {
    c.rate = static_cast<float>(state.step->rate);
    c.correction1 = static_cast<float>(state.step->correction1);
    c.correction2 = static_cast<float>(state.step->correction2);
  }
  const float clip = state.clip_scale != nullptr ? *state.clip_scale : 1.0f;
  auto* weight = static_cast<W*>(state.weight);
  const auto* gradient = static_cast<const G*>(state.gradient);
  auto* first = static_cast<M*>(state.m);
  auto* second = static_cast<M*>(state.v);
  for (std::int64_t i = global_thread(); i < vectors; i += global_threads()) {
    const std::int64_t at = i * count;
    float g[count], w[count], m[count], v[count];
    load(gradient + at, g);
    load(first + at, m);
    load(second + at, v);
    if (state.master != nullptr) {
      load(state.master + at, w);
    } else {
      load(weight + at, w);
    }
#pragma unroll
    for (int j = 0; j < count; ++j)
      w[j] = adam_element(c, g[j] * clip, decays(ranges, at + j), w[j], m[j], v[j]);
    store(m, first + at);
    store(v, second + at);
    if (state.master != nullptr) store(w, state.master + at);
    store(w, weight + at);
  }
}

template <class T>
__global__ void not_finite_kernel(std::int64_t elements, const T* values, std::int32_t index,
                                  std::int32_t* first) {
  int found = 0;
  for (std::int64_t i = global_thread(); i < elements; i += global_threads())
    if (!is_finite(to_float(values[i]))) found = 1;
  if (__any_sync(all_lanes, found) != 0 && lane_id() == 0) atomicMin(first, index);
}

}  // namespace

std::int64_t square_sum_workspace() {
  return square_blocks * static_cast<std::int64_t>(sizeof(float));
}

void square_sum(const SquareSum& how, std::int64_t elements, const void* values, float* sum,
                Workspace workspace, StreamHandle stream) {
  require_workspace("square_sum", workspace, square_sum_workspace());
  auto* partials = static_cast<float*>(workspace.memory);
  const std::int64_t full = 16 / sim::bytes_of(how.dtype);
  const std::int64_t wanted = divide_up(elements, full * block_threads);
  const std::int64_t parts = wanted < square_blocks ? wanted : square_blocks;
  with_type("square_sum", how.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (parts == 0) return;
    // A rest shorter than a vector is fine: one thread each takes it.
    with_vector<T>(aligned({values}), 0, [&](auto count) {
      launch({.name = "square_sum",
              .blocks = {static_cast<unsigned>(parts)},
              .threads = block_threads,
              .shared_bytes = block_threads / warp_size * sizeof(float),
              .stream = stream},
             square_kernel<decltype(count)::value, T>, elements, as<T>(values), partials);
    });
  });
  launch({.name = "square_sum",
          .blocks = {1},
          .threads = block_threads,
          .shared_bytes = block_threads / warp_size * sizeof(double),
          .stream = stream},
         finish_squares_kernel, parts, partials, how.weight, how.accumulate, sum);
}

void finish_norm(const float* sum, double clip, float* norm, float* clip_scale,
                 StreamHandle stream) {
  launch({.name = "finish_norm", .stream = stream}, finish_norm_kernel, sum,
         static_cast<float>(clip), norm, clip_scale);
}

void require_finite(const double* value, float* sum, StreamHandle stream) {
  launch({.name = "require_finite", .stream = stream}, require_finite_kernel, value, sum);
}

void adam(const Adam& settings, const AdamState& state, std::int64_t elements,
          const DecayRanges& decay_ranges, StreamHandle stream) {
  if (elements == 0) return;
  if (state.master == nullptr && state.weight_dtype != sim::DType::fp32)
    refuse("adam", "weights that are not fp32 need a master copy");
  const auto step = static_cast<double>(settings.step);
  const AdamConstants constants{static_cast<float>(settings.rate),
                                static_cast<float>(settings.beta1),
                                static_cast<float>(settings.beta2),
                                static_cast<float>(settings.epsilon),
                                static_cast<float>(settings.decay),
                                static_cast<float>(1 - std::pow(settings.beta1, step)),
                                static_cast<float>(1 - std::pow(settings.beta2, step))};
  const bool vectors =
      aligned({state.weight, state.master, state.m, state.v, state.gradient}) && elements % 4 == 0;
  with_type("adam", state.weight_dtype, [&](auto weight_type) {
    using W = typename decltype(weight_type)::type;
    with_type("adam", state.gradient_dtype, [&](auto gradient_type) {
      using G = typename decltype(gradient_type)::type;
      with_type("adam", state.moment_dtype, [&](auto moment_type) {
        using M = typename decltype(moment_type)::type;
        const std::int64_t items = vectors ? elements / 4 : elements;
        const Shape shape{.name = "adam",
                          .blocks = {stride_blocks(items, block_threads)},
                          .threads = block_threads,
                          .stream = stream};
        if (vectors) {
          launch(shape, adam_kernel<4, W, G, M>, constants, state, items, decay_ranges);
        } else {
          launch(shape, adam_kernel<1, W, G, M>, constants, state, items, decay_ranges);
        }
      });
    });
  });
}

void find_not_finite(sim::DType dtype, std::int64_t elements, const void* values,
                     std::int32_t index, std::int32_t* first, StreamHandle stream) {
  if (elements == 0) return;
  with_type("find_not_finite", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.name = "find_not_finite",
            .blocks = {stride_blocks(elements, block_threads)},
            .threads = block_threads,
            .stream = stream},
           not_finite_kernel<T>, elements, as<T>(values), index, first);
  });
}

}  // namespace real::kernels
