#include "sim/cost/kernel_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/model/model.hpp"

namespace sim {
namespace {

// The larger of overlapping costs, rounded off where they are alike: (a^4 + b^4 + c^4)^(1/4). A
// kernel that is bound by one of them takes that time; one at the knee takes up to 32% more.
double overlap(double a, double b, double c) {
  const auto fourth = [](double x) { return (x * x) * (x * x); };
  return std::sqrt(std::sqrt(fourth(a) + fourth(b) + fourth(c)));
}

constexpr std::array<int, 6> tile_sizes{64, 96, 128, 160, 192, 256};

struct Tile {
  int m, n;
  std::size_t row_size, column_size;  // indices into tile_sizes
};
constexpr Tile tile(int m, int n) {
  const auto index = [](int size) {
    std::size_t i = 0;
    while (tile_sizes[i] != size)
      ++i;
    return i;
  };
  return {m, n, index(m), index(n)};
}

// Output tiles of tensor-core kernels: what CUTLASS's profiler lists for 16-bit products and cuBLAS
// names in its kernels (..._128x256_..., ..._192x128_...).
constexpr std::array<Tile, 14> tiles{tile(256, 128), tile(128, 256), tile(192, 128), tile(128, 192),
                                     tile(128, 160), tile(160, 128), tile(128, 128), tile(128, 96),
                                     tile(96, 128),  tile(64, 256),  tile(128, 64),  tile(64, 192),
                                     tile(64, 128),  tile(64, 64)};

// How many tiles of each size cover `extent`: a division by a constant is a multiplication, and
// this is the hottest function of a sweep.
template <std::int64_t size>
double tile_count(std::int64_t extent) {
  const std::int64_t count = divide_up(extent, size);
  return static_cast<double>(count);
}
using TileCounts = std::array<double, tile_sizes.size()>;
TileCounts tile_counts(std::int64_t extent) {
  return {tile_count<64>(extent),  tile_count<96>(extent),  tile_count<128>(extent),
          tile_count<160>(extent), tile_count<192>(extent), tile_count<256>(extent)};
}

// Tile counts of all rows of the products of a kernel: experts have tiles of their own, those
// without a row have none.
TileCounts row_tiles(const Kernel& kernel) {
  if (kernel.uneven.front() == 0) {
    TileCounts counts = tile_counts(kernel.m);
    for (double& count : counts)
      count *= static_cast<double>(kernel.batch);
    return counts;
  }
  TileCounts all{};
  for (std::size_t part = 0; part < kernel.uneven.size(); ++part) {
    const auto products = static_cast<double>(uneven_part(kernel.batch, part));
    if (products == 0 || kernel.uneven[part] == 0) continue;
    const TileCounts counts = tile_counts(kernel.uneven[part]);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] += products * counts[i];
  }
  return all;
}

// Exact for counts below 2^50: the quotient of an exact multiple is exact, and any other is further
// from the next integer than double's rounding.
double ceil_ratio(double count, double of) {
  const double ratio = count / of;
  if (ratio > 0x1p50) return ratio;
  const auto whole = static_cast<double>(static_cast<std::int64_t>(ratio));
  return whole < ratio ? whole + 1 : whole;
}

double wave_count(double tiles_to_run, double sms, Waves waves) {
  return waves == Waves::whole ? ceil_ratio(tiles_to_run, sms) : tiles_to_run / sms;
}

KernelCost cost_of(double seconds, double bytes, double sm_share) {
  KernelCost cost;
  cost.time = duration_from_seconds(seconds);
  // A kernel without bytes may take no time at all.
  cost.memory = Bandwidth::bytes_per_second(bytes > 0 ? bytes / seconds : 0.0);
  cost.sm_share = sm_share;
  return cost;
}

double memory_rate(const Device& device, double share) {
  const double per_sm = device.memory_kernels.per_sm.in_bytes_per_second() * device.sms;
  return std::min(device.memory_bandwidth.in_bytes_per_second() * share, per_sm);
}

double gemm_bytes(const Kernel& kernel) {
  const auto m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n),
             k = static_cast<double>(kernel.k);
  return (m * k + k * n + m * n) * static_cast<double>(kernel.batch) *
         operand_bytes_of(kernel.dtype);
}

