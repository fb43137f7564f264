// How a job of Megatron-LM cuts its layers into stages and virtual stages.
#include <algorithm>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {
namespace {

class PipelineReader : private SettingProblems {
 public:
  PipelineReader(const MegatronConfig& config, const MegatronRules& rules,
                 const SettingProblems& problems, std::int64_t layers, Layout& layout)
      : SettingProblems{problems},
        config_{config},
        rules_{rules},
        layers_{layers},
        layout_{layout} {}

  void read() {
    const int ways = int{bool{config_.layers_per_virtual_stage}} +
                     int{config_.virtual_stages &&
                         (rules_.layout_excludes_virtual_stages || !config_.pipeline_layout)} +
                     int{bool{config_.pipeline_layout}};
    if (ways > 1)
      problem(config_.pipeline_layout.place ? Whole{{}, config_.pipeline_layout.place}
                                            : config_.virtual_stages,
              "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank and "
              "--pipeline-model-parallel-layout exclude each other");
    if (config_.hybrid_layer_pattern.value_or("").find('|') != std::string::npos)
      segments(config_.hybrid_layer_pattern);
    else if (config_.pipeline_layout)
      custom_pipeline();
    else
      counted_pipeline();
    if (layout_.virtual_stages > 1) layout_.schedule = Schedule::interleaved;
  }

 private:
  void custom_pipeline() {
    const PipelineLayout parsed = parse_pipeline_layout(*config_.pipeline_layout);
    if (!parsed.problem.empty()) {
      problem(config_.pipeline_layout, "the pipeline layout {}", parsed.problem);
      return;
    }
    if (parsed.mtp_layers != config_.mtp_layers.value_or(0)) {
      problem(config_.pipeline_layout,
              "has {} layers of multi-token prediction (m), and mtp_num_layers is {}",
              parsed.mtp_layers, config_.mtp_layers.value_or(0));
      return;
    }
    const auto stages = static_cast<int>(parsed.layers_per_chunk.size());
    if (stages % layout_.pipeline_parallel != 0) {
      problem(config_.pipeline_layout, "has {} stages, no multiple of pipeline parallel {}", stages,
              layout_.pipeline_parallel);
      return;
    }
    layout_.virtual_stages = stages / layout_.pipeline_parallel;
    layout_.layers_per_chunk = parsed.layers_per_chunk;
    // transformer_config.py: "virtual_pipeline_model_parallel_size conflicts with
    // pipeline_model_parallel_layout", and "cannot be set with other pipeline layout arguments".
    const std::int64_t named = config_.virtual_stages.value_or(layout_.virtual_stages);
    if (!rules_.layout_excludes_virtual_stages && named != layout_.virtual_stages)
      problem(config_.virtual_stages,
              "is {}, but the pipeline layout has {} stages over {} ranks, which is {}", named,
              stages, layout_.pipeline_parallel, layout_.virtual_stages);
    if (config_.first_stage_layers || config_.last_stage_layers ||
        config_.account_for_embedding.value_or(false) || config_.account_for_loss.value_or(false))
      problem(config_.pipeline_layout,
              "a pipeline layout excludes other settings of the layers of stages");
  }

  // "M-M-|M-M*": the layers between two bars are those of a virtual stage
  // (core/models/hybrid/hybrid_layer_allocation.py).
  void segments(const Text& pattern) {
    std::vector<int> counts(1, 0);
    for (const char letter : (*pattern).substr(0, (*pattern).find('/')))
      letter == '|' ? counts.push_back(0) : static_cast<void>(++counts.back());
    const auto stages = static_cast<int>(counts.size());
    if (stages % layout_.pipeline_parallel != 0)
      return problem(pattern, "has {} segments, no multiple of pipeline parallel {}", stages,
                     layout_.pipeline_parallel);
    layout_.virtual_stages = stages / layout_.pipeline_parallel;
    layout_.layers_per_chunk = std::move(counts);
  }

  // Embedding and loss may count as a layer each; what is left for each stage has to come out even.
  void counted_pipeline() {
    const int stages = layout_.pipeline_parallel;
    const int before = config_.account_for_embedding.value_or(false) ? 1 : 0;
    const int behind = config_.account_for_loss.value_or(false) ? 1 : 0;
    const std::int64_t layers = layers_ + before + behind;
    if (config_.first_stage_layers || config_.last_stage_layers) {
      uneven_ends(before, behind);
      return;
    }
    if (layers % stages != 0) {
      problem(config_.pipeline_parallel, "{} layers do not divide over {} stages", layers, stages);
      return;
    }
    const std::int64_t per_stage = layers / stages;
    std::int64_t repeats = config_.virtual_stages.value_or(1);
    if (config_.layers_per_virtual_stage)
      repeats = per_stage / size(config_.layers_per_virtual_stage, 1, 10'000);
    if (repeats < 1 || per_stage % repeats != 0 ||
        (config_.layers_per_virtual_stage &&
         per_stage % size(config_.layers_per_virtual_stage, 1, 10'000) != 0)) {
      problem(config_.layers_per_virtual_stage ? config_.layers_per_virtual_stage
                                               : config_.virtual_stages,
              "the {} layers of a stage do not divide into its virtual stages", per_stage);
      return;
    }
    layout_.virtual_stages = static_cast<int>(repeats);
    if (before + behind == 0) return;
    layout_.layers_per_chunk.assign(static_cast<std::size_t>(stages * repeats),
                                    static_cast<int>(per_stage / repeats));
    layout_.layers_per_chunk.front() -= before;
    layout_.layers_per_chunk.back() -= behind;
  }

  // --decoder-first-pipeline-num-layers, --decoder-last-...: the stages between share the rest;
  // each stage splits evenly into its virtual stages (transformer_block.py,
  // get_num_layers_to_build).
  void uneven_ends(int before, int behind) {
    const int stages = layout_.pipeline_parallel;
    const auto repeats = static_cast<int>(size(config_.virtual_stages, 1, 10'000));
    const int ends = int{bool{config_.first_stage_layers}} + int{bool{config_.last_stage_layers}};
    const std::int64_t rest =
        layers_ - config_.first_stage_layers.value_or(0) - config_.last_stage_layers.value_or(0);
    const Whole& named =
        config_.first_stage_layers ? config_.first_stage_layers : config_.last_stage_layers;
    if (before + behind > 0) {
      problem(named, "excludes that embedding or loss count as a layer");
      return;
    }
    if (stages <= ends || rest < 0 || rest % (stages - ends) != 0) {
      problem(named, "leaves {} layers, which do not divide over the other {} stages", rest,
              std::max(0, stages - ends));
      return;
    }
    std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), rest / (stages - ends));
    if (config_.first_stage_layers) layers.front() = *config_.first_stage_layers;
    if (config_.last_stage_layers) layers.back() = *config_.last_stage_layers;
    layout_.virtual_stages = repeats;
    for (int repeat = 0; repeat < repeats; ++repeat)
      for (const std::int64_t count : layers) {
        if (count % repeats != 0) {
          problem(named, "a stage of {} layers does not divide into {} virtual stages", count,
                  repeats);
          return;
        }
        layout_.layers_per_chunk.push_back(static_cast<int>(count / repeats));
      }
  }

  const MegatronConfig& config_;
  const MegatronRules& rules_;
  const std::int64_t layers_;
  Layout& layout_;
};

}  // namespace

void read_pipeline(const MegatronConfig& config, const MegatronRules& rules,
                   const SettingProblems& problems, std::int64_t layers, Layout& layout) {
  PipelineReader{config, rules, problems, layers, layout}.read();
}

}  // namespace sim
