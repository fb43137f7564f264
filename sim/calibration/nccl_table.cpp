#include "sim/calibration/nccl_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"

namespace sim {
namespace {

// Programs of nccl-tests and rccl-tests, and the collective that a curve names.
struct Test {
  std::string_view program;
  std::string_view collective;
};
constexpr std::array<Test, 13> tests{{{"all_reduce_perf", "all_reduce"},
                                      {"reduce_scatter_perf", "reduce_scatter"},
                                      {"all_gather_perf", "all_gather"},
                                      {"broadcast_perf", "broadcast"},
                                      {"reduce_perf", "reduce"},
                                      {"alltoall_perf", "all_to_all"},
                                      {"sendrecv_perf", "send_receive"},
                                      {"all_to_all_perf", "all_to_all"},
                                      {"gather_perf", ""},
                                      {"scatter_perf", ""},
                                      {"alltoallv_perf", ""},
                                      {"hypercube_perf", ""},
                                      {"bisection_perf", ""}}};

class TablePoints {
 public:
  TablePoints(const LogTable& table, const std::string& name, const NcclTestsHints& hints,
              std::vector<std::string>& notes)
      : table_{table}, name_{name}, hints_{hints}, notes_{notes} {}

  std::vector<MeasuredCollective> run() {
    if (!table_.run.program.empty() && collective_of(table_.run.program)->empty()) {
      note(fmt::format("the table of {} is left out: no forecast has this collective",
                       table_.run.program));
      return {};
    }
    name_collective();
    count_groups();
    count_ranks();
    count_nodes();
    if (ranks_ < 2) fail(fmt::format("{} rank: a collective needs two", ranks_));
    if (nodes_ > ranks_) fail(fmt::format("{} ranks on {} nodes", ranks_, nodes_));
    check_bandwidths();
    return points();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(SourcePosition{.file = name_, .line = table_.line, .column = 1}, what);
  }
  void note(const std::string& text) const {
    notes_.push_back(fmt::format("{}:{}: {}", name_, table_.line, text));
  }

  template <class Value>
  Value settled(const char* what, const char* option, std::optional<Value> hint, bool known,
                Value found) const {
    if (hint && known && *hint != found)
      fail(fmt::format("the log says {} {}, {} says {}", what, found, option, *hint));
    if (!hint && !known)
      fail(fmt::format("the log does not tell the {}; say so with {}", what, option));
    return hint ? *hint : found;
  }

  void name_collective() {
    const bool named = !table_.run.program.empty();
    std::string found = named ? std::string{*collective_of(table_.run.program)} : "";
    if (!named && !hints_.collective) found = collective_from_ratio();
    collective_ = settled<std::string>("collective", "--collective", hints_.collective,
                                       !found.empty(), found);
  }

  double largest_ratio() const {
    double ratio = 0;
    for (const LogRow& row : table_.rows)
      ratio = std::max(ratio, row.bus_over_alg);
    return ratio;
  }

  // Among sums, only an all-reduce has busbw above algbw (2(n-1)/n), and only a reduce-scatter
  // below it ((n-1)/n). Gathers and all-to-alls look alike.
  std::string collective_from_ratio() const {
    const double ratio = largest_ratio();
    const bool sums = std::all_of(table_.rows.begin(), table_.rows.end(),
                                  [](const LogRow& row) { return row.reduction == "sum"; });
    if (!sums || ratio == 0 || std::abs(ratio - 1) <= 0.02) return {};
    std::string found = ratio > 1 ? "all_reduce" : "reduce_scatter";
    note(fmt::format(
        "the log does not name the collective: sums with a busbw of {:.3f} algbw are {}", ratio,
        found));
    return found;
  }

  // NCCL_TESTS_SPLIT: groups of ranks that run at once.
  void count_groups() {
    std::map<int, std::set<int>> members;
    for (const auto& [rank, entry] : table_.run.ranks)
      members[entry.group].insert(rank);
    groups_ = static_cast<int>(members.size());
    if (groups_ < 2) return;
    group_ranks_ = members.begin()->second.size();
    for (const auto& [group, ranks] : members)
      if (ranks.size() != group_ranks_)
        fail(fmt::format(
            "group {} has {} ranks, group {} has {} (NCCL_TESTS_SPLIT): no curve of one "
            "group size",
            members.begin()->first, group_ranks_, group, ranks.size()));
    note(fmt::format(
        "{} groups of {} ranks ran at once (NCCL_TESTS_SPLIT): the curve is of one group "
        "beside the others",
        groups_, group_ranks_));
  }

