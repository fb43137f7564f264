#include "sim/trace/flight_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/trace/recorder_dump.hpp"

namespace sim {
namespace {

// The sizes of these are the same on all ranks.
bool has_same_sizes(const std::string& operation) {
  for (const char* word : {"all_reduce", "allreduce", "reduce_scatter", "all_gather", "allgather",
                           "broadcast", "barrier"})
    if (operation.find(word) != std::string::npos) return true;
  return false;
}

// A group with what its members have recorded.
struct GroupCalls {
  HangGroup group;
  // By rank, and by sequence.
  std::map<RankId, std::map<std::int64_t, const DumpedCall*>> calls;
  std::map<RankId, const DumpedGroup*> told;
};

class HangFinder {
 public:
  explicit HangFinder(const std::vector<Dump>& dumps) : dumps_{dumps} {}

  HangReport find() {
    number_ranks();
    for (const Dump& dump : dumps_)
      sort_calls(dump);
    for (auto& [key, group] : groups_) {
      fill(group);
      report_.groups.push_back(group.group);
      look_at(group, report_.groups.size() - 1);
    }
    std::stable_sort(
        report_.findings.begin(), report_.findings.end(),
        [](const HangFinding& a, const HangFinding& b) { return is_mismatch(a) > is_mismatch(b); });
    return std::move(report_);
  }

 private:
  static bool is_mismatch(const HangFinding& finding) {
    return finding.what == HangFinding::What::operation ||
           finding.what == HangFinding::What::sizes || finding.what == HangFinding::What::types;
  }

  static RankId rank_of(const Dump& dump) { return {static_cast<std::uint32_t>(*dump.rank)}; }

  void number_ranks() {
    std::set<RankId> known;
    for (const Dump& dump : dumps_) {
      if (!dump.rank)
        throw InputError{SourcePosition{dump.name, 0, 0},
                         "neither the dump nor the name of its file tells the rank: name it "
                         "\"..._rank_N.json\""};
      if (!known.insert(rank_of(dump)).second)
        throw InputError{SourcePosition{dump.name, 0, 0},
                         fmt::format("a second dump of rank {}", *dump.rank)};
    }
    report_.ranks.assign(known.begin(), known.end());
  }

  void sort_calls(const Dump& dump) {
    const RankId rank = rank_of(dump);
    std::map<std::string, const DumpedGroup*> by_name;
    for (const auto& [id, group] : dump.groups) {
      by_name[group.name] = &group;
      GroupCalls& made = group_of(group.name, group.description, group.ranks);
      made.calls[rank];
      made.told[rank] = &group;
    }
    bool waits = false;
    for (const DumpedCall& call : dump.calls) {
      const auto told = by_name.find(call.group);
      GroupCalls& made =
          group_of(call.group, call.description,
                   told == by_name.end() ? std::vector<RankId>{} : told->second->ranks);
      if (!call.message) {
        made.calls[rank].insert_or_assign(call.call.sequence, &call);
      } else if (!waits && call.call.state != RecordedCall::State::completed) {
        waits = true;
        messages_.push_back({rank, &call, &made});
      }
    }
  }

  GroupCalls& group_of(const std::string& name, const std::string& description,
                       const std::vector<RankId>& ranks) {
    GroupCalls& made = groups_[{name, ranks}];
    made.group.name = name;
    if (made.group.description.empty()) made.group.description = description;
    made.group.ranks = ranks;
    return made;
  }

  static void fill(GroupCalls& made) {
    HangGroup& group = made.group;
    for (const auto& [rank, calls] : made.calls) {
      HangGroup::Member member{.rank = rank};
      if (const auto told = made.told.find(rank); told != made.told.end()) {
        member.entered = std::max<std::int64_t>(0, told->second->enqueued);
        member.completed = std::max<std::int64_t>(0, told->second->completed);
      }
      for (const auto& [sequence, call] : calls) {
        member.entered = std::max(member.entered, sequence);
        if (call->call.state == RecordedCall::State::completed)
          member.completed = std::max(member.completed, sequence);
      }
      if (!calls.empty()) member.last = calls.rbegin()->second->call;
      group.members.push_back(std::move(member));
    }
    if (group.ranks.empty())
      for (const HangGroup::Member& member : group.members)
        group.ranks.push_back(member.rank);
    for (const RankId rank : group.ranks)
      if (made.calls.count(rank) == 0) group.without_dump.push_back(rank);
  }

  void look_at(const GroupCalls& made, std::size_t index) {
    if (!find_mismatch(made, index) && !find_missing(made, index)) find_stuck(made, index);
    for (const auto& [rank, call, group] : messages_)
      if (group == &made)
        report_.findings.push_back({.what = HangFinding::What::message,
                                    .group = index,
                                    .sequence = call->call.sequence,
                                    .ranks = {rank},
                                    .call = call->call});
  }

  // One call, on each rank that recorded it.
  using OneCall = std::vector<std::pair<RankId, const DumpedCall*>>;

