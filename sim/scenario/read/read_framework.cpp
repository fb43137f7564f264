#include "sim/scenario/read/read_framework.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/near_names.hpp"
#include "sim/topology/device.hpp"

namespace sim {
namespace {

Duration read_host_issue(const Layered& section) {
  const Duration time = section.duration_or("host_issue", {});
  if (time > most_host_issue)
    section.problem("host_issue", "it is the time of one kernel; allowed: 0 s to 1 ms");
  return std::min(time, most_host_issue);
}

// c10/core/AllocatorConfig.cpp, parseMaxSplitSize: above a large segment. Segments that grow split
// every block (CUDACachingAllocator.cpp, should_split).
Bytes read_max_split_size(const Layered& section, const Execution& execution) {
  const Bytes size = section.bytes_or("max_split_size", execution.max_split_size);
  if (size.count() == 0) return size;
  if (size.count() <= 20 * (std::int64_t{1} << 20))
    section.problem("max_split_size",
                    "it is max_split_size_mb; allowed: 0 for none, or more than 20 MiB");
  if (execution.expandable_segments)
    section.problem("max_split_size",
                    "with expandable_segments every block is split; allowed: one of them");
  return size;
}

std::string unknown_version(PresetName name, const std::string& version) {
  const std::vector<std::string_view> known = versions_of(name);
  if (known.empty()) return fmt::format("{} has no versions: leave the key out", word(name));
  return fmt::format("there is no version '{}' of {}; {}", version, word(name),
                     choices_text(version, known));
}

}  // namespace

const Preset& read_preset(const Layered& section) {
  const auto name = section.word_or("name", PresetName::megatron);
  // Another name on top of a file leaves the version of the file's own behind.
  const bool other_name = section.overridden("name") && !section.overridden("version");
  const std::string version = section.text_or("version", "");
  if (other_name) return preset_of(name);
  if (const Preset* found = find_preset(name, version)) return *found;
  section.problem("version", unknown_version(name, version));
  return preset_of(name);
}

Framework read_framework(const Layered& section, Framework framework) {
  for (const char* key : {"name", "version"})
    static_cast<void>(section.has(key));  // of read_preset()
  framework.layer_norm = section.word_or("layer_norm", framework.layer_norm);
  framework.qkv = section.word_or("qkv", framework.qkv);
  framework.rms_norm = section.word_or("rms_norm", framework.rms_norm);
  framework.rotary = section.word_or("rotary", framework.rotary);
  framework.gate = section.word_or("gate", framework.gate);
  framework.softmax = section.word_or("softmax", framework.softmax);
  framework.loss = section.word_or("loss", framework.loss);
  framework.execution.loss_chunks =
      section.word_or("loss_chunks_backward", framework.execution.loss_chunks);
  framework.key_heads = section.word_or("key_heads", framework.key_heads);
  framework.optimizer = section.word_or("optimizer", framework.optimizer);
  framework.token_collectives = section.word_or("token_collectives", framework.token_collectives);
  framework.weight_gathers = section.word_or("weight_gathers", framework.weight_gathers);
  framework.execution.eight_bit = section.word_or("fp8", framework.execution.eight_bit);
  framework.execution.eight_bit_attention =
      section.word_or("fp8_attention", framework.execution.eight_bit_attention);
  framework.execution.context = section.word_or("context", framework.execution.context);
  framework.execution.experts = section.word_or("experts", framework.execution.experts);
  framework.execution.expert_rows = static_cast<int>(
      section.integer_or("expert_rows", framework.execution.expert_rows, {1, 1024}));
  framework.execution.gradient_placeholders =
      section.word_or("gradient_placeholders", framework.execution.gradient_placeholders);
  framework.execution.gradient_buckets =
      section.word_or("gradient_buckets", framework.execution.gradient_buckets);
  framework.keeps_intermediates =
      section.boolean_or("keeps_intermediates", framework.keeps_intermediates);
  if (section.has("host_issue")) framework.host_issue = read_host_issue(section);
  framework.host_update = section.bandwidth_or("host_update", framework.host_update);
  framework.host_calls = section.real_or("host_calls", framework.host_calls, {0, 100});
  framework.joint_gate = section.boolean_or("joint_gate", framework.joint_gate);
  framework.accuracy = section.boolean_or("accuracy", framework.accuracy);
  Execution& execution = framework.execution;
  for (const ExecutionSwitch& item : execution_switches) {
    bool& value = execution.*item.member;
    value = section.boolean_or(item.key, value != item.inverted) != item.inverted;
  }
  execution.max_split_size = read_max_split_size(section, execution);
  execution.workspaces = section.bytes_or("workspaces", execution.workspaces);
  execution.held_logits =
      static_cast<int>(section.integer_or("held_logits", execution.held_logits, {0, 64}));
  execution.loss_metrics =
      static_cast<int>(section.integer_or("loss_metrics", execution.loss_metrics, {0, 64}));
  return framework;
}

}  // namespace sim
