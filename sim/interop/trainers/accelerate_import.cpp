// The YAML that `accelerate config` writes: FSDP, DeepSpeed and DDP (MULTI_GPU). Keys:
// huggingface/accelerate commands/config/config_args.py, ClusterConfig (commit 16cb6eb8).
#include <fmt/format.h>

#include <filesystem>

#include "sim/interop/trainers/deepspeed_keys.hpp"
#include "sim/interop/trainers/trainer_job.hpp"

namespace sim {
namespace {

class AccelerateReader {
 public:
  AccelerateReader(const Document& yaml, const std::string& folder, const ImportRequest& request)
      : yaml_{yaml}, folder_{folder}, request_{request}, root_{yaml.root_object()} {}

  Imported read() {
    if (!read_job()) return finish();
    return job_.engine == TrainerEngine::deepspeed ? deepspeed() : torch();
  }

  // read_beside() is for a trainer that says the rest.
  AccelerateJob read_beside(Imported& result) {
    AccelerateJob made;
    if (read_job()) {
      leave("megatron_lm_config");
      leave("tp_config");
      if (job_.engine == TrainerEngine::deepspeed) {
        leave("fsdp_config");
        read_deepspeed_beside(made);
      } else {
        leave("deepspeed_config");
        read_sharding();
      }
    }
    made.job = job_;
    yaml_.finish();
    result.notes.insert(result.notes.end(), result_.notes.begin(), result_.notes.end());
    result.ignored.insert(result.ignored.end(), result_.ignored.begin(), result_.ignored.end());
    return made;
  }

 private:
  // Whether its engine is known.
  bool read_job() {
    const Text type = text("distributed_type");
    read_setting(root_, "num_processes", job_.processes);
    if (job_.processes.value_or(0) == -1) job_.processes = Whole{};
    read_setting(root_, "num_machines", job_.machines);
    mixed_precision();
    read_compiler();
    parallelism();
    judge_keys(root_, known_keys("accelerate", "top"), "", result_);
    return engine(type);
  }

  void read_sharding() {
    if (job_.engine != TrainerEngine::fsdp) return leave("fsdp_config");
    if (const auto found = section("fsdp_config"))
      read_fsdp_section(*found, "fsdp_config.", job_.fsdp, result_);
  }

  void read_deepspeed_beside(AccelerateJob& made) {
    const auto found = section("deepspeed_config");
    if (!found)
      return root_.problem("distributed_type is DEEPSPEED, and deepspeed_config is missing");
    read_setting(*found, "deepspeed_config_file", made.deepspeed_file);
    if (made.deepspeed_file.value_or("none") == "none") {
      made.deepspeed_file = Text{};
      made.deepspeed = inline_json(*found);
    }
    judge_keys(*found, known_keys("accelerate", "deepspeed"), "deepspeed_config.", result_);
  }

  Text text(const char* key) const {
    Text read;
    read_setting(root_, key, read);
    return read;
  }
  std::optional<ObjectReader> section(const char* key) const { return section_at(root_, key); }
  Imported finish() {
    yaml_.finish();
    return result_;
  }

  bool engine(const Text& type) {
    const std::string name = type.value_or("");
    if (name == "FSDP") return set(TrainerEngine::fsdp);
    if (name == "DEEPSPEED") return set(TrainerEngine::deepspeed);
    if (name == "MULTI_GPU" || name == "NO" || name == "no") return set(TrainerEngine::ddp);
    const char* allowed = "allowed: FSDP, DEEPSPEED, MULTI_GPU, NO";
    static_cast<void>(root_.has("megatron_lm_config"));
    for (const char* other : {"fsdp_config", "deepspeed_config", "tp_config"})
      static_cast<void>(root_.has(other));
    if (!type)
      root_.problem(fmt::format("distributed_type is missing; {}", allowed));
    else if (name == "MEGATRON_LM")
      type.place->problem(fmt::format(
          "MEGATRON_LM is not read here: give Megatron-LM's arguments to stepcast import "
          "megatron; {}",
          allowed));
    else
      type.place->problem(fmt::format("is '{}'; {}", name, allowed));
    return false;
  }
  bool set(TrainerEngine engine) {
    job_.engine = engine;
    return true;
  }

