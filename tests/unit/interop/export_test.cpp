// Exports for each framework, and what they refuse.
#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/megatron/megatron_config.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = sim::test::source_dir();

Scenario shipped(const std::string& name, const std::vector<std::string>& set = {}) {
  return load_scenario(root + "/scenarios/" + name + ".yaml", set);
}

std::vector<std::string> refusals(const Scenario& scenario, Target target) {
  try {
    static_cast<void>(export_scenario(scenario, target, ""));
  } catch (const InputError& error) {
    std::vector<std::string> lines;
    for (const Problem& problem : error.problems())
      lines.push_back(problem.what);
    return lines;
  }
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool notes(const Exported& out, const std::string& key) {
  for (const Note& note : out.notes)
    if (note.key == key) return true;
  return false;
}

}  // namespace

TEST_CASE("Megatron-LM has no flags for what newer families have, but takes an idle window",
          "[interop]") {
  const auto refused = [](const char* model, const char* sequence = "4096") {
    const Scenario scenario =
        shipped("llama-3.1-8b-fsdp-8-h100", {"model=" + root + "/models/" + model + ".yaml",
                                             "layout.sequence_length=" + std::string{sequence}});
    std::string all;
    for (const std::string& line : refusals(scenario, Target::megatron))
      all += line + "\n";
    return all;
  };
  CHECK(has(refused("granite-3.3-8b"), "granite-3.3-8b: scaled embeddings, branches or logits"));
  CHECK(has(refused("smollm3-3b"), "smollm3-3b: layers without rotary positions"));
  CHECK(has(refused("gemma-3-1b"), "gemma-3-1b: scaled embeddings"));
  CHECK(has(refused("olmo-2-32b"), "olmo-2-32b: norms over all queries"));
  CHECK(refused("mistral-7b").empty());
  CHECK(refused("mistral-7b", "8192").empty());
}

TEST_CASE("Megatron-LM's flags have their exact names", "[interop]") {
  const Exported out = export_scenario(shipped("llama-3.1-70b-512-h100"), Target::megatron, "");
  for (const char* line : {"STEPCAST_ARGS=(\n",
                           "  --num-layers 80\n",
                           "  --hidden-size 8192\n",
                           "  --ffn-hidden-size 28672\n",
                           "  --num-attention-heads 64\n",
                           "  --group-query-attention\n",
                           "  --num-query-groups 8\n",
                           "  --vocab-size 128256\n",
                           "  --normalization RMSNorm\n",
                           "  --swiglu\n",
                           "  --disable-bias-linear\n",
                           "  --position-embedding-type rope\n",
                           "  --untie-embeddings-and-output-weights\n",
                           "  --hidden-dropout 0\n",
                           "  --seq-length 8192\n",
                           "  --global-batch-size 256\n",
                           "  --tensor-model-parallel-size 8\n",
                           "  --pipeline-model-parallel-size 4\n",
                           "  --sequence-parallel\n",
                           "  --num-virtual-stages-per-pipeline-rank 5\n",
                           "  --use-distributed-optimizer\n",
                           "  --overlap-grad-reduce\n",
                           "  --overlap-param-gather\n",
                           "  --bf16\n",
                           "  --accumulate-allreduce-grads-in-fp32\n"})
    CHECK(has(out.text, line));
  CHECK_FALSE(has(out.text, "--pipeline-model-parallel-layout"));
  CHECK(out.notes.empty());
  CHECK_FALSE(has(out.text, "--ddp-bucket-size"));
  const Exported small = export_scenario(
      shipped("llama-3.1-70b-512-h100", {"layout.bucket=25 MiB", "layout.first_bucket=1 MiB"}),
      Target::megatron, "");
  CHECK(has(small.text, "  --ddp-bucket-size 6553600\n"));
  CHECK(small.notes.size() == 1);
  CHECK(has(small.text, "# Not as in the scenario: layout.first_bucket: "));
}

TEST_CASE("who shares heads among context ranks is told, or refuses", "[interop]") {
  const auto scenario = [](const char* exchange) {
    return shipped("llama-3.1-8b-fsdp-8-h100",
                   {"framework.name=megatron", "layout.context_parallel=2",
                    "layout.data_parallel=4", std::string{"layout.context_exchange="} + exchange});
  };
  CHECK(has(export_scenario(scenario("all_to_all"), Target::megatron, "").text,
            "  --cp-comm-type a2a\n"));
  CHECK(
      has(export_scenario(scenario("ring"), Target::megatron, "").text, "  --cp-comm-type p2p\n"));
  CHECK(
      has(export_scenario(scenario("all_to_all"), Target::nemo, "").text, "cp_comm_type: \"a2a\""));
  const auto refused = refusals(scenario("all_to_all"), Target::torchtitan);
  REQUIRE(!refused.empty());
  CHECK(has(refused.front(), "context_exchange all_to_all: torchtitan"));
}

TEST_CASE("an uneven pipeline becomes Megatron-LM's layout", "[interop]") {
  const Exported out = export_scenario(shipped("llama-3.1-405b-16384-h100"), Target::megatron, "");
  CHECK(has(out.text, "  --pipeline-model-parallel-layout 'E|t|t|"));
  CHECK(has(out.text, "|t|L'\n"));
  CHECK(has(out.text, "  --grad-reduce-in-bf16\n"));
  CHECK(notes(out, "layout.reduce_dtype"));
}

