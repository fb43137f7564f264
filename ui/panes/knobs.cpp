#include "ui/panes/knobs.hpp"

#include <QButtonGroup>
#include <QCompleter>
#include <QGridLayout>
#include <QGroupBox>
#include <QHBoxLayout>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QShortcut>
#include <QSignalBlocker>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/catalog/catalog.hpp"
#include "sim/scenario/followed.hpp"
#include "ui/core/theme.hpp"
#include "ui/core/words.hpp"
#include "ui/panes/chip.hpp"

namespace ui {
namespace {

// A slider's position is 100 log10 of the factor: 0.1 to 10.
constexpr int scale_steps = 100;
constexpr int knob_pause_ms = 200;  // before legal values are looked for

// The parameters that are in sight from the start.
constexpr std::array<std::string_view, 5> in_sight{
    "matrix rate", "memory bandwidth", "NVLink bandwidth", "xGMI bandwidth", "NIC bandwidth"};

double factor_of(int position) {
  return std::pow(10, static_cast<double>(position) / scale_steps);
}

QString factor_text(double factor) {
  return QString{"×%1"}.arg(factor, 0, 'g', 3);
}

std::optional<double> factor_in(const std::optional<std::string>& value) {
  if (!value || value->size() < 2 || value->front() != 'x') return std::nullopt;
  return std::strtod(value->c_str() + 1, nullptr);
}

QGroupBox* section(const QString& title, QLayout* content) {
  auto* box = new QGroupBox{title};
  content->setContentsMargins(8, 4, 8, 6);
  box->setLayout(content);
  return box;
}

}  // namespace

KnobPane::KnobPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  auto* content = new QWidget;
  auto* column = new QVBoxLayout{content};
  column->setContentsMargins(6, 4, 6, 6);
  form_ = new QFormLayout;
  form_->setVerticalSpacing(4);
  form_->setHorizontalSpacing(8);
  form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  column->addWidget(section(tr("Layout"), form_));
  machine_ = new QVBoxLayout;
  machine_->setSpacing(2);
  column->addWidget(section(tr("Machine"), machine_));
  more_ = new QToolButton;
  more_->setText(tr("More …"));
  more_->setCheckable(true);
  more_->setAccessibleName(tr("Show all parameters of the machine"));
  connect(more_, &QToolButton::toggled, this, &KnobPane::show_rare_scales);
  machine_->addWidget(more_);

  auto* any = new QVBoxLayout;
  make_any_key(*any);
  column->addWidget(section(tr("Set on top of the file"), any));
  column->addStretch();

  scroll_ = new QScrollArea{this};
  scroll_->setWidget(content);
  scroll_->setWidgetResizable(true);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* outer = new QVBoxLayout{this};
  outer->setContentsMargins(0, 0, 0, 0);
  outer->addWidget(scroll_);

  pause_.setSingleShot(true);
  pause_.setInterval(knob_pause_ms);
  connect(&pause_, &QTimer::timeout, this, &KnobPane::find_legal);
  for (const ChoiceKnob& knob : choice_knobs())
    choices_.push_back({&knob, nullptr, {}, nullptr, {}});
  connect(&session_, &Session::result_changed, this, &KnobPane::refresh);
  connect(&session_, &Session::knobs_changed, this, [this] {
    refresh_list();
    refresh_scales();
  });
  refresh();
}

