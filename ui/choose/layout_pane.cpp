#include "ui/choose/layout_pane.hpp"

#include <QEvent>
#include <QHBoxLayout>
#include <QMenu>
#include <QScrollArea>
#include <QVBoxLayout>

#include "ui/choose/layout_text.hpp"

namespace ui {
namespace {

struct ExportTarget {
  sim::Target target;
  const char* title;
};
constexpr std::array targets{ExportTarget{sim::Target::megatron, "&Megatron-LM: flags"},
                             ExportTarget{sim::Target::torchtitan, "&torchtitan: TOML"},
                             ExportTarget{sim::Target::deepspeed, "&DeepSpeed: JSON, flags"},
                             ExportTarget{sim::Target::nemo, "&NeMo: YAML"},
                             ExportTarget{sim::Target::scenario, "&Stepcast scenario: YAML"}};

QLabel* heading(const QString& text) {
  auto* label = new QLabel{text};
  QFont font = label->font();
  font.setBold(true);
  label->setFont(font);
  label->setContentsMargins(0, 8, 0, 2);
  return label;
}

QLabel* rich_text(const QString& accessible_name) {
  auto* label = new QLabel;
  label->setTextFormat(Qt::RichText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  label->setAccessibleName(accessible_name);
  label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  return label;
}

}  // namespace

LayoutPane::LayoutPane(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("The chosen layout"));
  auto* content = new QWidget;
  auto* column = new QVBoxLayout{content};
  column->setContentsMargins(10, 8, 10, 10);
  column->setSpacing(4);
  title_ = heading({});
  title_->setWordWrap(true);
  title_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  figures_ = new QLabel;
  figures_->setWordWrap(true);
  column->addWidget(title_);
  column->addWidget(figures_);

  parts_ = new QWidget;
  auto* below = new QVBoxLayout{parts_};
  below->setContentsMargins(0, 4, 0, 0);
  below->setSpacing(4);
  auto* buttons = new QHBoxLayout;
  open_ = new QPushButton{tr("&Open as scenario")};
  open_->setAccessibleName(tr("Open as scenario"));
  open_->setToolTip(tr("Shows it under What if, beside the scenario as it is now (Enter)."));
  export_ = new QToolButton;
  export_->setText(tr("E&xport for"));
  export_->setPopupMode(QToolButton::InstantPopup);
  export_->setToolButtonStyle(Qt::ToolButtonTextOnly);
  export_->setSizePolicy(QSizePolicy::Minimum, QSizePolicy::Fixed);
  export_->setAccessibleName(tr("Export the layout for a framework"));
  auto* menu = new QMenu{export_};
  for (const ExportTarget& one : targets)
    menu->addAction(tr(one.title), this, [this, one] { Q_EMIT export_asked(one.target); });
  export_->setMenu(menu);
  pin_ = new QPushButton{tr("&Pin")};
  pin_->setCheckable(true);
  pin_->setToolTip(tr("Others are compared with it."));
  pin_->setAccessibleName(tr("Compare others with this layout"));
  for (QWidget* button :
       {static_cast<QWidget*>(open_), static_cast<QWidget*>(export_), static_cast<QWidget*>(pin_)})
    buttons->addWidget(button);
  export_->setMinimumHeight(open_->sizeHint().height());
  below->addLayout(buttons);
  why_ = rich_text(tr("Why it is faster or slower"));
  below->addWidget(why_);
  step_title_ = heading(tr("Where the step goes"));
  below->addWidget(step_title_);
  step_ = new StackedBars{tr("Parts of the step")};
  below->addWidget(step_);
  below->addWidget(heading(tr("Memory of the fullest GPU")));
  memory_ = new StackedBars{tr("Memory by category")};
  below->addWidget(memory_);
  below->addWidget(heading(tr("Layout")));
  fields_ = rich_text(tr("The layout's fields"));
  below->addWidget(fields_);
  column->addWidget(parts_);
  column->addStretch();

  auto* scroll = new QScrollArea{this};
  scroll->setWidget(content);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setAccessibleName(tr("The chosen layout"));
  auto* whole = new QVBoxLayout{this};
  whole->setContentsMargins(0, 0, 0, 0);
  whole->addWidget(scroll);
  connect(pin_, &QPushButton::clicked, this, &LayoutPane::pin_asked);
  connect(open_, &QPushButton::clicked, this, &LayoutPane::open_asked);
  clear({});
}

void LayoutPane::show_parts(bool shown) {
  parts_->setVisible(shown);
}

void LayoutPane::clear(const QString& next_step) {
  facts_.reset();
  other_.reset();
  title_->setText({});
  title_->hide();
  figures_->setText(next_step);
  show_parts(false);
}

void LayoutPane::show_waiting(const QString& title) {
  title_->show();
  title_->setText(title);
  figures_->setText(tr("simulating it once more, for its parts …"));
  if (!facts_) show_parts(false);
}

void LayoutPane::show(LayoutFactsPtr facts, LayoutFactsPtr other, const QString& other_name,
                      bool pinned) {
  facts_ = std::move(facts);
  other_ = std::move(other);
  other_name_ = other_name;
  pinned_ = pinned;
  refresh();
}

void LayoutPane::show_problem(const QString& problem) {
  figures_->setText(problem);
}

void LayoutPane::refresh() {
  if (!facts_) return;
  const Theme& theme = theme_of(*this);
  const LayoutFacts* other = other_.get();
  title_->show();
  title_->setText(title_of(*facts_));
  figures_->setText(figures_of(*facts_) + "\n" + memory_of(*facts_));
  pin_->setChecked(pinned_);
  pin_->setText(pinned_ ? tr("&Pinned") : tr("&Pin"));
  why_->setVisible(other != nullptr);
  if (other) why_->setText(comparison_of(*facts_, *other, other_name_));
  step_->show(parts_bars(*facts_, other, other_name_, theme));
  step_->setVisible(facts_->ranked.has_value());
  step_title_->setVisible(facts_->ranked.has_value());
  memory_->show(memory_bars(*facts_, other, other_name_, theme));
  fields_->setText(fields_of(*facts_, other));
  show_parts(true);
}

void LayoutPane::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

}  // namespace ui
