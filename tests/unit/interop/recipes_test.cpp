// tests/recipes: small recipes in the formats of other frameworks, written for this test. Its table
// says which are read without a remark, and with which remarks the others.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/interop/job_kind.hpp"
#include "sim/interop/megatron/mlperf.hpp"
#include "sim/interop/try_recipes.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

namespace fs = std::filesystem;

const std::string folder = test::source_dir() + "/tests/recipes/";

struct Row {
  std::string file;
  JobKind kind{};
  int gpus = 0;
  std::string remarks;  // keys of notes, sorted
};

std::vector<Row> table() {
  std::ifstream in{folder + "table.csv"};
  std::vector<Row> rows;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream cells{line};
    Row row;
    std::string kind, gpus;
    std::getline(cells, row.file, ',');
    std::getline(cells, kind, ',');
    std::getline(cells, gpus, ',');
    std::getline(cells, row.remarks);
    row.kind = from_word<JobKind>(kind).value();
    row.gpus = gpus.empty() ? 0 : std::stoi(gpus);
    rows.push_back(row);
  }
  return rows;
}

std::string text_of(const std::string& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}

JobFile job_of(const Row& row) {
  JobFile job;
  job.file = folder + row.file;
  if (row.kind != JobKind::mlperf) job.cluster = "dgx-h100";
  job.known.gpus = row.gpus;
  // Files that leave the model or the batch to another one.
  if (row.file.starts_with("accelerate_") || row.file.starts_with("deepspeed_")) {
    job.model = "llama-3.1-8b";
    job.known.sequence_length = 4096;
    job.known.micro_batch = 1;
    job.known.accumulation_steps = 1;
    job.known.precision = DType::bf16;
    job.known.recompute = Recompute::none;
  }
  if (row.file.ends_with(".py")) job.model = "llama-3.1-70b";
  return job;
}

std::string remarks_of(const ImportedJob& imported) {
  std::set<std::string> keys;
  for (const Note& note : imported.notes)
    keys.insert(note.key);
  std::string text;
  for (const std::string& key : keys)
    text += (text.empty() ? "" : " ") + key;
  return text;
}

}  // namespace

TEST_CASE("every recipe of the table is read, with the remarks that it lists", "[interop]") {
  for (const Row& row : table()) {
    CAPTURE(row.file);
    CHECK(job_kind_of(folder + row.file, text_of(folder + row.file)) == row.kind);
    CHECK(remarks_of(import_job(row.kind, job_of(row))) == row.remarks);
  }
}

TEST_CASE("a model that a job changes is written out, also with --model", "[interop]") {
  const std::vector<Row> rows = table();
  const auto row = std::ranges::find(rows, "bridge_recipe.py", &Row::file);
  REQUIRE(row != rows.end());
  JobFile job = job_of(*row);
  CHECK(import_job(row->kind, job).scenario.model_path.ends_with("llama-3.1-70b.yaml"));
  job.changes = {"model.mtp_num_layers=1"};
  const Scenario changed = import_job(row->kind, job).scenario;
  CHECK(changed.model_path.empty());
  CHECK(changed.model.shape->mtp_layers == 1);
}

TEST_CASE("no recipe of the folder is missing from the table", "[interop]") {
  std::set<std::string> listed{"table.csv",         "README.md",        "mlperf_common.sh",
                               "megatron_sizes.sh", "primus_base.yaml", "primus_model.yaml"};
  for (const Row& row : table())
    listed.insert(row.file);
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator{folder})
    there.insert(entry.path().filename().string());
  CHECK(there == listed);
}

TEST_CASE("a folder of recipes is tried as a whole", "[interop]") {
  const TriedRecipes tried = try_recipes(folder, {});
  CHECK(tried.recipes.size() == table().size());
  const auto refused = [](const TriedRecipe& one) { return !one.read; };
  for (const TriedRecipe& one : tried.recipes) {
    CAPTURE(one.file, one.reasons);
    CHECK(one.read);
  }
  CHECK(std::ranges::count_if(tried.recipes, refused) == 0);
  const std::string text = tried_text(tried, 3, true);
  CHECK(text.find("mlperf             3") != std::string::npos);
  CHECK(text.find("config_GB200_18x4x1_8b.sh") != std::string::npos);
  REQUIRE_THROWS_AS(try_recipes(folder + "nowhere", {}), InputError);
}

TEST_CASE("jobs that are not read are listed with their kinds", "[interop]") {
  const fs::path there = sim::test::temporary_path("unread-jobs");
  fs::create_directories(there);
  std::ofstream{there / "a.yml"} << "{\"pipe-parallel-size\": 2, \"model-parallel-size\": 8, "
                                    "\"rotary-pct\": 0.25,}\n";
  std::ofstream{there / "b.sh"} << "srun -N 4 python my_trainer.py --depth 3\n";
  std::ofstream{there / "c.json"} << "{\"weight_map\": {}, \"metadata\": {}}\n";
  const TriedRecipes tried = try_recipes(there.string(), {});
  fs::remove_all(there);
  CHECK(tried.files == 3);
  CHECK(tried.recipes.empty());
  REQUIRE(tried.unread.size() == 2);  // an index of weights starts nothing
  CHECK(tried.unread[0].kind == "a config of GPT-NeoX");
  const std::string text = tried_text(tried, 3, false);
  CHECK(text.find("3 files, 0 recipes, 2 jobs that are not read") != std::string::npos);
  CHECK(text.find("a launch script of a program that is not known\n        b.sh") !=
        std::string::npos);
}
