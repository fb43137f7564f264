// Words in the cells of a table without a framework: the shipped rules, and the matcher.
#include "sim/rows/words.hpp"

#include <algorithm>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "sim/rows/run_words.hpp"
#include "sim/rows/silent_words.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;
using test::cells_with;
using Cells = std::vector<std::pair<std::string, std::string>>;
using Keys = std::vector<std::pair<std::string, std::string>>;

std::string key(const RunCells& cells, const std::string& name) {
  const auto found = cells.keys.find(name);
  return found == cells.keys.end() ? "" : found->second;
}

TEST_CASE("words of a row set the keys of its framework", "[rows]") {
  struct Case {
    Cells cells;
    Keys keys;
  };
  const Cells mpt{{"shard_strategy", "FSDP"}, {"model", "MPT-7B"}};
  const std::string name = "framework.name", loss = "framework.loss";
  const std::vector<Case> cases{
      {{}, {{name, "megatron"}, {loss, "separate"}, {"framework.sync_expert_counts", "false"}}},
      {{{"shard_strategy", "FSDP FULL_SHARD"}}, {{name, "fsdp1"}, {loss, ""}}},
      {mpt,
       {{name, "fsdp1"},
        {loss, "keeps_logits"},
        {"framework.optimizer", "eager"},
        {"framework.loss_metrics", "2"},
        {"framework.checkpoint_early_stop", "false"}}},
      {{{"shard_strategy", "FSDP"}, {"notes", "torch.compile"}},
       {{name, "megatron"}, {"framework.rms_norm", "compiled"}, {loss, "eager"}}},
      {{{"shard_strategy", "FSDP2"}, {"notes", "torch.compile"}},
       {{name, "torchtitan"}, {"framework.rms_norm", ""}, {loss, ""}}},
      {{{"shard_strategy", "FSDP2"}},
       {{name, "torchtitan"}, {"framework.rms_norm", "eager"}, {"framework.context", "eager"}}},
      {{{"shard_strategy", "FSDP2"}, {"notes", "compiled; loss compiled; fused AdamW"}},
       {{loss, "keeps_logits"}, {"framework.optimizer", "fused"}}},
      {{{"attn_kernel", "Megatron-DeepSpeed, no flash"}}, {{name, "megatron_deepspeed"}}},
      {{{"attn_kernel", "Megatron-DeepSpeed"}, {"source", "BigScience"}},
       {{"framework.sync_before_mlp", "false"}}},
      {{{"notes", "DeepSpeed"}}, {{name, "deepspeed"}, {loss, ""}}},
      {{{"notes", "Aleph Alpha's code"}, {"attn_kernel", "fused"}},
       {{name, "scaling"}, {"framework.softmax", "fused"}}},
      {{{"row_id", "hagemann-1"}, {"attn_kernel", "flash_attention2 + RMS kernel"}},
       {{name, "scaling"}, {"framework.rms_norm", "fused"}, {"framework.softmax", ""}}},
      {{{"attn_kernel", "fused"}}, {{name, "megatron"}, {"framework.softmax", ""}}},
      {{{"notes", "fused loss of Transformer Engine"}}, {{loss, "in_place"}}},
      {{{"notes", "fused loss; dropless"}},
       {{loss, "fused"}, {"framework.sync_expert_counts", "true"}}},
      {{{"row_id", "dgxc-1"}, {"model", "llama3.1 8b"}}, {{loss, "fused"}}},
      {{{"row_id", "dgxc-1"}, {"model", "gpt3 175b"}}, {{loss, "separate"}}},
      {{{"notes", "optimizer of Megatron-LM"}}, {{"framework.separate_update", "true"}}},
      {{{"notes", "CUDA_LAUNCH_BLOCKING=1"}}, {{"framework.blocking_launches", "true"}}},
      {{{"notes", "float8 all-gather"}, {"precision", "fp8"}}, {{"layout.fp8_parameters", "true"}}},
      {{{"notes", "float8 all-gather"}}, {{"layout.fp8_parameters", ""}}},
      {{{"notes", "CP a2a"}, {"cp", "2"}}, {{"layout.context_exchange", "all_to_all"}}},
      {{{"notes", "CP a2a"}, {"cp", "1"}}, {{"layout.context_exchange", ""}}},
  };
  for (const Case& one : cases) {
    const RunCells cells = cells_with(one.cells);
    for (const auto& [name_of_key, value] : one.keys) {
      CAPTURE(one.cells, name_of_key);
      CHECK(key(cells, name_of_key) == value);
    }
  }
}

TEST_CASE("a version counts right behind its words", "[rows]") {
  const auto placeholders = [](const char* notes, const char* status = "") {
    return key(cells_with({{"notes", notes}, {"status", status}}),
               "framework.gradient_placeholders");
  };
  CHECK(placeholders("").empty());
  CHECK(placeholders("Transformer Engine 2.2").empty());
  CHECK(placeholders("with Transformer Engine 2.11; x") == "kept");
  CHECK(placeholders("Transformer Engine 3.0") == "kept");
  CHECK(placeholders("Transformer Engine x").empty());
  CHECK(placeholders("", "analytic") == "none");
}

