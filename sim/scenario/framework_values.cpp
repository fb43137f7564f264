#include "sim/scenario/framework_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

class Values {
 public:
  template <class Value>
  void add(std::string_view key, const Value& value) {
    values_.emplace_back(key, fmt::format("{}", value));
  }
  void add(std::string_view key, bool value) { add(key, value ? "true" : "false"); }
  std::vector<std::pair<std::string, std::string>> take() { return std::move(values_); }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

void add_kernels(const Framework& framework, Values& out) {
  const Execution& runs = framework.execution;
  out.add("layer_norm", word(framework.layer_norm));
  out.add("qkv", word(framework.qkv));
  out.add("rms_norm", word(framework.rms_norm));
  out.add("rotary", word(framework.rotary));
  out.add("gate", word(framework.gate));
  out.add("softmax", word(framework.softmax));
  out.add("loss", word(framework.loss));
  out.add("loss_chunks_backward", word(runs.loss_chunks));
  out.add("key_heads", word(framework.key_heads));
  out.add("optimizer", word(framework.optimizer));
  out.add("token_collectives", word(framework.token_collectives));
  out.add("weight_gathers", word(framework.weight_gathers));
  out.add("fp8", word(runs.eight_bit));
  out.add("context", word(runs.context));
  out.add("fp8_attention", word(runs.eight_bit_attention));
  out.add("experts", word(runs.experts));
  out.add("expert_rows", runs.expert_rows);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> framework_values(const Framework& framework) {
  const Execution& runs = framework.execution;
  Values out;
  add_kernels(framework, out);
  out.add("gradient_placeholders", word(runs.gradient_placeholders));
  out.add("gradient_buckets", word(runs.gradient_buckets));
  out.add("keeps_intermediates", framework.keeps_intermediates);
  if (framework.host_issue)
    out.add("host_issue", fmt::format("{} ps", framework.host_issue->count()));
  out.add("host_calls", framework.host_calls);
  out.add("host_update", yaml_bandwidth(framework.host_update));
  out.add("joint_gate", framework.joint_gate);
  out.add("accuracy", framework.accuracy);
  for (const ExecutionSwitch& item : execution_switches)
    out.add(item.key, runs.*item.member != item.inverted);
  if (runs.max_split_size.count() > 0)
    out.add("max_split_size", fmt::format("{} B", runs.max_split_size.count()));
  if (runs.workspaces.count() > 0)
    out.add("workspaces", fmt::format("{} B", runs.workspaces.count()));
  out.add("held_logits", runs.held_logits);
  out.add("loss_metrics", runs.loss_metrics);
  return out.take();
}

std::vector<std::string> other_values(const Framework& framework, const Framework& base) {
  const auto of_base = framework_values(base);
  std::vector<std::string> other;
  for (const auto& [key, value] : framework_values(framework)) {
    const auto same = std::ranges::find(of_base, key, [](const auto& pair) { return pair.first; });
    if (same == of_base.end() || same->second != value)
      other.push_back(fmt::format("{} {}", key, value));
  }
  return other;
}

}  // namespace sim