TEST_CASE("layouts of a pipeline as text", "[interop]") {
  CHECK(pipeline_layout_text({2, 1, 0}) == "Et*2|t|L");
  const auto layers = [](const char* text) { return parse_pipeline_layout(text).layers_per_chunk; };
  CHECK(layers("Et*3|(tt|)*2,t|L") == std::vector<int>{3, 2, 2, 1, 0});
  CHECK(layers("Ettt|(tt|)*29L").size() == 31);
  CHECK(layers("E|t|L") == std::vector<int>{0, 1, 0});
  CHECK(parse_pipeline_layout("Et|mL").mtp_layers == 1);
  CHECK(pipeline_layout_text({1, 0}, 1) == "Et|mL");
  CHECK(parse_pipeline_layout("Etm|tL").problem ==
        "has layers of multi-token prediction (m) before the last stage; modelled: with the loss");
  CHECK(parse_pipeline_layout("tt|L").problem ==
        "begins with one E (embedding) and ends with one L (loss)");
  CHECK(parse_pipeline_layout("Et*99999999|L").problem ==
        "describes more than 100000 layers and stages");
  CHECK(parse_pipeline_layout("Ex|L").problem == "has 'x'; known: E, t, m, L, |, x*n, (...)*n");
}

TEST_CASE("what Megatron-LM cannot say is refused by name", "[interop]") {
  CHECK(refusals(shipped("gpt3-175b-1024-a100", {"layout.schedule=zb-h1"}), Target::megatron) ==
        std::vector<std::string>{
            "not for megatron: schedule zb-h1: Megatron-LM runs 1F1B and interleaved 1F1B"});
  CHECK(refusals(shipped("gpt3-175b-1024-a100", {"layout.placement=[dp, tp, pp]"}),
                 Target::megatron) ==
        std::vector<std::string>{"not for megatron: placement: Megatron-LM orders ranks tp, cp, "
                                 "dp, pp or (--use-tp-pp-dp-mapping) tp, cp, pp, dp"});
  CHECK(refusals(shipped("resnet50-16-v100"), Target::megatron) ==
        std::vector<std::string>{
            "not for megatron: the model resnet50: a list of layers is no transformer"});
}

TEST_CASE("the other order of ranks has its flag", "[interop]") {
  const Exported out = export_scenario(
      shipped("gpt3-175b-1024-a100", {"layout.placement=[tp, pp, dp]"}), Target::megatron, "");
  CHECK(has(out.text, "  --use-tp-pp-dp-mapping\n"));
}

TEST_CASE("torchtitan's TOML has its exact names", "[interop]") {
  const Exported out = export_scenario(shipped("llama-3.1-8b-fsdp-8-h100"), Target::torchtitan, "");
  for (const char* part :
       {"[model]\nname = \"llama3\"\nflavor = \"8B\"\n", "local_batch_size = 1\n",
        "global_batch_size = 16\n", "seq_len = 8192\n", "data_parallel_replicate_degree = 1\n",
        "data_parallel_shard_degree = 8\n", "fsdp_reshard_after_forward = \"always\"\n",
        "tensor_parallel_degree = 1\n", "[activation_checkpoint]\nmode = \"full\"\n",
        "[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n"})
    CHECK(has(out.text, part));
  CHECK(out.notes.empty());
}

TEST_CASE("runs of a pipeline are torchtitan's local batches, and nobody else's", "[interop]") {
  const Scenario scenario =
      shipped("llama-3.1-8b-fsdp-8-h100",
              {"layout.pipeline_parallel=2", "layout.pipeline_runs=2",
               "layout.overlap.pipeline=false", "layout.reshard_after_forward=false"});
  CHECK(scenario.layout.run_batches() == 2);
  // The export reads its own file back and checks it.
  const Exported out = export_scenario(scenario, Target::torchtitan, "");
  CHECK(has(out.text, "local_batch_size = 2\n"));
  CHECK(has(out.text, "global_batch_size = 16\n"));
  const std::vector<std::string> refused = refusals(scenario, Target::nemo);
  CHECK(std::ranges::find(refused,
                          "not for nemo: pipeline_runs 2: one run of the schedule is written") !=
        refused.end());
}

TEST_CASE("DeepSpeed gets JSON, and flags for what JSON has no word for", "[interop]") {
  const Exported out = export_scenario(shipped("gpt3-175b-1024-a100", {"layout.schedule=zb-h1"}),
                                       Target::deepspeed, "");
  CHECK(has(out.text, "\"train_batch_size\": 1536"));
  CHECK(has(out.text, "\"gradient_accumulation_steps\": 192"));
  CHECK(has(out.text, "\"fp16\": {\"enabled\": true}"));
  CHECK(has(out.flags, "  --tensor-model-parallel-size 8\n"));
  CHECK(has(out.flags, "  --enable-zbh1-pipeline\n"));
  CHECK(has(out.flags, "  --checkpoint-activations\n"));
  CHECK(refusals(shipped("llama-3.1-70b-512-h100"), Target::deepspeed) ==
        std::vector<std::string>{"not for deepspeed: schedule interleaved: DeepSpeed runs 1F1B, "
                                 "Megatron-DeepSpeed zb-h1, too"});
}

TEST_CASE("Megatron-Bridge's sections", "[interop]") {
  const Exported out = export_scenario(shipped("llama-3.1-70b-512-h100"), Target::nemo, "");
  for (const char* line :
       {"model:\n", "  tensor_model_parallel_size: 8\n",
        "  virtual_pipeline_model_parallel_size: 5\n", "train:\n  micro_batch_size: 1\n",
        "  activation_func: {_target_: torch.nn.functional.silu, _call_: false}\n",
        "  gated_linear_unit: true\n", "  share_embeddings_and_output_weights: false\n",
        "  grad_reduce_in_fp32: true\n", "  use_distributed_optimizer: true\n"})
    CHECK(has(out.text, line));
}
