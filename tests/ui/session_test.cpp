#include "ui/core/session.hpp"

#include <fmt/format.h>

#include <QFile>
#include <QTemporaryDir>
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/scenario/sources.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/core/figures.hpp"
#include "ui/core/theme.hpp"
#include "ui/panes/problems.hpp"

namespace ui {
namespace {

QString scenario(const char* name) {
  return QString::fromStdString(sim::test::source_dir() + "/scenarios/" + name);
}

bool settled(const Session& session) {
  return test::until([&] { return !session.computing(); });
}

std::string report_json(const std::string& path, const std::vector<std::string>& overrides) {
  return sim::to_json(sim::forecast(sim::load_scenario(path, overrides)).report);
}

}  // namespace

TEST_CASE("What the window shows of a shipped scenario is the library's report to the last digit") {
  for (const char* name :
       {"gpt2-124m-8-h100.yaml", "mixtral-8x7b-64-h100.yaml", "bert-large-32-v100.yaml",
        "vit-l16-64-a100.yaml", "llama-3.1-8b-fsdp-8-h100.yaml"}) {
    Session session;
    session.open(scenario(name));
    REQUIRE(settled(session));
    REQUIRE(session.result());
    CHECK(sim::to_json(session.result()->forecast.report) == report_json(session.path(), {}));
    CHECK(session.baseline() == session.result());
  }
}

TEST_CASE("The last of many moves of a slider is the one that is shown") {
  Session session;
  session.open(scenario("mixtral-8x7b-64-h100.yaml"));
  REQUIRE(settled(session));
  for (int i = 1; i <= 120; ++i)
    session.set_knobs({{"cluster.change.node.nics.bandwidth", fmt::format("x{}", i)}}, "nic", 5);
  REQUIRE(settled(session));
  CHECK(session.result()->request.overrides ==
        std::vector<std::string>{"cluster.change.node.nics.bandwidth=x120"});
  CHECK(session.undo_stack().count() == 1);
}

TEST_CASE("Undo returns the exact earlier result, redo the later one") {
  Session session;
  session.open(scenario("gpt2-124m-8-h100.yaml"));
  REQUIRE(settled(session));
  const std::string before = sim::to_json(session.result()->forecast.report);
  session.set_knobs({{"layout.micro_batch", "2"}}, "micro-batch");
  REQUIRE(settled(session));
  const std::string after = sim::to_json(session.result()->forecast.report);
  CHECK(after != before);
  session.undo_stack().undo();
  REQUIRE(settled(session));
  CHECK(sim::to_json(session.result()->forecast.report) == before);
  CHECK(session.knobs().empty());
  session.undo_stack().redo();
  REQUIRE(settled(session));
  CHECK(sim::to_json(session.result()->forecast.report) == after);
}

TEST_CASE("A wrong knob keeps the last good forecast, and its fix makes it valid") {
  Session session;
  session.open(scenario("gpt2-124m-8-h100.yaml"));
  REQUIRE(settled(session));
  const ResultPtr good = session.result();
  session.set_knobs({{"layout.micro_bach", "2"}}, "typo");
  REQUIRE(settled(session));
  CHECK(session.result() == good);
  REQUIRE(session.problems().size() == 1);
  const std::optional<Replacement> fix = replacement_of(session.problems().front());
  REQUIRE(fix);
  CHECK(fix->wrong == "micro_bach");
  CHECK(fix->right == "micro_batch");
}

TEST_CASE("An anchor that is set as a knob is said beside the interval") {
  const QTemporaryDir folder;
  const QString path = folder.filePath("mine.yaml");
  QFile file{path};
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(R"(device: "H100 SXM"
framework: megatron
runs:
  - scenario: one.yaml
    measured_s: 7
    forecast_s: 6.4
    anchored_s: 6.9
    log_error: 0.072
    job: "one, H100 SXM, bf16"
    layout: "tensor_parallel 2"
    generation: hopper
    dtype: bf16
    schedule: interleaved
    pipelined: true
    experts: false
    tensor_parallel: true
    context_parallel: false
    zero_3: false
    validated: true
    gpus: 512
    nodes: 64
    shares: {products: 0.8, memory_kernels: 0.02, host: 0.0, tensor: 0.1, data: 0.03, pipeline: 0.05, hidden: 0.2}
)");
  file.close();
  Session session;
  session.open(scenario("llama-3.1-70b-512-h100.yaml"));
  REQUIRE(settled(session));
  CHECK_FALSE(headline_of(session.result()->forecast.report)[0].range.contains("anchored"));
  session.set_knobs({{"simulation.anchor", path.toStdString()}}, "anchor");
  REQUIRE(settled(session));
  CHECK(session.problems().empty());
  const Figure step = headline_of(session.result()->forecast.report)[0];
  CHECK(step.range.endsWith(", anchored"));
  CHECK(step.definition.contains("anchored on 1 measured run of your own"));
}

TEST_CASE("A mistake of the edited text names line and column") {
  Session session;
  session.open(scenario("gpt2-124m-8-h100.yaml"));
  REQUIRE(settled(session));
  QString text = QString::fromStdString(session.yaml());
  session.edit(text.replace("micro_batch", "micro_bach").toStdString());
  REQUIRE(settled(session));
  REQUIRE_FALSE(session.problems().empty());
  CHECK(session.problems().front().where.line > 0);
  CHECK(session.problems().front().where.column > 0);
  CHECK(replacement_of(session.problems().front())->right == "micro_batch");
}

TEST_CASE(
    "Twenty broken scenarios: line and column as the command line says, and a fix where a name is "
    "near") {
  struct Broken {
    const char* right;  // in the shipped file
    const char* wrong;
    bool fixable;  // a name is near
  };
  const std::array broken{
      Broken{"model:", "modle:", true},
      Broken{"cluster:", "clustre:", true},
      Broken{"layout:", "layuot:", true},
      Broken{"sequence_length:", "sequence_lenght:", true},
      Broken{"global_batch:", "global_bach:", true},
      Broken{"micro_batch:", "micro_batches:", true},
      Broken{"first_bucket:", "frist_bucket:", true},
      Broken{"compute_dtype:", "compute_type:", true},
      Broken{"compute_dtype: bf16", "compute_dtype: bf61", false},
      Broken{"compute_dtype: bf16", "compute_dtype: int3", false},
      Broken{"sequence_length: 1024", "sequence_length: -1024", false},
      Broken{"sequence_length: 1024", "sequence_length: many", false},
      Broken{"sequence_length: 1024", "sequence_length: 1024.5", false},
      Broken{"micro_batch:", "micro_batch: 5 #", false},
      Broken{"first_bucket:", "first_bucket: 7 miles #", false},
      Broken{"global_batch:", "global_batch: 0 #", false},
      Broken{"layout:", "layout: [", false},
      Broken{"layout:", "layout: {a: 1}\nlayout:", false},
      Broken{"sequence_length:", "tensor_parallel: 3\n  sequence_length:", false},
      Broken{"sequence_length:", "schedule: interleavd\n  sequence_length:", false},
  };
  Session session;
  session.open(scenario("gpt2-124m-8-h100.yaml"));
  REQUIRE(settled(session));
  const std::string good = session.yaml();
  for (const Broken& one : broken) {
    INFO(one.wrong);
    const std::size_t at = good.find(one.right);
    REQUIRE(at != std::string::npos);
    std::string text = good;
    text.replace(at, std::strlen(one.right), one.wrong);
    session.edit(text);
    REQUIRE(settled(session));
    REQUIRE_FALSE(session.problems().empty());
    CHECK(session.problems().front().where.line > 0);
    CHECK(session.problems().front().where.column > 0);
    try {
      sim::load_scenario(sim::ScenarioSources::of_text(text, session.path()));
      FAIL("the library takes it");
    } catch (const sim::InputError& error) {
      REQUIRE(error.problems().size() == session.problems().size());
      for (std::size_t i = 0; i < error.problems().size(); ++i)
        CHECK(sim::to_text(error.problems()[i]) == sim::to_text(session.problems()[i]));
    }
    if (!one.fixable) continue;
    // A missing key may be reported beside the misspelt one.
    const auto found = std::find_if(
        session.problems().begin(), session.problems().end(),
        [](const sim::Problem& problem) { return replacement_of(problem).has_value(); });
    REQUIRE(found != session.problems().end());
    session.edit(replaced(text, found->where.line, found->where.column, *replacement_of(*found)));
    REQUIRE(settled(session));
    CHECK(session.problems().empty());
    CHECK(session.yaml() == good);
  }
}

TEST_CASE("Closing while a forecast is computed does not hang") {
  Session session;
  session.open(scenario("gpt3-175b-1024-a100.yaml"));
  session.set_knobs({{"layout.tensor_parallel", "4"}}, "tp");
}

TEST_CASE("Text reads on every ground of both themes: a contrast of 4.5 and more") {
  for (const Theme* theme : {&light_theme(), &dark_theme()})
    for (const QColor& ground : {theme->ground, theme->panel})
      for (const QColor& text :
           {theme->text, theme->muted, theme->accent, theme->good, theme->bad, theme->warn})
        CHECK(contrast(text, ground) >= 4.5);
  for (const Theme* theme : {&light_theme(), &dark_theme()})
    for (const QColor& ink : theme->ink)
      CHECK(contrast(text_on(ink), ink) >= 4.5);
}

}  // namespace ui
