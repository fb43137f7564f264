// Lines of NCCL's Inspector. A communicator's dump begins with its header; the lines of calls that
// follow may have none of their own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/calibration/nccl_json.hpp"
#include "sim/calibration/nccl_table.hpp"
#include "sim/calibration/statistics.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

// Names of NCCL (src/enqueue.cc), and whether the size of a record is that of one rank's part:
// reduce-scatter and all-gather (Inspector's README, "coll_msg_size_bytes").
struct Named {
  std::string_view theirs, program, ours;
  bool part = false;
};
constexpr std::array<Named, 6> collectives{
    {{"AllReduce", "all_reduce_perf", "all_reduce"},
     {"ReduceScatter", "reduce_scatter_perf", "reduce_scatter", true},
     {"AllGather", "all_gather_perf", "all_gather", true},
     {"Broadcast", "broadcast_perf", "broadcast"},
     {"Reduce", "reduce_perf", "reduce"},
     {"AlltoAll", "alltoall_perf", "all_to_all"}}};

const Named* named(std::string_view theirs) {
  const auto* found = std::ranges::find(collectives, theirs, &Named::theirs);
  return found == collectives.end() ? nullptr : found;
}

struct Header {
  std::string id;
  int ranks = 0, nodes = 0;
};
struct Call {
  std::string name;
  std::int64_t number = -1, bytes = -1;
  double microseconds = 0, alg = 0, bus = 0;
  bool on_host = false;  // timed by the CPU
};

class Inspector {
 public:
  Inspector(std::string_view text, const std::string& name, const NcclTestsHints& hints)
      : text_{text}, name_{name}, hints_{hints} {}

