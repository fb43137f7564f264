#include "sim/search/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/report/memory_kinds.hpp"
#include "sim/scenario/read/read_layout.hpp"
#include "sim/search/framework_space.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t most_layers = 10'000;

// The values at `key`: one, or a list of them. No value twice.
template <class Value, class Read>
void read_values(const Layered& section, std::string_view key, std::vector<Value>& values,
                 Read read) {
  const ObjectReader* holder = section.holder(key);
  if (!holder) return;
  const ValueReader value = holder->at(key);
  std::vector<ValueReader> entries{value};
  if (value.is_list()) entries = value.list();
  if (entries.empty()) holder->problem(key, "is an empty list: leave the key out for all values");
  for (const ValueReader& entry : entries) {
    const Value one = read(entry);
    if (std::find(values.begin(), values.end(), one) == values.end()) values.push_back(one);
  }
}

void read_integers(const Layered& section, std::string_view key, IntegerRange range,
                   std::vector<int>& values) {
  read_values(section, key, values,
              [&](const ValueReader& entry) { return static_cast<int>(entry.integer(range)); });
}

void read_booleans(const Layered& section, std::string_view key, std::vector<int>& values) {
  read_values(section, key, values,
              [](const ValueReader& entry) { return entry.boolean() ? 1 : 0; });
}

template <class Enum>
void read_words(const Layered& section, std::string_view key, std::vector<Enum>& values) {
  read_values(section, key, values, [](const ValueReader& entry) {
    const std::string text = entry.text();
    if (const std::optional<Enum> found = from_word<Enum>(text)) return *found;
    std::string allowed;
    for (const auto& known : words_of(Enum{}))
      allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known.text);
    entry.problem(fmt::format("'{}' is none of {}", text, allowed));
    return words_of(Enum{})[0].value;
  });
}

// "tp-cp-dp-pp": an order of ranks in one word, so that a list of them reads well.
std::vector<Dimension> read_order(const ValueReader& entry) {
  const std::string text = entry.text();
  std::vector<Dimension> order;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t dash = std::min(text.find('-', at), text.size());
    const std::optional<Dimension> one = from_word<Dimension>(text.substr(at, dash - at));
    if (!one || std::find(order.begin(), order.end(), *one) != order.end()) order.resize(9);
    if (order.size() < 9) order.push_back(*one);
    at = dash + 1;
  }
  if (order.size() == 4) return order;
  entry.problem(fmt::format(
      "'{}' is no order of ranks; write tp, cp, dp and pp once each, fastest first: tp-cp-dp-pp",
      text));
  return {Dimension::tensor, Dimension::context, Dimension::data, Dimension::pipeline};
}

void read_experts(const Layered& section, const Model& model, SearchSpace& space) {
  read_integers(section, "expert_parallel", {1, most_ranks}, space.expert_parallel);
  read_integers(section, "expert_tensor_parallel", {1, most_ranks}, space.expert_tensor_parallel);
  if (model.has_experts()) return;
  for (const char* key : {"expert_parallel", "expert_tensor_parallel"})
    if (section.has(key)) section.problem(key, fmt::format("{} has no experts", model.name));
}

// A fraction of what a layout needs, an amount, or nothing: the error of the forecast.
void read_memory_margin(const Layered& section, SearchSpecification& specification) {
  constexpr const char* key = "memory_margin";
  MemoryMargin& margin = specification.memory_margin;
  margin.framework = specification.workload.framework.name;
  const ObjectReader* holder = section.holder(key);
  if (!holder) {
    margin.errors = shipped_memory_errors();
    return;
  }
  const std::string text = holder->at(key).peek_text().value_or("");
  if (text.find_first_not_of("0123456789.eE+-") == std::string::npos) {
    const double fraction = holder->real(key, {0, 10});
    if (fraction > 0) margin.fraction = fraction;
    return;
  }
  const Bytes bytes = holder->bytes(key);
  const Bytes capacity = specification.workload.cluster.device().memory;
  if (bytes < Bytes{} || bytes >= capacity)
    section.problem(key, fmt::format("is a fraction of what a layout needs (0.05; 0: none), or an "
                                     "amount below the {:.1f} GiB of the device",
                                     capacity.gib()));
  else if (bytes > Bytes{})
    margin.bytes = bytes;
}

// refuse_unbounded() refuses settings for which BOUNDS.md has no rule, by name and with the reason.
void refuse_unbounded(const Layered& section, const Layout& layout) {
  const auto refuse = [&](bool is_set, const char* key, const char* of) {
    if (is_set)
      section.problem(key,
                      fmt::format("a search does not know layout.{}, as it has no bound of {}: "
                                  "leave it out, and try the best layouts with it (stepcast "
                                  "sweep)",
                                  key, of));
  };
  refuse(layout.pads_rows(), "packing", "micro-batches of different lengths (packing.method)");
}

// Splits of the layers that no flag of the framework has are refused by name.
void read_uneven(const Layered& section, SearchSpace& space) {
  space.uneven = section.boolean_or("uneven", false);
  if (!space.uneven || !space.framework || splits_unevenly(*space.framework)) return;
  section.problem("uneven",
                  fmt::format("uneven is true, but {} splits the layers itself; allowed: false, or "
                              "framework megatron, megatron_bridge, nemo, torchtitan",
                              word(*space.framework)));
}

