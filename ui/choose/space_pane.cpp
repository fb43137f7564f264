#include "ui/choose/space_pane.hpp"

#include <QFormLayout>
#include <QGroupBox>
#include <QHBoxLayout>
#include <QMenu>
#include <QVBoxLayout>
#include <algorithm>

namespace ui {
namespace {

struct Goal {
  const char* key;
  const char* title;
  const char* help;
  const char* unset;
};

constexpr std::array goals{
    Goal{"memory_margin", "memory margin",
         "What a layout must leave of the device: a fraction of what it needs (0.05), an amount "
         "(4 GiB), or 0. Empty: the error of the memory forecast.",
         "forecast's error"},
    Goal{"price_per_gpu_hour", "price per GPU-hour",
         "For cost per step and the front of time against cost.", "none"},
    Goal{"top", "layouts to rank", "How many layouts the ranking has.", "10"}};

QString joined(const std::vector<std::string>& values) {
  QStringList list;
  for (const std::string& value : values)
    list << QString::fromStdString(value);
  return list.join(", ");
}

QStringList values_in(const QString& text) {
  QStringList values;
  for (const QString& value : text.split(','))
    if (!value.trimmed().isEmpty()) values << value.trimmed();
  return values;
}

}  // namespace

SpacePane::SpacePane(QWidget* parent) : QWidget{parent} {
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(0, 0, 0, 0);
  const auto section = [&](const QString& title) {
    auto* box = new QGroupBox{title};
    auto* form = new QFormLayout{box};
    form->setContentsMargins(8, 4, 8, 6);
    form->setVerticalSpacing(3);
    form->setHorizontalSpacing(8);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    column->addWidget(box);
    return form;
  };
  fields_.reserve(space_rows().size() + goals.size());
  form_ = section(tr("Space"));
  for (const SpaceRow& row : space_rows()) {
    Field& field = add_field(*form_, row.key, tr(row.title), tr(row.help), row.words);
    field.dimension = true;
    field.rare = row.rare;
    field.unset = tr("open");
  }
  more_ = new QToolButton;
  more_->setText(tr("More …"));
  more_->setCheckable(true);
  more_->setAccessibleName(tr("Show all dimensions of the space"));
  connect(more_, &QToolButton::toggled, this, &SpacePane::show_rare);
  form_->addRow(more_);
  QFormLayout* goal = section(tr("Result"));
  for (const Goal& one : goals) {
    Field& field = add_field(*goal, one.key, tr(one.title), tr(one.help), {});
    field.unset = tr(one.unset);
    field.edit->setPlaceholderText(field.unset);
  }
  column->addStretch();
  applies_.assign(space_rows().size(), true);
  show_rare(false);
}

SpacePane::Field& SpacePane::add_field(QFormLayout& form, const QString& key, const QString& title,
                                       const QString& help, const std::vector<std::string>& words) {
  Field field;
  field.key = key;
  field.row = new QWidget;
  auto* line = new QHBoxLayout{field.row};
  line->setContentsMargins(0, 0, 0, 0);
  line->setSpacing(4);
  field.edit = new QLineEdit;
  field.edit->setAccessibleName(title);
  field.edit->setAccessibleDescription(help);
  field.edit->setToolTip(help);
  line->addWidget(field.edit, 1);
  if (!words.empty()) add_words(field, words);
  field.state = new QLabel;
  field.state->setForegroundRole(QPalette::PlaceholderText);
  field.state->setFixedWidth(field.state->fontMetrics().horizontalAdvance(tr("listed")) + 4);
  line->addWidget(field.state);
  form.addRow(title, field.row);
  if (QWidget* label = form.labelForField(field.row)) label->setToolTip(help);
  fields_.push_back(field);
  const std::size_t index = fields_.size() - 1;
  connect(field.edit, &QLineEdit::textChanged, this, [this, index] {
    refresh_state(fields_[index]);
    Q_EMIT changed();
  });
  connect(field.edit, &QLineEdit::returnPressed, this, &SpacePane::submitted);
  return fields_.back();
}

// A menu in which words are ticked, beside the field in which they can be typed.
void SpacePane::add_words(Field& field, const std::vector<std::string>& words) {
  field.words = new QToolButton;
  field.words->setText("…");
  field.words->setPopupMode(QToolButton::InstantPopup);
  field.words->setAccessibleName(tr("Choose %1").arg(field.edit->accessibleName()));
  auto* menu = new QMenu{field.words};
  field.words->setMenu(menu);
  QLineEdit* edit = field.edit;
  for (const std::string& word : words) {
    const QString text = QString::fromStdString(word);
    QAction* action = menu->addAction(text);
    action->setCheckable(true);
    connect(action, &QAction::triggered, edit, [edit, text](bool wanted) {
      QStringList values = values_in(edit->text());
      values.removeAll(text);
      if (wanted) values << text;
      edit->setText(values.join(", "));
    });
    connect(menu, &QMenu::aboutToShow, action,
            [action, edit, text] { action->setChecked(values_in(edit->text()).contains(text)); });
  }
  field.row->layout()->addWidget(field.words);
}

void SpacePane::show_scenario(const sim::SearchSpecification& specification) {
  const auto set = [this](const QString& key, const QString& text) {
    for (Field& field : fields_) {
      if (field.key != key) continue;
      field.of_file = text;
      field.edit->setText(text);
      refresh_state(field);
    }
  };
  for (std::size_t i = 0; i < space_rows().size(); ++i) {
    const SpaceRow& row = space_rows()[i];
    applies_[i] = row.applies(specification.workload.model);
    set(row.key, joined(row.listed(specification.space)));
    fields_[i].unset = tr("open");
    fields_[i].edit->setPlaceholderText(fields_[i].unset);
  }
  const sim::MemoryMargin& margin = specification.memory_margin;
  set("memory_margin", margin.bytes      ? QString{"%1 GiB"}.arg(margin.bytes->gib())
                       : margin.fraction ? QString::number(*margin.fraction)
                       : margin.errors   ? QString{}
                                         : "0");
  set("price_per_gpu_hour", specification.price_per_gpu_hour
                                ? QString::number(*specification.price_per_gpu_hour)
                                : QString{});
  set("top", specification.top == 10 ? QString{} : QString::number(specification.top));
  show_rare(more_->isChecked());
}

void SpacePane::show_values(const std::vector<std::vector<std::string>>& values) {
  for (std::size_t i = 0; i < values.size() && i < space_rows().size(); ++i) {
    if (!fields_[i].edit->text().isEmpty()) continue;
    fields_[i].edit->setPlaceholderText(joined(values[i]));
    fields_[i].edit->setToolTip(
        tr("%1\nOpen: %2").arg(tr(space_rows()[i].help), joined(values[i])));
  }
}

void SpacePane::refresh_state(const Field& field) {
  if (!field.dimension) return field.state->hide();
  const auto count = values_in(field.edit->text()).size();
  field.state->setText(count == 0 ? tr("open") : count == 1 ? tr("fixed") : tr("listed"));
  field.edit->setAccessibleDescription(field.state->text());
}

void SpacePane::show_rare(bool shown) {
  for (std::size_t i = 0; i < space_rows().size(); ++i) {
    const Field& field = fields_[i];
    const bool set = !field.edit->text().isEmpty();
    form_->setRowVisible(field.row, applies_[i] && (!field.rare || shown || set));
    refresh_state(field);
  }
  for (const Field& field : fields_)
    refresh_state(field);
}

std::vector<std::string> SpacePane::overrides() const {
  std::vector<std::string> list;
  for (const Field& field : fields_) {
    const QString text = field.edit->text().trimmed();
    if (text == field.of_file || text.isEmpty()) continue;
    const QStringList values = values_in(text);
    list.push_back(QString{"search.%1=%2"}
                       .arg(field.key, field.dimension && values.size() > 1
                                           ? "[" + values.join(", ") + "]"
                                           : text)
                       .toStdString());
  }
  return list;
}

std::vector<std::string> SpacePane::unset() const {
  std::vector<std::string> list;
  for (const Field& field : fields_)
    if (field.edit->text().trimmed().isEmpty() && !field.of_file.isEmpty())
      list.push_back(field.key.toStdString());
  return list;
}

void SpacePane::set(const QString& key, const QString& text) {
  for (const Field& field : fields_)
    if (field.key == key) field.edit->setText(text);
}

QStringList SpacePane::keys() const {
  QStringList list;
  for (const Field& field : fields_)
    list << field.key;
  return list;
}

}  // namespace ui
