#include "ui/choose/space_table.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace ui {
namespace {

std::string text(int value) {
  return std::to_string(value);
}

std::string order_text(const std::vector<sim::Dimension>& order) {
  std::string made;
  for (const sim::Dimension one : order)
    made.append(made.empty() ? "" : "-").append(sim::word(one));
  return made;
}

template <auto Member>
std::vector<std::string> numbers(const sim::SearchSpace& space) {
  std::vector<std::string> made;
  for (const int value : space.*Member)
    made.push_back(text(value));
  return made;
}

template <auto Member>
std::vector<std::string> booleans(const sim::SearchSpace& space) {
  std::vector<std::string> made;
  for (const int value : space.*Member)
    made.emplace_back(value ? "true" : "false");
  return made;
}

template <auto Member>
std::vector<std::string> words_in(const sim::SearchSpace& space) {
  std::vector<std::string> made;
  for (const auto value : space.*Member)
    made.emplace_back(sim::word(value));
  return made;
}

std::vector<std::string> orders(const sim::SearchSpace& space) {
  std::vector<std::string> made;
  for (const auto& order : space.placement)
    made.push_back(order_text(order));
  return made;
}

template <auto Member>
void clear(sim::SearchSpace& space) {
  (space.*Member).clear();
}

template <auto Member>
std::string number_of(const sim::Layout& layout, int) {
  return std::to_string(layout.*Member);
}

template <auto Member>
std::string boolean_of(const sim::Layout& layout, int) {
  return layout.*Member ? "true" : "false";
}

template <auto Member>
std::string word_of(const sim::Layout& layout, int) {
  return std::string{sim::word(layout.*Member)};
}

template <class Enum>
std::vector<std::string> all_words() {
  std::vector<std::string> made;
  for (const auto& one : sim::words_of(Enum{}))
    made.emplace_back(one.text);
  return made;
}

constexpr int most_ranked = 10;  // of a file that does not say

bool always(const sim::Model&) {
  return true;
}
bool experts(const sim::Model& model) {
  return model.has_experts();
}
bool tokens(const sim::Model& model) {
  return !model.is_layer_list;
}

using L = sim::Layout;
using S = sim::SearchSpace;

template <auto Space, auto Layout>
SpaceRow number_row(const char* key, const char* title, const char* help, bool rare = false,
                    bool (*applies)(const sim::Model&) = always) {
  return {key, title, help, rare, {}, numbers<Space>, clear<Space>, number_of<Layout>, applies};
}

template <class Enum, auto Space, auto Layout>
SpaceRow word_row(const char* key, const char* title, const char* help, bool rare = false,
                  bool (*applies)(const sim::Model&) = always) {
  return {key,          title,           help,   rare, all_words<Enum>(), words_in<Space>,
          clear<Space>, word_of<Layout>, applies};
}

template <auto Space, auto Layout>
SpaceRow boolean_row(const char* key, const char* title, const char* help, bool rare) {
  return {key,
          title,
          help,
          rare,
          {"true", "false"},
          booleans<Space>,
          clear<Space>,
          boolean_of<Layout>,
          tokens};
}

std::vector<SpaceRow> make_rows() {
  return {
      {"gpus",
       "GPUs",
       "How many GPUs the job takes; open: those of the scenario.",
       false,
       {},
       numbers<&S::gpus>,
       [](S&) {},
       [](const L& layout, int) { return text(layout.world_size()); },
       always},
      number_row<&S::tensor_parallel, &L::tensor_parallel>("tensor_parallel", "tensor parallel",
                                                           "Ranks that share each matrix."),
      number_row<&S::pipeline_parallel, &L::pipeline_parallel>(
          "pipeline_parallel", "pipeline parallel", "Stages that the layers are spread over."),
      number_row<&S::data_parallel, &L::data_parallel>("data_parallel", "data parallel",
                                                       "Replicas of the model."),
      number_row<&S::context_parallel, &L::context_parallel>(
          "context_parallel", "context parallel", "Ranks that share the tokens of a sequence.",
          false, tokens),
      number_row<&S::expert_parallel, &L::expert_parallel>(
          "expert_parallel", "expert parallel", "Ranks that share the experts of a layer.", false,
          experts),
      number_row<&S::virtual_stages, &L::virtual_stages>(
          "virtual_stages", "virtual stages", "Model chunks of each pipeline rank (interleaving)."),
      number_row<&S::micro_batch, &L::micro_batch>("micro_batch", "micro-batch",
                                                   "Sequences per micro-batch and replica."),
      number_row<&S::zero_stage, &L::zero_stage>(
          "zero_stage", "ZeRO stage", "0 to 3: what is sharded over the replicas; 3 is FSDP."),
      word_row<sim::Recompute, &S::recompute, &L::recompute>(
          "recompute", "recompute", "Activations that are computed again in the backward pass."),
      word_row<sim::Schedule, &S::schedule, &L::schedule>(
          "schedule", "schedule", "Order of micro-batches in the pipeline."),
      {"gpus_per_node",
       "GPUs per node",
       "Used of each node or rack.",
       true,
       {},
       numbers<&S::gpus_per_node>,
       clear<&S::gpus_per_node>,
       [](const L&, int gpus_per_node) { return text(gpus_per_node); },
       always},
      number_row<&S::expert_tensor_parallel, &L::expert_tensor_parallel>(
          "expert_tensor_parallel", "expert tensor parallel",
          "Ranks that share the features of an expert.", true, experts),
      number_row<&S::shard_group, &L::shard_group>(
          "shard_group", "shard group", "Ranks that share a copy (hybrid sharding); 0: all.", true),
      number_row<&S::prefetch_layers, &L::prefetch_layers>(
          "prefetch_layers", "prefetch layers", "ZeRO-3: layers gathered ahead of their use.",
          true),
      boolean_row<&S::reshard_after_forward, &L::reshard_after_forward>(
          "reshard_after_forward", "reshard after forward",
          "ZeRO-3: gathered weights are freed between forward and backward.", true),
      boolean_row<&S::sequence_parallel, &L::sequence_parallel>(
          "sequence_parallel", "sequence parallel",
          "Norms and dropouts are split over the tensor ranks.", true),
      number_row<&S::recompute_every, &L::recompute_every>("recompute_every", "recompute every",
                                                           "Of full: every k-th layer.", true),
      word_row<sim::ContextExchange, &S::context_exchange, &L::context_exchange>(
          "context_exchange", "context exchange",
          "How context ranks see each other's keys and values.", true, tokens),
      {"offload", "offload", "What lies on the host instead of the device.", true,
       all_words<sim::OffloadParts>(), words_in<&S::offload>, clear<&S::offload>,
       [](const L& layout, int) { return std::string{sim::word(sim::offload_parts(layout))}; },
       always},
      {"placement",
       "placement",
       "Order of ranks, fastest first.",
       true,
       {"tp-cp-dp-pp", "tp-cp-pp-dp"},
       orders,
       clear<&S::placement>,
       [](const L& layout, int) { return order_text(layout.placement); },
       always}};
}

// Whole numbers by size, words as they come.
bool before(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& one) {
    long value = 0;
    const auto read = std::from_chars(one.data(), one.data() + one.size(), value);
    return read.ec == std::errc{} ? value : -1L;
  };
  const long x = number(a);
  const long y = number(b);
  return x != y ? x < y : a < b;
}

}  // namespace