// Time to stream `bytes` in a loop over the same buffers: what fits the L2 stays there.
double loop_memory_seconds(double bytes, double rate, const Device& device) {
  const auto l2 = static_cast<double>(device.l2.count());
  const double from_memory = std::clamp((bytes - l2) / l2, 0.0, 1.0) * bytes;
  return from_memory / rate + (bytes - from_memory) / device.l2_bandwidth.in_bytes_per_second();
}

double operand_bytes(const Kernel& kernel) {
  const auto m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n),
             k = static_cast<double>(kernel.k);
  return (m * k + k * n) * static_cast<double>(kernel.batch) * operand_bytes_of(kernel.dtype);
}

// Bytes of results that are added to, for products that run side by side, one for each expert. Each
// is short: the reads and writes of its tiles at their end do not run beside the loops of others.
// Eight weight gradients of 20 to 64 experts of DeepSeek-V2 and V3 with 512 to 1,232 rows each,
// measured on B200 (github.com/MooreThreads/SimuMax at e6918079,
// configs/system/b200_bf16_ceperm.json, group_matmul, stage=bwd_grad_w, main_grad_dtype=fp32), are
// forecast 2 to 26% too long so, at the rate that the device sustains in training; beside each
// other, 20 to 32% too short.
double exposed_result_bytes(const Kernel& kernel) {
  const double result = static_cast<double>(kernel.bytes.count()) - operand_bytes(kernel);
  // Eight-bit products write 16 bits.
  const double written = static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                         static_cast<double>(kernel.batch) * std::max(2, bytes_of(kernel.dtype));
  return kernel.batch > 1 && result > written ? result : 0;
}

// Hopper's libraries cut products for as many thread blocks as there are SMs, each with its tiles
// from the start (PyTorch issue 143988: all cuBLAS products of a training step on H100s). Before,
// blocks were many and short; Blackwell hands out tiles while a product runs (CUTLASS issue 2471).
bool has_persistent_products(const Device& device) {
  return device.generation == Generation::hopper;
}

const GroupedModel* grouped_model(const Kernel& kernel, const Device& device) {
  const bool sixteen_bit = kernel.dtype == DType::bf16 || kernel.dtype == DType::fp16;
  const std::optional<GroupedModel>& model =
      kernel.grouping == Grouping::rows ? device.grouped_rows : device.grouped_depth;
  return kernel.grouping != Grouping::none && sixteen_bit && model ? &*model : nullptr;
}

// The products of all experts in one kernel: clusters of two thread blocks with tiles of 128 x 256
// each, over the SMs in whole waves; each block turns to the next expert after its own
// (pytorch/pytorch at 06c0cf01, aten/src/ATen/native/cuda/GroupMM.cu, TileShape and ClusterShape
// of Sm90).
GemmTiling grouped_tiling(const Kernel& kernel, const Device& device, const GroupedModel& model,
                          Waves rounding) {
  constexpr int tile_m = 128, tile_n = 256, cluster = 2;
  constexpr std::size_t cluster_rows = 5;  // 256, in tile_sizes
  const double per_sm =
      device.peak(kernel.dtype).in_flops_per_second() * model.attained / device.sms;
  const int sms = std::max(1, device.sms - kernel.spared_sms);
  GemmTiling tiling{.tile_m = tile_m, .tile_n = tile_n};
  tiling.tiles = cluster * row_tiles(kernel)[cluster_rows] * tile_count<tile_n>(kernel.n);
  tiling.waves = wave_count(tiling.tiles, sms, rounding);
  const double depth = static_cast<double>(kernel.k) + model.ramp_k;
  const double groups = std::min(tiling.waves, static_cast<double>(kernel.batch));
  tiling.seconds =
      tiling.waves * depth * 2 * tile_m * tile_n / per_sm + groups * to_seconds(model.per_group);
  return tiling;
}

