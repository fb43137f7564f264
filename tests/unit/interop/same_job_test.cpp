// A job that is written for its framework and read back is the same job: the same step and the same
// memory, the same model and the same optimizer, unless a note of the export says what differs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/input_error.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/interop/job_file.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
namespace fs = std::filesystem;

namespace {

struct Outcome {
  Duration step{};
  Bytes memory{};
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(const Scenario& scenario) {
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Simulation run = simulate(plan, scenario.cluster, scenario.options);
  PlanMemory memory{plan};
  Outcome made{.step = run.timeline.end.time_since_epoch()};
  for (const StageMemory& stage : memory.stages(scenario.cluster))
    made.memory = std::max(made.memory, stage.total);
  return made;
}

Scenario load_text(const std::string& text) {
  const fs::path folder = test::temporary_path("interop/same_job");
  fs::create_directories(folder);
  std::ofstream{folder / "scenario.yaml"} << text;
  Scenario scenario = load_scenario((folder / "scenario.yaml").string());
  fs::remove_all(folder);
  return scenario;
}

// The file of a job, imported on DGX H100s, as the scenario that `stepcast import` writes.
Scenario imported(const std::string& file, JobKind kind, int gpus) {
  const fs::path folder = test::temporary_path("interop/same_job_file");
  fs::create_directories(folder);
  const char* ending = kind == JobKind::megatron     ? "job.sh"
                       : kind == JobKind::torchtitan ? "job.toml"
                                                     : "job.yaml";
  JobFile job;
  job.file = (folder / ending).string();
  job.cluster = sim::test::source_dir() + "/topologies/dgx-h100.yaml";
  job.known.gpus = gpus;
  std::ofstream{job.file} << file;
  const ImportedJob read = import_job(kind, job);
  const std::string text = imported_yaml(read, job, folder.string());
  Scenario scenario = load_text(text);
  fs::remove_all(folder);
  return scenario;
}

// A job of Megatron-LM as a person writes it: dense, a mixture, or gpt-oss' mixture.
std::string megatron_job(test::Dice& dice, int& gpus) {
  const int kind = dice.below(3);
  const int tensor = dice.pick(std::array{1, 2, 4});
  const int stages = dice.pick(std::array{1, 1, 2, 4});
  const bool interleaved = stages > 1 && dice.coin();
  const int data = dice.pick(std::array{1, 2, 4});
  gpus = tensor * stages * data;
  const int micro_batches = stages * (1 + dice.below(2));
  std::ostringstream out;
  out << "name: drawn\nmodel: {name: small, source: none, transformer: {family: "
      << (kind == 2 ? "gpt_oss" : "llama") << ", layers: " << 2 * stages
      << ", hidden: 1024, heads: 16, kv_heads: " << dice.pick(std::array{4, 16})
      << ", head_dim: " << dice.pick(std::array{64, 128}) << ", feed_forward: 2816"
      << (kind > 0 ? ", experts: {count: 8, per_token: 2, feed_forward: 1024}" : "")
      << ", vocabulary: 32000, max_sequence: 8192, norm: rms, activation: swiglu, positions: "
         "rotary, biases: none, tied_head: "
      << (dice.coin() ? "true" : "false") << (dice.coin() ? ", qk_norm: true" : "")
      << (dice.coin() ? ", rotary_share: 0.5" : "") << "}}\n";
  out << "cluster: {path: " << sim::test::source_dir()
      << "/topologies/dgx-h100.yaml, nodes: " << (gpus + 7) / 8 << ", gpus: " << gpus << "}\n";
  out << "layout: {sequence_length: 1024, tensor_parallel: " << tensor
      << ", sequence_parallel: " << (tensor > 1 && (kind > 0 || dice.coin()) ? "true" : "false")
      << ", pipeline_parallel: " << stages << ", virtual_stages: " << (interleaved ? 2 : 1)
      << ", schedule: " << (interleaved ? "interleaved" : "1f1b") << ", micro_batch: 1"
      << ", global_batch: " << data * micro_batches
      << ", zero_stage: " << (data > 1 ? dice.below(2) : 0)
      << ", recompute: " << (dice.coin() ? "full" : "none") << ", gradient_dtype: fp32";
  if (kind > 0) out << ", expert_parallel: " << (data > 1 ? 2 : 1) << ", expert_tensor_parallel: 1";
  // Megatron-LM's 1F1B waits for its messages.
  out << ", overlap: {pipeline: " << (interleaved ? "true" : "false")
      << ", gradients: " << (dice.coin() ? "true" : "false") << ", parameters: false}}\n";
  out << "framework: {name: megatron, loss: " << (dice.coin() ? "separate" : "fused");
  for (const char* key : {"gradient_prescale", "check_for_nan_in_grad"})
    out << ", " << key << ": " << (dice.coin() ? "true" : "false");
  for (const char* key : {"rotary", "gate"})
    if (dice.coin()) out << ", " << key << ": eager";
  out << "}\n";
  return out.str();
}

bool changes_a_step(const Note& note) {
  return note.key.starts_with("layout") || note.key.starts_with("framework") ||
         note.key.starts_with("simulation") || note.key == "model";
}

// The job with what an import knows besides of libraries on its device: placeholders, workspaces.
std::string with_libraries(std::string yaml, const Scenario& back) {
  const Execution& runs = back.framework.execution;
  const std::string preset = "{name: megatron";
  return yaml.insert(yaml.rfind(preset) + preset.size(),
                     fmt::format(", gradient_placeholders: {}, workspaces: {} B",
                                 word(runs.gradient_placeholders), runs.workspaces.count()));
}

std::string text_of(const std::vector<Note>& notes) {
  std::string text;
  for (const Note& note : notes)
    text += note.key + ": " + note.what + "\n";
  return text;
}

}  // namespace

TEST_CASE("drawn jobs of Megatron-LM keep their step and memory by export and import",
          "[interop][same_job]") {
  int same = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    test::Dice dice{seed};
    int gpus = 0;
    const std::string yaml = megatron_job(dice, gpus);
    CAPTURE(seed, yaml);
    const Scenario drawn = load_text(yaml);
    const Exported out = export_scenario(drawn, Target::megatron, "");
    CAPTURE(text_of(out.notes));
    const Scenario back = imported(out.text, JobKind::megatron, gpus);
    REQUIRE(back.model.shape);
    CHECK(same_shape(*drawn.model.shape, *back.model.shape));
    CHECK(drawn.layout.optimizer == back.layout.optimizer);
    if (std::ranges::any_of(out.notes, changes_a_step)) continue;
    ++same;
    CHECK(outcome(drawn).step == outcome(back).step);
    CHECK(outcome(load_text(with_libraries(yaml, back))).memory == outcome(back).memory);
  }
  CHECK(same == 60);
}

