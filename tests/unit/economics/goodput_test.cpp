// Published goodputs beside their forecasts: validation/goodput.yaml.
#include <optional>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/economics/budget_report.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

struct PublishedGoodput {
  std::string name{}, scenario{};
  std::vector<std::string> set{};
  std::optional<double> at_least{}, about{};  // percent
  double forecast = 0;
};

std::vector<PublishedGoodput> published_goodputs() {
  const std::string path = test::source_dir() + std::string{"/validation/goodput.yaml"};
  const Document document = Document::load(path);
  std::vector<PublishedGoodput> runs;
  for (const ValueReader& value : document.root_object().list("runs")) {
    const ObjectReader entry = value.object();
    PublishedGoodput run{.name = entry.text("name"), .scenario = entry.text("scenario")};
    CHECK_FALSE(entry.text("source").empty());
    CHECK_FALSE(entry.text("assumed").empty());
    for (const ValueReader& option : entry.list("set"))
      run.set.push_back(option.text());
    if (entry.has("at_least")) run.at_least = entry.real("at_least");
    if (entry.has("about")) run.about = entry.real("about");
    run.forecast = entry.real("forecast");
    runs.push_back(std::move(run));
  }
  document.finish();
  return runs;
}

}  // namespace

TEST_CASE("the goodput of published runs is within two points", "[economics]") {
  for (PublishedGoodput& run : published_goodputs()) {
    CAPTURE(run.name);
    run.set.emplace_back("budget.runs=100");
    const std::string file =
        test::source_dir() + std::string{"/scenarios/"} + run.scenario + ".yaml";
    const BudgetAnswer answer = answer_budget(load_scenario(file, run.set), run.set);
    REQUIRE(answer.is_yes());
    const double goodput = 100 * answer.forecast.rented.expected_goodput();
    CHECK_THAT(goodput, WithinAbs(run.forecast, 0.05));
    if (run.at_least) CHECK(goodput >= *run.at_least);
    if (run.about) CHECK_THAT(goodput, WithinAbs(*run.about, 2));
    CHECK((run.at_least || run.about));
  }
}
