// Files of other programs are known by their words. The inputs are our own, in the forms of those
// programs.
#include "sim/config/foreign/foreign_format.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "sim/config/gzip.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using sim::foreign_format_of;

std::string name_of(std::string_view text, bool launches = false) {
  const sim::ForeignFormat* format = foreign_format_of(text, launches);
  return format ? std::string{format->name} : "";
}

struct Sample {
  std::string_view name, text;
};
constexpr char chakra_trace[] =
    "\x07\x0a\x05"
    "0.0.4\x10\x52\x0e\x0a\x09is_cpu_op\x52\x0a\x09"
    "comm_sizeH\x80";
const Sample samples[] = {
    {"a config of GPT-NeoX",
     "{\n  'pipe-parallel-size': 2, \"model-parallel-size\": 8,\n  \"pos-emb\": \"rotary\",\n}\n"},
    {"a config of GPT-NeoX",
     "\"pipe_parallel_size\": 1\n\"model_parallel_size\": 1\n\"rotary_pct\": 0.25\n"},
    {"a config of llm-foundry (MosaicML Composer)",
     "variables: {}\nmax_seq_len: 4096\nmodel: {name: hf_causal_lm}\nmax_duration: 10ba\n"},
    {"a config of OLMo",
     "device_train_microbatch_size: 2\nglobal_train_batch_size: 64\nsave_interval_unsharded: 9\n"
     "fsdp: {wrapping_strategy: by_block}\n"},
    {"a config of nanotron",
     "parallelism: {dp: 2, pp: 1, tp: 2, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER}\n"
     "tokens: {batch_accumulation_per_replica: 4}\n"},
    {"a config or command of MaxText",
     "python3 -m MaxText.train MaxText/configs/base.yml per_device_batch_size=4\n"},
    {"a config or command of MaxText", "base_emb_dim: 4096\nmax_target_length: 2048\n"},
    {"a script of OLMo-core",
     "from olmo_core.train import TrainerConfig\nconfig = TrainerConfig(max_duration=1)\n"},
    {"a config of Levanter",
     "model: {type: llama, hidden_dim: 2048}\ntrainer:\n  mp: p=f32,c=bfloat16\n"
     "  train_batch_size: 256\n"},
    {"a job of verl",
     "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=a trainer.nnodes=2\n"},
    {"a config of NeMo-RL",
     "policy:\n  train_global_batch_size: 64\n  dtensor_cfg: {enabled: true}\ngrpo: {seed: 1}\n"},
    {"a job of slime",
     "ray job submit -- python train.py --num-layers 36 --rollout-batch-size 32 "
     "--n-samples-per-prompt 8 --colocate\n"},
    {"a recipe of torchtune",
     "model:\n  _component_: torchtune.models.llama3.llama3_8b\nbatch_size: 4\n"},
    {"a job of ms-swift", "swift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 2\n"},
    {"a workload of SimAI",
     "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 1 pp: 2 vpp: 1 ga: 8 "
     "all_gpus: 64 checkpoints: 0\n3\nattention -1 100 ALLGATHER 1 1 NONE 0 1 NONE 0 1\n"},
    {"a network of ASTRA-sim", "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\n"},
    {"a system layer of ASTRA-sim",
     "{\"scheduling-policy\": \"FIFO\", \"preferred-dataset-splits\": 1}\n"},
    {"an execution trace of Chakra (.et)", {chakra_trace, sizeof chakra_trace - 1}},
    {"an execution trace of PyTorch (Chakra, host)",
     "{\"schema\": \"1.1.0-chakra.0.0.4\", \"pid\": 1, \"nodes\": []}\n"},
    {"a node's XML of lstopo (hwloc)",
     "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n<object type=\"Machine\" "
     "os_index=\"0\" gp_index=\"1\"/>\n</topology>\n"},
    {"a dump of PyTorch's Flight Recorder",
     "{\"version\": \"2.4\", \"pg_config\": {}, \"pg_status\": {}, \"entries\": "
     "[{\"profiling_name\": \"nccl:broadcast\", \"collective_seq_id\": 1}]}\n"},
    {"an export of Nsight Systems (SQLite)",
     "SQLite format 3\nCREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)"},
    {"a database of SQLite", "SQLite format 3\nCREATE TABLE bookmarks (id INTEGER)"},
    {"a report of Nsight Systems", "Time (%),Total Time (ns),Instances,Avg (ns)\n"},
    {"JSON lines of NCCL's Inspector",
     "{\"metadata\":{\"inspector_output_format_version\":\"v4.3\"},\"dump_stats\":{}}\n"},
    {"the output of ibnetdiscover", "vendid=0x2c9\nswitchguid=0x1(1)\nSwitch\t2 \"S-1\"\n"},
    {"Slurm's topology.conf", "SwitchName=a Nodes=n[1-2]\n"},
    {"Slurm's topology.yaml",
     "- topology: t\n  cluster_default: true\n  tree: {switches: [{switch: a, nodes: n1}]}\n"},
};

}  // namespace

