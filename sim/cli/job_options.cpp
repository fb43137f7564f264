#include "sim/cli/job_options.hpp"

#include <utility>

namespace sim {
namespace {

constexpr CountFrom any_count{1, std::int64_t{1} << 32};

// trainer_options() are for what DeepSpeed's JSON and the files of Hugging Face leave to the
// program.
Options trainer_options(ImportRequest& known) {
  return {{.name = "--micro-batch-size",
           .into = &known.micro_batch,
           .form = "N",
           .help = "sequences per GPU (per_device_train_batch_size), where the file says auto or "
                   "nothing",
           .check = any_count},
          {.name = "--gradient-accumulation-steps",
           .into = &known.accumulation_steps,
           .form = "N",
           .help = "micro-batches per step, where the file says auto or nothing",
           .check = any_count},
          {.name = "--global-batch-size",
           .into = &known.global_batch,
           .form = "N",
           .help = "sequences per step, in place of one of the two",
           .check = any_count},
          {.name = "--precision",
           .into = word_value<DType>(known.precision, {"bf16", "fp16", "fp32"}),
           .form = "NAME",
           .help = "bf16, fp16 or fp32, where the file says auto or nothing"},
          {.name = "--recompute",
           .into = word_value<Recompute>(known.recompute, {"full", "none"}),
           .form = "NAME",
           .help = "full (gradient_checkpointing) or none, where the file does not say"}};
}

Option flags_option(JobFile& request) {
  return {.name = "--flags",
          .into = &request.flags,
          .form = "FILE",
          .help = "arguments of Megatron-DeepSpeed beside it"};
}

Option define_option(JobFile& request) {
  return {.name = "--define",
          .into = &request.definitions,
          .form = "NAME=VALUE",
          .help =
              "a variable of the script that the file does not set; 1=VALUE: its "
              "first argument",
          .repeated = true};
}

Option recipe_option(JobFile& request, const char* help) {
  return {.name = "--recipe", .into = &request.recipe, .form = "NAME", .help = help};
}

Option changes_option(JobFile& request) {
  return {.name = "--set",
          .into = &request.changes,
          .form = "KEY=VALUE",
          .help =
              "another value than the file's, as optimizer=adam or "
              "model.mtp_num_layers=null; or a key of the scenario that is made, as "
              "layout.offload.activations=cpu or framework.loss=chunked",
          .repeated = true};
}

}  // namespace

Options job_options(JobFile& request) {
  return {{.name = "FILE", .into = &request.file, .help = "the file", .required = true},
          {.name = "--cluster",
           .into = &request.cluster,
           .form = "CLUSTER",
           .help = "cluster file, or name as 'topo list' has it"},
          {.name = "--gpus",
           .into = &request.known.gpus,
           .form = "N",
           .help = "of the job, where the file does not say",
           .check = CountFrom{1, 1 << 20}},
          {.name = "--model",
           .into = &request.model,
           .form = "MODEL",
           .help = "model file, or name as 'models list' has it, where the file has none"},
          {.name = "--seq-length",
           .into = &request.known.sequence_length,
           .form = "N",
           .help = "tokens, where the file does not say",
           .check = any_count}};
}

Options options_of_kind(JobKind kind, JobFile& request) {
  Options options;
  if (kind == JobKind::deepspeed || kind == JobKind::accelerate || kind == JobKind::automodel)
    options = trainer_options(request.known);
  if (kind == JobKind::deepspeed) options.push_back(flags_option(request));
  if (kind != JobKind::automodel) options.push_back(define_option(request));
  if (kind == JobKind::nemo || kind == JobKind::torchtitan)
    options.push_back(
        recipe_option(request, kind == JobKind::nemo
                                   ? "function of a recipe file of Megatron-Bridge (FILE.py), or "
                                     "the line of a script that starts it"
                                   : "function of a config_registry.py (FILE.py)"));
  options.push_back(changes_option(request));
  return options;
}

Options options_of_any_kind(JobFile& request) {
  return joined({trainer_options(request.known),
                 {flags_option(request), define_option(request),
                  recipe_option(request,
                                "a recipe of a file of several, or the line of a script "
                                "that starts it"),
                  changes_option(request)}});
}

}  // namespace sim
