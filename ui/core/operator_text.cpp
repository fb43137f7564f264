#include "ui/core/operator_text.hpp"

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

using Facts = std::vector<std::pair<QString, QString>>;

struct Looked {
  const sim::RankTrack& track;
  const sim::Program& program;
  const sim::Span& span;
  sim::OpId op;
};

Looked look(const Result& result, const OperatorAt& at) {
  const sim::RankTrack& track = result.forecast.timeline.tracks[at.track];
  return {track, result.forecast.plan->program(track.rank), track.spans[at.op], sim::OpId{at.op}};
}

QString rate(double per_second) {
  return QString::fromStdString(sim::to_text(sim::FlopRate::per_second(per_second)));
}

QString bandwidth(double bytes_per_second) {
  return QString::fromStdString(sim::to_text(sim::Bandwidth::bytes_per_second(bytes_per_second)));
}

void add_kernel(Facts& facts, const sim::Kernel& kernel, double seconds) {
  if (kernel.kind == sim::OpKind::gemm)
    facts.emplace_back("shape (m, n, k)",
                       QString{"%1 × %2 × %3%4"}.arg(kernel.m).arg(kernel.n).arg(kernel.k).arg(
                           kernel.batch > 1 ? QString{", %1 times"}.arg(kernel.batch) : QString{}));
  if (kernel.kind == sim::OpKind::attention)
    facts.emplace_back("shape", QString{"%1 × %2 queries × %3 keys, %4 heads of %5"}
                                    .arg(kernel.batch)
                                    .arg(kernel.m)
                                    .arg(kernel.n)
                                    .arg(kernel.heads)
                                    .arg(kernel.k));
  facts.emplace_back("format", spaced(sim::word(kernel.dtype)));
  if (kernel.flops.count() > 0) {
    facts.emplace_back(
        "work", QString::fromStdString(sim::significant(kernel.flops.count() / 1e9)) + " GFLOP");
    if (seconds > 0) facts.emplace_back("rate", rate(kernel.flops.count() / seconds));
  }
  if (kernel.bytes.count() > 0) {
    facts.emplace_back("memory traffic", QString::fromStdString(sim::to_text(kernel.bytes)));
    if (seconds > 0)
      facts.emplace_back("memory rate",
                         bandwidth(static_cast<double>(kernel.bytes.count()) / seconds));
  }
}

void add_communication(Facts& facts, const Result& result, const Looked& at, double seconds) {
  const std::uint32_t work = at.program.work[at.op.value];
  if (at.program.kind[at.op.value] == sim::OpKind::collective) {
    const sim::Collective& call = at.program.collectives[work];
    facts.emplace_back("collective", spaced(sim::word(call.kind)));
    const std::uint32_t group =
        result.forecast.plan->group_of[at.track.rank.value][static_cast<std::size_t>(call.group)];
    const std::size_t ranks =
        group == sim::Plan::no_group ? 1 : result.forecast.plan->groups[group].ranks.size();
    facts.emplace_back("group",
                       QString{"%1, %2 ranks"}.arg(spaced(sim::word(call.group))).arg(ranks));
    facts.emplace_back("buffer", QString::fromStdString(sim::to_text(call.bytes)));
    if (seconds > 0)
      facts.emplace_back("algorithm bandwidth",
                         bandwidth(static_cast<double>(call.bytes.count()) / seconds));
    return;
  }
  const sim::Transfer& message = at.program.transfers[work];
  facts.emplace_back("partner",
                     message.peer == sim::Peer::next_stage ? "next stage" : "previous stage");
  facts.emplace_back("message", QString::fromStdString(sim::to_text(message.bytes)));
  if (seconds > 0)
    facts.emplace_back("rate", bandwidth(static_cast<double>(message.bytes.count()) / seconds));
}

}  // namespace

QString operator_name(const sim::Program& program, sim::OpId op) {
  return QString::fromStdString(program.name(op)) + ' ' + spaced(sim::word(program.pass[op.value]));
}

QString operator_place(const sim::Program& program, sim::OpId op) {
  const sim::OpLabel& label = program.label[op.value];
  QString place;
  if (label.layer >= 0) place += QString{", layer %1"}.arg(label.layer);
  if (label.microbatch >= 0) place += QString{", micro-batch %1"}.arg(label.microbatch);
  return place;
}

QString operator_line(const Result& result, const OperatorAt& at) {
  const Looked found = look(result, at);
  QString line = operator_name(found.program, found.op) + operator_place(found.program, found.op);
  line += ": " + QString::fromStdString(sim::precise(found.span.end - found.span.active));
  if (found.span.active > found.span.begin)
    line += QString{" after %1 of waiting"}.arg(
        QString::fromStdString(sim::precise(found.span.active - found.span.begin)));
  return line;
}

Facts operator_facts(const Result& result, const OperatorAt& at) {
  const Looked found = look(result, at);
  const sim::OpLabel& label = found.program.label[at.op];
  Facts facts;
  facts.emplace_back("operator", operator_name(found.program, found.op));
  facts.emplace_back("where",
                     QString{"stage %1, rank %2 (×%3)"}
                         .arg(found.program.stage)
                         .arg(found.track.rank.value)
                         .arg(QString::fromStdString(sim::grouped(found.track.represents))));
  if (label.layer >= 0) facts.emplace_back("layer", QString::number(label.layer));
  if (label.chunk >= 0) facts.emplace_back("model chunk", QString::number(label.chunk));
  if (label.microbatch >= 0) facts.emplace_back("micro-batch", QString::number(label.microbatch));
  facts.emplace_back("stream", spaced(sim::word(found.program.stream[at.op])));
  facts.emplace_back("begin",
                     QString::fromStdString(sim::precise(found.span.active.time_since_epoch())));
  facts.emplace_back("duration",
                     QString::fromStdString(sim::precise(found.span.end - found.span.active)));
  if (found.span.active > found.span.begin)
    facts.emplace_back("waited for partners",
                       QString::fromStdString(sim::precise(found.span.active - found.span.begin)));
  const double seconds = sim::to_seconds(found.span.end - found.span.active);
  if (sim::runs_kernel(found.program.kind[at.op]))
    add_kernel(facts, found.program.kernels[found.program.work[at.op]], seconds);
  else if (found.program.kind[at.op] != sim::OpKind::host_copy)
    add_communication(facts, result, found, seconds);
  return facts;
}

std::optional<CauseOf> cause_of(const Result& result, const OperatorAt& at) {
  const Looked found = look(result, at);
  std::optional<std::uint32_t> latest;
  const char* reason = "dependency";
  const auto consider = [&](std::uint32_t op, const char* why) {
    if (latest && found.track.spans[op].end <= found.track.spans[*latest].end) return;
    latest = op;
    reason = why;
  };
  for (std::uint32_t op = at.op; op-- > 0;)
    if (found.program.stream[op] == found.program.stream[at.op]) {
      consider(op, "same stream");
      break;
    }
  for (const sim::OpId op : found.program.dependencies(found.op))
    consider(op.value, "dependency");
  if (!latest) return std::nullopt;
  const OperatorAt cause{at.track, *latest};
  return CauseOf{QString{"%1 (%2)"}.arg(operator_line(result, cause), reason), cause};
}

}  // namespace ui
