// The reader of kernel measurements (CSV).
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/cost/kernel_fit.hpp"
#include "sim/model/mixers.hpp"

namespace sim {
namespace {

constexpr std::string_view header =
    "kind,sms,shape,flops,min_bytes,median_us,min_us,max_us,samples";

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "M=64 N=768 K=768": the value of one name.
std::optional<std::int64_t> shape_value(std::string_view shape, std::string_view name) {
  for (const std::string_view part : split(shape, ' '))
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=')
      return number<std::int64_t>(part.substr(name.size() + 1));
  return std::nullopt;
}

struct Kind {
  std::string_view name;
  OpKind kind;
  DType dtype;
  AttentionPart part;
  bool eager;
  ProductScales scales = ProductScales::tensors;
  Load load = Load::loop;  // step: of a device that had been busy for seconds
  Grouping grouping = Grouping::none;
  double cast = 0;  // bytes for each element of A, by a pass before that was timed with it
};
constexpr std::array<Kind, 32> kinds{{
    {"gemm_bf16_tn", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_bf16_dgrad_nn", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_bf16_wgrad_nt", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_fp32", OpKind::gemm, DType::fp32, AttentionPart::forward, false},
    {"gemm_tf32", OpKind::gemm, DType::tf32, AttentionPart::forward, false},
    {"gemm_fp8", OpKind::gemm, DType::fp8, AttentionPart::forward, false},
    {"gemm_fp8_soaked", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_promoted", OpKind::gemm, DType::fp8, AttentionPart::backward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_blocks", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::blocks, Load::step},
    {"gemm_fp8_rows", OpKind::gemm, DType::fp8, AttentionPart::forward, false, ProductScales::rows,
     Load::step},
    {"gemm_bf16_soaked", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_cast", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::loop, Grouping::none, 2 + 1},
    {"gemm_fp8_micro_cast", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::micro, Load::loop, Grouping::none, 2 + 1 + 4.0 / 128},
    {"gemm_nvfp4_cast", OpKind::gemm, DType::nvfp4, AttentionPart::forward, false,
     ProductScales::tensors, Load::loop, Grouping::none, 2 + 0.5 + 1.0 / 16},
    {"gemm_fp8_cast_soaked", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::none, 2 + 1},
    {"gemm_nvfp4_cast_soaked", OpKind::gemm, DType::nvfp4, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::none, 2 + 0.5 + 1.0 / 16},
    {"gemm_fp8_micro", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::micro},
    {"grouped_bf16_tn_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_dgrad_nn_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_wgrad_nt_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::depth},
    {"grouped_bf16_tn_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_dgrad_nn_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_wgrad_nt_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::depth},
    {"mamba2_scan_fwd", OpKind::scan, DType::bf16, AttentionPart::forward, false},
    {"mamba2_scan_bwd", OpKind::scan, DType::bf16, AttentionPart::backward, false},
    {"flash_fwd", OpKind::attention, DType::bf16, AttentionPart::forward, true},
    {"flash_bwd", OpKind::attention, DType::bf16, AttentionPart::backward, true},
    {"add_bf16", OpKind::elementwise, DType::bf16, AttentionPart::forward, false},
    {"gelu_fwd", OpKind::elementwise, DType::bf16, AttentionPart::forward, true},
    {"layernorm_fwd", OpKind::norm, DType::bf16, AttentionPart::forward, true},
    {"layernorm_bwd", OpKind::norm, DType::bf16, AttentionPart::backward, true},
    {"adamw_fused_fp32", OpKind::optimizer, DType::fp32, AttentionPart::forward, true},
}};

// Rows of products whose `m` rows in the mean are cut at random places, the fullest first: of n
// parts of a line the j-th largest is (1/j + ... + 1/n) times their mean (David & Nagaraja 2003,
// Order Statistics, section 6.4).
void cut_at_random(Kernel& kernel) {
  std::vector<double> sizes(static_cast<std::size_t>(kernel.batch));
  double sum = 0;
  for (std::size_t j = sizes.size(); j-- > 0;)
    sizes[j] = static_cast<double>(kernel.m) * (sum += 1.0 / static_cast<double>(j + 1));
  std::size_t next = 0;
  for (std::size_t part = 0; part < kernel.uneven.size(); ++part) {
    const std::int64_t count = uneven_part(kernel.batch, part);
    double all = 0;
    for (std::int64_t i = 0; i < count; ++i)
      all += sizes[next++];
    if (count > 0) kernel.uneven[part] = std::llround(all / static_cast<double>(count));
  }
}

bool read_shape(std::string_view shape, Kernel& kernel) {
  if (kernel.kind == OpKind::gemm) {
    const auto m = shape_value(shape, "M"), n = shape_value(shape, "N"),
               k = shape_value(shape, "K");
    if (!m || !n || !k || *m < 1 || *n < 1 || *k < 1) return false;
    kernel.m = *m, kernel.n = *n, kernel.k = *k;
    if (const auto matrices = shape_value(shape, "E")) {
      if (*matrices < 1) return false;
      kernel.batch = *matrices;
    }
  } else if (kernel.kind == OpKind::attention) {
    const auto b = shape_value(shape, "B"), h = shape_value(shape, "H"),
               s = shape_value(shape, "S"), d = shape_value(shape, "D"),
               causal = shape_value(shape, "causal");
    if (!b || !h || !s || !d || !causal || *b < 1 || *h < 1 || *s < 1 || *d < 1) return false;
    kernel.batch = *b, kernel.heads = *h, kernel.kv_heads = *h;
    kernel.m = kernel.n = *s, kernel.k = *d;
    kernel.causal = *causal != 0;
  } else if (kernel.kind == OpKind::scan) {
    const auto b = shape_value(shape, "B"), h = shape_value(shape, "H"),
               g = shape_value(shape, "G"), s = shape_value(shape, "S"),
               q = shape_value(shape, "Q");
    if (!b || !h || !g || !s || !q || *b < 1 || *h < 1 || *g < 1 || *s < 1 || *q < 1) return false;
    const bool forward = kernel.part == AttentionPart::forward;
    kernel.m = *b * *s, kernel.n = *h, kernel.k = *g;
    kernel.in_sequence = *s / *q * (forward ? Mamba2::forward_step : Mamba2::backward_step);
    kernel.launches = forward ? Mamba2::forward_kernels : Mamba2::backward_kernels;
  }
  return true;
}

}  // namespace

std::vector<KernelMeasurement> read_kernel_measurements(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(SourcePosition{.file = path}, "cannot be opened");
  std::vector<KernelMeasurement> rows;
  std::string line;
  for (int number_of_line = 1; std::getline(file, line); ++number_of_line) {
    const SourcePosition where{.file = path, .line = number_of_line, .column = 1};
    if (number_of_line == 1) {
      if (line != header) throw InputError(where, fmt::format("expected the header {}", header));
      continue;
    }
    const std::vector<std::string_view> field = split(line, ',');
    if (field.size() != 9)
      throw InputError(where, fmt::format("expected 9 fields, found {}", field.size()));
    for (const Kind& kind : kinds) {
      if (kind.name != field[0]) continue;
      KernelMeasurement row;
      row.kind = kind.name;
      row.eager = kind.eager;
      row.load = kind.load;
      row.kernel = {.kind = kind.kind,
                    .dtype = kind.dtype,
                    .part = kind.part,
                    .scales = kind.scales,
                    .grouping = kind.grouping};
      const auto sms = number<int>(field[1]);
      const auto flops = number<double>(field[3]);
      const auto bytes = number<std::int64_t>(field[4]);
      const auto median = number<double>(field[5]);
      if (!sms || *sms < 1 || !flops || !bytes || *bytes < 0 || !median || !(*median > 0) ||
          !(*median < 1e12) || !read_shape(field[2], row.kernel))
        throw InputError(where, "this row does not hold a shape, counts and a time");
      row.sms = *sms;
      if (kind.grouping == Grouping::rows && kind.name.ends_with("_cut")) cut_at_random(row.kernel);
      row.kernel.flops = Flops{*flops};
      row.kernel.bytes = Bytes{*bytes};
      row.median = duration_from_seconds(*median * 1e-6);
      if (kind.cast > 0)
        row.cast = Bytes{std::llround(kind.cast * static_cast<double>(row.kernel.m) *
                                      static_cast<double>(row.kernel.k))};
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace sim
