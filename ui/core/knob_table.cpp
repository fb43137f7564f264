#include "ui/core/knob_table.hpp"

#include <algorithm>

#include "sim/base/words.hpp"

namespace ui {
namespace {

using Values = std::vector<std::string>;

// 1, 2, 4, ... up to `most`.
Values powers(std::int64_t most) {
  Values values;
  for (std::int64_t value = 1; value <= most; value *= 2)
    values.push_back(std::to_string(value));
  return values;
}

template <class Enum>
Values all_words() {
  Values values;
  for (const auto& entry : sim::words_of(Enum{}))
    values.emplace_back(entry.text);
  return values;
}

template <class Enum>
std::string word_of(Enum value) {
  return std::string{sim::word(value)};
}

bool always(const sim::Scenario&) {
  return true;
}
bool is_transformer(const sim::Scenario& scenario) {
  return scenario.layout.sequence_length > 1;
}
bool has_pipeline(const sim::Scenario& scenario) {
  return scenario.layout.pipeline_parallel > 1;
}

const std::vector<ChoiceKnob> table{
    {"layout.tensor_parallel", "tensor", "Ranks that share every layer (tensor parallelism).", true,
     [](const sim::Scenario& s) { return powers(std::min(64, s.cluster.node_gpus())); },
     [](const sim::Scenario& s) { return std::to_string(s.layout.tensor_parallel); },
     is_transformer},
    {"layout.pipeline_parallel", "pipeline", "Stages of the pipeline.", true,
     [](const sim::Scenario& s) { return powers(std::min(32, s.layout.world_size())); },
     [](const sim::Scenario& s) { return std::to_string(s.layout.pipeline_parallel); }, always},
    {"layout.context_parallel", "context", "Ranks that share the tokens of a sequence.", true,
     [](const sim::Scenario& s) { return powers(std::min(16, s.layout.world_size())); },
     [](const sim::Scenario& s) { return std::to_string(s.layout.context_parallel); },
     is_transformer},
    {"layout.expert_parallel", "expert", "Ranks that share the routed experts of a layer.", true,
     [](const sim::Scenario& s) { return powers(std::min(64, s.layout.world_size())); },
     [](const sim::Scenario& s) { return std::to_string(s.layout.expert_parallel); },
     [](const sim::Scenario& s) { return s.layout.expert_parallel > 1; }},
    {"layout.virtual_stages", "virtual stages",
     "Model chunks per pipeline rank: above 1 the schedule is interleaved.", true,
     [](const sim::Scenario& s) {
       Values values;
       for (int v = 1; v <= std::max(8, s.layout.virtual_stages); ++v)
         values.push_back(std::to_string(v));
       return values;
     },
     [](const sim::Scenario& s) { return std::to_string(s.layout.virtual_stages); }, has_pipeline},
    {"layout.micro_batch", "micro-batch", "Sequences of one micro-batch on one rank.", true,
     [](const sim::Scenario&) { return powers(16); },
     [](const sim::Scenario& s) { return std::to_string(s.layout.micro_batch); }, always},
    {"layout.zero_stage", "ZeRO",
     "What data-parallel ranks share: 1 optimizer states, 2 gradients too, 3 weights too (FSDP).",
     true,
     [](const sim::Scenario&) {
       return Values{"0", "1", "2", "3"};
     },
     [](const sim::Scenario& s) { return std::to_string(s.layout.zero_stage); }, always},
    {"layout.schedule", "schedule", "Order of forward and backward passes in the pipeline.", false,
     [](const sim::Scenario&) { return all_words<sim::Schedule>(); },
     [](const sim::Scenario& s) { return word_of(s.layout.schedule); }, has_pipeline},
    {"layout.recompute", "recompute", "Activations that the backward pass computes again.", false,
     [](const sim::Scenario&) { return all_words<sim::Recompute>(); },
     [](const sim::Scenario& s) { return word_of(s.layout.recompute); }, is_transformer},
    {"layout.compute_dtype", "format", "Number format of the matrix products.", false,
     [](const sim::Scenario&) {
       return Values{"bf16", "fp16", "fp8", "tf32", "fp32"};
     },
     [](const sim::Scenario& s) { return word_of(s.layout.compute_dtype); }, always},
    {"layout.sequence_parallel", "sequence par.",
     "Norms and residuals split over the tensor ranks by tokens.", false,
     [](const sim::Scenario&) {
       return Values{"true", "false"};
     },
     [](const sim::Scenario& s) {
       return std::string{s.layout.sequence_parallel ? "true" : "false"};
     },
     is_transformer},
};

}  // namespace

const std::vector<ChoiceKnob>& choice_knobs() {
  return table;
}

}  // namespace ui
