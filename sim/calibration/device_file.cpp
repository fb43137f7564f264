// A calibrated device as a file.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/quantity.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

// Shares of 8-bit products that are not 1.
std::string shares_of(const GemmModel& model) {
  std::string text;
  for (const auto& [key, share] :
       {std::pair{"gradient_share", model.gradient_share},
        std::pair{"block_share", model.block_share}, std::pair{"row_share", model.row_share},
        std::pair{"micro_share", model.micro_share}})
    if (share < 1) text += fmt::format(" {}: {},", key, yaml_real(share));
  if (model.either_order) text += " either_order: true,";
  return text;
}

class DeviceWriter {
 public:
  DeviceWriter(const DeviceCalibration& calibration, const MeasuredMachine& machine)
      : c_{calibration}, d_{calibration.device}, machine_{machine} {}

  std::string write() {
    header();
    data_sheet();
    products();
    grouped_products();
    memory();
    attention("attention", d_.attention);
    if (d_.flash_attention_1) attention("flash_attention_1", *d_.flash_attention_1);
    if (d_.flash_attention_2) attention("flash_attention_2", *d_.flash_attention_2);
    line("short_loops: {{burst: {}, burst_half: {}, l2_bandwidth: {}}}  # base",
         yaml_real(d_.burst), yaml_duration(d_.burst_half), yaml_bandwidth(d_.l2_bandwidth));
    if (d_.communication_share)
      line("communication: {{compute_share: {}}}  # {}", yaml_real(*d_.communication_share),
           from("communication.compute_share"));
    reference();
    measured();
    return std::move(text_);
  }

 private:
  template <class... Values>
  void line(fmt::format_string<Values...> format, const Values&... values) {
    text_ += fmt::vformat(fmt::string_view{format}, fmt::make_format_args(values...));
    text_ += '\n';
  }

  // "fitted (123 points)": where the figure of `key` comes from, as a comment.
  std::string from(const std::string& key) const {
    for (const ParameterOrigin& origin : c_.origins) {
      if (origin.key != key) continue;
      if (origin.points < 2) return std::string{word(origin.provenance)};
      return fmt::format("{} ({} points)", word(origin.provenance), origin.points);
    }
    return "base";
  }

  std::string list_of(FitProvenance provenance) const {
    std::string text;
    for (const ParameterOrigin& origin : c_.origins)
      if (origin.provenance == provenance) text += (text.empty() ? "" : ", ") + origin.key;
    return text.empty() ? "nothing" : text;
  }

  void header() {
    line("# Written by `stepcast calibrate`.");
    line("#");
    line("# How far the model is off the points that it was fitted to, in percent:");
    line("# {:<40} {:>6} {:>8} {:>8} {:>8} {:>8}", "", "points", "median", "p90", "worst", "bias");
    for (const FitResidual& row : c_.residuals)
      line("# {:<40} {:>6} {:>8.1f} {:>8.1f} {:>8.1f} {:>+8.1f}", row.what, row.error.rows,
           row.error.median * 100, row.error.p90 * 100, row.error.worst * 100,
           row.error.bias * 100);
    for (const std::string& note : c_.notes)
      line("# Not used: {}", yaml_quoted(note));
    conditions();
    line("name: {}", yaml_quoted(d_.name));
    std::string versions;
    for (const std::string& version : machine_.versions)
      versions += (versions.empty() ? "" : ", ") + version;
    line("origin: {}",
         yaml_quoted(fmt::format(
             "calibrated {} on {}{}. Fitted: {}. Measured: {}. The rest from \"{}\": {}",
             machine_.date.empty() ? "(no date)" : machine_.date,
             machine_.host.empty() ? "an unnamed machine" : machine_.host,
             versions.empty() ? "" : " (" + versions + ")", list_of(FitProvenance::fitted),
             list_of(FitProvenance::measured), c_.base_name, d_.origin)));
    line("sources:");
    for (const std::string& source : sources())
      line("  - {}", yaml_quoted(source));
  }