KernelCost gemm_cost(const Kernel& kernel, const Device& device, Load load, Waves waves) {
  const GemmModel& model = device.require_gemm(kernel.dtype);
  const GroupedModel* const grouped = grouped_model(kernel, device);
  const GemmTiling tiling = grouped != nullptr ? grouped_tiling(kernel, device, *grouped, waves)
                                               : gemm_tiling(kernel, device, waves);
  const double flops = 2.0 * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                       static_cast<double>(kernel.k) * static_cast<double>(kernel.batch);
  const double peak = model.peak.in_flops_per_second();
  // The caller may know of more: a result in a wider dtype, or one that is added to.
  const double bytes = std::max(gemm_bytes(kernel), static_cast<double>(kernel.bytes.count()));
  const double exposed = exposed_result_bytes(kernel);
  const double rate = memory_rate(device, device.memory_kernels.gemm);
  double memory = (bytes - exposed) / rate;
  double sustained = model.sustained;
  if (load == Load::loop) {
    memory = loop_memory_seconds(bytes, rate, device);
    const double half = to_seconds(device.burst_half);
    sustained *= 1 + device.burst * half / (half + tiling.seconds);
  }
  const double power = flops / (peak * sustained);
  const double seconds = to_seconds(grouped != nullptr ? grouped->fixed : model.fixed) +
                         overlap(tiling.seconds, memory, power) + exposed / rate;
  const double most = std::max(1, device.sms - kernel.spared_sms);
  KernelCost cost = cost_of(seconds, bytes, std::min(most, tiling.tiles) / device.sms);
  cost.persistent = has_persistent_products(device);
  // Products of several experts run on four streams (Transformer Engine 2, pytorch/csrc,
  // te_general_grouped_gemm; multi_stream_cublas).
  cost.abreast = kernel.abreast > 1 || (kernel.batch > 1 && grouped == nullptr);
  return cost;
}

// Share of one memory-bound kernel.
double share_of(const Kernel& kernel, const MemoryModel& model) {
  switch (kernel.kind) {
    case OpKind::norm:
      return kernel.part == AttentionPart::backward ? model.norm_backward : model.norm_forward;
    case OpKind::attention:
      return model.softmax;
    case OpKind::optimizer:
      return model.optimizer;
    case OpKind::scan:
      return kernel.part == AttentionPart::backward ? model.scan_backward : model.scan_forward;
    default:
      return model.elementwise;
  }
}

// Bytes by the kind of kernel that moves them.
struct Traffic {
  double own = 0;  // at the share of the operator's kind
  double beside = 0, strided = 0, transposed = 0;
  double bytes() const { return own + beside + strided + transposed; }
};

Traffic traffic_of(const Kernel& kernel) {
  const auto beside = static_cast<double>(kernel.beside.count());
  const auto strided = static_cast<double>(kernel.strided.count());
  const auto transposed = static_cast<double>(kernel.transposed.count());
  const auto all = static_cast<double>(kernel.bytes.count());
  return {all - beside - strided - transposed, beside, strided, transposed};
}

KernelCost memory_cost(const Traffic& traffic, int launches, double share, const Device& device) {
  const MemoryModel& model = device.memory_kernels;
  const double rate = memory_rate(device, share);
  const double seconds =
      to_seconds(model.fixed) * std::max(1, launches) + traffic.own / rate +
      traffic.beside / memory_rate(device, model.elementwise) +
      traffic.strided / memory_rate(device, model.strided.value_or(model.elementwise)) +
      traffic.transposed / memory_rate(device, model.transposed.value_or(model.elementwise));
  // As many SMs as it takes to reach this bandwidth: with the others gone it is no slower.
  const double all = device.memory_kernels.per_sm.in_bytes_per_second() * device.sms;
  return cost_of(seconds, traffic.bytes(), std::clamp(rate / all, 1.0 / device.sms, 1.0));
}

