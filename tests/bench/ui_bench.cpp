// The window: from a moved slider to the painted result, and drawing a large timeline.
#include <benchmark/benchmark.h>

#include <QApplication>
#include <QFile>
#include <QPixmap>
#include <QStyleFactory>

#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/choose/search_job.hpp"
#include "ui/lanes/area_sums.hpp"
#include "ui/timeline/view.hpp"
#include "ui/window/main_window.hpp"

namespace {

const std::array scenarios{"mixtral-8x7b-64-h100.yaml", "llama-3.1-70b-512-h100.yaml",
                           "llama-3.1-405b-16384-h100.yaml", "gpt3-175b-1024-a100.yaml"};

const std::array searches{"search/mixtral-8x7b-64-h100.yaml", "search/llama-405b-16384-h100.yaml",
                          "search/turing-nlg-530b-1024-a100.yaml"};

QString path_of(const char* name) {
  return QString::fromStdString(sim::test::source_dir() + "/scenarios/" + name);
}

void settle(ui::MainWindow& window) {
  ui::test::until([&] { return !window.session().computing(); });
}

// One move of the NIC's slider: the forecast on the worker, then every visible pane painted.
void slider_to_picture(benchmark::State& state) {
  ui::MainWindow window;
  window.session().open(path_of(scenarios[static_cast<std::size_t>(state.range(0))]));
  window.show();
  settle(window);
  window.grab();
  int move = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double factor = 0.5 + 0.001 * (++move % 400);
    window.session().set_knobs(
        {{"cluster.change.node.nics.bandwidth", QString{"x%1"}.arg(factor).toStdString()}}, "nic",
        1);
    settle(window);
    benchmark::DoNotOptimize(window.grab());
  }
  state.SetLabel(scenarios[static_cast<std::size_t>(state.range(0))]);
}
BENCHMARK(slider_to_picture)->DenseRange(0, 3)->Unit(benchmark::kMillisecond)->UseRealTime();

// Zooms of the step with the most spans, `width` px wide.
void zoom(benchmark::State& state) {
  ui::Session session;
  session.open(path_of(scenarios.back()));
  ui::test::until([&] { return !session.computing(); });
  ui::TimelineView view{session};
  view.resize(static_cast<int>(state.range(0)), 900);
  view.show();
  QPixmap picture{view.size()};
  bool in = true;
  for ([[maybe_unused]] auto _ : state) {
    view.zoom(in ? 0.7 : 1 / 0.7);
    if (view.window().length() < 1e9) in = false;
    if (view.window().length() >= static_cast<double>(session.result()->lanes.end)) in = true;
    view.render(&picture);
  }
  state.counters["spans"] = static_cast<double>(session.result()->lanes.spans);
}
BENCHMARK(zoom)->Arg(1280)->Arg(3840)->Unit(benchmark::kMillisecond);

void sums_of_an_area(benchmark::State& state) {
  ui::Session session;
  session.open(path_of(scenarios.back()));
  ui::test::until([&] { return !session.computing(); });
  const ui::Result& result = *session.result();
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(
        ui::area_sums(*result.forecast.plan, result.lanes, 0, result.lanes.end));
}
BENCHMARK(sums_of_an_area)->Unit(benchmark::kMillisecond);

// From Start to the first point that the window hears of.
void search_to_first_point(benchmark::State& state) {
  const QString path = path_of(searches[static_cast<std::size_t>(state.range(0))]);
  QFile file{path};
  if (!file.open(QIODevice::ReadOnly)) return state.SkipWithError("no file");
  ui::SearchAsked asked;
  asked.path = path.toStdString();
  asked.yaml = file.readAll().toStdString();
  ui::SearchJob job;
  bool any = false;
  QObject::connect(&job, &ui::SearchJob::progressed,
                   [&](const ui::SearchNews& news) { any = any || !news.points.empty(); });
  for ([[maybe_unused]] auto _ : state) {
    any = false;
    job.start(asked);
    ui::test::until([&] { return any; });
    state.PauseTiming();
    job.stop();
    ui::test::until([&] { return !job.running(); });
    state.ResumeTiming();
  }
  state.SetLabel(searches[static_cast<std::size_t>(state.range(0))]);
}
BENCHMARK(search_to_first_point)
    ->DenseRange(0, 2)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application{argc, argv};
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