  NcclTestsLog read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      const bool last = end == text_.size();
      const std::string_view line = text_.substr(begin, end - begin);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) read_line(line, last);
      begin = end + 1;
    }
    return finish();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError{{name_, line_, 1}, what};
  }

  void read_line(std::string_view line, bool last) {
    JsonScan scan{line, name_};
    Call call;
    try {
      scan.object([&](std::string_view key) {
        if (key == "header")
          header_ = read_header(scan);
        else if (key == "coll_perf")
          call = read_call(scan);
        else
          scan.skip();
      });
      scan.finish();
    } catch (const InputError& error) {
      const Problem& problem = error.problems().front();
      if (!last) throw InputError{{name_, line_, problem.where.column}, problem.what};
      log_.notes.push_back(
          fmt::format("{}:{}: the last line is left out: {}", name_, line_, problem.what));
      return;
    }
    if (!call.name.empty()) add(call);
  }

  static Header read_header(JsonScan& scan) {
    Header header;
    scan.object([&](std::string_view key) {
      if (key == "id")
        header.id = scan.text();
      else if (key == "n_ranks")
        header.ranks = static_cast<int>(scan.integer({.min = 1, .max = 1 << 24}));
      else if (key == "nnodes")
        header.nodes = static_cast<int>(scan.integer({.min = 1, .max = 1 << 24}));
      else
        scan.skip();
    });
    return header;
  }

  static Call read_call(JsonScan& scan) {
    Call call;
    scan.object([&](std::string_view key) {
      if (key == "coll")
        call.name = scan.text();
      else if (key == "coll_sn")
        call.number = scan.integer();
      else if (key == "coll_msg_size_bytes")
        call.bytes = scan.integer({.min = 0, .max = std::int64_t{1} << 46});
      else if (key == "coll_exec_time_us")
        call.microseconds = scan.real({.min = 0, .max = 1e12});
      else if (key == "coll_algobw_gbs")
        call.alg = scan.real({.min = 0, .max = 1e9});
      else if (key == "coll_busbw_gbs")
        call.bus = scan.real({.min = 0, .max = 1e9});
      else if (key == "coll_timing_source")
        call.on_host = scan.text() != "kernel_gpu";
      else
        scan.skip();
    });
    return call;
  }

  void add(const Call& call) {
    const Named* known = named(call.name);
    if (!known) return void(++strange_);
    if (call.on_host) return void(++on_host_);
    if (call.bytes <= 0 || call.microseconds <= 0) return void(++empty_);
    if (header_.ranks == 0) fail("a call of a collective before the header of its communicator");
    if (header_.ranks < 2) return void(++empty_);
    if (hints_.ranks && *hints_.ranks != header_.ranks) return;
    if (hints_.collective && *hints_.collective != known->ours) return;
    const double whole = static_cast<double>(call.bytes) * (known->part ? header_.ranks : 1);
    check_bandwidth(call, whole);
    Sample& sample = samples_[{known, header_.ranks, header_.nodes}][whole];
    sample.ratio = call.alg >= 0.01 && call.bus > 0 ? call.bus / call.alg : 0;
    auto [known_call, fresh] =
        sample.calls.try_emplace({header_.id, call.number}, call.microseconds);
    if (!fresh) known_call->second = std::min(known_call->second, call.microseconds);
  }

  // Six decimals of GB/s, and whole microseconds.
  void check_bandwidth(const Call& call, double whole) const {
    if (call.alg < 0.01) return;
    const double said = call.alg * 1e3 * call.microseconds;  // bytes
    if (std::abs(said / whole - 1) > 0.02 + 1 / call.microseconds)
      fail(
          fmt::format("coll_algobw_gbs is that of {:.0f} bytes, the size of the record stands for "
                      "{:.0f}: another version of the Inspector counts otherwise",
                      said, whole));
  }

  NcclTestsLog finish() {
    tell(strange_, "are of no collective that a forecast has");
    tell(on_host_, "were timed by the host (NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=0)");
    tell(empty_, "have no size, no time or one rank");
    for (const auto& [shape, sizes] : samples_)
      add_points(shape, sizes);
    if (log_.points.empty())
      throw InputError{{name_, 0, 0},
                       fmt::format("this is JSON of NCCL's Inspector without a collective that "
                                   "makes a curve{}{}",
                                   log_.notes.empty() ? "" : ": ", fmt::join(log_.notes, "; "))};
    log_.notes.push_back(
        fmt::format("{}: a kernel's time holds waiting for the slowest rank; each size counts the "
                    "median of its "
                    "calls",
                    name_));
    return std::move(log_);
  }
  void tell(int count, const char* what) {
    if (count > 0) log_.notes.push_back(fmt::format("{}: {} records {}", name_, count, what));
  }

  struct Sample {
    std::map<std::pair<std::string, std::int64_t>, double> calls;  // us of the fastest rank
    double ratio = 0;
  };
  using Shape = std::tuple<const Named*, int, int>;  // ranks, nodes

  void add_points(const Shape& shape, const std::map<double, Sample>& sizes) {
    const auto& [known, ranks, nodes] = shape;
    LogTable table{.line = 1};
    table.run.program = known->program;
    for (const auto& [bytes, sample] : sizes) {
      std::vector<double> times;
      for (const auto& [call, microseconds] : sample.calls)
        times.push_back(microseconds);
      table.rows.push_back({.line = 1,
                            .size = bytes,
                            .microseconds = median_of(times),
                            .bus_over_alg = sample.ratio});
    }
    NcclTestsHints told = hints_;
    told.ranks = ranks;
    told.collective.reset();
    if (!told.nodes && nodes > 0)
      told.nodes = hints_.trays && ranks <= nodes * hints_.trays->gpus
                       ? racks_of(nodes, *hints_.trays)
                       : nodes;
    for (MeasuredCollective& point : points_of(table, name_, told, log_.notes)) {
      point.source = "NCCL Inspector " + name_;
      log_.points.push_back(std::move(point));
    }
  }

  std::string_view text_;
  const std::string& name_;
  const NcclTestsHints& hints_;
  NcclTestsLog log_;
  Header header_;
  std::map<Shape, std::map<double, Sample>> samples_;
  int line_ = 0, strange_ = 0, on_host_ = 0, empty_ = 0;
};

}  // namespace

NcclTestsLog parse_nccl_inspector(std::string_view text, const std::string& name,
                                  const NcclTestsHints& hints) {
  return Inspector{text, name, hints}.read();
}

}  // namespace sim