TEST_CASE("drawn jobs keep their step through Megatron-Bridge", "[interop][same_job]") {
  int same = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    test::Dice dice{seed};
    int gpus = 0;
    const std::string yaml = megatron_job(dice, gpus);
    CAPTURE(seed, yaml);
    const Scenario drawn = load_text(yaml);
    const Exported out = export_scenario(drawn, Target::nemo, "");
    CAPTURE(text_of(out.notes), out.text);
    const Scenario back = imported(out.text, JobKind::nemo, gpus);
    REQUIRE(back.model.shape);
    CHECK(same_shape(*drawn.model.shape, *back.model.shape));
    if (std::ranges::any_of(out.notes, changes_a_step)) continue;
    ++same;
    CHECK(outcome(load_text(with_libraries(yaml, back))) == outcome(back));
  }
  CHECK(same == 20);
}

namespace {

// A dense job as Megatron-DeepSpeed runs it.
std::string deepspeed_job(test::Dice& dice, int& gpus) {
  const int tensor = dice.pick(std::array{1, 1, 2});
  const int stages = dice.pick(std::array{1, 1, 2});
  const int data = dice.pick(std::array{1, 2, 4});
  gpus = tensor * stages * data;
  // ZeRO-2 and 3 go without stages.
  const int zero = data == 1 ? 0 : dice.below(stages > 1 ? 2 : 4);
  std::ostringstream out;
  out << "name: drawn\nmodel: " << sim::test::source_dir() << "/models/llama-3.2-1b.yaml\n";
  out << "cluster: {path: " << sim::test::source_dir()
      << "/topologies/dgx-h100.yaml, nodes: " << (gpus + 7) / 8 << ", gpus: " << gpus << "}\n";
  out << "layout: {sequence_length: 1024, tensor_parallel: " << tensor
      << ", pipeline_parallel: " << stages << ", micro_batch: " << 1 + dice.below(2)
      << ", global_batch: " << 4 * data * stages << ", zero_stage: " << zero
      << ", attention: flash-2, recompute: " << (dice.coin() ? "full" : "none")
      << ", sequence_parallel: " << (tensor > 1 && dice.coin() ? "true" : "false")
      << ", gradient_dtype: " << (zero > 0 ? "bf16" : "fp32") << ", reduce_dtype: bf16"
      << ", overlap: {pipeline: false, tensor_wgrad: " << (tensor > 1 ? "true" : "false")
      << ", gradients: " << (zero > 0 && stages == 1 && dice.coin() ? "true" : "false")
      << ", parameters: " << (zero == 3 ? "true" : "false") << "}}\n";
  out << "framework: {name: megatron_deepspeed}\n";
  return out.str();
}

// The two files of such a job, imported.
Scenario imported_deepspeed(const Exported& out, int gpus) {
  const fs::path folder = test::temporary_path("interop/same_job_deepspeed");
  fs::create_directories(folder);
  JobFile job;
  job.file = (folder / "job.json").string();
  job.flags = (folder / "job.sh").string();
  job.cluster = sim::test::source_dir() + "/topologies/dgx-h100.yaml";
  job.known.gpus = gpus;
  job.model = "llama-3.2-1b";  // no file of DeepSpeed has it
  std::ofstream{job.file} << out.text;
  std::ofstream{job.flags} << out.flags;
  const ImportedJob read = import_job(JobKind::deepspeed, job);
  Scenario scenario = load_text(imported_yaml(read, job, folder.string()));
  fs::remove_all(folder);
  return scenario;
}

}  // namespace