void KnobPane::make_any_key(QVBoxLayout& column) {
  auto* line = new QHBoxLayout;
  key_ = new QLineEdit;
  key_->setPlaceholderText(tr("any key, e.g. layout.bucket"));
  key_->setAccessibleName(tr("Key to set"));
  QStringList paths;
  for (const sim::Key& key : sim::key_catalog())
    paths << QString::fromStdString(std::string{key.path});
  auto* completer = new QCompleter{paths, key_};
  completer->setFilterMode(Qt::MatchContains);
  completer->setCaseSensitivity(Qt::CaseInsensitive);
  completer->setMaxVisibleItems(14);
  key_->setCompleter(completer);
  value_ = new QLineEdit;
  value_->setPlaceholderText(tr("value"));
  value_->setAccessibleName(tr("Value of the key"));
  value_->setMaximumWidth(96);
  line->addWidget(key_);
  line->addWidget(value_);
  column.addLayout(line);
  about_ = new QLabel;
  about_->setWordWrap(true);
  about_->hide();
  column.addWidget(about_);
  set_ = new QListWidget;
  set_->setAccessibleName(tr("Knobs that are set"));
  set_->setToolTip(tr("What is set on top of the file. Enter or a double click takes one away."));
  set_->setMinimumHeight(72);
  column.addWidget(set_);
  auto* reset = new QPushButton{tr("Reset all")};
  reset->setAccessibleName(tr("Reset all knobs"));
  column.addWidget(reset);
  connect(reset, &QPushButton::clicked, &session_, &Session::reset_knobs);
  connect(value_, &QLineEdit::returnPressed, this, &KnobPane::set_typed);
  connect(key_, &QLineEdit::returnPressed, value_, qOverload<>(&QWidget::setFocus));
  connect(key_, &QLineEdit::textChanged, this, &KnobPane::describe_key);
  for (QLineEdit* field : {key_, value_}) {
    auto* leave = new QShortcut{Qt::Key_Escape, field, nullptr, nullptr, Qt::WidgetShortcut};
    connect(leave, &QShortcut::activated, this, &KnobPane::left_any_key);
  }
  connect(set_, &QListWidget::itemActivated, this, [this](QListWidgetItem* item) {
    session_.set_knobs({{item->data(Qt::UserRole).toString().toStdString(), ""}},
                       tr("take away %1").arg(item->text()));
  });
}

void KnobPane::describe_key() {
  const sim::Key* key = sim::find_key(key_->text().toStdString());
  about_->setVisible(key != nullptr);
  if (!key) return;
  QStringList lines{to_qstring(key->help)};
  QStringList words;
  for (const std::string_view word : key->words)
    words << to_qstring(word);
  if (const std::string allowed = sim::allowed_text(*key); !allowed.empty())
    lines << tr("allowed: %1").arg(to_qstring(allowed));
  if (const std::string fallback = sim::default_text(*key); !fallback.empty())
    lines << tr("default: %1").arg(to_qstring(fallback));
  if (session_.result()) {
    const std::optional<std::string> now =
        sim::current_value(session_.result()->scenario, key->path);
    if (now) {
      lines << tr("now: %1").arg(to_qstring(*now));
      value_->setPlaceholderText(to_qstring(*now));
    }
  }
  about_->setText(lines.join("\n"));
  auto* completer = new QCompleter{words, value_};
  completer->setCompletionMode(QCompleter::UnfilteredPopupCompletion);
  value_->setCompleter(completer);
}

void KnobPane::mark_illegal(const std::string& key, const std::vector<sim::LegalValue>& values) {
  for (const Choice& choice : choices_) {
    if (choice.knob->key != key) continue;
    for (QToolButton* chip : choice.chips)
      for (const sim::LegalValue& value : values)
        if (value.value == chip->text().toStdString()) {
          chip->setEnabled(value.is_legal() || chip->isChecked());
          chip->setToolTip(value.is_legal() ? choice.knob->help : to_qstring(value.problem));
        }
    if (!choice.list) continue;
    for (int i = 0; i < choice.list->count(); ++i)
      for (const sim::LegalValue& value : values)
        if (value.value == choice.list->itemText(i).toStdString())
          choice.list->setItemData(i, value.is_legal() ? QVariant{} : to_qstring(value.problem),
                                   Qt::ToolTipRole);
  }
}

void KnobPane::find_key() {
  key_->setFocus();
  key_->selectAll();
}

