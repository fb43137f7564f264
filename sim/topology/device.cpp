#include "sim/topology/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/config/file_kind.hpp"
#include "sim/config/reader.hpp"

namespace sim {
namespace {

constexpr RealRange share{.min = 1e-6, .max = 1.0};

GemmModel read_gemm(const ObjectReader& reader) {
  GemmModel model;
  model.peak = reader.flop_rate("peak");
  // Boards whose clock exceeds that of the data sheet's peak reach shares above 1 per SM.
  model.attained = reader.real("attained", {.min = 1e-6, .max = 2.0});
  model.gradient_share = reader.real_or("gradient_share", 1, share);
  model.block_share = reader.real_or("block_share", 1, share);
  model.row_share = reader.real_or("row_share", 1, share);
  model.micro_share = reader.real_or("micro_share", 1, share);
  model.either_order = reader.boolean_or("either_order", false);
  model.sustained = reader.real("sustained", share);
  model.ramp_k = reader.real("ramp_k", {.min = 0, .max = 65536});
  model.fixed = reader.duration("fixed");
  return model;
}

void read_gemms(const ObjectReader& reader, Device& device) {
  const std::vector<std::string> keys = reader.keys();
  if (keys.empty()) reader.problem("a device needs the model of at least one dtype");
  for (const std::string& key : keys) {
    const std::optional<DType> dtype = from_word<DType>(key);
    if (!dtype) {
      reader.problem(
          key,
          fmt::format("unknown dtype \"{}\"; allowed: fp32, tf32, bf16, fp16, fp8, nvfp4", key));
      continue;
    }
    const ObjectReader gemm = reader.object(key);
    for (const char* of_fp8 :
         {"gradient_share", "block_share", "row_share", "micro_share", "either_order"})
      if (*dtype != DType::fp8 && gemm.has(of_fp8))
        gemm.problem(of_fp8, fmt::format("{} is for fp8 products only", of_fp8));
    device.gemm[static_cast<std::size_t>(*dtype)] = read_gemm(gemm);
  }
}

GroupedModel read_grouped(const ObjectReader& reader) {
  return {.attained = reader.real("attained", {.min = 1e-6, .max = 2.0}),
          .ramp_k = reader.real("ramp_k", {.min = 0, .max = 65536}),
          .per_group = reader.duration("per_group"),
          .fixed = reader.duration("fixed")};
}

// `fastest`: only these kernels have 8 bits.
AttentionModel read_attention(const ObjectReader& reader, bool fastest = false) {
  AttentionModel model;
  model.kernels = reader.text("kernels");
  model.forward_attained = reader.real("forward_attained", share);
  model.backward_attained = reader.real("backward_attained", share);
  model.ramp_tokens = reader.real("ramp_tokens", {.min = 0, .max = 65536});
  model.ramp_head_dim = reader.real("ramp_head_dim", {.min = 0, .max = 4096});
  model.causal_efficiency = reader.real("causal_efficiency", share);
  model.fixed = reader.duration("fixed");
  const auto gain = [&](const char* key) -> std::optional<AttentionModel::EightBit> {
    if (!reader.has(key)) return std::nullopt;
    const auto pass = [](const ObjectReader& of) -> AttentionModel::EightBitPass {
      return {.gain = of.real("gain", {.min = 0.1, .max = 10}),
              .ramp_tokens = of.real_or("ramp_tokens", 0, {.min = 0, .max = 65536}),
              .width = of.real_or("width", 0, {.min = -4, .max = 4})};
    };
    const ObjectReader of = reader.object(key);
    return AttentionModel::EightBit{pass(of.object("forward")), pass(of.object("backward"))};
  };
  if (!fastest) return model;
  model.fp8 = gain("fp8");
  model.mxfp8 = gain("mxfp8");
  return model;
}

MemoryModel read_memory_kernels(const ObjectReader& reader) {
  MemoryModel model;
  model.elementwise = reader.real("elementwise", share);
  if (reader.has("strided")) model.strided = reader.real("strided", share);
  if (reader.has("transposed")) model.transposed = reader.real("transposed", share);
  model.norm_forward = reader.real("norm_forward", share);
  model.norm_backward = reader.real("norm_backward", share);
  model.softmax = reader.real("softmax", share);
  // Absent: in the H200's ratio to norms, up to a plain stream (topologies/devices/RULES.md, rule
  // 8).
  constexpr double forward_to_norm = 0.518 / 0.465, backward_to_norm = 0.496 / 0.333, stream = 0.9;
  model.scan_forward =
      reader.real_or("scan_forward", std::min(stream, model.norm_forward * forward_to_norm), share);
  model.scan_backward = reader.real_or(
      "scan_backward", std::min(stream, model.norm_backward * backward_to_norm), share);
  model.optimizer = reader.real("optimizer", share);
  model.gemm = reader.real("gemm", share);
  model.fixed = reader.duration("fixed");
  model.per_sm = reader.bandwidth("per_sm");
  return model;
}

// Words of OpKind (sim/program/operators.hpp) that run kernels.
constexpr std::array<std::string_view, 10> kernel_kinds{
    "gemm",          "attention", "norm",      "elementwise", "embedding",
    "cross_entropy", "generic",   "optimizer", "encode",      "decode"};

KernelTime read_kernel_time(const ObjectReader& reader) {
  constexpr IntegerRange extent{.min = 0, .max = std::int64_t{1} << 50};
  KernelTime row;
  KernelShape& shape = row.shape;
  shape.kind = reader.text("kind");
  if (std::find(kernel_kinds.begin(), kernel_kinds.end(), shape.kind) == kernel_kinds.end())
    reader.problem("kind", fmt::format("unknown kind of kernel \"{}\"; allowed: {}", shape.kind,
                                       fmt::join(kernel_kinds, ", ")));
  shape.dtype = reader.word<DType>("dtype");
  shape.backward = reader.boolean_or("backward", false);
  shape.causal = reader.boolean_or("causal", false);
  shape.attention = reader.word_or("attention", AttentionKernel::flash);
  shape.m = reader.integer_or("m", 0, extent);
  shape.n = reader.integer_or("n", 0, extent);
  shape.k = reader.integer_or("k", 0, extent);
  shape.batch = reader.integer_or("batch", 1, extent);
  shape.heads = reader.integer_or("heads", 0, extent);
  shape.kv_heads = reader.integer_or("kv_heads", 0, extent);
  shape.bytes = reader.bytes_or("bytes", Bytes{}).count();
  row.time = reader.duration("time");
  if (row.time <= Duration{}) reader.problem("time", "a kernel takes time");
  return row;
}

void read_measured_kernels(const ObjectReader& reader, Device& device) {
  for (const ValueReader& value : reader.list("measured_kernels"))
    device.measured_kernels.push_back(read_kernel_time(value.object()));
  auto& rows = device.measured_kernels;
  std::sort(rows.begin(), rows.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.shape < b.shape; });
  const auto twice = std::adjacent_find(
      rows.begin(), rows.end(),
      [](const KernelTime& a, const KernelTime& b) { return a.shape == b.shape; });
  if (twice != rows.end())
    reader.problem(
        "measured_kernels",
        fmt::format("a {} kernel is listed twice with the same shape", twice->shape.kind));
}

Bytes read_reserved(const ObjectReader& reader) {
  return reader.bytes("cuda_context") + reader.bytes("nccl");
}

// Checks the reference times of the machine that was calibrated, for runs on it:
// sim/scores/real/real_drift.hpp reads them, and no forecast does.
void check_reference(const ObjectReader& reader) {
  for (const char* key : {"product", "copy", "whole"})
    if (reader.duration(key) <= Duration{}) reader.problem(key, "a reference takes time");
}

constexpr RealRange microseconds_of_a_gap{.min = -1000, .max = 1000};

// Checks that ranges of single values do not cover.
void check_device(const ObjectReader& top, const Device& device) {
  if (device.memory <= device.reserved) top.problem("memory", "must be more than what is reserved");
  if (device.host_issue > most_host_issue)
    top.problem("host_issue", "it is the time of one kernel; allowed: 0 s to 1 ms");
}

std::vector<std::string> read_names(const ObjectReader& top, std::string_view key) {
  std::vector<std::string> names;
  if (!top.has(key)) return names;
  for (const ValueReader& name : top.list(key))
    names.push_back(name.text());
  return names;
}

Device read_device(const Document& document) {
  const ObjectReader top = document.root_object();
  Device device;
  device.name = top.text("name");
  device.aliases = read_names(top, "aliases");
  device.unlike = read_names(top, "unlike");
  device.origin = top.text("origin");
  device.not_validated = top.text_or("not_validated", "");
  for (const ValueReader& source : top.list("sources"))
    static_cast<void>(source.text());
  device.generation = top.word<Generation>("generation");
  device.sms = static_cast<int>(top.integer("sms", {.min = 1, .max = 4096}));
  device.memory = top.bytes("memory");
  const ObjectReader reserved = top.object("reserved");
  device.workspaces = reserved.bytes("libraries");
  device.reserved = read_reserved(reserved) + device.workspaces;
  device.l2 = top.bytes("l2");
  device.memory_bandwidth = top.bandwidth("memory_bandwidth");
  device.host_issue = top.duration("host_issue");
  if (top.has("kernel_gaps")) {
    const ObjectReader gaps = top.object("kernel_gaps");
    const auto gap = [&](const char* key) {
      return Duration{std::llround(1e6 * gaps.real(key, microseconds_of_a_gap))};  // picoseconds
    };
    device.issued_gap = gap("issued_us");
    device.replayed_gap = gap("replayed_us");
  }
  device.tdp_watts = top.real("tdp_watts", {.min = 1, .max = 1e5});
  const ObjectReader loop = top.object("short_loops");
  device.burst = loop.real("burst", {.min = 0, .max = 10});
  device.burst_half = loop.duration("burst_half");
  device.l2_bandwidth = loop.bandwidth("l2_bandwidth");
  const ObjectReader feed = top.object("operand_feed");
  device.operand_feed_sm = feed.bandwidth("per_sm");
  device.operand_feed = feed.bandwidth("device");
  read_gemms(top.object("gemm"), device);
  if (top.has("grouped_gemm")) {
    const ObjectReader grouped = top.object("grouped_gemm");
    device.grouped_rows = read_grouped(grouped.object("rows"));
    device.grouped_depth = read_grouped(grouped.object("depth"));
  }
  device.attention = read_attention(top.object("attention"), true);
  if (top.has("flash_attention_1"))
    device.flash_attention_1 = read_attention(top.object("flash_attention_1"));
  if (top.has("flash_attention_2"))
    device.flash_attention_2 = read_attention(top.object("flash_attention_2"));
  else if (device.attention.kernels == "FlashAttention-2")
    device.flash_attention_2 = device.attention;
  device.memory_kernels = read_memory_kernels(top.object("memory_kernels"));
  if (top.has("communication"))
    device.communication_share =
        top.object("communication").real("compute_share", {.min = 0, .max = 1});
  if (top.has("measured_kernels")) read_measured_kernels(top, device);
  if (top.has("reference")) check_reference(top.object("reference"));
  check_device(top, device);
  document.finish();
  return device;
}

}  // namespace

