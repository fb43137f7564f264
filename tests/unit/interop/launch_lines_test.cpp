// Jobs as they are started: launch lines of Megatron-Bridge, of trainers and of torchtitan, scripts
// of one's own, and keys of the scenario on top. All inputs are written for these tests.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/interop/job_kind.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_{fs::temp_directory_path() / ("stepcast-launch-" + std::to_string(getpid()))} {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string put(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream{path_ / name} << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

JobFile job_of(const std::string& file, std::vector<std::string> changes = {}) {
  JobFile job;
  job.file = file;
  job.cluster = "dgx-h100";
  job.changes = std::move(changes);
  return job;
}

std::string problem_of(JobKind kind, const JobFile& job) {
  try {
    static_cast<void>(import_job(kind, job));
  } catch (const InputError& error) {
    return test::lines_of(error).front();
  }
  return "none";
}

bool says(const std::string& text, std::initializer_list<const char*> parts) {
  return std::ranges::all_of(
      parts, [&](const char* part) { return text.find(part) != std::string::npos; });
}

const std::string recipes = test::source_dir() + "/tests/recipes/";

}  // namespace

TEST_CASE("a launch line of Megatron-Bridge is read with the recipe that it names", "[interop]") {
  const Folder folder;
  const std::string line =
      "./scripts/training/train.sh --nodes 2 --gpus-per-node 8 --recipe small_pretrain_config "
      "--max_steps 9 train.global_batch_size=64 model.recompute_granularity=full "
      "model.recompute_method=uniform model.recompute_num_layers=1\n";
  const std::string script = folder.put("go.sh", line);
  const std::string missing = problem_of(JobKind::nemo, job_of(script));
  CHECK(says(missing, {"small_pretrain_config on 16 GPUs (2 x 8)", "def small_pretrain_config(",
                       "--set train.global_batch_size=64", "--gpus 16"}));
  folder.put(
      "src/megatron/bridge/recipes/a/small.py",
      "def small_pretrain_config():\n    cfg = _pretrain_common()\n"
      "    cfg.model = AutoBridge.from_hf_pretrained(\"Qwen/Qwen3-8B\").to_megatron_provider()\n"
      "    cfg.model.tensor_model_parallel_size = 2\n"
      "    cfg.train.global_batch_size = 32\n    cfg.train.micro_batch_size = 1\n"
      "    return cfg\n");
  const Scenario scenario = import_job(JobKind::nemo, job_of(script)).scenario;
  CHECK(scenario.layout.world_size() == 16);
  CHECK(scenario.layout.tensor_parallel == 2);
  CHECK(scenario.layout.global_batch == 64);
  CHECK(scenario.layout.recompute == Recompute::full);
}

TEST_CASE("of two lines --recipe names one; a benchmark's recipe has its name in parts",
          "[interop]") {
  const Folder folder;
  const std::string script = folder.put(
      "go.sh",
      "train.sh --nodes 1 --recipe a_config\ncat > w.sh <<'END'\n"
      "torchrun --nnodes 4 --nproc-per-node 8 run_script.py --model_recipe_name llama3_70b "
      "--gpu h100 --num_gpus 32 --compute_dtype fp8_cs --task pretrain -tp 4 "
      "--recompute_modules mlp core_attn\nEND\nbash w.sh\n");
  CHECK(says(problem_of(JobKind::nemo, job_of(script)),
             {"which line?", "a_config", "llama3_70b_pretrain_32gpu_h100_fp8cs_config"}));
  JobFile job = job_of(script);
  job.recipe = "llama3_70b_pretrain_32gpu_h100_fp8cs_config";
  CHECK(says(problem_of(JobKind::nemo, job),
             {"on 32 GPUs (4 x 8)", "model.tensor_model_parallel_size=4",
              "model.recompute_modules=mlp core_attn"}));
  // Asked for as another framework's job.
  CHECK(says(problem_of(JobKind::megatron, job_of(script)), {"stepcast import bridge"}));
}

TEST_CASE("a trainer's line: Accelerate's file, its flags, the trainer's", "[interop]") {
  const ImportedJob job = import_job(JobKind::accelerate, job_of(recipes + "trl_launch.sh"));
  const Scenario& scenario = job.scenario;
  CHECK(scenario.model_path.ends_with("qwen3-8b.yaml"));
  CHECK(scenario.layout.sequence_length == 64 * 1024);
  CHECK(scenario.layout.world_size() == 8);
  CHECK(scenario.layout.zero_stage == 3);
  CHECK(scenario.layout.micro_batches() == 2);
  CHECK(scenario.layout.recompute == Recompute::full);  // of FSDP, whatever the trainer says
  CHECK(scenario.layout.loss_chunks == 256);
  CHECK(scenario.framework.execution.loss_chunks == LossChunks::again);
  CHECK(scenario.layout.compute_dtype == DType::bf16);
}

TEST_CASE("trl's own line, with a file of arguments and one of its profiles", "[interop]") {
  const Folder folder;
  folder.put("sft.yaml",
             "model_name_or_path: Qwen/Qwen3-8B\nmax_length: 2048\nper_device_train_batch_size: 1\n"
             "gradient_accumulation_steps: 1\nbf16: true\n");
  const std::string script =
      folder.put("go.sh",
                 "trl sft --config sft.yaml --accelerate_config fsdp2 --num_processes 16 "
                 "--max_length 4096 --gradient_checkpointing\n");
  const Scenario scenario = import_job(JobKind::accelerate, job_of(script)).scenario;
  CHECK(scenario.layout.world_size() == 16);
  CHECK(scenario.layout.sequence_length == 4096);
  CHECK(scenario.layout.zero_stage == 3);
  CHECK(scenario.layout.recompute == Recompute::full);
  CHECK(says(problem_of(JobKind::accelerate, job_of(folder.put("g.sh", "trl grpo --model a\n"))),
             {"trl grpo", "not modelled"}));
  CHECK(says(problem_of(JobKind::accelerate,
                        job_of(folder.put("h.sh",
                                          "accelerate launch --config_file no.yaml a.py "
                                          "--model_name_or_path Qwen/Qwen3-8B --bf16 "
                                          "--output_dir o\n"))),
             {"no.yaml", "beside"}));
}