void KnobPane::refresh() {
  if (!session_.result()) return;
  const sim::Scenario& scenario = session_.result()->scenario;
  for (Choice& choice : choices_)
    refresh_choice(choice, scenario);
  if (scales_of_ != scenario.cluster_path) make_scales(scenario);
  refresh_scales();
  refresh_list();
  scroll_->setMinimumWidth(scroll_->widget()->minimumSizeHint().width() +
                           scroll_->verticalScrollBar()->sizeHint().width());
  if (legal_of_ && legal_of_->scenario.layout == scenario.layout &&
      legal_of_->scenario.cluster.gpus() == scenario.cluster.gpus() &&
      legal_of_->request.path == session_.result()->request.path)
    return;  // what is legal does not depend on how fast the machine is
  pause_.start();
}

void KnobPane::find_legal() {
  legality_.run(
      [this, of = session_.result()](const sim::Control& control) -> BackgroundJob::Answer {
        std::vector<std::pair<std::string, std::vector<sim::LegalValue>>> found;
        for (const ChoiceKnob& knob : choice_knobs()) {
          sim::throw_if_stopped(control);
          if (knob.applies(of->scenario))
            found.emplace_back(knob.key, sim::legal_values(of->scenario, knob.key));
        }
        return [this, of, found = std::move(found)] {
          legal_of_ = of;
          for (const auto& [key, values] : found)
            mark_illegal(key, values);
        };
      });
}

void KnobPane::refresh_choice(Choice& choice, const sim::Scenario& scenario) {
  const ChoiceKnob& knob = *choice.knob;
  const std::string current = knob.current(scenario);
  std::vector<std::string> values = knob.values(scenario);
  if (std::find(values.begin(), values.end(), current) == values.end()) values.push_back(current);
  if (values != choice.shown) {
    if (choice.row) form_->removeRow(choice.row);
    choice.row = new QWidget;
    choice.chips.clear();
    choice.list = nullptr;
    choice.shown = values;
    auto* line = new QHBoxLayout{choice.row};
    line->setContentsMargins(0, 0, 0, 0);
    line->setSpacing(2);
    const auto set = [this, key = knob.key](const QString& value) {
      session_.set_knobs({{key, value.toStdString()}},
                         QString{"%1 = %2"}.arg(QString::fromStdString(key), value));
    };
    if (knob.chips) {
      auto* group = new QButtonGroup{choice.row};
      for (const std::string& value : values) {
        auto* chip = new Chip;
        chip->setText(QString::fromStdString(value));
        chip->setCheckable(true);
        chip->setToolTip(knob.help);
        chip->setAccessibleName(knob.title + " " + chip->text());
        group->addButton(chip);
        line->addWidget(chip);
        connect(chip, &QToolButton::clicked, this, [set, chip] { set(chip->text()); });
        choice.chips.push_back(chip);
      }
      line->addStretch();
    } else {
      choice.list = new QComboBox;
      for (const std::string& value : values)
        choice.list->addItem(QString::fromStdString(value));
      choice.list->setToolTip(knob.help);
      choice.list->setAccessibleName(knob.title);
      line->addWidget(choice.list);
      connect(choice.list, &QComboBox::textActivated, this, set);
    }
    int row = 0;  // in the order of the table
    for (const Choice& other : choices_) {
      if (&other == &choice) break;
      if (other.row) ++row;
    }
    form_->insertRow(row, knob.title, choice.row);
    if (QWidget* label = form_->labelForField(choice.row)) label->setToolTip(knob.help);
  }
  for (QToolButton* chip : choice.chips)
    chip->setChecked(chip->text().toStdString() == current);
  if (choice.list) {
    const QSignalBlocker quiet{choice.list};
    choice.list->setCurrentText(QString::fromStdString(current));
  }
  form_->setRowVisible(choice.row, knob.applies(scenario));
}

