// The knobs: what one changes to ask "what if".
#pragma once

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QScrollArea>
#include <QSlider>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWidget>
#include <vector>

#include "sim/catalog/values.hpp"
#include "sim/sweep/machine_parameters.hpp"
#include "ui/core/background_job.hpp"
#include "ui/core/knob_table.hpp"
#include "ui/core/session.hpp"

namespace ui {

class KnobPane : public QWidget {
  Q_OBJECT

 public:
  explicit KnobPane(Session& session, QWidget* parent = nullptr);
  // Shows the field for any key, with the cursor in it.
  void find_key();

 Q_SIGNALS:
  void left_any_key();  // by Escape

 private:
  struct Choice {
    const ChoiceKnob* knob;
    QWidget* row;
    std::vector<QToolButton*> chips;
    QComboBox* list = nullptr;
    std::vector<std::string> shown;
  };
  struct Scale {
    std::vector<std::string> keys;
    QSlider* slider;
    QLabel* value;
    QString title, base;
    QWidget* row;
    bool rare;
  };

  void refresh();
  void refresh_choice(Choice& choice, const sim::Scenario& scenario);
  void make_scales(const sim::Scenario& scenario);
  void move_scale(const Scale& scale, int position);
  void show_rare_scales();
  void refresh_scales();
  void refresh_list();
  void find_legal();
  void mark_illegal(const std::string& key, const std::vector<sim::LegalValue>& values);
  void make_any_key(QVBoxLayout& column);
  void describe_key();
  void set_typed();

  Session& session_;
  QScrollArea* scroll_;
  QFormLayout* form_;
  QVBoxLayout* machine_;
  QToolButton* more_;  // shows the scales that are rarely turned
  std::vector<Choice> choices_;
  std::vector<Scale> scales_;
  std::string scales_of_;  // the cluster file that the scales are of
  QTimer pause_;
  BackgroundJob legality_;
  ResultPtr legal_of_;  // whose legal values are shown
  QLineEdit* key_;
  QLabel* about_;  // the key that is typed: unit, help, limits, default, value
  QLineEdit* value_;
  QListWidget* set_;
  int gesture_ = 0;
};

}  // namespace ui