// A kernel with FLOPs is a convolution or the like: an implicit product, which at best runs like a
// large one (NVIDIA, Convolutional Layers User's Guide).
KernelCost generic_cost(const Kernel& kernel, const Device& device) {
  const double share = share_of(kernel, device.memory_kernels);
  const Traffic traffic = traffic_of(kernel);
  if (kernel.kind != OpKind::generic || kernel.flops.count() <= 0)
    return memory_cost(traffic, kernel.launches, share, device);
  const GemmModel& model = device.require_gemm(kernel.dtype);
  const double at_peak = kernel.flops.count() / model.peak.in_flops_per_second();
  const double seconds =
      to_seconds(device.memory_kernels.fixed) * std::max(1, kernel.launches) +
      overlap(at_peak / model.attained, traffic.bytes() / memory_rate(device, share),
              at_peak / model.sustained);
  return cost_of(seconds, traffic.bytes(), 1.0);
}

// A share of the bandwidth, however few its heads are; but the states of a sequence follow each
// other.
KernelCost scan_cost(const Kernel& kernel, const Device& device) {
  const double share = share_of(kernel, device.memory_kernels);
  const Traffic traffic = traffic_of(kernel);
  const double seconds =
      to_seconds(memory_cost(traffic, kernel.launches, share, device).time + kernel.in_sequence);
  return cost_of(seconds, traffic.bytes(), 1.0);
}

// A head's keys and values are as wide as each other, but in latent attention.
double width_of_values(const Kernel& kernel) {
  return static_cast<double>(kernel.values > 0 ? kernel.values : kernel.k);
}

// The share of the scores that a mask leaves.
double unmasked_share(const Kernel& kernel) {
  return kernel.causal ? 0.5 * share_in_window(kernel.window, kernel.n) : 1.0;
}

// A block of rows works on whole blocks of keys. What that adds at the diagonal of a causal mask is
// in the ramp and the efficiency of the device; a window has a second edge, at which the rows that
// have one, n - w of n, see half a block in vain. Keys in all over keys that count; never more than
// without a window.
double edge_of_window(const Kernel& kernel, double block) {
  if (!is_shorter(kernel.window, kernel.n)) return 1;
  const double tokens = static_cast<double>(kernel.n);
  const double counted = tokens * unmasked_share(kernel);
  const double all = 1 + (1 - static_cast<double>(kernel.window) / tokens) * block / 2 / counted;
  return std::min(all, tokens / 2 / counted);
}

// FLOPs as FlashAttention counts them (Dao 2023, section 4.1): 4 b h sq sk d forward, 2.5 times
// that backward (it recomputes the scores), half of both under a causal mask; of two widths, three
// of the five products have that of the keys.
double attention_flops(const Kernel& kernel) {
  const auto keys = static_cast<double>(kernel.k);
  const double values = width_of_values(kernel);
  const bool backward = kernel.part == AttentionPart::backward;
  const double widths = backward ? 3 * keys + 2 * values : keys + values;
  return 2.0 * static_cast<double>(kernel.batch) * static_cast<double>(kernel.heads) *
         static_cast<double>(kernel.m) * static_cast<double>(kernel.n) * widths *
         unmasked_share(kernel);
}

// Q and the output are m tokens of `heads`, K and V are n tokens of `kv_heads`; backward reads them
// with the output's gradient and writes the gradients of Q, K and V.
double flash_bytes(const Kernel& kernel) {
  const auto heads = static_cast<double>(kernel.heads);
  const double kv_heads = kernel.kv_heads > 0 ? static_cast<double>(kernel.kv_heads) : heads;
  const double tensor_q = static_cast<double>(kernel.m) * heads;
  const double tensor_kv = static_cast<double>(kernel.n) * kv_heads;
  const double once = (tensor_q + tensor_kv) *
                      (static_cast<double>(kernel.k) + width_of_values(kernel)) *
                      static_cast<double>(kernel.batch) * bytes_of(kernel.dtype);
  return kernel.part == AttentionPart::backward ? 2 * once : once;
}

