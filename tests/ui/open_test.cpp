// Files that are opened or dropped: what they are, and what becomes of them.
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QMimeData>
#include <QTemporaryDir>
#include <QUrl>

#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/core/write_file.hpp"
#include "ui/validate/overlay_pane.hpp"
#include "ui/window/file_role.hpp"
#include "ui/window/import_dialog.hpp"
#include "ui/window/main_window.hpp"

namespace ui {
namespace {

const char* const megatron_flags =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048\n"
    "--max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 2 --bf16\n"
    "--use-distributed-optimizer --tensor-model-parallel-size 2 --sequence-parallel\n"
    "--pipeline-model-parallel-size 4 --global-batch-size 64\n";

QString shipped(const QString& name) {
  return QString::fromStdString(sim::test::source_dir()) + '/' + name;
}

QString written(const QTemporaryDir& folder, const QString& name, const QByteArray& content) {
  const QString path = folder.filePath(name);
  REQUIRE(write_file(path, content).isEmpty());
  return path;
}

void drop(MainWindow& window, const QStringList& paths) {
  QMimeData data;
  QList<QUrl> urls;
  for (const QString& path : paths)
    urls << QUrl::fromLocalFile(path);
  data.setUrls(urls);
  // Enters first: that makes the window the target.
  QDragEnterEvent enter{QPoint{10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier};
  QCoreApplication::sendEvent(&window, &enter);
  QDropEvent event{QPointF{10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier};
  QCoreApplication::sendEvent(&window, &event);
}

}  // namespace

TEST_CASE("A file's content says what the window does with it") {
  const QTemporaryDir folder;
  const auto role = [&](const QString& name, const QByteArray& content) {
    return role_of(written(folder, name, content));
  };
  CHECK(role_of(shipped("scenarios/gpt2-124m-8-h100.yaml")).role == FileRole::scenario);
  CHECK(role("a.yaml", "colour: red\n").role == FileRole::scenario);
  CHECK(role_of(shipped("topologies/dgx-h100.yaml")).what ==
        "a cluster file; a scenario names it as 'cluster: {path: FILE}'");
  CHECK(role("t.json", R"({"traceEvents": []})").role == FileRole::run);
  CHECK(role("t.json.gz", QByteArray{"\x1f\x8b\x08", 3}).role == FileRole::run);
  CHECK(role("job.toml", "[model]\n").job == sim::JobKind::torchtitan);
  CHECK(role("ds.json", R"({"zero_optimization": {"stage": 3}})").job == sim::JobKind::deepspeed);
  CHECK(role("job.args", megatron_flags).job == sim::JobKind::megatron);
  CHECK_THROWS_AS(role_of(folder.filePath("none")), std::runtime_error);
}

TEST_CASE("A job of Megatron-LM is read as it is entered, and is a scenario then") {
  const QTemporaryDir folder;
  ImportDialog dialog{written(folder, "job.args", megatron_flags), sim::JobKind::megatron,
                      "dgx-h100"};
  REQUIRE(test::until([&] { return !dialog.busy(); }));
  // A data-parallel size follows from the number of GPUs, which the flags do not say.
  auto* gpus = dialog.findChild<QSpinBox*>();
  REQUIRE(gpus->accessibleName() == "GPUs");
  gpus->setValue(64);
  REQUIRE(test::until([&] { return !dialog.busy(); }));
  INFO(dialog.text().toStdString());
  REQUIRE(dialog.ready());
  const sim::Scenario scenario = sim::load_scenario(
      sim::ScenarioSources::of_text(dialog.yaml(), folder.filePath("job.yaml").toStdString(), {}));
  CHECK(scenario.layout.world_size() == 64);
  CHECK(scenario.layout.tensor_parallel == 2);
  CHECK(scenario.layout.pipeline_parallel == 4);
}

TEST_CASE("Mistakes of a job are told with file, line and column") {
  const QTemporaryDir folder;
  ImportDialog dialog{written(folder, "job.args", "--num-layers 24\n--hiden-size 1024\n"),
                      sim::JobKind::megatron, "dgx-h100"};
  REQUIRE(test::until([&] { return !dialog.busy(); }));
  CHECK_FALSE(dialog.ready());
  CHECK(dialog.text().contains("job.args:2:1"));
  CHECK(dialog.text().contains("--hidden-size"));
}

TEST_CASE("A scenario that is dropped is opened, a trace is held against the forecast") {
  const QTemporaryDir folder;
  MainWindow window;
  window.show();
  drop(window, {shipped("scenarios/gpt2-124m-8-h100.yaml")});
  REQUIRE(test::until([&] { return !window.session().computing(); }));
  REQUIRE(window.session().result());
  CHECK(window.session().result()->scenario.layout.world_size() == 8);
  drop(window, {written(folder, "cut.json.gz", QByteArray{"\x1f\x8b\x08\x00", 4})});
  REQUIRE(test::until([&] { return !window.overlay().busy(); }));  // rows are forecast beside it
  CHECK(window.overlay().problem().contains("is gzip that is cut off"));
}

}  // namespace ui
