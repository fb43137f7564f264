// stepcast-ui: the window, or a picture of one of its views.
#include <QApplication>
#include <QCommandLineParser>
#include <QFile>
#include <QFileInfo>
#include <QIcon>
#include <QStyleFactory>
#include <QTimer>
#include <array>
#include <cstdio>
#include <optional>

#include "ui/choose/choose_pane.hpp"
#include "ui/plan/plan_pane.hpp"
#include "ui/validate/overlay_pane.hpp"
#include "ui/window/export_view.hpp"
#include "ui/window/main_window.hpp"
#include "ui/window/state.hpp"

namespace {

constexpr int exit_failure = 1, exit_usage = 2, exit_input = 3;

constexpr std::array<std::pair<const char*, ui::Job>, 4> jobs{{{"what-if", ui::Job::what_if},
                                                               {"choose", ui::Job::choose},
                                                               {"validate", ui::Job::validate},
                                                               {"plan", ui::Job::plan}}};

struct Request {
  QString scenario, view, screenshot, state;
  QStringList run, ask;
  std::optional<ui::Job> job;
  QStringList set;
  QSize size;
  bool dark = false;
};

// "1280x800"; invalid: it is no size.
QSize size_of(const QString& text) {
  const QStringList sides = text.split('x');
  if (sides.size() != 2) return {};
  const QSize size{sides[0].toInt(), sides[1].toInt()};
  constexpr int least = 200, most = 20'000;
  const auto fits = [](int side) { return side >= least && side <= most; };
  return fits(size.width()) && fits(size.height()) ? size : QSize{};
}

void say(const QString& text) {
  std::fputs((text + '\n').toLocal8Bit().constData(), stderr);
}

Request parse(const QApplication& application) {
  QCommandLineParser parser;
  parser.setApplicationDescription(
      "Stepcast: what a distributed training step costs. Shows a scenario; without one, an empty "
      "window.");
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument("scenario", "YAML file", "[scenario]");
  const QCommandLineOption set{"set", "Sets a key on top of the file.", "section.key=value"};
  const QCommandLineOption screenshot{
      "screenshot", "Writes a picture (.png, .svg) or a table (.csv) and ends.", "file"};
  const QCommandLineOption view{"view", "Which view the picture shows.", "name", "window"};
  const QCommandLineOption size{"size", "Of the window, in pixels.", "WIDTHxHEIGHT", "1280x800"};
  const QCommandLineOption dark{"dark", "The dark theme."};
  const QCommandLineOption state{"state", "Writes what is shown as JSON, after each forecast.",
                                 "file"};
  const QCommandLineOption job{
      "job", "Which job is shown: what-if, choose (begins to search), validate or plan.", "name"};
  const QCommandLineOption ask{
      "ask", "Fills a field of the job plan, and begins to plan: tokens=1e12 (repeated).",
      "field=value"};
  const QCommandLineOption run{"run",
                               "Holds the forecast against the record of a run (stepcast run "
                               "--record), or against traces of "
                               "the PyTorch profiler, one per rank (repeated).",
                               "file"};
  parser.addOptions({set, screenshot, view, size, dark, state, job, ask, run});
  parser.process(application);
  std::optional<ui::Job> chosen;
  for (const auto& [name, one] : jobs)
    if (parser.value(job) == name) chosen = one;
  if (parser.isSet(job) && !chosen) {
    say(QString{"--job: '%1' is none of what-if, choose, validate, plan"}.arg(parser.value(job)));
    std::exit(exit_usage);
  }
  if (!size_of(parser.value(size)).isValid()) {
    say(QString{"--size: '%1' is no size such as 1280x800"}.arg(parser.value(size)));
    std::exit(exit_usage);
  }
  return {parser.positionalArguments().value(0),
          parser.value(view),
          parser.value(screenshot),
          parser.value(state),
          parser.values(run),
          parser.values(ask),
          chosen,
          parser.values(set),
          size_of(parser.value(size)),
          parser.isSet(dark)};
}

// Writes the view when it has all its content, and ends. While that is computed, the view has the
// property "waiting".
void write_and_exit(ui::MainWindow& window, QWidget& view, const QString& path) {
  auto* poll = new QTimer{&window};
  QObject::connect(poll, &QTimer::timeout, &window, [poll, &view, path] {
    if (view.property("waiting").toBool()) return;
    poll->stop();
    const QString problem = ui::write_view(view, path);
    if (!problem.isEmpty()) say(problem);
    QApplication::exit(problem.isEmpty() ? 0 : exit_failure);
  });
  poll->start(150);
}

// fill_plan() says which field there is not; empty: nothing.
QString fill_plan(ui::PlanForm& form, const QStringList& ask) {
  for (const QString& one : ask)
    if (!form.set(one.section('=', 0, 0), one.section('=', 1)))
      return QString{"--ask: '%1' is none of %2, each with a value behind ="}.arg(
          one, ui::PlanForm::field_names().join(", "));
  return {};
}

// picture() writes the view when nothing of it is computed any more, or says its problems; the view
// "choose" first searches to the end.
int picture(ui::MainWindow& window, const Request& request) {
  QWidget* view = window.view(request.view);
  if (!view) {
    say(QString{"--view: '%1' is no view; there are %2"}.arg(request.view,
                                                             window.view_names().join(", ")));
    return exit_usage;
  }
  const bool searches = request.job == ui::Job::choose || window.choose().isAncestorOf(view) ||
                        view == &window.choose();
  if (request.job) window.show_job(*request.job);
  window.show();
  QApplication::processEvents();  // tabs are laid out first
  window.reveal(request.view);
  const bool plans = window.job_of(request.view) == ui::Job::plan;
  bool begun = false;
  QTimer poll;
  QObject::connect(&poll, &QTimer::timeout, &window, [&, view] {
    if (window.busy()) return;
    poll.stop();
    begun = true;
    if (const QString problem = window.overlay().problem(); !problem.isEmpty()) {
      say(problem);
      return QApplication::exit(exit_input);
    }
    if (searches)
      window.choose().start();
    else if (plans && !request.ask.isEmpty())
      window.plan().start();
    else
      write_and_exit(window, *view, request.screenshot);
  });
  poll.start(50);
  QObject::connect(&window.choose(), &ui::ChoosePane::settled_changed, &window, [&, view] {
    if (begun && window.choose().settled()) write_and_exit(window, *view, request.screenshot);
  });
  QObject::connect(&window.plan(), &ui::PlanPane::changed, &window, [&, view] {
    if (!begun || window.plan().job().running()) return;
    if (window.plan().job().state() == ui::PlanState::done)
      return write_and_exit(window, *view, request.screenshot);
    for (const QString& problem : window.plan().form().problems())
      say(problem);
    QApplication::exit(exit_input);
  });
  QObject::connect(&window.session(), &ui::Session::problems_changed, &window, [&] {
    for (const sim::Problem& problem : window.session().problems())
      say(QString::fromStdString(sim::to_text(problem)));
    QApplication::exit(exit_input);
  });
  return QApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  QApplication application{argc, argv};
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setApplicationName("stepcast-ui");
  QApplication::setOrganizationName("stepcast");
  QApplication::setApplicationVersion(STEPCAST_VERSION);
  QApplication::setDesktopFileName("stepcast-ui");
  QApplication::setWindowIcon(QIcon{":/stepcast-ui.svg"});
  const Request request = parse(application);
  ui::MainWindow window;
  window.set_dark(request.dark);
  window.resize(request.size);
  const bool pictured = !request.screenshot.isEmpty();
  if (!pictured && request.state.isEmpty()) window.restore_settings();
  if (!request.state.isEmpty()) new ui::StateFile{window, request.state};
  const ui::Job viewed = request.job.value_or(window.job_of(request.view));
  if (pictured && request.scenario.isEmpty() && viewed != ui::Job::validate &&
      viewed != ui::Job::plan) {
    say("--screenshot needs a scenario");
    return exit_usage;
  }
  if (!request.scenario.isEmpty()) {
    ui::Knobs knobs;
    for (const QString& set : request.set)
      knobs.emplace_back(set.section('=', 0, 0).toStdString(), set.section('=', 1).toStdString());
    try {
      window.session().open(request.scenario, std::move(knobs));
      window.remember(QFileInfo{request.scenario}.absoluteFilePath());
    } catch (const std::exception& error) {
      say(error.what());
      return exit_input;
    }
  }
  if (const QString wrong = fill_plan(window.plan().form(), request.ask); !wrong.isEmpty()) {
    say(wrong);
    return exit_usage;
  }
  if (!request.run.isEmpty()) window.open_run(request.run);
  if (pictured) return picture(window, request);
  window.show();
  if (request.job) window.show_job(*request.job);
  if (request.job == ui::Job::choose)
    QObject::connect(
        &window.session(), &ui::Session::result_changed, &window.choose(),
        [&window] { window.choose().start(); }, Qt::SingleShotConnection);
  if (request.job == ui::Job::plan && !request.ask.isEmpty()) {
    if (request.scenario.isEmpty())
      window.plan().start();
    else
      QObject::connect(
          &window.session(), &ui::Session::result_changed, &window.plan(),
          [&window] { window.plan().start(); }, Qt::SingleShotConnection);
  }
  return QApplication::exec();
}