  bool find_mismatch(const GroupCalls& made, std::size_t index) {
    std::map<std::int64_t, OneCall> by_sequence;
    for (const auto& [rank, calls] : made.calls)
      for (const auto& [sequence, call] : calls)
        by_sequence[sequence].emplace_back(rank, call);
    for (const auto& [sequence, call] : by_sequence) {
      if (call.size() < 2) continue;
      if (differ(call, index, HangFinding::What::operation,
                 [](const DumpedCall& x) { return x.call.operation; }) ||
          differ(call, index, HangFinding::What::types,
                 [](const DumpedCall& x) { return x.call.types; }))
        return true;
      if (has_same_sizes(call.front().second->call.operation) &&
          differ(call, index, HangFinding::What::sizes,
                 [](const DumpedCall& x) { return x.elements; }))
        return true;
    }
    return false;
  }

  // Those that differ from most; of as many, from the lowest rank's.
  template <class Property>
  bool differ(const OneCall& calls, std::size_t index, HangFinding::What what, Property property) {
    std::map<decltype(property(*calls[0].second)), std::size_t> counts;
    for (const auto& [rank, call] : calls)
      ++counts[property(*call)];
    if (counts.size() < 2) return false;
    const DumpedCall* most = calls.front().second;
    for (const auto& [rank, call] : calls)
      if (counts[property(*call)] > counts[property(*most)]) most = call;
    HangFinding found{.what = what, .group = index, .sequence = most->call.sequence};
    found.call = most->call;
    for (const auto& [rank, call] : calls) {
      const bool same = property(*call) == property(*most);
      if (!same && found.ranks.empty()) found.differs = call->call;
      (same ? found.others : found.ranks).push_back(rank);
    }
    report_.findings.push_back(std::move(found));
    return true;
  }

  // Whether ranks have entered different numbers of calls.
  bool find_missing(const GroupCalls& made, std::size_t index) {
    const std::vector<HangGroup::Member>& members = made.group.members;
    if (members.empty()) return false;
    const auto earlier = [](const auto& a, const auto& b) { return a.entered < b.entered; };
    const auto least = std::min_element(members.begin(), members.end(), earlier);
    const auto most = std::max_element(members.begin(), members.end(), earlier);
    if (least->entered == most->entered) return false;
    HangFinding found{
        .what = HangFinding::What::missing, .group = index, .sequence = least->entered + 1};
    found.differs = least->last;
    bool over = true;  // for those that have entered it: their dumps are only later
    for (const HangGroup::Member& member : members) {
      const bool entered = member.entered >= found.sequence;
      (entered ? found.others : found.ranks).push_back(member.rank);
      if (entered && member.completed < found.sequence) over = false;
    }
    if (over) {
      report_.notes.push_back(fmt::format(
          "group {}: dumps of some ranks are earlier than those of others", made.group.name));
      return true;
    }
    const auto& calls = made.calls.at(found.others.front());
    if (const auto call = calls.find(found.sequence); call != calls.end())
      found.call = call->second->call;
    report_.findings.push_back(std::move(found));
    return true;
  }

  void find_stuck(const GroupCalls& made, std::size_t index) {
    const std::vector<HangGroup::Member>& members = made.group.members;
    std::int64_t completed = std::numeric_limits<std::int64_t>::max(), entered = 0;
    for (const HangGroup::Member& member : members) {
      completed = std::min(completed, member.completed);
      entered = std::max(entered, member.entered);
    }
    if (members.empty() || completed >= entered) return;
    HangFinding found{.what = HangFinding::What::stuck, .group = index, .sequence = completed + 1};
    for (const HangGroup::Member& member : members) {
      (member.completed < found.sequence ? found.ranks : found.others).push_back(member.rank);
      const auto& calls = made.calls.at(member.rank);
      if (const auto call = calls.find(found.sequence); call != calls.end())
        found.call = call->second->call;
    }
    report_.findings.push_back(std::move(found));
  }

  struct Waiting {
    RankId rank;
    const DumpedCall* call;
    const GroupCalls* group;
  };
  const std::vector<Dump>& dumps_;
  HangReport report_;
  std::map<std::pair<std::string, std::vector<RankId>>, GroupCalls> groups_;
  std::vector<Waiting> messages_;
};

}  // namespace

bool is_recorder_dump(std::string_view head) {
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  // A rank that hangs before its first collective has no entries.
  const bool is_json = has("\"pg_config\"")
                           ? has("\"entries\"") || has("\"profiling_name\"")
                           : has("\"profiling_name\"") && has("\"collective_seq_id\"");
  return is_pickle(head) || (is_json && !has("\"traceEvents\""));
}

HangReport find_hangs(const std::vector<std::string>& paths) {
  std::vector<Dump> dumps;
  for (const std::string& path : paths)
    dumps.push_back(read_dump(*open_file(path)));
  return HangFinder{dumps}.find();
}

HangReport parse_hangs(const std::vector<RecorderDump>& texts) {
  std::vector<Dump> dumps;
  for (const RecorderDump& text : texts)
    dumps.push_back(read_dump(*open_text(text.text, text.name)));
  return HangFinder{dumps}.find();
}

}  // namespace sim