TEST_CASE("drawn jobs keep their step and memory through DeepSpeed", "[interop][same_job]") {
  int same = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::Dice dice{seed};
    int gpus = 0;
    const std::string yaml = deepspeed_job(dice, gpus);
    CAPTURE(seed, yaml);
    const Scenario drawn = load_text(yaml);
    const Exported out = export_scenario(drawn, Target::deepspeed, "");
    CAPTURE(text_of(out.notes), out.text, out.flags);
    const Scenario back = imported_deepspeed(out, gpus);
    REQUIRE(back.model.shape);
    CHECK(same_shape(*drawn.model.shape, *back.model.shape));
    if (std::ranges::any_of(out.notes, changes_a_step)) continue;
    ++same;
    CHECK(outcome(drawn) == outcome(back));
  }
  CHECK(same > 20);  // the rest: stage 0, whose optimizer DeepSpeed shards
}

TEST_CASE("a job of torchtitan is the same by export and import", "[interop][same_job]") {
  const std::string text =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
      "global_batch_size = 16\nseq_len = 4096\n[parallelism]\ndata_parallel_shard_degree = 8\n"
      "[compile]\nenable = ";
  for (const char* compiled : {"false", "true\ncomponents = [\"model\", \"loss\"]"}) {
    CAPTURE(compiled);
    const Scenario first = imported(text + compiled + "\n", JobKind::torchtitan, 8);
    const Exported out = export_scenario(first, Target::torchtitan, "");
    CAPTURE(text_of(out.notes));
    const Scenario back = imported(out.text, JobKind::torchtitan, 8);
    CHECK(first.framework == back.framework);
    CHECK(first.layout == back.layout);
    CHECK(outcome(first) == outcome(back));
  }
}