  void count_ranks() {
    int known = groups_ > 1 ? static_cast<int>(group_ranks_)
                            : (table_.run.ranks.empty() ? 0 : table_.run.ranks.rbegin()->first + 1);
    if (known == 0) known = ranks_from_ratio();
    ranks_ = settled<int>("number of ranks", "--ranks", hints_.ranks, known > 0, known);
  }

  // The largest ratio of bus to algorithm bandwidth: busbw = algbw 2(n-1)/n, or (n-1)/n
  // (nccl-tests doc/PERFORMANCE.md). With two decimals of three digits n is certain up to some
  // dozens only.
  int ranks_from_ratio() const {
    const double ratio = largest_ratio();
    const bool all_reduce = collective_ == "all_reduce";
    if (ratio == 0 || (!all_reduce && !sliced())) return 0;
    const double n = all_reduce ? 2 / (2 - ratio) : 1 / (1 - ratio);
    return n > 1 && n < 40 ? static_cast<int>(std::lround(n)) : 0;
  }
  bool sliced() const {
    return collective_ == "reduce_scatter" || collective_ == "all_gather" ||
           collective_ == "all_to_all";
  }

  // Ranks per host of the first group; every group must have as many hosts.
  std::map<std::string, int> hosts_of(int group) const {
    std::map<std::string, int> hosts;
    for (const auto& [rank, entry] : table_.run.ranks)
      if (entry.group == group) ++hosts[entry.host];
    return hosts;
  }

  void count_nodes() {
    check_host_names();
    std::map<std::string, int> hosts;
    std::set<int> seen;
    for (const auto& [rank, entry] : table_.run.ranks) {
      if (!seen.insert(entry.group).second) continue;
      const auto of_group = hosts_of(entry.group);
      if (seen.size() > 1 && of_group.size() != hosts.size())
        fail(
            fmt::format("groups of ranks (NCCL_TESTS_SPLIT) on {} and on {} hosts: no curve of one "
                        "shape",
                        hosts.size(), of_group.size()));
      if (seen.size() == 1) hosts = of_group;
    }
    const int count = static_cast<int>(hosts.size());
    int widest = count > 0 ? divide_up(ranks_, count) : 0;  // a list may be shortened
    for (const auto& [host, ranks] : hosts)
      widest = std::max(widest, ranks);
    if (hints_.trays && count > 0 && widest <= hints_.trays->gpus) return count_racks(count);
    nodes_ = settled<int>("number of nodes", "--nodes", hints_.nodes, count > 0, count);
  }

  // Two machines that call themselves the same ("localhost") would count as one.
  void check_host_names() const {
    if (hints_.nodes) return;
    std::map<std::pair<std::string, std::string>, int> places;
    for (const auto& [rank, entry] : table_.run.ranks) {
      const auto [place, fresh] = places.try_emplace({entry.host, entry.device}, rank);
      if (!fresh)
        fail(
            fmt::format("ranks {} and {} are both on {} device {}: machines of one name, or ranks "
                        "that share a GPU; say the number of nodes with --nodes",
                        place->second, rank, entry.host, entry.device));
    }
  }

  // The fewest racks that hold the trays, as many in each.
  void count_racks(int hosts) {
    nodes_ = hints_.nodes.value_or(racks_of(hosts, *hints_.trays));
    if (nodes_ > hosts) fail(fmt::format("the log says {} hosts, --nodes says {}", hosts, nodes_));
    if (nodes_ * hints_.trays->trays < hosts)
      fail(fmt::format("{} hosts are trays; {} nodes of {} trays do not hold them", hosts, nodes_,
                       hints_.trays->trays));
    if (nodes_ == hosts) return;
    note(fmt::format(
        "{} hosts are trays of the cluster's nodes: {} node{} of {} ranks (--nodes says "
        "otherwise)",
        hosts, nodes_, nodes_ == 1 ? "" : "s", ranks_ / nodes_));
  }

  // A name or a number of ranks that is not this table's shows in busbw / algbw.
  void check_bandwidths() const {
    const double n = ranks_;
    const double factor =
        collective_ == "all_reduce" ? 2 * (n - 1) / n : (sliced() ? (n - 1) / n : 1);
    for (const LogRow& row : table_.rows) {
      if (row.bus_over_alg == 0 || std::abs(row.bus_over_alg / factor - 1) <= 0.02) continue;
      // Until 2020 the algbw of gathers and scatters held the factor already.
      if (table_.columns.error_column && sliced() && std::abs(row.bus_over_alg - 1) <= 0.02)
        continue;
      throw InputError(
          SourcePosition{.file = name_, .line = row.line, .column = 1},
          fmt::format("busbw is {:.3f} of algbw; for {} of {} ranks it is {:.3f}: this table is of "
                      "another collective or number of ranks; say so with --collective, --ranks",
                      row.bus_over_alg, collective_, ranks_, factor));
    }
  }