TEST_CASE("torchtitan's flags on its command line are read over its file", "[interop]") {
  const Folder folder;
  folder.put("job.toml",
             "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
             "seq_len = 2048\n[parallelism]\ntensor_parallel_degree = 1\n[compile]\n"
             "enable = true\n");
  const std::string script =
      folder.put("go.sh",
                 "torchrun --nproc_per_node=8 --nnodes=2 -m torchtitan.train "
                 "--job.config_file ./job.toml --training.local_batch_size 4 "
                 "--parallelism.tensor_parallel_degree=2 --compile.no-enable\n");
  const Scenario scenario = import_job(JobKind::torchtitan, job_of(script)).scenario;
  CHECK(scenario.layout.world_size() == 16);
  CHECK(scenario.layout.tensor_parallel == 2);
  CHECK(scenario.layout.sequence_length == 2048);
  CHECK(scenario.layout.global_batch == 4 * 8);
}

TEST_CASE("a script of its own is named as such, with the sizes that it states", "[interop]") {
  const Folder folder;
  const std::string text =
      "#!/bin/bash\n#SBATCH --nodes=3\n#SBATCH --gpus-per-node=8\n"
      "srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 my_train.py --num_layers 12 "
      "--hidden_width 256 --sharding_strategy full --activation_checkpointing 1\n";
  const std::string script = folder.put("own.sbatch", text);
  CHECK(says(problem_of(JobKind::megatron, job_of(script)),
             {"my_train.py is a script of its own, PyTorch FSDP", "24 GPUs (3 x 8)",
              "num_layers 12", "write a scenario"}));
  CHECK(job_kind_of(script, text) == std::nullopt);
}

TEST_CASE("reinforcement learning is refused by name, with what its update has", "[interop]") {
  const Folder folder;
  const std::string script =
      folder.put("rl.sh",
                 "TP=2\npython3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml "
                 "actor_rollout_ref.model.path=Qwen/Qwen3-8B trainer.nnodes=2 "
                 "trainer.n_gpus_per_node=8 "
                 "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=$TP\n");
  CHECK(says(problem_of(JobKind::megatron, job_of(script)),
             {"verl", "model: qwen3-8b", "layout.tensor_parallel 2", "nodes 2"}));
}

TEST_CASE("an experiment of Primus is the job of its flags", "[interop]") {
  JobFile job = job_of(recipes + "primus_experiment.yaml");
  job.known.gpus = 16;
  const Scenario primus = import_job(JobKind::primus, job).scenario;
  CHECK(primus.layout.tensor_parallel == 2);
  CHECK(primus.layout.micro_batch == 2);
  CHECK(primus.model.shape->layers == 16);  // not of the file that it extends
  CHECK(primus.model.shape->feed_forward == 8192);
  job.definitions = {"TENSOR=4"};
  CHECK(import_job(JobKind::megatron, job).scenario.layout.tensor_parallel == 4);
  CHECK(says(problem_of(JobKind::torchtitan, job), {"trains with megatron", "import primus"}));
}

TEST_CASE("an experiment of Primus with torchtitan", "[interop]") {
  const Folder folder;
  JobFile job = job_of(
      folder.put("e.yaml",
                 "modules:\n  pre_trainer:\n    framework: torchtitan\n"
                 "    model: llama3.1_8B-fp8.yaml\n    config: pre_trainer.yaml\n    overrides:\n"
                 "      training: {local_batch_size: \"${MBS:4}\", seq_len: 4096}\n"
                 "      parallelism: {tensor_parallel_degree: 2}\n"));
  job.known.gpus = 16;
  const Scenario scenario = import_job(JobKind::primus, job).scenario;
  CHECK(scenario.model_path.ends_with("llama-3.1-8b.yaml"));
  CHECK(scenario.layout.compute_dtype == DType::fp8);
  CHECK(scenario.layout.micro_batch == 4);
  CHECK(scenario.layout.data_parallel == 8);
}

TEST_CASE("keys of the scenario are set on top of any import", "[interop]") {
  JobFile job = job_of(recipes + "accelerate_fsdp2.yaml",
                       {"framework.loss=chunked", "layout.offload.activations=cpu"});
  job.model = "llama-3.1-8b";
  job.known.sequence_length = 4096;
  job.known.micro_batch = job.known.accumulation_steps = 1;
  job.known.precision = DType::bf16;
  const ImportedJob imported = import_job(JobKind::accelerate, job);
  CHECK(imported.scenario.framework.loss == LossForm::chunked);
  CHECK(imported.scenario.layout.offload_activations == OffloadTarget::cpu);
  CHECK(std::ranges::any_of(imported.notes,
                            [](const Note& note) { return note.key == "framework.loss"; }));
  // Keys of the file are the file's.
  job.changes = {"mixed_precision=fp16"};
  CHECK(import_job(JobKind::accelerate, job).scenario.layout.compute_dtype == DType::fp16);
  job.changes = {"layout.tensor_paralel=2"};
  CHECK(says(problem_of(JobKind::accelerate, job), {"tensor_paralel"}));
}