  // The value may also be the key of old files, fp16.
  void mixed_precision() {
    job_.mixed = text("mixed_precision");
    if (job_.mixed.value_or("") == "false") job_.mixed.value = "no";  // unquoted: no
    Flag old;
    read_setting(root_, "fp16", old);
    if (!job_.mixed && old.value_or(false)) job_.mixed = std::string{"fp16"};
  }

  // utils/dataclasses.py, DynamoBackend.
  void read_compiler() {
    Text name = text("dynamo_backend");
    if (const auto found = section("dynamo_config")) {
      found->ignore_unknown();
      for (const char* key : {"dynamo_backend", "backend"})
        read_setting(*found, key, name);
    }
    std::string word = name.value_or("no");
    for (char& c : word)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    if (word == "inductor")
      job_.compiled = true;
    else if (word != "no" && word != "false" && !word.empty() && word != "eager" &&
             word != "aot_eager")
      name.place->problem(
          fmt::format("is '{}'; modelled: no, eager, aot_eager, inductor", (*name).substr(0, 80)));
  }

  void parallelism() {
    const auto found = section("parallelism_config");
    if (!found) return;
    const std::string prefix = "parallelism_config_";
    for (const std::string& key : found->unasked_keys()) {
      const std::string name = key.starts_with(prefix) ? key.substr(prefix.size()) : key;
      if (name == "dp_replicate_size")
        read_setting(*found, key, job_.replicate);
      else if (name == "dp_shard_size")
        read_setting(*found, key, job_.shard);
      else if (name == "tp_size")
        read_setting(*found, key, job_.tensor);
      else if (name == "cp_size")
        read_setting(*found, key, job_.context);
      else if (name == "sp_size")
        read_setting(*found, key, job_.sequence_ranks);
      else if (name == "cp_comm_strategy")
        read_setting(*found, key, job_.context_method);
      else
        judge_parallel_key(*found, key, name);
    }
  }

  void judge_parallel_key(const ObjectReader& found, const std::string& key,
                          const std::string& name) {
    const KnownKey* row = known_key(known_keys("accelerate", "parallelism"), name);
    if (row == nullptr) return;
    const std::optional<ValueReader> value = found.find(key);
    judge_key(*row, value, value && is_neutral(*value, row->neutral), key, result_);
  }

  // Sections of engines that the job does not run are not read.
  void leave(const char* key) {
    if (root_.has(key)) result_.ignored.emplace_back(key);
  }

  Imported torch() {
    leave("deepspeed_config");
    leave("megatron_lm_config");
    leave("tp_config");
    read_sharding();
    const bool unsharded = job_.engine == TrainerEngine::ddp;
    if (unsharded && (job_.tensor.value_or(1) > 1 || job_.context.value_or(1) > 1))
      root_.problem("parallelism_config needs distributed_type FSDP and fsdp_version 2");
    MissingOptions missing{"accelerate"};
    scenario_of_trainer(job_, request_, missing, root_, result_);
    if (missing.any()) return finish();
    finish_import(yaml_, root_, result_);
    return result_;
  }

  Imported deepspeed() {
    leave("fsdp_config");
    leave("megatron_lm_config");
    leave("tp_config");
    const auto found = section("deepspeed_config");
    if (!found) {
      root_.problem("distributed_type is DEEPSPEED, and deepspeed_config is missing");
      return finish();
    }
    Text file;
    read_setting(*found, "deepspeed_config_file", file);
    const bool named = file && *file != "none";
    const std::string json = named ? std::string{} : inline_json(*found);
    if (!named)
      judge_keys(*found, known_keys("accelerate", "deepspeed"), "deepspeed_config.", result_);
    const ImportRequest known = request_of_trainer(job_, request_, root_, result_);
    if (named) refuse_beside_file(*found);
    yaml_.finish();
    Imported job =
        named ? import_deepspeed_file(file, folder_, known)
              : import_deepspeed(Document::parse(json, yaml_.name(), Syntax::json), nullptr, known);
    if (job_.compiled) compile_layers(job.framework, job.notes);
    job.notes.insert(job.notes.begin(), result_.notes.begin(), result_.notes.end());
    job.ignored.insert(job.ignored.begin(), result_.ignored.begin(), result_.ignored.end());
    return job;
  }

