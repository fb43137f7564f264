// A report of hangs as lines.
#include <fmt/format.h>

#include "sim/trace/flight_recorder.hpp"

namespace sim {
namespace {

// "rank 3", "ranks 0 to 7, 9": runs of ranks together.
std::string text_of_ranks(const std::vector<RankId>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1].value == ranks[last].value + 1)
      ++last;
    if (i > 0) text += ", ";
    text += fmt::format("{}", ranks[i].value);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? ", " : " to ", ranks[last].value);
    i = last + 1;
  }
  return text;
}

std::string text_of_call(const RecordedCall& call) {
  return call.operation.empty()
             ? std::string{"a call that is no longer recorded"}
             : fmt::format("{} of {} {}", call.operation, call.types, call.sizes);
}

std::string text_of_group(const HangGroup& group) {
  return fmt::format("group {}{}", group.name,
                     group.description.empty() ? "" : fmt::format(" ({})", group.description));
}

std::string text_of_finding(const HangFinding& finding, const HangGroup& group) {
  const std::string call = fmt::format("{}, call {}", text_of_group(group), finding.sequence);
  switch (finding.what) {
    case HangFinding::What::missing:
      return fmt::format("{}: {} wait in {}; {} have not entered it (last: {})", call,
                         text_of_ranks(finding.others), text_of_call(finding.call),
                         text_of_ranks(finding.ranks), text_of_call(finding.differs));
    case HangFinding::What::stuck:
      return fmt::format("{}: {} have entered {}, and it is not over", call,
                         text_of_ranks(finding.ranks), text_of_call(finding.call));
    case HangFinding::What::message:
      return fmt::format("{}, message {}: {} waits in {}", text_of_group(group), finding.sequence,
                         text_of_ranks(finding.ranks), text_of_call(finding.call));
    default:
      return fmt::format("{}: {} entered {}, {} entered {}", call, text_of_ranks(finding.others),
                         text_of_call(finding.call), text_of_ranks(finding.ranks),
                         text_of_call(finding.differs));
  }
}

}  // namespace

std::string text_of(const HangReport& report) {
  std::string text;
  for (const HangFinding& finding : report.findings)
    text += text_of_finding(finding, report.groups[finding.group]) + "\n";
  if (report.findings.empty()) text += "all collectives that were recorded are over\n";
  for (const HangGroup& group : report.groups)
    if (!group.without_dump.empty())
      text += fmt::format("{}: no dump of {}\n", text_of_group(group),
                          text_of_ranks(group.without_dump));
  for (const std::string& note : report.notes)
    text += note + "\n";
  return text;
}

}  // namespace sim