const AttentionModel* Device::attention_model(AttentionKernel kernel) const {
  const auto of = [](const std::optional<AttentionModel>& model) {
    return model ? &*model : nullptr;
  };
  switch (kernel) {
    case AttentionKernel::flash:
      return &attention;
    case AttentionKernel::flash_1:
      return of(flash_attention_1);
    case AttentionKernel::flash_2:
      return of(flash_attention_2);
    case AttentionKernel::unfused:
      return nullptr;
  }
  return nullptr;
}

std::string Device::gemm_formats() const {
  std::string formats;
  for (const auto& entry : words_of(DType{}))
    if (gemm_model(entry.value))
      formats += fmt::format("{}{}", formats.empty() ? "" : ", ", entry.text);
  return formats;
}

const GemmModel& Device::require_gemm(DType dtype) const {
  if (const GemmModel* model = gemm_model(dtype)) return *model;
  throw InputError(
      SourcePosition{.file = name},
      fmt::format("this device cannot compute in {}; allowed: {}", word(dtype), gemm_formats()));
}

FlopRate Device::peak(DType dtype) const {
  return require_gemm(dtype).peak;
}

Device load_device(const std::string& path, std::span<const Change> changes) {
  Document document = Document::load(path);
  refuse_other_kinds(document, FileKind::device);
  document.change(changes);
  Device device = read_device(document);
  for (const Change& change : changes)
    device.origin += fmt::format("; what if {} were {}", change.key, change.value);
  if (!changes.empty() && !device.measured_kernels.empty()) {
    device.measured_on = std::make_shared<const Device>(load_device(path));
    device.origin += "; measured kernels scaled by the formulas' ratio to the file's device";
  }
  return device;
}

Device parse_device(std::string_view yaml, const std::string& name) {
  return read_device(Document::parse_yaml(yaml, name));
}

Device restricted_to_sms(const Device& device, int sms) {
  SIM_CHECK(sms >= 1 && sms <= device.sms, sms, device.sms);
  Device part = device;
  const double fraction = static_cast<double>(sms) / device.sms;
  part.sms = sms;
  for (auto& model : part.gemm) {
    if (!model) continue;
    model->peak = model->peak * fraction;
    model->sustained /= fraction;
  }
  return part;
}

}  // namespace sim
