#include "ui/window/import_dialog.hpp"

#include <QDialogButtonBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QScrollArea>
#include <QVBoxLayout>

#include "sim/config/data_files.hpp"
#include "sim/report/numbers.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr int pause_ms = 200;  // of typing, before the file is read again
constexpr int most_gpus = 1 << 20, most_tokens = 1 << 24, most_batch = 1 << 20;

// asks_for_batch() holds for files whose framework leaves batch and format to the program.
bool asks_for_batch(sim::JobKind kind) {
  return kind == sim::JobKind::deepspeed || kind == sim::JobKind::accelerate ||
         kind == sim::JobKind::automodel;
}

QString summary(const sim::ImportedJob& imported) {
  const sim::Layout& layout = imported.scenario.layout;
  const sim::Cluster& cluster = imported.scenario.cluster;
  QString text = QObject::tr("<b>%1 GPUs</b> of %2: tensor %3 · pipeline %4 · context %5 · data %6")
                     .arg(to_qstring(sim::grouped(std::uint64_t(layout.world_size()))),
                          to_qstring(cluster.device().name).toHtmlEscaped())
                     .arg(layout.tensor_parallel)
                     .arg(layout.pipeline_parallel)
                     .arg(layout.context_parallel)
                     .arg(layout.data_parallel);
  if (!imported.notes.empty())
    text += QObject::tr("<p>The forecast leaves out or reads otherwise:</p>");
  for (const sim::Note& note : imported.notes)
    text += "<p>• <b>" + to_qstring(note.key).toHtmlEscaped() +
            "</b>: " + to_qstring(note.what).toHtmlEscaped() + "</p>";
  if (!imported.ignored.empty())
    text += QObject::tr("<p>%1 keys have no effect on a step.</p>").arg(imported.ignored.size());
  return text;
}

}  // namespace

ImportDialog::ImportDialog(const QString& path, sim::JobKind kind, const QString& cluster,
                           QWidget* parent)
    : QDialog{parent}, path_{path.toStdString()}, kind_{kind} {
  setWindowTitle(tr("Open a job of %1").arg(to_qstring(sim::word(kind))));
  resize(640, 520);
  auto* column = new QVBoxLayout{this};
  auto* head = new QLabel{tr("<b>%1</b> as a scenario. What the file does not say:")
                              .arg(QFileInfo{path}.fileName().toHtmlEscaped())};
  head->setWordWrap(true);
  column->addWidget(head);
  soon_.setSingleShot(true);
  soon_.setInterval(pause_ms);
  connect(&soon_, &QTimer::timeout, this, &ImportDialog::work_out);
  form_ = new QFormLayout;
  column->addLayout(form_);
  make_fields(cluster);
  said_ = new QLabel;
  said_->setWordWrap(true);
  said_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  said_->setMargin(6);
  said_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  said_->setAccessibleName(tr("What was read"));
  auto* scroll = new QScrollArea;
  scroll->setWidget(said_);
  scroll->setWidgetResizable(true);
  scroll->setAccessibleName(tr("What was read"));
  column->addWidget(scroll, 1);
  auto* buttons = new QDialogButtonBox{QDialogButtonBox::Cancel};
  open_ = buttons->addButton(tr("&Open as scenario"), QDialogButtonBox::AcceptRole);
  open_->setDefault(true);
  column->addWidget(buttons);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(&job_, &BackgroundJob::failed, this, &ImportDialog::show_problems);
  work_out();
}

QSpinBox* ImportDialog::number(const QString& title, const QString& none, const QString& help) {
  auto* box = new QSpinBox;
  box->setSpecialValueText(none);
  box->setAccessibleName(title);
  box->setToolTip(help);
  box->setGroupSeparatorShown(true);
  form_->addRow(title, box);
  connect(box, &QSpinBox::valueChanged, this, [this] { soon_.start(); });
  return box;
}

void ImportDialog::make_fields(const QString& cluster) {
  const QString file = tr("as the file says");
  const auto combo = [&](const QString& title, const QStringList& items) {
    auto* box = new QComboBox;
    box->addItems(items);
    box->setAccessibleName(title);
    form_->addRow(title, box);
    connect(box, &QComboBox::currentIndexChanged, this, [this] { soon_.start(); });
    return box;
  };
  const auto names = [](const std::string& kind) {
    QStringList list;
    for (const std::string& name : sim::data_files(kind))
      list << to_qstring(name);
    return list;
  };
  cluster_ = combo(tr("Cluster"), names("topologies"));
  cluster_->setCurrentText(cluster);
  gpus_ = number(tr("GPUs"), file, tr("of the job"));
  gpus_->setMaximum(most_gpus);
  model_ = combo(tr("Model"), QStringList{file} + names("models"));
  sequence_ = number(tr("Sequence length"), file, tr("tokens"));
  sequence_->setMaximum(most_tokens);
  if (asks_for_batch(kind_)) {
    micro_batch_ = number(tr("Micro-batch"), file, tr("sequences per GPU and pass"));
    micro_batch_->setMaximum(most_batch);
    batch_ = number(tr("Global batch"), file, tr("sequences per step"));
    batch_->setMaximum(most_batch);
    precision_ = combo(tr("Format"), {file, "bf16", "fp16", "fp32"});
  }
  if (kind_ != sim::JobKind::megatron) return;
  definitions_ = new QLineEdit;
  definitions_->setPlaceholderText(tr("NAME=VALUE … of variables that a script leaves open"));
  definitions_->setAccessibleName(tr("Variables"));
  form_->addRow(tr("Variables"), definitions_);
  connect(definitions_, &QLineEdit::textChanged, this, [this] { soon_.start(); });
}

sim::JobFile ImportDialog::asked() const {
  sim::JobFile job;
  job.file = path_;
  job.cluster = cluster_->currentText().toStdString();
  if (model_->currentIndex() > 0) job.model = model_->currentText().toStdString();
  job.known.gpus = gpus_->value();
  job.known.sequence_length = sequence_->value();
  if (asks_for_batch(kind_)) {
    job.known.micro_batch = micro_batch_->value();
    job.known.global_batch = batch_->value();
    for (const auto& known : sim::words_of(sim::DType{}))
      if (to_qstring(known.text) == precision_->currentText()) job.known.precision = known.value;
  }
  if (definitions_)
    for (const QString& one : definitions_->text().split(' ', Qt::SkipEmptyParts))
      job.definitions.push_back(one.toStdString());
  return job;
}

void ImportDialog::work_out() {
  soon_.stop();
  yaml_.clear();
  open_->setEnabled(false);
  said_->setText(tr("reading the file …"));
  job_.run([this, job = asked(), kind = kind_](const sim::Control&) -> BackgroundJob::Answer {
    const sim::ImportedJob imported = sim::import_job(kind, job);
    const std::string folder = QFileInfo{to_qstring(job.file)}.absolutePath().toStdString();
    return [this, text = summary(imported), yaml = sim::imported_yaml(imported, job, folder)] {
      yaml_ = yaml;
      said_->setForegroundRole(QPalette::WindowText);
      said_->setText(text);
      open_->setEnabled(true);
    };
  });
}

void ImportDialog::show_problems(const QString& why) {
  said_->setForegroundRole(QPalette::BrightText);  // the theme's colour of what is wrong
  said_->setText("⚠ " + why.toHtmlEscaped().replace("\n", "<br>"));
}

}  // namespace ui
