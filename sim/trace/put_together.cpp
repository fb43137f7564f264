// The ranks of several files as one run.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/input_error.hpp"
#include "sim/trace/clocks.hpp"
#include "sim/trace/trace_file.hpp"

namespace sim {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw InputError{SourcePosition{file, 0, 0}, what};
}

// "rank-3.json", "trace_rank3.json.gz": the number behind the last "rank" of a file's name.
std::optional<int> rank_in_name(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t word = name.rfind("rank");
  if (word == std::string::npos) return std::nullopt;
  std::size_t at = word + 4;
  while (at < name.size() && (name[at] == '-' || name[at] == '_' || name[at] == '.'))
    ++at;
  int rank = 0;
  const auto read = std::from_chars(name.data() + at, name.data() + name.size(), rank);
  constexpr int most = 1 << 24;
  return read.ec == std::errc{} && rank >= 0 && rank <= most ? std::optional{rank} : std::nullopt;
}

bool is_numbered(const TraceFile& file) {
  return file.numbered;
}

// All times of a run fit into a Duration.
constexpr double furthest_base = static_cast<double>(longest_microseconds) / 8;

class RunMaker {
 public:
  RunMaker(std::vector<TraceFile> files, TraceNames& names)
      : files_{std::move(files)}, names_{names} {}

  TracedRun make() {
    run_.maker = files_.front().maker;
    run_.on_host = files_.front().on_host;
    if (run_.on_host) run_.notes.emplace_back("no GPU kernels: the operators of the CPU are shown");
    number_ranks();
    for (TraceFile& file : files_)
      check(file);
    set_clocks();
    for (TraceFile& file : files_)
      add(file);
    std::sort(run_.ranks.begin(), run_.ranks.end(),
              [](const RunRank& a, const RunRank& b) { return a.rank < b.rank; });
    check_ranks();
    check_clocks();
    for (const std::string& note : left_.notes())
      run_.notes.push_back(note);
    run_.names = names_.take();
    return std::move(run_);
  }

 private:
  // Those that say none are numbered by their names, or else in their order.
  void number_ranks() {
    std::size_t untold = 0, named = 0;
    std::set<int> numbers;
    for (const TraceFile& file : files_) {
      if (file.rank || file.numbered) continue;
      ++untold;
      const std::optional<int> rank = rank_in_name(file.name);
      if (file.ranks.size() == 1 && rank && numbers.insert(*rank).second) ++named;
    }
    const bool by_name = untold > 0 && named == untold && files_.size() > 1;
    std::uint32_t next = 0;
    for (TraceFile& file : files_)
      for (RunRank& rank : file.ranks) {
        const std::uint32_t place = next++;
        if (file.numbered) continue;
        const std::optional<int> told = by_name && !file.rank ? rank_in_name(file.name) : file.rank;
        rank.rank = {told ? static_cast<std::uint32_t>(*told) : place};
        rank.rank_told = file.rank.has_value();
      }
    if (untold > 0 && files_.size() > 1)
      run_.notes.push_back(
          fmt::format("{} of {} traces do not say their rank: they are numbered {}", untold,
                      files_.size(), by_name ? "by the names of the files" : "in their order"));
  }

  void check(const TraceFile& file) {
    const TraceFile& first = files_.front();
    if (file.maker != first.maker)
      refuse(file.name, fmt::format("is of {}, {} of {}: they are not of one run", file.maker,
                                    first.name, first.maker));
    if (run_.world_size > 0 && file.world_size > 0 && run_.world_size != file.world_size)
      refuse(file.name, fmt::format("is of a run of {} ranks, the traces before it of {}",
                                    file.world_size, run_.world_size));
    run_.world_size = std::max(run_.world_size, file.world_size);
    if (file.on_host != first.on_host)
      refuse(file.name, fmt::format("has {}kernels of a GPU, {} {}: they are not of one run",
                                    file.on_host ? "no " : "", first.name,
                                    file.on_host ? "has some" : "has none"));
    if (!run_.device.name.empty() && !file.device.name.empty() &&
        run_.device.name != file.device.name)
      refuse(file.name, fmt::format("is of a device '{}', the traces before it of '{}'",
                                    file.device.name, run_.device.name));
    if (run_.device.name.empty()) run_.device = file.device;
    check_world_group(file);
  }

  // The group of all ranks is one in all files.
  void check_world_group(const TraceFile& file) {
    for (const TracedGroup& group : file.groups) {
      const bool all =
          group.description == "default_pg" ||
          (file.world_size > 0 && group.ranks.size() == static_cast<std::size_t>(file.world_size));
      if (!all || group.ranks.empty()) continue;
      if (world_.empty()) world_ = group.ranks;
      if (world_ != group.ranks)
        refuse(file.name,
               fmt::format("its ranks are {}, those of the traces before it {}: they are "
                           "not of one run",
                           text_of(group.ranks), text_of(world_)));
    }
  }

  static std::string text_of(const std::vector<RankId>& ranks) {
    return fmt::format("{} to {} ({})", ranks.front().value, ranks.back().value, ranks.size());
  }

  // From one base where all files can say when they began.
  void set_clocks() {
    const TraceFile& first = files_.front();
    base_ = first.base;
    origin_ = first.origin.value_or(0);
    one_base_ = true;
    for (const TraceFile& file : files_)
      if (std::abs(base_of(file) - base_of(first)) >= furthest_base ||
          (file.base == 0) != (first.base == 0))
        one_base_ = false;
    run_.one_clock =
        files_.size() == 1 || (one_base_ && std::all_of(files_.begin(), files_.end(), is_numbered));
  }

