// Anybody's table of runs: rows that cannot be read beside others, empty cells, names of GPUs.
#include <fstream>

#include "sim/scores/predict.hpp"
#include "sim/scores/score.hpp"
#include "sim/scores/tables.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;
using test::cells_with, test::header, test::sound;

std::string replaced(std::string text, std::string_view old, std::string_view by) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), by);
}

std::string row(const std::string& id, std::string_view old = "r0", std::string_view by = "r0") {
  return replaced(replaced(sound, old, by), "r0", id);
}

MeasuredSet set_of(const std::string& text) {
  const std::string path = test::temporary_path("runs.csv").string();
  std::ofstream{path} << text;
  return load_table_set(path, sim::test::source_dir());
}

TEST_CASE("a row that cannot be read is listed, and the others are scored", "[scores]") {
  const MeasuredSet set = set_of(header + row("a") + row("b", ",16,GPT,", ",sixteen,GPT,") + "\n" +
                                 "score,c,ok\n" + row("a") + row("d"));
  REQUIRE(set.rows.size() == 5);
  CHECK(set.rows[0].unreadable.empty());
  CHECK(set.rows[1].unreadable ==
        "line 3, column 28: num_gpus is 'sixteen'; allowed: a whole number from 0 to 2147483647");
  CHECK(set.rows[2].unreadable == "line 6, column 7: a row above has the row_id 'a' too");
  CHECK(set.rows[3].unreadable.empty());
  CHECK(set.rows[4].unreadable == "line 5: has 3 fields, the header has 23");
  CHECK(set.rows[4].id == "line 5");
  const SetResult result = validate(set);
  CHECK(result.score.scored == 2);
  CHECK(result.score.skipped == 3);
  CHECK(result.score.unreadable == 3);
  CHECK(result.rows[1].skipped == set.rows[1].unreadable);
  const std::string text = validation_table(std::span{&result, 1});
  CHECK(text.find("  skipped: line 5: has 3 fields") != std::string::npos);
  CHECK(text.find("5 rows, 2 scored, 3 skipped, 3 of them unreadable; ") != std::string::npos);
}

TEST_CASE("a set of ours with a row that cannot be read is refused", "[scores]") {
  const std::string text = header + row("a") + row("b", ",16,GPT,", ",sixteen,GPT,");
  REQUIRE_THROWS_AS(read_runs(CsvTable::parse(text, "t.csv")), InputError);
  REQUIRE_THROWS_AS(CsvTable::parse(header + "score,c,ok\n", "t.csv"), InputError);
}

std::vector<std::string> filled(RunCells& cells,
                                const std::vector<std::pair<std::string, std::string>>& changes) {
  cells = cells_with(changes);
  return fill_empty_cells(cells);
}

TEST_CASE("an empty cell takes the default of the row's framework, which is said", "[scores]") {
  RunCells cells;
  CHECK(filled(cells, {}).empty());
  CHECK(filled(cells, {{"recompute", ""}, {"attn_kernel", "not stated"}}) ==
        std::vector<std::string>{"recompute: none, the default of Megatron-LM",
                                 "attn_kernel: cuDNN or flash, the fastest, the default of "
                                 "Megatron-LM"});
  CHECK(run_layout(cells).recompute == Recompute::none);
  CHECK(run_layout(cells).attention == AttentionKernel::flash);
  CHECK(filled(cells, {{"recompute", ""}, {"shard_strategy", "FSDP2"}}) ==
        std::vector<std::string>{"recompute: selective, per-op, the default of torchtitan",
                                 "zero_stage: 3, the default of FSDP"});
  CHECK(run_layout(cells).recompute == Recompute::operators);
  CHECK(run_layout(cells).zero_stage == 3);
  CHECK(filled(cells, {{"shard_strategy", "DeepSpeed ZeRO-2"}}) ==
        std::vector<std::string>{"zero_stage: 2, as shard_strategy says"});
  CHECK(filled(cells, {{"tp", ""}, {"pp", ""}}).size() == 2);
  CHECK(filled(cells, {{"status", "analytic"}, {"attn_kernel", ""}}).empty());
}