void KnobPane::make_scales(const sim::Scenario& scenario) {
  for (const Scale& scale : scales_)
    delete scale.row;
  scales_.clear();
  scales_of_ = scenario.cluster_path;
  for (const sim::MachineParameter& parameter : sim::machine_parameters(scenario.cluster_path)) {
    const QString title = QString::fromStdString(parameter.name);
    auto* row = new QWidget;
    auto* grid = new QGridLayout{row};
    grid->setContentsMargins(0, 2, 0, 0);
    grid->setVerticalSpacing(0);
    auto* value = new QLabel;
    auto* slider = new QSlider{Qt::Horizontal};
    slider->setRange(-scale_steps, scale_steps);
    slider->setPageStep(10);
    slider->setAccessibleName(title);
    grid->addWidget(new QLabel{title}, 0, 0);
    grid->addWidget(value, 0, 1, Qt::AlignRight);
    grid->addWidget(slider, 1, 0, 1, 2);
    const std::size_t index = scales_.size();
    const bool rare = std::find(in_sight.begin(), in_sight.end(), parameter.name) == in_sight.end();
    machine_->insertWidget(machine_->count() - 1, row);
    scales_.push_back({parameter.keys, slider, value, title,
                       QString::fromStdString(parameter.values.front()), row, rare});
    connect(slider, &QSlider::sliderPressed, this, [this] { ++gesture_; });
    connect(slider, &QSlider::valueChanged, this,
            [this, index](int position) { move_scale(scales_[index], position); });
  }
  show_rare_scales();
}

void KnobPane::show_rare_scales() {
  more_->setText(more_->isChecked() ? tr("Fewer") : tr("More …"));
  for (const Scale& scale : scales_)
    scale.row->setVisible(!scale.rare || more_->isChecked() ||
                          session_.knob(scale.keys.front()).has_value());
}

void KnobPane::move_scale(const Scale& scale, int position) {
  if (!scale.slider->isSliderDown()) ++gesture_;
  const sim::Scenario* scenario = session_.result() ? &session_.result()->scenario : nullptr;
  if (!scenario) return;
  Knobs changes;
  const double factor = std::round(factor_of(position) * 1000) / 1000;
  for (const std::string& key : scale.keys)
    changes.emplace_back(
        key, position == 0 ? std::string{} : QString{"x%1"}.arg(factor, 0, 'g', 4).toStdString());
  session_.set_knobs(changes, scale.title + " " + factor_text(factor), gesture_ + 1);
}

void KnobPane::refresh_scales() {
  for (const Scale& scale : scales_) {
    const double factor = factor_in(session_.knob(scale.keys.front())).value_or(1);
    const QSignalBlocker quiet{scale.slider};
    if (!scale.slider->isSliderDown())
      scale.slider->setValue(static_cast<int>(std::lround(scale_steps * std::log10(factor))));
    scale.value->setText(factor == 1 ? scale.base
                                     : QString{"%1  %2"}.arg(scale.base, factor_text(factor)));
    scale.slider->setToolTip(scale.title + ": " + scale.base);
  }
}

void KnobPane::refresh_list() {
  set_->clear();
  for (const auto& [key, value] : session_.knobs()) {
    auto* item = new QListWidgetItem{QString::fromStdString(key + " = " + value)};
    item->setData(Qt::UserRole, QString::fromStdString(key));
    item->setToolTip(tr("Enter takes it away"));
    set_->addItem(item);
  }
  if (!session_.result()) return;
  for (const sim::Followed& followed : session_.result()->scenario.followed) {
    auto* item = new QListWidgetItem{QString::fromStdString(sim::text_of(followed))};
    item->setFlags(Qt::ItemIsEnabled);
    item->setForeground(palette().brush(QPalette::PlaceholderText));
    item->setToolTip(item->text());
    set_->addItem(item);
  }
}

void KnobPane::set_typed() {
  const std::string key = key_->text().trimmed().toStdString();
  if (key.empty()) return;
  session_.set_knobs({{key, value_->text().trimmed().toStdString()}},
                     QString{"%1 = %2"}.arg(key_->text(), value_->text()));
}

}  // namespace ui
