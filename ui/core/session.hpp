// The state of one window: the scenario, the knobs set on top of it, the newest forecast, the
// pinned baseline and the selection. Views read it and follow its signals; only it talks to the
// worker.
#pragma once

#include <QObject>
#include <QString>
#include <QUndoStack>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ui/core/forecast_worker.hpp"
#include "ui/core/result.hpp"
#include "ui/core/selection.hpp"

namespace ui {

// "section.key" and its value, as --set takes them.
using Knob = std::pair<std::string, std::string>;
using Knobs = std::vector<Knob>;  // in the order in which they were first set

// Measured is what was measured of the scenario, where it is a published row.
struct Measured {
  std::string source;
  double seconds = 0;        // 0: no time
  std::optional<int> layer;  // the time is of this layer; nothing: of a step
  bool out_of_memory = false;
};

class Session : public QObject {
  Q_OBJECT

 public:
  explicit Session(QObject* parent = nullptr);

  // Opens a scenario file. Throws std::runtime_error where it cannot be read.
  void open(const QString& path, Knobs knobs = {});
  // Opens a text as if it lay at `path`, which need not exist. Its first forecast becomes the
  // baseline; then `knobs` are set, if any.
  void open_text(const QString& path, std::string yaml, Knobs knobs = {});

  // set_measured() is for the scenario that was opened last; opening one takes it away.
  void set_measured(Measured measured) { measured_ = std::move(measured); }
  const std::optional<Measured>& measured() const { return measured_; }

  const std::string& path() const { return path_; }
  const std::string& yaml() const { return yaml_; }
  // The text as edited by hand: the forecast follows.
  void edit(std::string yaml);

  const Knobs& knobs() const { return knobs_; }
  std::vector<std::string> overrides() const;
  // The value that a knob was set to, or nothing.
  std::optional<std::string> knob(const std::string& key) const;
  // Sets knobs as one entry of the undo stack; an empty value takes the knob away. Moves of one
  // slider carry the same `gesture` (above 0) and become one entry.
  void set_knobs(const Knobs& changes, const QString& what, int gesture = 0);
  void reset_knobs();
  QUndoStack& undo_stack() { return undo_; }

  // The newest forecast that could be made; null before the first.
  const ResultPtr& result() const { return result_; }
  const ResultPtr& baseline() const { return baseline_; }
  void pin_baseline();
  void clear_baseline();
  // problems() is what is wrong with the newest request: then result() is an older one. Empty:
  // nothing.
  const std::vector<sim::Problem>& problems() const { return problems_; }
  bool computing() const { return asked_ != answered_; }

  const Selection& selection() const { return selection_; }
  void select(const Selection& selection);

 Q_SIGNALS:
  void opened();  // another scenario
  void knobs_changed();
  void result_changed();
  void baseline_changed();
  void problems_changed();
  void computing_changed();
  void selection_changed();

 private:
  friend class KnobCommand;
  void apply(const Knobs& knobs);
  void ask();
  void take(const ResultPtr& result);
  void fail(const FailurePtr& failure);

  std::string path_, yaml_;
  std::optional<Measured> measured_;
  Knobs knobs_;
  QUndoStack undo_;
  ResultPtr result_, baseline_;
  std::vector<sim::Problem> problems_;
  Selection selection_;
  std::uint64_t asked_ = 0, answered_ = 0;
  bool pin_first_ = true;  // the first forecast of a scenario becomes the baseline
  Knobs later_;            // set behind it
  ForecastWorker worker_;
};

}  // namespace ui
