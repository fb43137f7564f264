// Megatron-LM's flags: a bash array out, an argument file or such arrays in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/config/data_files.hpp"
#include "sim/interop/allocator_conf.hpp"
#include "sim/interop/carried.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/hub_models.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/interop/megatron/megatron_launch.hpp"
#include "sim/interop/megatron/nccl_options.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/model.hpp"

namespace sim {
namespace {

const std::array no_experts{KnownKey{"--moe-*"}};  // which means nothing without any

// CUDA graphs take the host's time away (simulation.graphs).
void read_graphs(const ObjectReader& root, Imported& result) {
  read_graph_switch(root, "--cuda-graph-impl", result);
  for (const char* flag : {"--enable-cuda-graph", "--external-cuda-graph"}) {
    Flag graph;
    read_setting(root, flag, graph);
    result.graphs = result.graphs || graph.value_or(false);
  }
  read_graph_scope(root, {"--cuda-graph-scope", "--cuda-graph-modules"}, result);
}

// Defaults of ms-swift (swift/megatron/argument/megatron_args.py, commit 00840e65), as far as a
// model file does not say them.
void defaults_of_swift(const ObjectReader& root, MegatronConfig& config, Imported& result) {
  constexpr std::array own{"--max-length", "--dataset", "--torch-dtype", "--train-type",
                           "--tuner-type"};
  const bool swift = std::ranges::any_of(own, [&](const char* key) { return root.has(key); });
  if (!swift) return;
  Text dtype;
  Whole length;
  read_setting(root, "--torch-dtype", dtype);
  read_setting(root, "--max-length", length);
  const std::string format = dtype.value_or("bfloat16");
  if (format != "bfloat16" && format != "float16" && format != "float32")
    root.problem("--torch-dtype",
                 fmt::format("is '{}'; allowed: bfloat16, float16, float32", format.substr(0, 80)));
  if (!config.seq_length)
    config.seq_length = length;
  else if (length)
    result.ignored.emplace_back("--max-length");
  if (!config.bf16 && !config.fp16) {
    config.bf16 = dtype.value_or("bfloat16") == "bfloat16";
    config.fp16 = dtype.value_or("") == "float16";
  }
  const auto fall_back = [](auto& setting, const auto& value) {
    if (!setting) setting = value;
  };
  fall_back(config.micro_batch_size, std::int64_t{1});
  fall_back(config.global_batch_size, std::int64_t{16});
  fall_back(config.distributed_optimizer, true);
  fall_back(config.attention_backend, std::string{"flash"});
  fall_back(config.recompute_granularity, std::string{"selective"});
  fall_back(config.token_dispatcher, std::string{"alltoall"});
  fall_back(config.grouped_products, true);
  fall_back(config.attention_dropout, 0.0);
  fall_back(config.hidden_dropout, 0.0);
  result.notes.push_back({"ms-swift",
                          "its defaults where nothing is said: bf16, selective recomputation, the "
                          "distributed optimizer, flash attention, no overlap of gradients"});
}

// A vocabulary that is named only as padded.
void vocabulary_as_padded(const ObjectReader& root, MegatronConfig& config, Imported& result) {
  if (config.vocab_size) return;
  read_setting(root, "--padded-vocab-size", config.vocab_size);
  if (config.vocab_size)
    result.notes.push_back({"--padded-vocab-size", "read as the size of the vocabulary"});
}

// Where only the tokenizer says it: GPT-2's merges, and models of the Hugging Face Hub.
void vocabulary_of_tokenizer(const ObjectReader& root, const ImportRequest& request,
                             MegatronConfig& config, Imported& result) {
  if (config.vocab_size || request.model) return;
  Text type, model;
  read_setting(root, "--tokenizer-type", type);
  read_setting(root, "--tokenizer-model", model);
  constexpr std::int64_t gpt2 = 50'257;
  std::string name;
  // Primus names its tokenizers by the model (Llama3Tokenizer) and takes the hub's, too.
  if (type.value_or("").ends_with("Tokenizer") && model) name = model_of_hub(*model);
  if (type.value_or("") == "GPT2BPETokenizer")
    config.vocab_size = gpt2;
  else if (const auto shape =
               name.empty() ? std::nullopt : load_model(find_data_file("models", name)).shape)
    config.vocab_size = shape->vocabulary;
  if (config.vocab_size)
    result.notes.push_back(
        {"vocab-size", fmt::format("{}, as the tokenizer {} has it", *config.vocab_size,
                                   name.empty() ? *type : *model)});
}

// Before --position-embedding-type, and still read: arguments.py, validate_args.
void rotary_positions(const ObjectReader& root, MegatronConfig& config) {
  Flag rotary;
  read_setting(root, "--use-rotary-position-embeddings", rotary);
  if (rotary.value_or(false)) config.position_embedding_type = std::string{"rope"};
}

// Formats by module, in a file of their own.
void read_recipe_file(const ObjectReader& root, MegatronConfig& config) {
  const auto file = root.find("--te-precision-config-file");
  if (file) config.module_recipe = {load_module_recipe(file->text(), *file), file};
}

class FlagLines {
 public:
  void operator()(const Spelling& name, const Flag& setting) {
    if (name.has_flag() && setting && *setting == name.flag_means)
      text_ += fmt::format("  {}\n", name.flag);
  }
  void operator()(const Spelling& name, const Whole& setting) { value(name, setting); }
  void operator()(const Spelling& name, const Real& setting) { value(name, setting); }
  void operator()(const Spelling& name, const Text& setting) {
    if (!setting) return;
    // Words of a list stand apart; brackets and bars of a layout need quotes.
    const bool plain = setting.value->find_first_of("|()*[]") == std::string::npos;
    const char* quote = plain ? "" : "'";
    text_ += fmt::format("  {} {}{}{}\n", name.flag, quote, *setting, quote);
  }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  void value(const Spelling& name, const Setting<T>& setting) {
    if (setting) text_ += fmt::format("  {} {}\n", name.flag, *setting);
  }
  std::string text_;
};

// The switch of each activation; GELU is what there is without one.
void spell_activation(MegatronConfig& config, std::vector<Note>& notes) {
  const std::string name = config.activation.value_or("");
  if (name == "swiglu") config.swiglu = true;
  if (name == "squared_relu") config.squared_relu = true;
  if (name == "quick_geglu") config.quick_geglu = true;
  if (name != "geglu") return;
  config.quick_geglu = true;
  notes.push_back(
      {"model.activation", "geglu is written as --quick-geglu: the sizes are the same"});
}

}  // namespace

std::string megatron_flag_lines(MegatronConfig config, std::vector<Note>& notes) {
  spell_activation(config, notes);
  // Megatron-FSDP refuses to train without these two.
  const bool fsdp = config.megatron_fsdp.value_or(false);
  FlagLines lines;
  for_each_setting(config,
                   [&](const Spelling& name, const auto& setting) { lines(name, setting); });
  if (config.fp8_gate_inputs.value_or(false))
    notes.push_back(
        {"framework", "activation_func_fp8_input_store: Megatron-LM has no flag for it"});
  return lines.text() +
         (fsdp ? "  --ckpt-format fsdp_dtensor\n  --no-gradient-accumulation-fusion\n" : "");
}

MegatronConfig read_megatron_flags(const ObjectReader& root, const ImportRequest& request,
                                   Imported& result) {
  MegatronConfig config;
  for_each_setting(config, [&](const Spelling& name, auto& setting) {
    if (!name.has_flag()) return;
    read_setting(root, name.flag, setting);
    if constexpr (std::is_same_v<decltype(setting), Flag&>)
      if (setting && !name.flag_means) setting.value = !*setting;
  });
  read_graphs(root, result);
  read_allocator_conf(root, result);
  if (!config.virtual_stages && !config.layers_per_virtual_stage && !config.pipeline_layout)
    read_setting(root, "--virtual-pipeline-model-parallel-size", config.virtual_stages);
  static_cast<void>(root.has("--virtual-pipeline-model-parallel-size"));
  read_recipe_file(root, config);
  // From here on it is known which settings were asked for; the tables have the rest.
  defaults_of_swift(root, config, result);
  vocabulary_as_padded(root, config, result);
  vocabulary_of_tokenizer(root, request, config, result);
  rotary_positions(root, config);
  const bool experts =
      (request.model && request.model->experts.count > 0) || config.num_experts.value_or(0) > 0;
  if (experts) {
    judge_expert_keys(root, KeySpelling::flag, "", result);
  } else {
    judge_keys(root, no_experts, "", result);
  }
  judge_keys(root, known_keys("megatron", "flags"), "", result);
  // A training prints all of its arguments, those of other programs and releases, too.
  Flag printed;
  read_setting(root, "printed", printed);
  if (printed) {
    judge_keys(root, known_keys("primus", "flags"), "", result);
    note_unknown_keys(root, "", result);
  }
  // A printed list has every default: what of it the job set is not told.
  if (!printed) carry_settings(root, Target::megatron, result);
  return config;
}

Exported export_megatron(const Scenario& scenario) {
  Exported out;
  Refusals refusals;
  const MegatronConfig config = megatron_from_scenario(scenario, refusals, out.notes);
  if (config.module_recipe)
    refusals.emplace_back(
        "bf16_modules and fp8_modules: Megatron-LM reads them from a file of their own "
        "(--te-precision-config-file); --to nemo writes them");
  throw_refusals(scenario, Target::megatron, refusals);
  const std::string lines = megatron_flag_lines(config, out.notes) +
                            carried_flag_lines(carried_for(scenario, Target::megatron, out.notes));
  const std::string base =
      lacks_rotary_base(scenario)
          ? " The scenario does not say --rotary-base: without it Megatron-LM takes 10000."
          : "";
  out.text = header_text(scenario, out.notes, "# ",
                         "Arguments of Megatron-LM's pretrain_gpt.py." + base +
                             " Add data, tokenizer and optimizer:\n. FILE; torchrun ... "
                             "pretrain_gpt.py \"${STEPCAST_ARGS[@]}\"") +
             allocator_conf_line(scenario.framework.execution) + "STEPCAST_ARGS=(\n" + lines +
             ")\n";
  return out;
}

Imported import_megatron(const Document& flags, const ImportRequest& request) {
  const ObjectReader root = flags.root_object();
  Imported read;
  const ImportRequest known = with_gpus_of_launcher(root, request, read);
  const MegatronConfig config = read_megatron_flags(root, known, read);
  Text nccl_options;
  read_setting(root, "--nccl-communicator-config-path", nccl_options);
  for (const Remark& remark : flags.remarks())
    read.notes.push_back({remark.about, remark.what});
  flags.finish();
  Imported result = scenario_of_megatron(config, {}, known, root);
  result.graphs = read.graphs;
  result.graph_scope = read.graph_scope;
  if (nccl_options)
    read_nccl_options(resolve_path(flags.name(), *nccl_options), "--nccl-communicator-config-path",
                      result);
  leave_single_choice(result);
  result.framework.execution.expandable_segments = read.framework.execution.expandable_segments;
  result.framework.execution.max_split_size = read.framework.execution.max_split_size;
  result.ignored.insert(result.ignored.end(), read.ignored.begin(), read.ignored.end());
  result.carried = read.carried;
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
  finish_import(flags, root, result);
  return result;
}

}  // namespace sim