TEST_CASE("what no step depends on is carried by import and written by export",
          "[interop][same_job]") {
  const std::string flags =
      "--group-query-attention --num-query-groups 4 --normalization RMSNorm --swiglu "
      "--disable-bias-linear --untie-embeddings-and-output-weights --kv-channels 128 "
      "--rotary-base 500000 --rotary-percent 0.5 --use-rope-scaling --rope-scaling-factor 8.0 "
      "--norm-epsilon 1e-5 --lr 3e-4 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0";
  const Scenario first = imported(test::decoder(flags), JobKind::megatron, 8);
  const Exported out = export_scenario(first, Target::megatron, "");
  for (const char* line : {"  --rotary-base 500000\n", "  --rotary-percent 0.5\n",
                           "  --use-rope-scaling\n", "  --rope-scaling-factor 8.0\n",
                           "  --norm-epsilon 1e-5\n", "  --lr 3e-4\n", "  --adam-beta2 0.95\n",
                           "  --untie-embeddings-and-output-weights\n", "  --kv-channels 128\n"}) {
    CAPTURE(line, out.text);
    CHECK(out.text.find(line) != std::string::npos);
  }
  const Scenario back = imported(out.text, JobKind::megatron, 8);
  CHECK(first.carried == back.carried);
  CHECK(first.carried.settings.size() >= 7);
  CHECK(first.model.shape == back.model.shape);
  CHECK(first.layout == back.layout);
  CHECK(first.framework == back.framework);
  // Another framework's words are told, not written.
  const Exported other = export_scenario(first, Target::nemo, "");
  CHECK(std::ranges::any_of(other.notes,
                            [](const Note& note) { return note.key == "carried.megatron"; }));
}

TEST_CASE("an export says that the base of rotary positions is not known", "[interop][same_job]") {
  test::Dice dice{1};
  int gpus = 0;
  Scenario scenario = load_text(megatron_job(dice, gpus));
  const auto says = [&] {
    return export_scenario(scenario, Target::megatron, "")
               .text.find("does not say --rotary-base") != std::string::npos;
  };
  CHECK(says());
  scenario.carried = {"megatron", {{"--rotary-base", "500000"}}};
  CHECK_FALSE(says());
}

TEST_CASE("flags that take kernels apart are read, not noted", "[interop][same_job]") {
  const auto job = [](const std::string& more) {
    return test::from_flags(test::decoder("--swiglu " + more));
  };
  const Imported apart = job("--no-rope-fusion --no-bias-swiglu-fusion --no-masked-softmax-fusion");
  CHECK(apart.framework.rotary == RotaryForm::eager);
  CHECK(apart.framework.gate == KernelForm::eager);
  CHECK(apart.framework.softmax == KernelForm::eager);
  CHECK(apart.notes.empty());
  const Imported fused = job("");
  CHECK(fused.framework.rotary == RotaryForm::fused);
  CHECK(fused.framework.gate == KernelForm::fused);
}

TEST_CASE("notes travel in the scenario, and those that leave something out say so",
          "[interop][same_job]") {
  const Scenario scenario =
      imported(test::decoder("--deterministic-mode --rampup-batch-size 8"), JobKind::megatron, 8);
  const auto note = [&](const char* key) {
    const auto found = std::ranges::find(scenario.notes, key, &Note::key);
    REQUIRE(found != scenario.notes.end());
    return *found;
  };
  CHECK(note("--deterministic-mode").unmodelled);
  CHECK_FALSE(note("--rampup-batch-size").unmodelled);
  const fs::path folder = test::temporary_path("interop/same_job_notes");
  CHECK(load_text(scenario_yaml(scenario, folder.string())).notes == scenario.notes);
}

TEST_CASE("what a scenario carries is checked before a script has it", "[interop][same_job]") {
  test::Dice dice{1};
  int gpus = 0;
  const std::string yaml = megatron_job(dice, gpus);
  const auto refused = [&](const std::string& more) {
    return !test::problems([&] { load_text(yaml + more); }).empty();
  };
  CHECK_FALSE(refused("carried: {megatron: {--rotary-base: \"500000\"}}\n"));
  CHECK(refused("carried: {megatron: {--rotary-base: \"$(reboot)\"}}\n"));
  CHECK(refused("carried: {megatron: {\"--a b\": \"1\"}}\n"));
  CHECK(refused("carried: {vendor: {--rotary-base: \"500000\"}}\n"));
  CHECK(refused("notes: [{key: a}]\n"));
  CHECK(refused("notes: [{key: a, what: b, modeled: false}]\n"));
}