  // Writes the state of the device, and the measurements that no parameter stands for.
  void conditions() {
    for (const std::string& text : machine_.conditions)
      line("# Device: {}", yaml_quoted(text));
    for (const MeasuredInterference& row : machine_.interference)
      line("# {} beside {} of {}: kernels {:.2f} times as long, the collective {:.2f} times",
           word(row.kernel.kind), row.collective.collective, yaml_bytes(row.collective.bytes),
           ratio(row.kernels_beside, row.kernels_alone),
           ratio(row.collective_beside, row.collective.time));
  }
  static double ratio(Duration beside, Duration alone) {
    return alone > Duration{} ? to_seconds(beside) / to_seconds(alone) : 0;
  }

  std::vector<std::string> sources() const {
    std::vector<std::string> all{"base: " + c_.base_name};
    for (const MeasuredKernel& point : machine_.kernels)
      if (!point.source.empty() && std::find(all.begin(), all.end(), point.source) == all.end())
        all.push_back(point.source);
    return all;
  }

  void data_sheet() {
    line("generation: {}", word(d_.generation));
    line("sms: {}  # {}", d_.sms, from("sms"));
    line("memory: {}  # {}", yaml_bytes(d_.memory), from("memory"));
    const MeasuredReserve reserve = machine_.reserved.value_or(
        MeasuredReserve{.context = d_.reserved, .nccl = {}, .libraries = {}});
    line("reserved: {{cuda_context: {}, nccl: {}, libraries: {}}}  # {}",
         yaml_bytes(reserve.context), yaml_bytes(reserve.nccl), yaml_bytes(reserve.libraries),
         machine_.reserved ? from("reserved") : "base, as one sum");
    line("l2: {}  # base", yaml_bytes(d_.l2));
    line("memory_bandwidth: {}  # {}", yaml_bandwidth(d_.memory_bandwidth),
         from("memory_bandwidth"));
    line("tdp_watts: {}  # base", yaml_real(d_.tdp_watts));
    line("host_issue: {}  # {}", yaml_duration(d_.host_issue), from("host_issue"));
    if (d_.issued_gap != Duration{} || d_.replayed_gap != Duration{})
      line("kernel_gaps: {{issued_us: {:.6f}, replayed_us: {:.6f}}}  # {}",
           static_cast<double>(d_.issued_gap.count()) * 1e-6,
           static_cast<double>(d_.replayed_gap.count()) * 1e-6, from("kernel_gaps"));
    line("operand_feed: {{per_sm: {}, device: {}}}  # {}", yaml_bandwidth(d_.operand_feed_sm),
         yaml_bandwidth(d_.operand_feed), from("operand_feed"));
  }

  void products() {
    line("gemm:");
    for (const auto& entry : words_of(DType{})) {
      const GemmModel* model = d_.gemm_model(entry.value);
      if (!model) continue;
      const std::string key = fmt::format("gemm.{}", entry.text);
      line("  {}: {{peak: {}, attained: {},{} sustained: {}, ramp_k: {}, fixed: {}}}  # {}",
           entry.text, yaml_rate(model->peak), yaml_real(model->attained), shares_of(*model),
           yaml_real(model->sustained), yaml_real(model->ramp_k), yaml_duration(model->fixed),
           from(key));
    }
  }

  void memory() {
    const MemoryModel& m = d_.memory_kernels;
    line("memory_kernels:");
    const auto row = [this](const char* key, double share) {
      line("  {}: {}  # {}", key, yaml_real(share), from(std::string{"memory_kernels."} + key));
    };
    row("elementwise", m.elementwise);
    if (m.strided) row("strided", *m.strided);
    if (m.transposed) row("transposed", *m.transposed);
    row("norm_forward", m.norm_forward);
    row("norm_backward", m.norm_backward);
    row("softmax", m.softmax);
    row("scan_forward", m.scan_forward);
    row("scan_backward", m.scan_backward);
    row("optimizer", m.optimizer);
    row("gemm", m.gemm);
    line("  fixed: {}  # {}", yaml_duration(m.fixed), from("memory_kernels.fixed"));
    line("  per_sm: {}  # {}", yaml_bandwidth(m.per_sm),
         from(d_.generation == Generation::cpu ? "memory_bandwidth" : "memory_kernels.per_sm"));
  }

