#include "ui/choose/layout_text.hpp"

#include <algorithm>

#include "sim/report/numbers.hpp"
#include "ui/choose/space_table.hpp"
#include "ui/core/figures.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

QString time_text(sim::Duration time) {
  return time == sim::Duration{} ? "0" : QString::fromStdString(sim::precise(time));
}

QString gib_text(double gib) {
  return QString{"%1 GiB"}.arg(gib, 0, 'f', 2);
}

QString signed_time(sim::Duration change) {
  const QString size = time_text(sim::Duration{std::abs(change.count())});
  return (change < sim::Duration{} ? "−" : "+") + size;
}

// Whether a change is worth a line: a thousandth of the whole.
bool notable(double change, double whole) {
  return std::abs(change) >= 1e-3 * whole;
}

// "7, 8 ×14, 7".
QString chunks(const sim::Layout& layout) {
  const std::vector<int>& layers = layout.layers_per_chunk;
  QStringList list;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i])
      ++end;
    list << QString::number(layers[i]) + (end - i > 1 ? QString{" ×%1"}.arg(end - i) : QString{});
    i = end;
  }
  return list.isEmpty() ? QObject::tr("even") : list.join(", ");
}

QString item(const QString& text) {
  return "<tr><td>•&nbsp;</td><td>" + text + "</td></tr>";
}

std::vector<std::string> differing(const LayoutFacts& facts, const LayoutFacts& other) {
  std::vector<std::string> list = sim::differences(other.layout, facts.layout);
  if (other.layout.world_size() != facts.layout.world_size())
    list.insert(list.begin(), "gpus " + std::to_string(other.layout.world_size()) + " -> " +
                                  std::to_string(facts.layout.world_size()));
  if (other.gpus_per_node != facts.gpus_per_node)
    list.push_back("gpus_per_node " + std::to_string(other.gpus_per_node) + " -> " +
                   std::to_string(facts.gpus_per_node));
  return list;
}

// Changes of the parts of the step, the largest first.
QString part_changes(const sim::RankedLayout& now, const sim::RankedLayout& before) {
  std::vector<std::pair<sim::Duration, std::string_view>> changes;
  changes.reserve(sim::breakdown_fields.size());
  for (const sim::BreakdownField& field : sim::breakdown_fields)
    changes.emplace_back(now.breakdown.*field.member - before.breakdown.*field.member, field.title);
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first.count()) > std::abs(b.first.count());
  });
  QString text;
  for (const auto& [change, title] : changes)
    if (notable(sim::to_seconds(change), sim::to_seconds(before.evaluation.step_time)))
      text += item(to_qstring(title) + " " + signed_time(change));
  return text;
}

QString memory_changes(const LayoutFacts& facts, const LayoutFacts& other) {
  const double change = (facts.memory.total - other.memory.total).gib();
  if (std::abs(change) < 0.05) return {};
  QStringList parts;
  for (const auto& category : sim::words_of(sim::BufferCategory{})) {
    const auto index = static_cast<std::size_t>(category.value);
    const double part = (facts.memory.use.at_peak[index] - other.memory.use.at_peak[index]).gib();
    if (std::abs(part) >= 0.05)
      parts << QString{"%1 %2%3"}
                   .arg(spaced(category.text), part < 0 ? "−" : "+")
                   .arg(std::abs(part), 0, 'f', 1);
  }
  return item(QString{"memory %1%2 GiB (%3)"}
                  .arg(change < 0 ? "−" : "+")
                  .arg(std::abs(change), 0, 'f', 1)
                  .arg(parts.join(", ")));
}

}  // namespace

QString title_of(const LayoutFacts& facts) {
  const int node_gpus = facts.searched->search.specification().workload.cluster.node_gpus();
  return QString::fromStdString(sim::describe(facts, node_gpus));
}

QString figures_of(const LayoutFacts& facts) {
  if (!facts.ranked) return QObject::tr("not simulated: it does not fit");
  return QObject::tr("%1 per step, MFU %2 %\n%3 tokens/s/GPU")
      .arg(time_text(facts.evaluation.step_time))
      .arg(100 * facts.ranked->mfu, 0, 'f', 1)
      .arg(QString::fromStdString(sim::significant(facts.ranked->tokens_per_second_per_gpu)));
}

QString memory_of(const LayoutFacts& facts) {
  const QString said = !facts.evaluation.fits ? QObject::tr("does not fit")
                       : facts.searched->search.ranking().leaves_margin(facts.evaluation)
                           ? QObject::tr("fits, and leaves the memory margin")
                           : QObject::tr("fits, but within the memory margin");
  return QObject::tr("%1 of %2 GiB: %3")
      .arg(facts.evaluation.memory.gib(), 0, 'f', 1)
      .arg(facts.memory.capacity.gib(), 0, 'f', 1)
      .arg(said);
}

BarsShown parts_bars(const LayoutFacts& facts, const LayoutFacts* other, const QString& other_name,
                     const Theme& theme) {
  BarsShown shown;
  if (!facts.ranked) return shown;
  if (other && !other->ranked) other = nullptr;
  shown.first = QObject::tr("this");
  if (other) shown.second = other_name;
  for (std::size_t i = 0; i < sim::breakdown_fields.size(); ++i) {
    const sim::BreakdownField& field = sim::breakdown_fields[i];
    const sim::Duration time = facts.ranked->breakdown.*field.member;
    const sim::Duration before = other ? other->ranked->breakdown.*field.member : sim::Duration{};
    if (time == sim::Duration{} && before == sim::Duration{}) continue;
    shown.parts.push_back({to_qstring(field.title), theme.parts[i],
                           field.member == &sim::Breakdown::bubble, sim::to_seconds(time),
                           sim::to_seconds(before), time_text(time),
                           other ? time_text(before) : QString{},
                           part_definition(i) + " " + QObject::tr("Mean over all GPUs.")});
  }
  return shown;
}