TEST_CASE("files of other programs are known by their words", "[config]") {
  for (const Sample& sample : samples) {
    CAPTURE(sample.text);
    CHECK(name_of(sample.text) == sample.name);
  }
}

TEST_CASE("the keys of a scenario are told with the values of the file", "[config]") {
  const std::string text =
      "{\"pipe-parallel-size\": 2, \"model-parallel-size\": 8, \"pos-emb\": \"rotary\"}";
  const std::string told = sim::foreign_text(*foreign_format_of(text), "a.yml", text);
  CHECK(told.starts_with("a.yml: this is a config of GPT-NeoX. Write a scenario of it"));
  CHECK(told.find("\n    layout.tensor_parallel: 8  # model_parallel_size") != std::string::npos);
  CHECK(told.find("layout.global_batch") == std::string::npos);
  const std::string product =
      "from olmo_core.train import TrainerConfig\nrank_microbatch_size=2 * N\n";
  CHECK(sim::foreign_text(*foreign_format_of(product), "c", product).find(": 2") ==
        std::string::npos);
  const std::string bare = "actor_rollout_ref: {a: $B}\nalgorithm: {}\nverl.x: 1\n";
  CHECK(sim::foreign_text(*foreign_format_of(bare), "b", bare).find("keys: layout.") !=
        std::string::npos);
}

TEST_CASE("comments, scenarios and words that stand alone name no format", "[config]") {
  CHECK(name_of("") == "");
  CHECK(name_of("# from verl.trainer import a; actor_rollout_ref.b\nx: 1\n") == "");
  CHECK(name_of("fsdp_config: {fsdp_version: 2}\ndistributed_type: FSDP\n") == "");
  CHECK(name_of("--num-layers 4\n--rollout-batch-size 8\n") == "");
}

TEST_CASE("jobs of programs that are not known are named where they are asked for", "[config]") {
  const std::string text = "#!/bin/bash\ntorchrun --nproc-per-node 8 --nnodes 4 train.py\n";
  CHECK(name_of(text) == "");
  CHECK(name_of(text, true) == "a launch script of a program that is not known");
  CHECK(sim::foreign_text(*foreign_format_of(text, true), "a.sh", text)
            .find("cluster.gpus_per_node: 8") != std::string::npos);
}

TEST_CASE("a command that reads a format is told from one that does not", "[config]") {
  const sim::ForeignFormat* format = foreign_format_of("SwitchName=a Nodes=n1\n");
  REQUIRE(format);
  const std::vector<std::string> check{"topo", "check", "a"}, simulate{"simulate", "a"};
  CHECK(sim::reads_format(*format, check));
  CHECK_FALSE(sim::reads_format(*format, simulate));
}

TEST_CASE("no file that is shipped is taken for another program's", "[config]") {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* folder : {"scenarios", "topologies", "models", "validation"})
    for (const auto& entry :
         fs::recursive_directory_iterator{sim::test::source_dir() + '/' + folder}) {
      // Traces of PyTorch are shipped as an example of its own kind.
      if (!entry.is_regular_file() || entry.path().extension() == ".md" ||
          entry.path().string().find("explain/pytorch") != std::string::npos)
        continue;
      CAPTURE(entry.path().string());
      CHECK(name_of(sim::head_of_file(entry.path().string())) == "");
      ++files;
    }
  CHECK(files > 100);
}

TEST_CASE("no seed of a training job is taken for another program's", "[config]") {
  for (const auto& entry : std::filesystem::directory_iterator{
           sim::test::source_dir() + "/tests/fuzz/corpus/training_jobs"}) {
    CAPTURE(entry.path().string());
    const bool verl = entry.path().filename() == "launch_verl";  // known, and refused by its name
    CHECK(name_of(sim::head_of_file(entry.path().string())) == (verl ? "a job of verl" : ""));
  }
}
