// The result of a search as JSON; README.md has its keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/layout/layout_text.hpp"
#include "sim/report/numbers.hpp"
#include "sim/search/result.hpp"

namespace sim {
namespace {

// Keys in order, values as JSON text. Words and names here need no escaping but paths do.
std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      made += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      made += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      made += c;
  }
  return made + '"';
}

std::string list(const std::vector<std::string>& items, std::string_view indent) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i)
    text += fmt::format("{}\n{}  {}", i > 0 ? "," : "", indent, items[i]);
  return text + (items.empty() ? "]" : fmt::format("\n{}]", indent));
}

// The fields that a search varies; an exchange of context only where there is one, experts only
// where the model has them; what is on the host only where something is.
std::string json_of(const Layout& layout) {
  constexpr std::array<std::string_view, 22> keys{
      "tensor_parallel",    "context_parallel",       "context_exchange",
      "expert_parallel",    "expert_tensor_parallel", "pipeline_parallel",
      "data_parallel",      "virtual_stages",         "schedule",
      "micro_batch",        "sequence_parallel",      "zero_stage",
      "shard_group",        "prefetch_layers",        "reshard_after_forward",
      "recompute",          "recompute_every",        "placement",
      "layers_per_chunk",   "offload.optimizer",      "offload.parameters",
      "offload.activations"};
  std::vector<std::string_view> used;
  for (const std::string_view key : keys) {
    const bool exchange = key == "context_exchange", expert = key.starts_with("expert_");
    const bool host = key.starts_with("offload.");
    if ((!exchange || layout.context_parallel > 1) &&
        (!expert || layout.expert_tensor_parallel > 0) && (!host || layout.uses_host()))
      used.push_back(key);
  }
  return layout_json(layout, used);
}

std::string ranked_text(const RankedLayout& one, Bytes capacity) {
  std::string parts;
  for (const BreakdownField& field : breakdown_fields)
    parts += fmt::format("{}\"{}\": {}", parts.empty() ? "" : ", ", field.key,
                         in_seconds(one.breakdown.*field.member));
  const double step = in_seconds(one.evaluation.step_time);
  std::string sure;
  if (one.interval)
    sure = fmt::format("\"step_time_s_low\": {}, \"step_time_s_high\": {}, ",
                       step * one.interval->low, step * one.interval->high);
  if (one.evaluation.by_retries) sure += "\"fits_by_retries\": true, ";
  if (one.chance_behind) sure += fmt::format("\"first_faster\": {:.4f}, ", *one.chance_behind);
  if (one.regret) sure += fmt::format("\"regret\": {:.4f}, ", *one.regret);
  return fmt::format(
      "{{\"gpus\": {}, \"gpus_per_node\": {}, \"step_time_s\": {}, \"step_time_ps\": {}, {}"
      "\"tokens_per_s_per_gpu\": {}, "
      "\"mfu\": {}, \"peak_mem_bytes\": {}, \"headroom_bytes\": {}, \"breakdown_s\": {{{}}}, "
      "\"layout\": {}}}",
      one.layout.world_size(), std::min(one.gpus_per_node, one.layout.world_size()), step,
      one.evaluation.step_time.count(), sure, one.tokens_per_second_per_gpu, one.mfu,
      one.evaluation.memory.count(), (capacity - one.evaluation.memory).count(), parts,
      json_of(one.layout));
}

std::string unvalidated_text(const std::vector<Unvalidated>& parts) {
  std::vector<std::string> items;
  items.reserve(parts.size());
  for (const Unvalidated& part : parts)
    items.push_back(fmt::format("{{\"what\": {}, \"name\": {}, \"rests_on\": {}}}",
                                in_quotes(part.what), in_quotes(part.name),
                                in_quotes(part.rests_on)));
  return list(items, "  ");
}

std::string front_text(const SearchResult& result, const std::vector<FrontLayout>& front) {
  std::vector<std::string> items;
  items.reserve(front.size());
  for (const FrontLayout& one : front)
    items.push_back(fmt::format(
        "{{\"gpus\": {}, \"gpus_per_node\": {}, \"step_time_s\": {}, \"peak_mem_bytes\": {}, "
        "\"memory_in_doubt\": {}, \"gpu_hours_per_step\": {}{}, \"layout\": {}}}",
        one.layout.world_size(), std::min(one.gpus_per_node, one.layout.world_size()),
        in_seconds(one.evaluation.step_time), one.evaluation.memory.count(), !one.leaves_margin,
        one.gpu_hours_per_step,
        result.price_per_gpu_hour ? fmt::format(", \"cost_per_step\": {}",
                                                one.gpu_hours_per_step * *result.price_per_gpu_hour)
                                  : std::string{},
        json_of(one.layout)));
  return list(items, "  ");
}

}  // namespace

std::string search_json(const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  const auto ranked = [&](const std::vector<RankedLayout>& layouts) {
    std::vector<std::string> items;
    items.reserve(layouts.size());
    for (const RankedLayout& one : layouts)
      items.push_back(ranked_text(one, result.capacity));
    return list(items, "  ");
  };
  std::string text = "{\n  \"schema_version\": 1,\n";
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format("  \"{}\": {},\n", key, value);
  };
  add("stepcast_version", in_quotes(STEPCAST_VERSION));
  add("scenario", in_quotes(result.path));
  add("model", in_quotes(result.model));
  add("cluster", in_quotes(result.cluster));
  add("device", in_quotes(result.device));
  if (!result.not_validated.empty()) add("not_validated", unvalidated_text(result.not_validated));
  add("device_mem_bytes", std::to_string(result.capacity.count()));
  add("seed", std::to_string(result.seed));
  add("complete", result.complete ? "true" : "false");
  if (result.could_be_faster)
    add("could_be_faster", fmt::format("{:.4f}", *result.could_be_faster));
  const std::string for_host =
      counts.too_large_for_host > 0
          ? fmt::format("\"too_large_for_host\": {}, ", counts.too_large_for_host)
          : std::string{};
  add("space", fmt::format("{{\"legal\": {}, \"too_large_by_bound\": {}, \"too_large\": {}, {}"
                           "\"too_slow\": {}, \"simulated\": {}, \"open\": {}}}",
                           counts.legal, counts.too_large_by_bound, counts.too_large, for_host,
                           counts.too_slow, counts.simulated, counts.open));
  add("memory_margin", in_quotes(result.margin));
  add("best", ranked(result.best));
  add("within_memory_margin", ranked(result.within_margin));
  add("comparison", in_quotes(result.comparison));
  add("memory_front", front_text(result, result.memory_front));
  add("gpus_front", front_text(result, result.gpus_front));
  text += fmt::format("  \"cost_front\": {}\n}}\n", front_text(result, result.cost_front));
  return text;
}

}  // namespace sim