  // Microseconds, to compare: a double holds those since 1970.
  static double base_of(const TraceFile& file) {
    return static_cast<double>(file.base) * 1e-3 + static_cast<double>(file.origin.value_or(0));
  }

  void add(TraceFile& file) {
    const std::vector<std::int32_t> groups = groups_of(file);
    for (RunRank& rank : file.ranks) {
      for (CollectiveCall& call : rank.calls)
        if (call.group != not_told) call.group = groups[static_cast<std::size_t>(call.group)];
      if (one_base_)
        shift(rank, Duration{(file.base - base_) * 1000 +
                             (file.origin.value_or(0) - origin_) * 1'000'000});
      run_.ranks.push_back(std::move(rank));
    }
    for (const std::string& version : file.versions)
      if (std::find(run_.versions.begin(), run_.versions.end(), version) == run_.versions.end())
        run_.versions.push_back(version);
    for (const std::string& note : file.notes)
      run_.notes.push_back(note);
    run_.device.hip = run_.device.hip || file.device.hip;
    left_.add(file.left);
    file = {};
  }

  // The number in the run of each group of a file.
  std::vector<std::int32_t> groups_of(const TraceFile& file) {
    std::vector<std::int32_t> numbers;
    for (std::size_t i = 0; i < file.groups.size(); ++i) {
      const TracedGroup& group = file.groups[i];
      const std::string shortened =
          group.ranks.empty() && i < file.shortened.size() ? file.shortened[i] : std::string{};
      const auto [entry, is_new] = known_groups_.try_emplace(
          {group.name, group.description, group.size, shortened, group.ranks},
          static_cast<std::int32_t>(run_.groups.size()));
      if (is_new) run_.groups.push_back(group);
      numbers.push_back(entry->second);
    }
    return numbers;
  }

  void check_ranks() const {
    for (std::size_t i = 0; i < run_.ranks.size(); ++i) {
      const RunRank& rank = run_.ranks[i];
      if (i > 0 && rank.rank == run_.ranks[i - 1].rank)
        refuse(rank.source, fmt::format("a second trace of rank {}", rank.rank.value));
      if (run_.world_size > 0 && rank.rank.value >= static_cast<std::uint32_t>(run_.world_size))
        refuse(rank.source, fmt::format("its rank is {}, of a run of {} ranks", rank.rank.value,
                                        run_.world_size));
    }
  }

  void compare_clocks() {
    if (!one_base_) {
      run_.notes.push_back(
          "the traces do not say when they began: each begins at its own first event");
      return;
    }
    const ClockAgreement agreement = clocks_agree(run_.ranks, run_.groups);
    run_.one_clock = agreement == ClockAgreement::agree;
    if (agreement == ClockAgreement::disagree)
      run_.notes.push_back(
          "ranks leave collectives before others enter them: their clocks differ, and each begins "
          "at its own first event");
    if (agreement == ClockAgreement::unknown)
      run_.notes.push_back(
          "no collective of two ranks shows whether their clocks agree: each begins at its own "
          "first event");
  }

  // Times count from the first event of all, or of each.
  void check_clocks() {
    if (!run_.one_clock) compare_clocks();
    TimePoint first = TimePoint::max();
    for (const RunRank& rank : run_.ranks)
      first = std::min(first, first_time(rank));
    for (RunRank& rank : run_.ranks)
      shift(rank, TimePoint{} - (run_.one_clock ? first : first_time(rank)));
  }

  std::vector<TraceFile> files_;
  TraceNames& names_;
  TracedRun run_;
  LeftOut left_;
  bool one_base_ = false;
  std::int64_t base_ = 0, origin_ = 0;  // of the first file
  std::vector<RankId> world_;
  std::map<std::tuple<std::string, std::string, int, std::string, std::vector<RankId>>,
           std::int32_t>
      known_groups_;
};

}  // namespace

void LeftOut::add(const LeftOut& other) {
  python += other.python;
  negative += other.negative;
  far += other.far;
  untimed += other.untimed;
  kernels += other.kernels;
  unlaunched += other.unlaunched;
  early += other.early;
  earliest = std::max(earliest, other.earliest);
  for (const auto& [category, count] : other.categories)
    categories[category] += count;
}

std::vector<std::string> LeftOut::notes() const {
  std::vector<std::string> notes;
  if (python > 0) notes.push_back(fmt::format("{} Python functions were left out", python));
  if (negative > 0)
    notes.push_back(
        fmt::format("{} spans of the host end before they begin: they were left out", negative));
  if (far > 0)
    notes.push_back(fmt::format(
        "{} spans of the host are more than 46 days from the others: they were left out", far));
  if (untimed > 0)
    notes.push_back(fmt::format("{} spans of the host have no time: they were left out", untimed));
  std::string others;
  std::uint64_t sum = 0;
  for (const auto& [category, count] : categories) {
    sum += count;
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", count, category);
  }
  if (sum > 0)
    notes.push_back(fmt::format("{} events of other kinds were left out: {}", sum, others));
  if (unlaunched > 0)
    notes.push_back(fmt::format("{} of {} kernels and copies have no call that launched them",
                                unlaunched, kernels));
  if (early > 0)
    notes.push_back(fmt::format(
        "{} kernels and copies begin before the call that launched them, by up to {:.3g} "
        "us: the clocks of device and host do not agree",
        early, to_seconds(earliest) * 1e6));
  return notes;
}

TracedRun put_together(std::vector<TraceFile> files, TraceNames& names) {
  return RunMaker{std::move(files), names}.make();
}

}  // namespace sim