  // DeepSpeedPlugin._deepspeed_config_checks: what the file says, nothing else may.
  void refuse_beside_file(const ObjectReader& found) {
    const auto refusal = [](std::string_view key) {
      return fmt::format(
          "Accelerate refuses {} beside deepspeed_config_file: write it in that file", key);
    };
    for (const char* key :
         {"zero_stage", "gradient_accumulation_steps", "gradient_clipping",
          "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path",
          "offload_param_nvme_path", "zero3_save_16bit_model"})
      if (found.has(key)) found.problem(key, refusal(key));
    if (job_.mixed.place) job_.mixed.place->problem(refusal("mixed_precision"));
    judge_keys(found, known_keys("accelerate", "deepspeed"), "deepspeed_config.", result_);
  }

  // inline_json() is what DeepSpeedPlugin makes of the fields; the default of zero_stage is 2.
  std::string inline_json(const ObjectReader& from) {
    const SettingProblems problems{root_};
    Whole stage, steps;
    read_setting(from, "zero_stage", stage);
    steps = deepspeed_setting<std::int64_t>(from, "gradient_accumulation_steps");
    if (from.has("gradient_clipping")) result_.ignored.emplace_back("gradient_clipping");
    if (!stage)
      result_.notes.push_back(
          {"deepspeed_config.zero_stage", "not given: 2, as Accelerate has it"});
    if (stage.value_or(2) < 0 || stage.value_or(2) > 3)
      problems.problem(stage, "is {}; allowed: 0, 1, 2, 3", *stage);
    if (!job_.batch.steps) job_.batch.steps = steps;
    Text parameters, optimizer;
    read_setting(from, "offload_param_device", parameters);
    read_setting(from, "offload_optimizer_device", optimizer);
    std::string weights = parameters.value_or("none");
    if (!from_word<OffloadTarget>(weights))
      problems.problem(parameters, "offload_param_device is {}; allowed: none, cpu, nvme", weights);
    else if (weights != "none" && (stage.value_or(2) != 3 || optimizer.value_or("none") == "none"))
      problems.problem(parameters,
                       "offload_param_device is {}: it needs zero_stage 3 and "
                       "offload_optimizer_device",
                       weights);
    if (stage.value_or(2) != 3 || optimizer.value_or("none") == "none" ||
        !from_word<OffloadTarget>(weights))
      weights = "none";
    std::string target = optimizer.value_or("none");
    const std::int64_t least = target == "nvme" ? 3 : target == "cpu" ? 1 : 0;
    if (!from_word<OffloadTarget>(target))
      problems.problem(optimizer, "offload_optimizer_device is {}; allowed: none, cpu, nvme",
                       target);
    else if (stage.value_or(2) < least)
      problems.problem(optimizer, "offload_optimizer_device is {}: it needs zero_stage {}", target,
                       least);
    if (stage.value_or(2) < least || !from_word<OffloadTarget>(target)) target = "none";
    // Accelerate fills the format in from mixed_precision.
    return fmt::format(
        "{{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
        "\"gradient_accumulation_steps\": \"auto\", \"zero_optimization\": {{\"stage\": {}, "
        "\"offload_optimizer\": {{\"device\": \"{}\"}}, "
        "\"offload_param\": {{\"device\": \"{}\"}}}}}}",
        stage.value_or(2), target, weights);
  }

  const Document& yaml_;
  const std::string& folder_;
  const ImportRequest& request_;
  const ObjectReader root_;
  TrainerJob job_;
  Imported result_;
};

}  // namespace

AccelerateJob read_accelerate_job(const Document& yaml, Imported& result) {
  const ImportRequest nothing;
  const std::string folder;
  return AccelerateReader{yaml, folder, nothing}.read_beside(result);
}

Imported import_accelerate(const Document& yaml, const std::string& folder,
                           const ImportRequest& request) {
  if (is_trainer_file(yaml.root_object())) return import_trainer(yaml, nullptr, folder, request);
  return AccelerateReader{yaml, folder, request}.read();
}

}  // namespace sim