// cuDNN's backward pass in 8 bits does not leave out what lies before a window: at 2,048 to 32,768
// tokens under a window of 128 its time grows with their square (topologies/devices/RULES.md, rule
// 13).
bool ignores_window(const Kernel& kernel) {
  return kernel.dtype == DType::fp8 && kernel.part == AttentionPart::backward;
}

// Over the rate of 16 bits. REQUIRES: the device has such kernels.
double eight_bit_gain(const Kernel& kernel, const Device& device, const AttentionModel& model) {
  if (kernel.dtype != DType::fp8) return 1;
  const auto& gain = kernel.scales == ProductScales::micro ? model.mxfp8 : model.fp8;
  if (!gain)
    throw InputError(SourcePosition{.file = device.name},
                     fmt::format("this device has no rates of attention in {}",
                                 kernel.scales == ProductScales::micro ? "mxfp8" : "fp8"));
  const AttentionModel::EightBitPass& pass =
      kernel.part == AttentionPart::backward ? gain->backward : gain->forward;
  const double keys = static_cast<double>(kernel.n) * unmasked_share(kernel);
  const double width = (static_cast<double>(kernel.k) + width_of_values(kernel)) / 2;
  // Rule 13: heads of less than 128 features lose less than wider ones gain.
  constexpr double narrow = 0.25;
  const double exponent = width < 128 ? narrow : pass.width;
  return pass.gain * keys / (keys + pass.ramp_tokens) * std::pow(width / 128, exponent);
}

// Seconds of the casts around a kernel in 8 bits, two to three launches.
double cast_seconds(const Kernel& kernel, const Device& device) {
  if (kernel.beside <= Bytes{}) return 0;
  const int launches = kernel.launches - (kernel.part == AttentionPart::backward ? 3 : 1);
  return to_seconds(device.memory_kernels.fixed) * launches +
         static_cast<double>(kernel.beside.count()) /
             memory_rate(device, device.memory_kernels.elementwise);
}

KernelCost flash_cost(Kernel kernel, const Device& device, Waves waves) {
  constexpr double block = 128;  // rows of Q (forward) or of K (backward) per thread block
  if (ignores_window(kernel)) kernel.window = 0;
  const AttentionModel* const rates = device.attention_model(kernel.attention);
  SIM_CHECK(rates != nullptr, device.name, word(kernel.attention));
  const AttentionModel& model = *rates;
  const bool backward = kernel.part == AttentionPart::backward;
  const double keys = static_cast<double>(kernel.n) * unmasked_share(kernel);
  const double dim = static_cast<double>(kernel.k);
  const double dim_share = dim / (dim + model.ramp_head_dim) * (128 + model.ramp_head_dim) / 128;
  const double attained = (backward ? model.backward_attained : model.forward_attained) * keys /
                          (keys + model.ramp_tokens) * std::min(1.0, dim_share) *
                          (kernel.causal ? model.causal_efficiency : 1.0);
  const bool eight_bit = kernel.dtype == DType::fp8;
  const double rate = device.peak(eight_bit ? DType::bf16 : kernel.dtype).in_flops_per_second() *
                      attained * eight_bit_gain(kernel, device, model);
  // Blocks over SMs, the last wave counted whole.
  const double blocks = static_cast<double>(kernel.batch) * static_cast<double>(kernel.heads) *
                        ceil_ratio(static_cast<double>(backward ? kernel.n : kernel.m), block);
  const double quantised = wave_count(blocks, device.sms, waves) * device.sms / blocks;
  const double bytes = flash_bytes(kernel);
  const double seconds =
      to_seconds(model.fixed) +
      std::max(attention_flops(kernel) / rate * quantised * edge_of_window(kernel, block),
               bytes / memory_rate(device, device.memory_kernels.elementwise)) +
      (eight_bit ? cast_seconds(kernel, device) : 0.0);
  return cost_of(seconds, bytes, std::min(1.0, blocks / device.sms));
}