  void attention(const char* key, const AttentionModel& model) {
    line("{}:  # {}", key, from(key));
    line("  kernels: {}", yaml_quoted(model.kernels));
    line("  forward_attained: {}", yaml_real(model.forward_attained));
    line("  backward_attained: {}", yaml_real(model.backward_attained));
    line("  ramp_tokens: {}", yaml_real(model.ramp_tokens));
    line("  ramp_head_dim: {}  # base", yaml_real(model.ramp_head_dim));
    line("  causal_efficiency: {}  # base", yaml_real(model.causal_efficiency));
    line("  fixed: {}", yaml_duration(model.fixed));
    if (std::string_view{key} != "attention") return;  // 8 bits are of the fastest kernels
    for (const auto& [name, gain] : {std::pair{"fp8", model.fp8}, std::pair{"mxfp8", model.mxfp8}})
      if (gain)
        line("  {}: {{forward: {}, backward: {}}}  # base", name, eight_bit_pass(gain->forward),
             eight_bit_pass(gain->backward));
  }

  static std::string eight_bit_pass(const AttentionModel::EightBitPass& pass) {
    return fmt::format("{{gain: {}, ramp_tokens: {}, width: {}}}", yaml_real(pass.gain),
                       yaml_real(pass.ramp_tokens), yaml_real(pass.width));
  }

  void grouped_products() {
    if (!d_.grouped_rows || !d_.grouped_depth) return;
    line("grouped_gemm:");
    for (const auto& [name, model] :
         {std::pair{"rows", *d_.grouped_rows}, std::pair{"depth", *d_.grouped_depth}})
      line("  {}: {{attained: {}, ramp_k: {}, per_group: {}, fixed: {}}}  # {}", name,
           yaml_real(model.attained), yaml_real(model.ramp_k), yaml_duration(model.per_group),
           yaml_duration(model.fixed), from(std::string{"grouped_gemm."} + name));
  }

  void reference() {
    if (!machine_.reference) return;
    const MeasuredReference& r = *machine_.reference;
    line(
        "# A fixed GEMM and a fixed copy that ran between the measurements: {} times, {:.2f} times",
        r.samples, r.median_slowdown);
    line(
        "# as long as undisturbed (median; worst {:.2f}). No forecast uses it; `validate real` "
        "does.",
        r.worst_slowdown);
    line("reference: {{product: {}, copy: {}, whole: {}}}", yaml_duration(r.product),
         yaml_duration(r.copy), yaml_duration(r.whole));
  }

  void measured() {
    if (d_.measured_kernels.empty()) return;
    line("# Exactly these kernels take their measured time in a step, whatever the formulas say.");
    line("measured_kernels:");
    for (const KernelTime& row : d_.measured_kernels) {
      const KernelShape& s = row.shape;
      std::string text = fmt::format("kind: {}, dtype: {}", s.kind, word(s.dtype));
      const auto flag = [&](const char* key, bool value) {
        if (value) text += fmt::format(", {}: true", key);
      };
      const auto number = [&](const char* key, std::int64_t value, std::int64_t usual) {
        if (value != usual) text += fmt::format(", {}: {}", key, value);
      };
      flag("backward", s.backward);
      flag("causal", s.causal);
      if (s.attention != AttentionKernel::flash)
        text += fmt::format(", attention: {}", word(s.attention));
      number("m", s.m, 0);
      number("n", s.n, 0);
      number("k", s.k, 0);
      number("batch", s.batch, 1);
      number("heads", s.heads, 0);
      number("kv_heads", s.kv_heads, 0);
      if (s.bytes != 0) text += fmt::format(", bytes: {}", yaml_bytes(Bytes{s.bytes}));
      line("  - {{{}, time: {}}}", text, yaml_duration(row.time));
    }
  }

  const DeviceCalibration& c_;
  const Device& d_;
  const MeasuredMachine& machine_;
  std::string text_;
};

}  // namespace

std::string device_yaml(const DeviceCalibration& calibration, const MeasuredMachine& machine) {
  return DeviceWriter{calibration, machine}.write();
}

}  // namespace sim