BarsShown memory_bars(const LayoutFacts& facts, const LayoutFacts* other, const QString& other_name,
                      const Theme& theme) {
  BarsShown shown;
  shown.first = QObject::tr("this");
  if (other) shown.second = other_name;
  const auto add = [&](const QString& name, const QColor& colour, sim::Bytes now, sim::Bytes before,
                       const QString& help) {
    if (now == sim::Bytes{} && before == sim::Bytes{}) return;
    shown.parts.push_back({name, colour, false, now.gib(), before.gib(), gib_text(now.gib()),
                           other ? gib_text(before.gib()) : QString{}, help});
  };
  for (const auto& category : sim::words_of(sim::BufferCategory{})) {
    const auto index = static_cast<std::size_t>(category.value);
    add(spaced(category.text), theme.memory[index], facts.memory.use.at_peak[index],
        other ? other->memory.use.at_peak[index] : sim::Bytes{},
        QObject::tr("At the peak of the fullest GPU."));
  }
  const auto own = [](const LayoutFacts& one) { return one.memory.reserved; };
  add(QObject::tr("device's own"), theme.muted, own(facts), other ? own(*other) : sim::Bytes{},
      QObject::tr("Context, communication library, workspaces."));
  add(QObject::tr("fragments"), theme.dark ? "#d8dce1" : "#343a42", facts.memory.fragments,
      other ? other->memory.fragments : sim::Bytes{},
      QObject::tr("What the allocator holds besides the tensors."));
  const sim::SearchSpecification& specification = facts.searched->search.specification();
  const double margin =
      specification.memory_margin
          .most_of(facts.layout, specification.workload.model, facts.memory.capacity)
          .gib();
  const double capacity = facts.memory.capacity.gib();
  if (specification.memory_margin.is_on())
    shown.lines.push_back(
        {margin, QObject::tr("margin %1").arg(margin, 0, 'f', 1), theme.warn, Qt::DotLine});
  shown.lines.push_back(
      {capacity, QObject::tr("device %1 GiB").arg(capacity, 0, 'f', 1), theme.bad, Qt::DashLine});
  shown.scale = 1.02 * capacity;
  return shown;
}

QString comparison_of(const LayoutFacts& facts, const LayoutFacts& other,
                      const QString& other_name) {
  QString text;
  if (facts.ranked && other.ranked) {
    const sim::Duration gap = facts.evaluation.step_time - other.evaluation.step_time;
    const double share =
        100 * std::abs(sim::to_seconds(gap)) / sim::to_seconds(other.evaluation.step_time);
    text = gap == sim::Duration{}
               ? QObject::tr("<b>As fast as %1.</b>").arg(other_name)
               : QObject::tr("<b>%1 (%2 %) %3 than %4</b>")
                     .arg(time_text(sim::Duration{std::abs(gap.count())}))
                     .arg(share, 0, 'f', 2)
                     .arg(gap < sim::Duration{} ? QObject::tr("faster") : QObject::tr("slower"),
                          other_name);
  } else {
    text = QObject::tr("<b>Against %1</b>").arg(other_name);
  }
  text += "<table cellspacing=0 cellpadding=1>";
  const std::vector<std::string> list = differing(facts, other);
  QStringList changes;
  for (const std::string& one : list)
    changes << QString::fromStdString(one).replace("->", "→").replace('_', ' ').toHtmlEscaped();
  if (!changes.isEmpty()) text += item(changes.join(", "));
  if (facts.ranked && other.ranked) text += part_changes(*facts.ranked, *other.ranked);
  return text + memory_changes(facts, other) + "</table>";
}

QString fields_of(const LayoutFacts& facts, const LayoutFacts* other) {
  QString text = "<table cellspacing=0 cellpadding=1 width='100%'>";
  const auto add = [&](const QString& name, const QString& now, const QString& before) {
    const bool differs = other && now != before;
    text += QString{"<tr><td>%1</td><td align=right>%2</td></tr>"}.arg(
        name.toHtmlEscaped(),
        differs ? QString{"%2 → <b>%1</b>"}.arg(now.toHtmlEscaped(), before.toHtmlEscaped())
                : now.toHtmlEscaped());
  };
  const sim::Model& model = facts.searched->search.specification().workload.model;
  for (const SpaceRow& row : space_rows())
    if (row.applies(model))
      add(QObject::tr(row.title), QString::fromStdString(row.of(facts.layout, facts.gpus_per_node)),
          other ? QString::fromStdString(row.of(other->layout, other->gpus_per_node)) : QString{});
  add(QObject::tr("layers per chunk"), chunks(facts.layout),
      other ? chunks(other->layout) : QString{});
  add(QObject::tr("micro-batches"), QString::number(facts.layout.micro_batches()),
      other ? QString::number(other->layout.micro_batches()) : QString{});
  return text + "</table>";
}

}  // namespace ui