// Tensor cores are fed 16 bytes at a time (NVIDIA, Matrix Multiplication Background, "Tensor Core
// Requirements"). Heads of another width run where fp32 does: with 108 features, and with 150, what
// 8 batched products of a layer cost more on A100 is 10 TFLOP/s (bigscience-workshop/bigscience,
// chronicles-prequel.md: 128 heads beside 96 at hidden 13824, hidden 14400 beside 13824).
DType units_of_head(const Kernel& kernel, const Device& device) {
  const bool aligned = kernel.k * bytes_of(kernel.dtype) % 16 == 0;
  const bool sixteen_bit = kernel.dtype == DType::bf16 || kernel.dtype == DType::fp16;
  const bool elsewhere = sixteen_bit && !aligned && device.gemm_model(DType::fp32) != nullptr;
  return elsewhere ? DType::fp32 : kernel.dtype;
}

// Scores in memory: batched products (two forward, four backward), and for the bytes of the
// operator that are not the products' own the softmax and, beside it, element-wise kernels.
KernelCost unfused_cost(const Kernel& kernel, const Device& device, Load load, Waves waves) {
  const bool backward = kernel.part == AttentionPart::backward;
  Kernel scores{.kind = OpKind::gemm,
                .dtype = kernel.dtype,
                .m = kernel.m,
                .n = kernel.n,
                .k = kernel.k,
                .batch = kernel.batch * kernel.heads};
  Kernel context = scores;
  std::swap(context.n, context.k);
  const int of_each = backward ? 2 : 1;
  const double products = of_each * (gemm_bytes(scores) + gemm_bytes(context));
  scores.dtype = context.dtype = units_of_head(kernel, device);
  const KernelCost score_cost = gemm_cost(scores, device, load, waves);
  const KernelCost context_cost = gemm_cost(context, device, load, waves);
  Traffic traffic = traffic_of(kernel);
  traffic.own = std::max(0.0, traffic.own - products);
  const int launches = std::max(1, kernel.launches - 2 * of_each);
  const KernelCost rest = memory_cost(traffic, launches, device.memory_kernels.softmax, device);
  KernelCost cost;
  cost.time = (score_cost.time + context_cost.time) * of_each + rest.time;
  cost.memory = Bandwidth::bytes_per_second((products + traffic.bytes()) / to_seconds(cost.time));
  return cost;
}

// The share of the rate that is left beside scaling and adding up the sums of 8-bit products.
double share_of_product(const Kernel& kernel, const GemmModel& model) {
  if (kernel.scales == ProductScales::rows) return model.row_share;
  if (kernel.scales == ProductScales::blocks) return model.block_share;
  if (kernel.scales == ProductScales::micro) return model.micro_share;
  return kernel.part == AttentionPart::backward ? model.gradient_share : 1.0;
}

}  // namespace

GemmTiling gemm_tiling(const Kernel& kernel, const Device& device, Waves rounding) {
  constexpr double least_k = 256;  // of a partial product: with less the ramp is all there is
  const GemmModel& model = device.require_gemm(kernel.dtype);
  const double attained = model.attained * share_of_product(kernel, model);
  const double per_sm = model.peak.in_flops_per_second() * attained / device.sms;
  const int sms = std::max(1, device.sms - kernel.spared_sms);
  const double element = operand_bytes_of(kernel.dtype);
  const double feed_sm = element / device.operand_feed_sm.in_bytes_per_second();
  const double feed_device = element / device.operand_feed.in_bytes_per_second();
  const auto k = static_cast<double>(kernel.k);
  // Partial products are written and read as fp32 in L2, by a kernel of its own (cuBLAS's
  // splitKreduce_kernel).
  const double add_up = static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                        static_cast<double>(kernel.batch) * 8 /
                        device.l2_bandwidth.in_bytes_per_second();
  const double add_up_fixed = to_seconds(device.memory_kernels.fixed);
  const TileCounts rows = row_tiles(kernel), columns = tile_counts(kernel.n);
  GemmTiling best;
  for (const Tile& shape : tiles) {
    const double output = rows[shape.row_size] * columns[shape.column_size];
    const double edges = shape.m + shape.n;
    const double per_k = std::max(2.0 * shape.m * shape.n / per_sm, edges * feed_sm);
    for (int split = 1; split <= 16; split *= 2) {
      const double count = output * split;
      if (split > 1 && (count > sms || k < least_k * split)) break;
      const double depth = k / split + model.ramp_k;
      const double waves = kernel.abreast == 1 ? wave_count(count, sms, rounding)
                                               : std::max(count / sms, 1.0 / kernel.abreast);
      const double seconds = std::max(waves * per_k * depth, count * edges * depth * feed_device) +
                             (split > 1 ? add_up * split + add_up_fixed : 0.0);
      if (best.tile_m == 0 || seconds < best.seconds)
        best = {.tile_m = shape.m,
                .tile_n = shape.n,
                .split_k = split,
                .tiles = count,
                .waves = waves,
                .seconds = seconds};
    }
  }
  return best;
}