  std::string algorithm() const {
    std::string word = table_.run.algorithm;
    std::transform(word.begin(), word.end(), word.begin(), [](char c) {
      return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    if (word.empty()) return {};
    if (word == "ring" || word == "tree") {
      note(fmt::format(
          "NCCL_ALGO was {}: a curve of algorithm {}, used where a scenario asks for it",
          table_.run.algorithm, word));
      return word;
    }
    note(fmt::format("NCCL_ALGO was {}: the curve counts as the library's own choice",
                     table_.run.algorithm));
    return {};
  }

  // The reduction of a table: of several, `sum` counts, or else the first one.
  std::string reduction() const {
    std::set<std::string> names;
    for (const LogRow& row : table_.rows)
      names.insert(row.reduction);
    if (names.size() < 2) return names.empty() ? "" : *names.begin();
    std::string kept = names.contains("sum") ? "sum" : table_.rows.front().reduction;
    names.erase(kept);
    note(fmt::format("rows of {} are left out: the curve is of {}", fmt::join(names, ", "), kept));
    return kept;
  }

  std::vector<MeasuredCollective> points() const {
    const std::string kept = reduction();
    const std::string algorithm = this->algorithm();
    std::vector<MeasuredCollective> points;
    std::map<double, int> sizes;
    std::set<std::string> types;
    int empty = 0;
    for (const LogRow& row : table_.rows) {
      if (row.reduction != kept) continue;
      if (row.size == 0 || row.microseconds == 0) {
        ++empty;  // size 0 measures the launch alone
        continue;
      }
      ++sizes[row.size];
      types.insert(row.type);
      points.push_back({.collective = collective_,
                        .ranks = ranks_,
                        .nodes = nodes_,
                        .bytes = Bytes{static_cast<std::int64_t>(row.size)},
                        .time = duration_from_seconds(row.microseconds * 1e-6),
                        .algorithm = algorithm,
                        .samples = 1,
                        .source = "nccl-tests log " + name_});
    }
    if (empty > 0) notes_.push_back(fmt::format("{}: {} rows without bytes or time", name_, empty));
    tell_repeats(sizes, types);
    return points;
  }

  void tell_repeats(const std::map<double, int>& sizes, const std::set<std::string>& types) const {
    const auto repeated =
        std::count_if(sizes.begin(), sizes.end(), [](const auto& size) { return size.second > 1; });
    if (repeated > 0)
      note(fmt::format("{} occur{} several times{}: the median counts",
                       repeated == 1 ? "a size" : fmt::format("{} sizes", repeated),
                       repeated == 1 ? "s" : "",
                       types.size() > 1 ? fmt::format(" ({})", fmt::join(types, ", ")) : ""));
    if (table_.run.grouped_iterations > 1)
      note(fmt::format("{} collectives were issued as one (agg iters): one alone takes longer",
                       table_.run.grouped_iterations));
    if (collective_ == "send_receive" && ranks_ > 2)
      note(fmt::format("send_receive of {} ranks at once: forecasts use the curve of 2", ranks_));
  }

  const LogTable& table_;
  const std::string& name_;
  const NcclTestsHints& hints_;
  std::vector<std::string>& notes_;
  std::string collective_;
  int groups_ = 0;
  std::size_t group_ranks_ = 0;
  int ranks_ = 0;
  int nodes_ = 0;
};

}  // namespace

const std::string_view* collective_of(std::string_view program) {
  for (const Test& test : tests)
    if (test.program == program) return &test.collective;
  return nullptr;
}

std::string_view program_in(std::string_view line) {
  std::string_view found;
  std::size_t last = 0;
  for (const Test& test : tests)
    if (const std::size_t at = line.rfind(test.program);
        at != std::string_view::npos && at >= last &&
        (at == 0 ||
         !(std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_'))) {
      found = test.program;
      last = at;
    }
  return found;
}

int racks_of(int hosts, const TrayShape& shape) {
  int racks = divide_up(hosts, shape.trays);
  while (hosts % racks != 0)
    ++racks;
  return racks;
}

std::vector<MeasuredCollective> points_of(const LogTable& table, const std::string& name,
                                          const NcclTestsHints& hints,
                                          std::vector<std::string>& notes) {
  return TablePoints{table, name, hints, notes}.run();
}

}  // namespace sim