TEST_CASE("what words set is told with the cell that says so", "[rows]") {
  RunCells cells = *read_runs(CsvTable::parse(test::header + test::sound, "t.csv"))[0].cells;
  cells.text["notes"] = "DeepSpeed; CUDA_LAUNCH_BLOCKING=1";
  CHECK(read_words(test::words(), cells) ==
        std::vector<std::string>{
            "framework.name: deepspeed, 'deepspeed' in notes",
            "framework.blocking_launches: true, 'cuda_launch_blocking' in notes"});
  RunCells plain = *read_runs(CsvTable::parse(test::header + test::sound, "t.csv"))[0].cells;
  CHECK(read_words(test::words(), plain).front() ==
        "framework.name: megatron, no cell says another");
}

TEST_CASE("a row of which no cell says the framework does not name it", "[rows]") {
  CHECK_FALSE(cells_with({}).names_framework);
  CHECK_FALSE(cells_with({{"notes", "fused loss"}}).names_framework);
  CHECK(cells_with({{"shard_strategy", "FSDP"}}).names_framework);
  CHECK(cells_with({{"source", "NVIDIA/dgxc-benchmarking"}}).names_framework);
  CHECK(cells_with({{"notes", "Megatron-LM"}}).names_framework);
}

TEST_CASE("Megatron-LM's FSDP is not PyTorch's", "[rows]") {
  for (const char* words :
       {"Megatron FSDP", "Megatron-FSDP", "megatron_fsdp, optim_grads_params"}) {
    const RunCells cells = cells_with({{"shard_strategy", words}});
    CAPTURE(words);
    CHECK(key(cells, "framework.name") == "megatron");
    CHECK(key(cells, "framework.loss") == "separate");
    CHECK(cells.names_framework);
    CHECK_FALSE(is_torch_fsdp(words));
  }
  CHECK(is_torch_fsdp("FSDP FULL_SHARD"));
}

TEST_CASE("words that set nothing are told", "[rows]") {
  const auto silent = [](const Cells& changes) {
    RunCells cells = *read_runs(CsvTable::parse(test::header + test::sound, "t.csv"))[0].cells;
    for (const auto& [column, text] : changes)
      cells.text.insert_or_assign(column, text);
    return silent_words(cells, test::words());
  };
  using Silent = std::vector<std::string>;
  CHECK(silent({}).empty());
  CHECK(silent({{"optimizer", "paged AdamW"}}) == Silent{"optimizer: paged AdamW"});
  CHECK(silent({{"notes", "fused loss; a sunny day"}}) == Silent{"notes: a sunny day"});
  CHECK(silent({{"overlap", "gradients not overlapped, with glee"}}) ==
        Silent{"overlap: with glee"});
  // Where the framework is named, nothing reads the notes.
  RunCells named = cells_with({{"framework", "nemo"}, {"notes", "a sunny day"}});
  CHECK(silent_words(named, test::words()).empty());
}

TEST_CASE("a row that names its framework is not read for words", "[rows]") {
  const RunCells cells =
      cells_with({{"framework", "nemo"}, {"notes", "fused loss of Transformer Engine; DeepSpeed"}});
  CHECK(cells.keys.size() == 1);
  CHECK_FALSE(cells.is_read_from_words);
  CHECK(run_framework(cells) == find_preset(PresetName::nemo, "")->framework);
}

TEST_CASE("NVIDIA's recipes overlap tensor parallelism where a row says nothing", "[rows]") {
  const Cells recipe{{"overlap", "not stated"},
                     {"seq_parallel", "True"},
                     {"source", "NVIDIA Megatron-Bridge docs/performance-summary.md"}};
  CHECK(run_layout(cells_with(recipe)).overlap_tensor_products);
  CHECK_FALSE(run_layout(cells_with({{"seq_parallel", "True"}})).overlap_tensor_products);
  Cells said = recipe;
  said.front().second = "DP overlap";
  CHECK_FALSE(run_layout(cells_with(said)).overlap_tensor_products);
}

TEST_CASE("rules with unknown columns, keys or versions are refused", "[rows]") {
  const auto problem = [](const std::string& rule) {
    const std::string path = test::temporary_path("words.yaml").string();
    std::ofstream{path} << "rules:\n  - " << rule << "\n";
    try {
      load_words(path);
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return std::string{};
  };
  CHECK(problem("{when: {notes: x}, set: {framework.loss: fused}}").empty());
  CHECK(problem("{when: {note: x}, set: {framework.loss: fused}}") == "there is no column 'note'");
  CHECK(problem("{when: {notes: x}, set: {framework.los: fused}}")
            .starts_with("a scenario has no key 'framework.los'; "));
  CHECK(problem("{when: {notes: x >= new}, set: {framework.loss: fused}}") ==
        "needs a version, such as 2.3, behind '>='");
}

}  // namespace
