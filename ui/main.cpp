// stepcast-ui: the window, or a picture of one of its views.
#include <QApplication>
#include <QCommandLineParser>
#include <QFile>
#include <QStyleFactory>
#include <QTimer>
#include <cstdio>

#include "ui/window/export_view.hpp"
#include "ui/window/main_window.hpp"
#include "ui/window/state.hpp"

namespace {

constexpr int exit_failure = 1, exit_usage = 2, exit_input = 3;

struct Request {
  QString scenario, view, screenshot, state;
  QStringList set;
  bool dark = false;
};

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
  const QCommandLineOption dark{"dark", "The dark theme."};
  const QCommandLineOption state{"state", "Writes what is shown as JSON, after each forecast.",
                                 "file"};
  parser.addOptions({set, screenshot, view, dark, state});
  parser.process(application);
  return {parser.positionalArguments().value(0),
          parser.value(view),
          parser.value(screenshot),
          parser.value(state),
          parser.values(set),
          parser.isSet(dark)};
}

// The first forecast, or its problems; then the picture.
int picture(ui::MainWindow& window, const Request& request) {
  QWidget* view = window.view(request.view);
  if (!view) {
    say(QString{"--view: '%1' is no view; there are %2"}.arg(request.view,
                                                             window.view_names().join(", ")));
    return exit_usage;
  }
  int code = 0;
  QObject::connect(&window.session(), &ui::Session::computing_changed, &window, [&] {
    if (window.session().computing() || !window.session().problems().empty()) return;
    window.show();
    if (auto* dock = qobject_cast<QDockWidget*>(view->parentWidget())) {
      QApplication::processEvents();  // tabs are laid out first
      dock->show();
      dock->raise();
    }
    // A view whose content is still computed has the property "waiting".
    auto* poll = new QTimer{&window};
    poll->start(150);
    QObject::connect(poll, &QTimer::timeout, &window, [&, poll] {
      if (view->property("waiting").toBool()) return;
      poll->stop();
      const QString problem = ui::write_view(*view, request.screenshot);
      if (!problem.isEmpty()) {
        say(problem);
        code = exit_failure;
      }
      QApplication::exit(code);
    });
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
  const Request request = parse(application);
  ui::MainWindow window;
  window.set_dark(request.dark);
  const bool pictured = !request.screenshot.isEmpty();
  if (!pictured && request.state.isEmpty()) window.restore_settings();
  if (!request.state.isEmpty()) new ui::StateFile{window, request.state};
  if (pictured && request.scenario.isEmpty()) {
    say("--screenshot needs a scenario");
    return exit_usage;
  }
  if (!request.scenario.isEmpty()) {
    ui::Knobs knobs;
    for (const QString& set : request.set)
      knobs.emplace_back(set.section('=', 0, 0).toStdString(), set.section('=', 1).toStdString());
    try {
      window.session().open(request.scenario, std::move(knobs));
    } catch (const std::exception& error) {
      say(error.what());
      return exit_input;
    }
  }
  if (pictured) return picture(window, request);
  window.show();
  return QApplication::exec();
}