const std::vector<SpaceRow>& space_rows() {
  static const std::vector<SpaceRow> rows = make_rows();
  return rows;
}

void unset(sim::SearchSpecification& specification, const std::string& key) {
  for (const SpaceRow& row : space_rows())
    if (row.key == key) row.open(specification.space);
  if (key == "gpus") specification.space.gpus = {specification.workload.layout.world_size()};
  if (key == "top") specification.top = most_ranked;
  if (key == "price_per_gpu_hour") specification.price_per_gpu_hour.reset();
  if (key == "memory_margin")
    specification.memory_margin = {.errors = sim::shipped_memory_errors(),
                                   .framework = specification.workload.framework.name};
}

std::vector<std::vector<std::string>> values_of(const sim::SearchSpecification& specification,
                                                const sim::Candidates& candidates) {
  constexpr std::size_t looked_at = 20'000;  // layouts, spread evenly over all
  std::vector<std::set<std::string, decltype(&before)>> found(
      space_rows().size(), std::set<std::string, decltype(&before)>{&before});
  const std::size_t stride = std::max<std::size_t>(1, candidates.all.size() / looked_at);
  for (std::size_t i = 0; i < candidates.all.size(); i += stride) {
    const sim::Layout layout =
        sim::layout_of(specification, candidates, static_cast<std::uint32_t>(i));
    for (std::size_t row = 0; row < space_rows().size(); ++row)
      found[row].insert(space_rows()[row].of(layout, candidates.all[i].gpus_per_node));
  }
  std::vector<std::vector<std::string>> values;
  values.reserve(found.size());
  for (const auto& one : found)
    values.emplace_back(one.begin(), one.end());
  return values;
}

}  // namespace ui