TEST_CASE("one of micro-batch, global batch and accumulation follows from the others", "[scores]") {
  RunCells cells;
  CHECK(filled(cells, {{"gbs", ""}, {"mbs", "2"}}) ==
        std::vector<std::string>{"gbs: 8, mbs x dp, the default of Megatron-LM"});
  CHECK(run_layout(cells).global_batch == 8);
  CHECK(filled(cells, {{"gbs", ""}, {"mbs", "2"}, {"grad_accum", "4"}}) ==
        std::vector<std::string>{"gbs: 32, mbs x dp x grad_accum"});
  CHECK(filled(cells, {{"gbs", "32"}, {"mbs", ""}, {"grad_accum", "4"}}) ==
        std::vector<std::string>{"mbs: 2, gbs / (dp x grad_accum)"});
  CHECK(filled(cells, {{"gbs", "33"}, {"mbs", ""}, {"grad_accum", "4"}}).empty());
  CHECK(filled(cells, {{"gbs", "32"}, {"mbs", ""}}).empty());
}

TEST_CASE("defaults that were taken are counted below the rows", "[scores]") {
  std::string open = replaced(row("a"), ",bf16,none,", ",bf16,,");
  const SetResult result = validate(set_of(header + open + row("b")));
  const std::string text = validation_table(std::span{&result, 1});
  CHECK(text.find("for an empty cell of 1 row: recompute: none, the default of Megatron-LM\n") !=
        std::string::npos);
}

TEST_CASE("a table need not say what its rows are for", "[scores]") {
  std::string names = header.substr(4), cells = row("a").substr(6);
  const MeasuredSet set = set_of(names + cells);
  REQUIRE(set.rows.size() == 1);
  CHECK(set.rows[0].use == RowUse::score);
}

TEST_CASE("a GPU's memory within 5% of a part's is that part", "[scores]") {
  const auto file = [](const char* gpu, const char* memory = "") {
    try {
      return run_machine(cells_with({{"gpu", gpu}, {"gpu_mem_gb", memory}, {"num_gpus", "8"}}))
          .file;
    } catch (const NotSimulated& refusal) {
      return std::string{refusal.what()};
    }
  };
  CHECK(file("NVIDIA H100 79.6 GB HBM3") == "topologies/dgx-h100.yaml");
  CHECK(file("H100-SXM5-80GB", "79.65") == "topologies/dgx-h100.yaml");
  CHECK(file("H100", "93.1") == "validation/machines/h100-hbm2e-400g.yaml");
  CHECK(file("A100 (39.4 GiB)") == "topologies/dgx-a100-40.yaml");
  CHECK(file("NVIDIA Blackwell GPU (B200-SXM-180GB)") == "topologies/dgx-b200.yaml");
  CHECK(file("B200", "178") == "topologies/dgx-b200.yaml");
  CHECK(file("GB200", "189") == "topologies/gb200-nvl72.yaml");
  CHECK(file("H100", "60") == "no device file for the GPU 'H100' with 60 GB");
}

TEST_CASE("the cell of a GPU's memory may have its unit", "[scores]") {
  const std::string names = replaced(header, ",gpus_per_node,", ",gpu_mem_gb,gpus_per_node,");
  const auto cell = [&](const char* text) {
    std::string memory{","};
    memory.append(text).append(",8,200,");
    const std::string cells = replaced(sound, ",8,200,", memory);
    return set_of(names + cells).rows[0];
  };
  CHECK(cell("79.6 GB").cells->real("gpu_mem_gb") == 79.6);
  CHECK(cell("80GiB").cells->real("gpu_mem_gb") == 80);
  CHECK(cell("much").unreadable.find("allowed: a number from 0 to 1e12, with GB or without") !=
        std::string::npos);
}

TEST_CASE("modules that are recomputed are known by their names", "[scores]") {
  const auto recompute = [](const char* text) {
    return run_layout(cells_with({{"recompute", text}})).recompute;
  };
  CHECK(recompute("core_attn") == Recompute::selective);
  REQUIRE_THROWS_WITH(recompute("mlp, moe_act"),
                      "recompute is 'mlp, moe_act', which is not known; allowed: none, selective "
                      "or core_attn, full, per-op");
}

}  // namespace
