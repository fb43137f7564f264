// Reading sets of measurements and their bounds, with the exact text of each error.
#include "sim/rows/measured.hpp"

#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace {

using namespace sim;
namespace fs = std::filesystem;

// A folder of its own per test, removed at the end.
class Folder {
 public:
  Folder() {
    const std::string test = Catch::getResultCapture().getCurrentTestName();
    path_ = test::temporary_path("measured-" + std::to_string(std::hash<std::string>{}(test)));
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream{path_ / name} << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

const std::string header =
    "name: demo\ntitle: A demonstration\nsource: nobody, 2026\nquantity: step\n";

std::string problems_of(const std::string& path) {
  try {
    load_measured_set(path);
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems())
      text += std::to_string(problem.where.line) + ": " + problem.what + "\n";
    return text;
  }
  return "";
}

TEST_CASE("a set is read with its rows, their use and their assumptions", "[rows]") {
  const Folder folder;
  folder.write("a.yaml", "");
  const std::string path = folder.write("measured.yaml", header + R"(assumptions: [all of it]
rows:
  - {id: r0, scenario: a.yaml, use: score, measured: 1.5 s}
  - {id: r1, scenario: a.yaml, use: fit, measured: 20 ms, evidence: "50 steps/s", assumptions: [x, y]}
  - {id: r2, scenario: a.yaml, use: score, outcome: out_of_memory}
)");
  const MeasuredSet set = load_measured_set(path);
  REQUIRE(set.name == "demo");
  REQUIRE(set.quantity == Quantity::step);
  REQUIRE(set.assumptions == std::vector<std::string>{"all of it"});
  REQUIRE(set.rows.size() == 3);
  REQUIRE(set.rows[0].scenario == folder.path() + "/a.yaml");
  REQUIRE(set.rows[0].measured == std::chrono::milliseconds{1500});
  REQUIRE(set.rows[1].use == RowUse::fit);
  REQUIRE(set.rows[1].measured == std::chrono::milliseconds{20});
  REQUIRE(set.rows[1].evidence == "50 steps/s");
  REQUIRE(set.rows[1].assumptions == std::vector<std::string>{"x", "y"});
  REQUIRE(set.rows[2].outcome == Outcome::out_of_memory);
}

TEST_CASE("a row must name a scenario that exists, once, and a time that is one", "[rows]") {
  const Folder folder;
  folder.write("a.yaml", "");
  const std::string path = folder.write("measured.yaml", header + R"(rows:
  - {id: r0, scenario: a.yaml, use: score, measured: 1.5 s}
  - {id: r0, scenario: b.yaml, use: score, measured: 0 s}
  - {id: r2, scenario: a.yaml, use: scored, outcome: out_of_memory, measured: 1 s}
)");
  REQUIRE(problems_of(path) ==
          "7: a row above has the id 'r0' too\n"
          "7: there is no file " +
              folder.path() +
              "/b.yaml\n"
              "7: must be more than 0\n"
              "8: use is 'scored'; did you mean 'score'? allowed: score, fit\n"
              "8: a run that ended out of memory has no time\n");
}

TEST_CASE("a set of layers says which layer", "[rows]") {
  const Folder folder;
  folder.write("a.yaml", "");
  const std::string rows = "rows: [{id: r0, scenario: a.yaml, use: fit, measured: 1 ms}]\n";
  const std::string start = "name: d\ntitle: d\nsource: d\nquantity: layer\n";
  REQUIRE(load_measured_set(folder.write("with.yaml", start + "layer: 7\n" + rows)).layer == 7);
  REQUIRE_THROWS_AS(load_measured_set(folder.write("without.yaml", start + rows)), InputError);
}

TEST_CASE("the sets of a folder are its folders with a measured.yaml, sorted", "[rows]") {
  const Folder folder;
  folder.write("b/measured.yaml", "");
  folder.write("a/measured.yaml", "");
  folder.write("c/other.yaml", "");
  REQUIRE(measured_sets(folder.path()) == std::vector<std::string>{"a", "b"});
  REQUIRE_THROWS_AS(measured_sets(folder.path() + "/nowhere"), InputError);
}

TEST_CASE("bounds are read per set", "[rows]") {
  const Folder folder;
  const std::vector<ErrorBound> bounds = load_bounds(folder.write(
      "bounds.yaml", "sets:\n  a: {scored: 3, median_abs_error: 0.05, worst_abs_error: 0.2}\n"));
  REQUIRE(bounds.size() == 1);
  REQUIRE(bounds[0].set == "a");
  REQUIRE(bounds[0].scored == 3);
  REQUIRE(bounds[0].median_abs_error == 0.05);
  REQUIRE(bounds[0].worst_abs_error == 0.2);
}

TEST_CASE("bounds of a set without times are those of its memory", "[rows]") {
  const Folder folder;
  const std::vector<ErrorBound> bounds =
      load_bounds(folder.write("bounds.yaml",
                               "sets:\n  a: {scored: 0, memory_scored: 2, median_memory_error: "
                               "0.1, worst_memory_error: 0.3, "
                               "fits_right: 4}\n"));
  REQUIRE(bounds[0].memory_scored == 2);
  REQUIRE(bounds[0].median_memory_error == 0.1);
  REQUIRE(bounds[0].worst_memory_error == 0.3);
  REQUIRE(bounds[0].fits_right == 4);
}

TEST_CASE("a set may be a table, beside which no rows are listed", "[rows]") {
  const Folder folder;
  folder.write("rows.csv",
               "use,row_id,gpu,gpus_per_node,num_gpus,model,layers,hidden,heads,ffn,vocab,seq_len,"
               "tp,pp,dp,mbs,gbs,precision,recompute,step_time_s\n"
               "fit,r0,A100-80GB,8,8,GPT,2,512,8,2048,1000,128,1,1,8,1,8,bf16,none,0.25\n");
  const MeasuredSet set =
      load_measured_set(folder.write("measured.yaml", header + "table: rows.csv\n"));
  REQUIRE(set.rows.size() == 1);
  REQUIRE(set.rows[0].cells->line == 2);
  REQUIRE(set.rows[0].measured == std::chrono::milliseconds{250});
  REQUIRE(problems_of(folder.write("measured.yaml", header + "table: rows.csv\nrows: []\n")) ==
          "6: unknown key 'rows'; allowed: name, title, source and 5 more\n");
}

TEST_CASE("every shipped set is readable and has a bound if it is scored", "[rows]") {
  const std::string folder = sim::test::source_dir() + "/validation";
  const std::vector<ErrorBound> bounds = load_bounds(folder + "/bounds.yaml");
  for (const std::string& name : measured_sets(folder + "/published")) {
    CAPTURE(name);
    const MeasuredSet set = load_measured_set(
        std::string{folder}.append("/published/").append(name).append("/measured.yaml"));
    REQUIRE(set.name == name);
    int to_score = 0;
    bool listed = true;
    for (const MeasuredRow& row : set.rows) {
      to_score += row.use == RowUse::score && row.has_time() ? 1 : 0;
      listed = listed && !row.cells;
    }
    int bound = 0;
    for (const ErrorBound& candidate : bounds)
      if (candidate.set == name) bound = candidate.scored;
    // So that no row can drop out unseen. Tables hold rows that are skipped, too.
    if (listed)
      REQUIRE(bound == to_score);
    else
      REQUIRE(bound <= to_score);
  }
}

}  // namespace
