#include "sim/interop/job_kind.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "sim/config/file_kind.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/foreign_start.hpp"
#include "sim/interop/torchtitan/torchtitan_registry.hpp"
#include "sim/scripts/flags/primus_yaml.hpp"

namespace sim {
namespace {

// Words of Megatron-LM that stand in its flags, printed arguments, YAML files and launch scripts. A
// dash may be an underscore in each of them.
constexpr std::array<std::string_view, 6> megatron_words{
    "--num-layers",       "--tensor-model-parallel-size",
    "--micro-batch-size", "MODEL-ARGS:",
    "pretrain-gpt.py",    "- arguments -"};

// Keys at the top of the arguments of TRL and axolotl.
constexpr std::array<std::string_view, 3> keys_of_trainers{"base_model", "model_name_or_path",
                                                           "per_device_train_batch_size"};

bool has_megatron_words(std::string_view text) {
  std::string dashed{text};
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return std::any_of(megatron_words.begin(), megatron_words.end(),
                     [&](std::string_view word) { return dashed.find(word) != std::string::npos; });
}

std::optional<JobKind> kind_of_keys(const Document& document) {
  if (document.root_has("step_scheduler")) return JobKind::automodel;
  // axolotl also says model_type, as a config.json does. Merging and chatting are no trainings.
  if (document.root_has("export_dir") || document.root_has("infer_backend")) return std::nullopt;
  if (document.root_has("base_model") && document.root_has("micro_batch_size"))
    return JobKind::accelerate;
  const std::optional<FileKind> kind = kind_of(document);
  if (kind == FileKind::deepspeed) return JobKind::deepspeed;
  if (kind == FileKind::accelerate) return JobKind::accelerate;
  if (kind == FileKind::nemo) return JobKind::nemo;
  if (kind) return std::nullopt;
  if (document.root_has("ARGS")) return JobKind::megatron;
  if (document.root_has("train_batch_size")) return JobKind::deepspeed;
  if (std::any_of(keys_of_trainers.begin(), keys_of_trainers.end(),
                  [&](std::string_view key) { return document.root_has(key); }))
    return JobKind::accelerate;
  // A container of Megatron-Bridge: a model, and sections beside it that no other file has.
  if (document.root_has("model") && (document.root_has("train") || document.root_has("ddp")))
    return JobKind::nemo;
  return std::nullopt;
}

}  // namespace

std::optional<JobKind> job_kind_of(const std::string& path, std::string_view text) {
  if (foreign_format_of(text)) return std::nullopt;
  if (path.ends_with(".toml")) return JobKind::torchtitan;
  if (path.ends_with(".py")) {  // a recipe of Megatron-Bridge
    if (is_torchtitan_registry(text)) return JobKind::torchtitan;
    const bool sets = text.find("cfg.") != std::string_view::npos;
    return sets ? std::optional{JobKind::nemo} : std::nullopt;
  }
  if (!primus_framework(text).empty()) return JobKind::primus;
  if (is_launch_file(path, text)) {
    if (const std::optional<JobKind> started = kind_of_launch(text)) return started;
    if (is_own_fsdp_script(text)) return std::nullopt;
  }
  if (has_megatron_words(text)) return JobKind::megatron;
  // config_*.sh of MLPerf Training.
  const bool script = path.ends_with(".sh");
  const auto sets_all = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::all_of(
        names, [&](std::string_view name) { return text.find(name) != std::string_view::npos; });
  };
  if (script &&
      (sets_all({"DGXNNODES=", "MINIBS="}) || sets_all({" SIZE=", " GBS=", " GPUS_PER_NODE="}) ||
       sets_all({" EXP=", " GPUS_PER_NODE=", "MLLOG_SUBMISSION_BENCHMARK="})))
    return JobKind::mlperf;
  if (script) return std::nullopt;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  const Syntax syntax = json ? Syntax::json : Syntax::yaml;
  try {
    return kind_of_keys(Document::parse(text, path, syntax));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace sim
