// Reports of Nsight Systems, as `nsys export --type sqlite` writes them. The tables are those of
// "SQLite Schema Reference" in the documentation of Nsight Systems.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/trace/nvtx_steps.hpp"
#include "sim/trace/pending_rank.hpp"
#include "sim/trace/sqlite_reader.hpp"

namespace sim {
namespace {

constexpr const char* kernel_table = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* copy_table = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* set_table = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* runtime_table = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* graph_table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr const char* string_table = "StringIds";
constexpr const char* nvtx_table = "NVTX_EVENTS";
constexpr const char* gpu_table = "TARGET_INFO_GPU";
constexpr const char* start_table = "TARGET_INFO_SESSION_START_TIME";
constexpr const char* device_table = "TARGET_INFO_CUDA_DEVICE";

// Types of NVTX_EVENTS that have an end.
constexpr std::int64_t push_pop_range = 59, start_end_range = 60;

constexpr std::int64_t furthest_nanoseconds = longest_microseconds * 1000;

// The process in a serialised id: 8 bits of hardware, 8 of the virtual machine, 24 of the process,
// 24 of the thread.
std::int64_t process_of(std::int64_t global) {
  return global < 0 ? -1 : global >> 24;
}

std::string_view copy_name(std::int64_t kind) {
  constexpr std::array<std::string_view, 11> names{
      "Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
      "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  const auto place = static_cast<std::size_t>(std::max<std::int64_t>(0, kind));
  return place < names.size() ? names[place] : names[0];
}

class NsysReader {
 public:
  NsysReader(SqliteReader& database, TraceNames& names) : database_{database}, names_{names} {
    names_.number("");
    file_.name = database.name();
    file_.maker = "Nsight Systems";
  }

  TraceFile read() {
    check_tables();
    read_device(kernel_table, DeviceActivity::What::kernel);
    read_device(copy_table, DeviceActivity::What::copy);
    read_device(set_table, DeviceActivity::What::set);
    if (ranks_.empty())
      throw InputError{SourcePosition{file_.name, 0, 0},
                       "a report of Nsight Systems without kernels: record it with --trace=cuda"};
    read_runtime();
    read_ranges();
    read_gpu();
    finish();
    return std::move(file_);
  }

 private:
  struct Rank {
    PendingRank pending;
    RunRank made;
    std::vector<NvtxRange> ranges;
    std::map<std::int64_t, std::uint32_t> threads;
  };

  void check_tables() {
    const bool any = database_.has(kernel_table) || database_.has(copy_table) ||
                     database_.has(runtime_table) || database_.has(nvtx_table);
    if (!any)
      throw InputError{
          SourcePosition{file_.name, 0, 0},
          fmt::format("a database of SQLite that is no export of Nsight Systems: it has no table "
                      "{}, its tables are {}",
                      kernel_table, some_tables())};
    std::string absent;
    for (const char* table : {kernel_table, runtime_table, string_table, nvtx_table, gpu_table})
      if (!database_.has(table)) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", table);
    if (!absent.empty())
      file_.notes.push_back(fmt::format("{}: it has no table {}", file_.name, absent));
    if (database_.has(graph_table)) {
      std::uint64_t graphs = 0;
      database_.rows(graph_table, {"NULL"}, [&](const SqliteReader::Row&) { ++graphs; });
      if (graphs > 0)
        file_.notes.push_back(
            fmt::format("{}: {} graphs were traced as a whole and left out: record with "
                        "--cuda-graph-trace=node",
                        file_.name, graphs));
    }
  }

  std::string some_tables() const {
    std::string list;
    std::size_t count = 0;
    for (const std::string& table : database_.tables()) {
      if (count++ == 5) return list + ", ...";
      list += fmt::format("{}'{}'", list.empty() ? "" : ", ", table.substr(0, 40));
    }
    return list.empty() ? "none" : list;
  }

  // Those of `wanted` that a table has; NULL in place of the others.
  std::vector<std::string> columns_of(const std::string& table, std::vector<std::string> wanted) {
    const std::set<std::string> there = database_.columns(table);
    std::string absent;
    for (std::string& column : wanted) {
      if (there.count(column) > 0) continue;
      absent += fmt::format("{}{}", absent.empty() ? "" : ", ", column);
      column = "NULL";
    }
    if (!absent.empty())
      file_.notes.push_back(fmt::format("{}: {} has no column {}", file_.name, table, absent));
    return wanted;
  }

  std::uint32_t name_of(std::int64_t id) {
    if (names_of_.empty() && database_.has(string_table)) {
      const auto columns = columns_of(string_table, {"id", "value"});
      database_.rows(string_table, columns, [&](const SqliteReader::Row& row) {
        texts_.insert_or_assign(row.integer(0), std::string{row.text(1)});
      });
      names_of_.try_emplace(-1, names_.number(""));
    }
    const auto known = names_of_.find(id);
    if (known != names_of_.end()) return known->second;
    const auto text = texts_.find(id);
    const std::uint32_t number =
        names_.number(text == texts_.end() ? fmt::format("name {}", id) : text->second);
    names_of_.emplace(id, number);
    return number;
  }

  // From the first time that is read; empty: too far from it, or ended before it began.
  std::optional<std::pair<TimePoint, TimePoint>> times(std::int64_t begin, std::int64_t end) {
    if (begin < 0 || end < begin) {
      ++file_.left.negative;
      return std::nullopt;
    }
    if (!first_) first_ = begin;
    const std::int64_t from = begin - *first_, to = end - *first_;
    if (from <= -furthest_nanoseconds || to >= furthest_nanoseconds) {
      ++file_.left.far;
      return std::nullopt;
    }
    return std::pair{TimePoint{Duration{from * 1000}}, TimePoint{Duration{to * 1000}}};
  }

  void read_device(const char* table, DeviceActivity::What what) {
    if (!database_.has(table)) return;
    std::vector<std::string> wanted{"start",    "end",           "deviceId",
                                    "streamId", "correlationId", "globalPid"};
    if (what == DeviceActivity::What::kernel)
      wanted.insert(wanted.end(), {"demangledName", "shortName"});
    if (what == DeviceActivity::What::copy) wanted.emplace_back("copyKind");
    database_.rows(table, columns_of(table, wanted), [&](const SqliteReader::Row& row) {
      const auto between = times(row.integer(0), row.integer(1));
      if (!between) return;
      PendingDevice next;
      next.activity.begin = between->first;
      next.activity.end = between->second;
      next.activity.what = what;
      next.activity.stream = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(row.integer(3), 0, std::numeric_limits<std::uint32_t>::max()));
      next.correlation = row.integer(4);
      if (what == DeviceActivity::What::kernel)
        next.activity.name = name_of(row.integer(6) >= 0 ? row.integer(6) : row.integer(7));
      else
        next.activity.name = names_.number(
            what == DeviceActivity::What::copy ? copy_name(row.integer(6)) : "Memset (Device)");
      ranks_[{row.integer(2), process_of(row.integer(5))}].pending.device.push_back(next);
    });
  }

  // The ranks of a process: one, or one for each of its devices. Of no process: all.
  template <class Take>
  void each_rank_of(std::int64_t process, Take take) {
    for (auto& [key, rank] : ranks_)
      if (key.second == process || process < 0 || key.second < 0) take(rank);
  }

  static std::uint32_t thread_of(Rank& rank, std::int64_t global) {
    return rank.threads.try_emplace(global, static_cast<std::uint32_t>(rank.threads.size()))
        .first->second;
  }

  void read_runtime() {
    if (!database_.has(runtime_table)) return;
    const auto columns =
        columns_of(runtime_table, {"start", "end", "globalTid", "correlationId", "nameId"});
    database_.rows(runtime_table, columns, [&](const SqliteReader::Row& row) {
      const auto between = times(row.integer(0), row.integer(1));
      if (!between) return;
      const std::uint32_t name = name_of(row.integer(4));
      each_rank_of(process_of(row.integer(2)), [&](Rank& rank) {
        rank.pending.host.push_back({{.name = name,
                                      .thread = thread_of(rank, row.integer(2)),
                                      .begin = between->first,
                                      .end = between->second,
                                      .what = HostSpan::What::runtime},
                                     row.integer(3)});
      });
    });
  }

  void read_ranges() {
    if (!database_.has(nvtx_table)) return;
    const auto columns =
        columns_of(nvtx_table, {"start", "end", "globalTid", "text", "textId", "eventType"});
    database_.rows(nvtx_table, columns, [&](const SqliteReader::Row& row) {
      const std::int64_t type = row.integer(5, push_pop_range);
      if (type != push_pop_range && type != start_end_range) return;
      if (row.integer(1) < 0) return void(++file_.left.untimed);
      const auto between = times(row.integer(0), row.integer(1));
      if (!between) return;
      const std::string text{row.is_text(3) ? row.text(3) : std::string_view{}};
      const std::uint32_t name = row.is_text(3) ? names_.number(text) : name_of(row.integer(4));
      each_rank_of(process_of(row.integer(2)), [&](Rank& rank) {
        add_range(rank,
                  {text.empty() ? text_of(row.integer(4)) : text, thread_of(rank, row.integer(2)),
                   between->first, between->second},
                  name);
      });
    });
  }

  std::string text_of(std::int64_t id) const {
    const auto text = texts_.find(id);
    return text == texts_.end() ? std::string{} : text->second;
  }

  // emit_nvtx() of PyTorch marks operators, too.
  static void add_range(Rank& rank, NvtxRange range, std::uint32_t name) {
    const bool op = range.name.starts_with("aten::");
    rank.pending.host.push_back({{.name = name,
                                  .thread = range.thread,
                                  .begin = range.begin,
                                  .end = range.end,
                                  .what = op ? HostSpan::What::op : HostSpan::What::mark},
                                 -1});
    if (!op) rank.ranges.push_back(std::move(range));
  }

  void read_gpu() {
    if (!database_.has(gpu_table)) return;
    const std::set<std::string> there = database_.columns(gpu_table);
    const auto column = [&](const char* name) {
      return there.count(name) > 0 ? std::string{name} : std::string{"NULL"};
    };
    const std::int64_t wanted = gpu_of_first_rank();
    bool found = false;
    database_.rows(
        gpu_table,
        {column("id"), column("name"), column("totalMemory"), column("smCount"),
         column(there.count("computeMajor") > 0 ? "computeMajor" : "smMajor"),
         column("threadsPerWarp")},
        [&](const SqliteReader::Row& row) {
          if (found || (wanted >= 0 && row.integer(0) != wanted)) return;
          found = true;
          const auto number = [&](int place, std::int64_t most) {
            return static_cast<int>(std::clamp<std::int64_t>(row.integer(place, 0), 0, most));
          };
          file_.device = {.name = std::string{row.text(1)},
                          .memory = Bytes{std::max<std::int64_t>(0, row.integer(2, 0))},
                          .multiprocessors = number(3, 4096),
                          .warp = number(5, 1024),
                          .capability = number(4, 1000)};
        });
  }

  // Number of the GPU that the first rank's device is; -1: not told.
  std::int64_t gpu_of_first_rank() {
    if (!database_.has(device_table)) return -1;
    const auto& [device, process] = ranks_.begin()->first;
    const std::int64_t pid = process & 0xFFFFFF;
    std::int64_t gpu = -1;
    const auto columns = columns_of(device_table, {"gpuId", "cudaId", "pid"});
    database_.rows(device_table, columns, [&](const SqliteReader::Row& row) {
      const bool same = row.integer(1) == device && (row.integer(2) == pid || process < 0);
      if (same && gpu < 0) gpu = row.integer(0);
    });
    return gpu;
  }

  void finish() {
    for (auto& [key, rank] : ranks_) {
      link_rank(rank.pending, rank.made, names_, file_.left);
      rank.made.steps = steps_of_ranges(std::move(rank.ranges));
      rank.made.source = file_.name;
      rank.made.rank_told = false;
      file_.ranks.push_back(std::move(rank.made));
      rank = {};
    }
    read_start();
    if (file_.ranks.size() > 1)
      file_.notes.push_back(fmt::format(
          "{}: its {} processes and devices are taken as ranks, in the order of their devices",
          file_.name, file_.ranks.size()));
  }

  // When the session began; times count from there.
  void read_start() {
    if (!database_.has(start_table) || database_.columns(start_table).count("utcEpochNs") == 0)
      return;
    database_.rows(start_table, {"utcEpochNs"}, [&](const SqliteReader::Row& row) {
      constexpr std::int64_t latest = std::int64_t{1} << 62;
      const std::int64_t start = row.integer(0, 0);
      if (start > 0 && start < latest) file_.base = start + std::min(first_.value_or(0), latest);
    });
  }

  SqliteReader& database_;
  TraceNames& names_;
  TraceFile file_;
  std::map<std::pair<std::int64_t, std::int64_t>, Rank> ranks_;  // by device and process
  std::map<std::int64_t, std::string> texts_;
  std::map<std::int64_t, std::uint32_t> names_of_;
  std::optional<std::int64_t> first_;
};

}  // namespace

TraceFile read_nsys(SqliteReader& database, TraceNames& names) {
  return NsysReader{database, names}.read();
}

}  // namespace sim
