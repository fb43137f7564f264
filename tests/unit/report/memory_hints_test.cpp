// Changes that would make a layout fit, tried.
#include "sim/report/memory_hints.hpp"

#include <filesystem>
#include <fstream>

#include "sim/framework/chunked_loss.hpp"
#include "sim/report/memory_kinds.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

Scenario scenario_of(const std::string& framework, const std::string& layout) {
  const std::string root = test::source_dir();
  const auto path = test::temporary_path("hints.yaml");
  std::ofstream(path) << "name: hints\nmodel: " << root
                      << "/models/llama-3.2-1b.yaml\ncluster: {path: " << root
                      << "/topologies/dgx-h100.yaml, gpus: 8}\nframework: {" << framework
                      << "}\nlayout: {data_parallel: 8, " << layout << "}\n";
  Scenario scenario = load_scenario(path.string());
  std::filesystem::remove(path);
  return scenario;
}

std::vector<std::string> hints(const std::string& framework, const std::string& layout) {
  const Scenario it = scenario_of(framework, layout);
  return memory_hints(it.model, it.framework.name, it.layout, it.cluster);
}

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

Bytes total(const Model& model, const Scenario& it) {
  return stage_memory(make_plan(model, it.layout), it.cluster).front().total;
}

}  // namespace

TEST_CASE("where logits are most of the memory, a loss in chunks comes first", "[hints]") {
  const std::string layout =
      "sequence_length: 8192, global_batch: 64, micro_batch: 8, zero_stage: 3, recompute: full";
  const std::vector<std::string> lines = hints("name: fsdp2", layout);
  REQUIRE_FALSE(lines.empty());
  CAPTURE(lines);
  CHECK(lines.front().starts_with("framework.loss: chunked -> "));
  CHECK(lines.front().ends_with(", fits"));
}

TEST_CASE("torchtitan's loss in chunks and tiled MLPs are named for long sequences", "[hints]") {
  const std::string long_sequences =
      "sequence_length: 131072, global_batch: 8, micro_batch: 1, zero_stage: 3, recompute: full";
  CHECK(mentions(hints("name: torchtitan", long_sequences), "layout.loss_chunks: 8"));
  // 131,072 tokens of 2,048 features.
  CHECK(mentions(hints("name: deepspeed, loss: chunked", long_sequences), "layout.mlp_tiles: 64"));
  CHECK_FALSE(mentions(hints("name: torchtitan", long_sequences), "layout.mlp_tiles"));
}

TEST_CASE("a model that gets its loss in chunks is as one that has it", "[hints]") {
  const std::string layout =
      "sequence_length: 4096, global_batch: 16, micro_batch: 2, zero_stage: 3, recompute: full";
  for (const char* loss : {"eager", "fused", "in_place"}) {
    CAPTURE(loss);
    const Scenario given = scenario_of("name: fsdp2, loss: " + std::string{loss}, layout);
    const Scenario chunked = scenario_of("name: fsdp2, loss: chunked", layout);
    Model model = given.model;
    run_with_chunked_loss(model);
    CHECK(total(model, given) == total(chunked.model, chunked));
  }
}

TEST_CASE("hints are what the framework can run", "[hints]") {
  const std::string layout = "sequence_length: 8192, global_batch: 128, micro_batch: 16";
  const std::vector<std::string> torchtitan = hints("name: torchtitan", layout);
  CAPTURE(torchtitan);
  for (const char* other : {"zero_stage: 1", "zero_stage: 2", "chunked", "recompute_modules"})
    CHECK_FALSE(mentions(torchtitan, other));
  const std::vector<std::string> trainer = hints("name: transformers", layout);
  CAPTURE(trainer);
  for (const char* other :
       {"tensor_parallel", "pipeline_parallel", "context_parallel", "zero_stage"})
    CHECK_FALSE(mentions(trainer, other));
  CHECK(mentions(trainer, "framework.loss: chunked"));
  const std::vector<std::string> megatron = hints("name: megatron", layout);
  CAPTURE(megatron);
  CHECK_FALSE(mentions(megatron, "chunked"));
  CHECK_FALSE(mentions(megatron, "more GPUs"));
}

TEST_CASE("where no change suffices, several together come first", "[hints]") {
  const std::vector<std::string> lines =
      hints("name: fsdp2", "sequence_length: 131072, global_batch: 8, micro_batch: 1");
  CAPTURE(lines);
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.front().find(", ") < lines.front().find(" -> "));
  CHECK(lines.front().ends_with(", fits"));
}

TEST_CASE("kinds of memory are those of the layout, under its framework", "[hints]") {
  const Scenario plain = scenario_of("name: megatron", "sequence_length: 2048, global_batch: 8");
  CHECK(memory_kinds(plain.framework.name, plain.layout, plain.model) ==
        std::vector<std::string>{"framework megatron"});
  const Scenario host = scenario_of("name: fsdp2",
                                    "sequence_length: 2048, global_batch: 8, zero_stage: 3, "
                                    "offload: {parameters: cpu, optimizer: cpu}");
  CHECK(memory_kinds(host.framework.name, host.layout, host.model) ==
        std::vector<std::string>{"framework pytorch", "ZeRO-3 under pytorch",
                                 "optimizer on the host", "parameters on the host"});
}
