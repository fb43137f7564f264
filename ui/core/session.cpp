#include "ui/core/session.hpp"

#include <QFile>
#include <algorithm>
#include <stdexcept>

#include "ui/core/knob_command.hpp"

namespace ui {

Session::Session(QObject* parent) : QObject{parent} {
  connect(&worker_, &ForecastWorker::done, this, &Session::take);
  connect(&worker_, &ForecastWorker::failed, this, &Session::fail);
}

void Session::open(const QString& path, Knobs knobs) {
  QFile file{path};
  if (!file.open(QIODevice::ReadOnly))
    throw std::runtime_error(path.toStdString() + ": " + file.errorString().toStdString());
  open_text(path, file.readAll().toStdString(), std::move(knobs));
}

void Session::open_text(const QString& path, std::string yaml, Knobs knobs) {
  path_ = path.toStdString();
  yaml_ = std::move(yaml);
  measured_.reset();
  knobs_.clear();
  later_ = std::move(knobs);
  undo_.clear();
  selection_ = {};
  baseline_.reset();
  pin_first_ = true;
  Q_EMIT opened();
  Q_EMIT knobs_changed();
  Q_EMIT selection_changed();
  ask();
}

void Session::edit(std::string yaml) {
  if (yaml == yaml_) return;
  yaml_ = std::move(yaml);
  ask();
}

std::vector<std::string> Session::overrides() const {
  std::vector<std::string> list;
  for (const auto& [key, value] : knobs_)
    list.push_back(key + "=" + value);
  return list;
}

std::optional<std::string> Session::knob(const std::string& key) const {
  for (const auto& [name, value] : knobs_)
    if (name == key) return value;
  return std::nullopt;
}

void Session::set_knobs(const Knobs& changes, const QString& what, int gesture) {
  Knobs after = knobs_;
  for (const auto& [key, value] : changes) {
    const auto found = std::find_if(after.begin(), after.end(),
                                    [&key = key](const Knob& knob) { return knob.first == key; });
    if (found == after.end()) {
      if (!value.empty()) after.emplace_back(key, value);
    } else if (value.empty()) {
      after.erase(found);
    } else {
      found->second = value;
    }
  }
  if (after != knobs_) undo_.push(new KnobCommand{*this, std::move(after), what, gesture});
}

void Session::reset_knobs() {
  if (!knobs_.empty()) undo_.push(new KnobCommand{*this, {}, tr("reset all knobs"), 0});
}

void Session::apply(const Knobs& knobs) {
  knobs_ = knobs;
  Q_EMIT knobs_changed();
  ask();
}

void Session::ask() {
  const bool was = computing();
  worker_.ask({++asked_, path_, yaml_, overrides()});
  if (!was) Q_EMIT computing_changed();
}

void Session::take(const ResultPtr& result) {
  answered_ = result->request.serial;
  result_ = result;
  if (pin_first_) baseline_ = result;
  const bool first = std::exchange(pin_first_, false);
  const bool had_problems = !problems_.empty();
  problems_.clear();
  // The selected operator may not be there any more.
  const std::size_t tracks = result->forecast.timeline.tracks.size();
  if (selection_.op &&
      (selection_.op->track >= tracks ||
       selection_.op->op >= result->forecast.timeline.tracks[selection_.op->track].spans.size()))
    selection_.op.reset();
  selection_.stage =
      std::min(selection_.stage, static_cast<int>(result->forecast.report.memory.size()) - 1);
  Q_EMIT result_changed();
  if (first) Q_EMIT baseline_changed();
  if (had_problems) Q_EMIT problems_changed();
  if (first && !later_.empty()) set_knobs(std::exchange(later_, {}), tr("set"));
  if (!computing()) Q_EMIT computing_changed();
}

void Session::fail(const FailurePtr& failure) {
  answered_ = failure->request.serial;
  problems_ = failure->problems;
  Q_EMIT problems_changed();
  if (!computing()) Q_EMIT computing_changed();
}

void Session::pin_baseline() {
  baseline_ = result_;
  Q_EMIT baseline_changed();
}

void Session::clear_baseline() {
  baseline_.reset();
  Q_EMIT baseline_changed();
}

void Session::select(const Selection& selection) {
  if (selection == selection_) return;
  selection_ = selection;
  Q_EMIT selection_changed();
}

}  // namespace ui