// Values that are named and that the framework runs under no layout.
template <class Value, class Text>
void check_values(const Layered& section, const char* key, const std::vector<Value>& named,
                  const std::vector<Value>& allowed, std::string_view framework, Text text) {
  for (const Value& value : named) {
    if (std::ranges::find(allowed, value) != allowed.end()) continue;
    std::vector<std::string> words;
    words.reserve(allowed.size());
    for (const Value& one : allowed)
      words.push_back(text(one));
    section.problem(key, fmt::format("{} {} is not {}'s; allowed: {}", key, text(value), framework,
                                     fmt::join(words, ", ")));
  }
}

void check_framework(const Layered& section, const SearchSpace& space) {
  const FrameworkSpace* own = space.framework ? space_of(*space.framework) : nullptr;
  if (own == nullptr) return;
  const std::string_view name = word(*space.framework);
  check_values(section, "zero_stage", space.zero_stage, own->zero_stages, name,
               [](int stage) { return std::to_string(stage); });
  const auto text = [](auto value) { return std::string{word(value)}; };
  check_values(section, "schedule", space.schedule, own->schedules, name, text);
  check_values(section, "recompute", space.recompute, own->recomputes, name, text);
}

}  // namespace

MemoryError MemoryMargin::error_of(const Layout& layout, const Model& model) const {
  if (errors) return errors->of(framework, layout.schedule, memory_kinds(framework, layout, model));
  return {.fraction = fraction.value_or(0), .rows = 0, .measured = 0, .of = {}};
}

Bytes MemoryMargin::most_of(const Layout& layout, const Model& model, Bytes capacity) const {
  return bytes ? capacity - *bytes : most_within(error_of(layout, model).fraction, capacity);
}

void read_search(const Layered& section, int job, std::optional<PresetName> framework,
                 SearchSpecification& specification) {
  SearchSpace& space = specification.space;
  space.framework = framework;
  if (section.has("framework"))
    space.framework = section.word_or("framework", PresetName::megatron);
  read_integers(section, "gpus", {1, job}, space.gpus);
  if (space.gpus.empty()) space.gpus = {job};
  const Scenario& workload = specification.workload;
  read_integers(section, "gpus_per_node", {1, workload.cluster.node_gpus()}, space.gpus_per_node);
  if (space.gpus_per_node.empty() && workload.asked_gpus_per_node > 0)
    space.gpus_per_node = {workload.asked_gpus_per_node};
  read_integers(section, "tensor_parallel", {1, most_ranks}, space.tensor_parallel);
  read_integers(section, "context_parallel", {1, most_ranks}, space.context_parallel);
  read_integers(section, "pipeline_parallel", {1, most_layers}, space.pipeline_parallel);
  read_integers(section, "data_parallel", {1, most_ranks}, space.data_parallel);
  read_experts(section, specification.workload.model, space);
  read_integers(section, "virtual_stages", {1, most_layers}, space.virtual_stages);
  read_integers(section, "micro_batch", {1, 1 << 30}, space.micro_batch);
  read_integers(section, "zero_stage", {0, 3}, space.zero_stage);
  read_integers(section, "shard_group", {0, most_ranks}, space.shard_group);
  read_integers(section, "prefetch_layers", {0, most_layers}, space.prefetch_layers);
  read_integers(section, "recompute_every", {1, most_layers}, space.recompute_every);
  read_booleans(section, "sequence_parallel", space.sequence_parallel);
  read_booleans(section, "reshard_after_forward", space.reshard_after_forward);
  read_words(section, "recompute", space.recompute);
  read_words(section, "schedule", space.schedule);
  read_words(section, "context_exchange", space.context_exchange);
  read_words(section, "offload", space.offload);
  read_values(section, "placement", space.placement, read_order);
  read_uneven(section, space);
  check_framework(section, space);
  specification.top = section.int_or("top", specification.top, {1, 1000});
  specification.wave = section.int_or("wave", specification.wave, {1, 4096});
  specification.front_slowdown =
      section.real_or("front_slowdown", specification.front_slowdown, {0, 100});
  read_memory_margin(section, specification);
  if (section.has("price_per_gpu_hour"))
    specification.price_per_gpu_hour = section.real_or("price_per_gpu_hour", 0, {0, 1e6});
}

SearchSpecification load_search(const ScenarioSources& sources) {
  SearchSpecification specification{load_workload(sources)};
  const Layered options = sources.only_section("simulation");
  if (specification.workload.options.jitter > 0)
    options.problem("jitter", "a search compares layouts without jitter; leave it out, or set 0");
  const Layered layout = sources.only_section("layout");
  refuse_unbounded(layout, specification.workload.layout);
  specification.messages_of_preset =
      specification.workload.preset != nullptr && !says_message_overlap(layout);
  std::optional<PresetName> framework;
  if (specification.workload.preset != nullptr && sources.only_section("framework").has("name"))
    framework = specification.workload.preset->name;
  read_search(sources.only_section("search"), specification.workload.layout.world_size(), framework,
              specification);
  sources.finish();
  return specification;
}

}  // namespace sim