KernelShape shape_of(const Kernel& kernel) {
  return {.kind = std::string{word(kernel.kind)},
          .dtype = kernel.dtype,
          .backward = kernel.part == AttentionPart::backward,
          .causal = kernel.causal,
          .attention = kernel.attention,
          .m = kernel.m,
          .n = kernel.n,
          .k = kernel.k,
          .batch = kernel.batch,
          .heads = kernel.heads,
          .kv_heads = kernel.kv_heads,
          .bytes = kernel.bytes.count()};
}

KernelCost formula_cost(const Kernel& kernel, const Device& device, Load load, Waves waves) {
  SIM_CHECK(runs_kernel(kernel.kind) && kernel.bytes.count() >= 0, word(kernel.kind),
            kernel.bytes.count());
  if (kernel.kind == OpKind::gemm || kernel.kind == OpKind::attention)
    SIM_CHECK(kernel.m > 0 && kernel.n > 0 && kernel.k > 0 && kernel.batch > 0, kernel.m, kernel.n,
              kernel.k, kernel.batch);
  switch (kernel.kind) {
    case OpKind::gemm:
      return gemm_cost(kernel, device, load, waves);
    case OpKind::attention:
      SIM_CHECK(kernel.heads > 0, kernel.heads);
      return is_flash(kernel.attention) ? flash_cost(kernel, device, waves)
                                        : unfused_cost(kernel, device, load, waves);
    case OpKind::scan:
      return scan_cost(kernel, device);
    default:
      return generic_cost(kernel, device);
  }
}

namespace {

// A time that was measured on another device than this one, whose formula says `formula`.
Duration carried_over(Duration measured, Duration formula, const Kernel& kernel,
                      const Device& device, Waves waves) {
  if (!device.measured_on) return measured;
  const Duration before = formula_cost(kernel, *device.measured_on, Load::step, waves).time;
  if (before == formula || before <= Duration{}) return measured;
  return duration_from_seconds(to_seconds(measured) * to_seconds(formula) / to_seconds(before));
}

}  // namespace

// Those that run beside others of their like, in a window, or with scales of blocks, were not
// measured so.
const KernelTime* measured_time(const Kernel& kernel, const Device& device) {
  if (kernel.abreast > 1 || kernel.window > 0 || kernel.scales != ProductScales::tensors)
    return nullptr;
  const KernelShape shape = shape_of(kernel);
  const auto& rows = device.measured_kernels;
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), shape,
                       [](const KernelTime& row, const KernelShape& s) { return row.shape < s; });
  return found != rows.end() && found->shape == shape ? &*found : nullptr;
}

KernelCost kernel_cost(const Kernel& kernel, const Device& device, Load load, Waves waves) {
  KernelCost cost = formula_cost(kernel, device, load, waves);
  if (load == Load::loop || device.measured_kernels.empty()) return cost;
  if (const KernelTime* row = measured_time(kernel, device)) {
    const Duration time = carried_over(row->time, cost.time, kernel, device, waves);
    // The traffic is the formula's, over the time that was measured.
    cost.memory = cost.memory * (to_seconds(cost.time) / to_seconds(time));
    cost.time = time;
  }
  return cost;
}

}  // namespace sim
