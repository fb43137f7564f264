// Traces in the format of chrome://tracing: the head of the file, and its events.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "sim/trace/event_keeper.hpp"

namespace sim {
namespace {

class JsonTraceReader {
 public:
  JsonTraceReader(StreamedJson& scan, TraceNames& names, TraceFile& file)
      : scan_{scan}, file_{file}, keeper_{scan, names, file} {}

  void read() {
    bool found = scan_.peek() == StreamedJson::Kind::list;  // old traces are a bare list
    if (found)
      events();
    else
      scan_.object([&](std::string_view key) {
        if (key == "traceEvents" && scan_.peek() == StreamedJson::Kind::list) {
          found = true;
          events();
        } else {
          head(key);
        }
      });
    scan_.finish();
    if (!found) scan_.fail("no \"traceEvents\": this is no trace of the PyTorch profiler");
    tell_groups();
    keeper_.finish();
  }

 private:
  void events() {
    scan_.list([&] {
      if (read_event(scan_, event_)) keeper_.keep(event_);
    });
  }

  void head(std::string_view key) {
    const StreamedJson::Kind kind = scan_.peek();
    if (key == "deviceProperties" && kind == StreamedJson::Kind::list)
      scan_.list([&] { device(); });
    else if (key == "distributedInfo" && kind == StreamedJson::Kind::object)
      distributed();
    else if (key == "otherData" && kind == StreamedJson::Kind::object)
      scan_.object([&](std::string_view entry) {
        if (entry == "engine")
          text_if(scan_, file_.engine);
        else
          scan_.skip();
      });
    else if (key == "baseTimeNanoseconds" && kind == StreamedJson::Kind::number)
      file_.base = scan_.integer({.min = 0});
    else if ((key == "cuda_runtime_version" || key == "cuda_driver_version") &&
             kind == StreamedJson::Kind::number)
      version(key == "cuda_runtime_version" ? "CUDA" : "CUDA driver");
    else
      scan_.skip();
  }

  // 13000 is 13.0.
  void version(const char* what) {
    const std::int64_t number = scan_.integer({.min = 0, .max = 10'000'000});
    file_.versions.push_back(fmt::format("{} {}.{}", what, number / 1000, number % 1000 / 10));
  }

  bool number(int& to, std::int64_t least, std::int64_t most) {
    if (scan_.peek() != StreamedJson::Kind::number) return false;
    to = static_cast<int>(scan_.integer({.min = least, .max = most}));
    return true;
  }

  void device() {
    if (scan_.peek() != StreamedJson::Kind::object) return scan_.skip();
    TracedDevice& device = file_.device;
    const bool first = device.name.empty();
    scan_.object([&](std::string_view key) {
      bool taken = false;
      if (first && key == "name" && scan_.peek() == StreamedJson::Kind::text) {
        scan_.text_into(device.name);
        taken = true;
      } else if (first && key == "totalGlobalMem" && scan_.peek() == StreamedJson::Kind::number) {
        device.memory = Bytes{scan_.integer()};
        taken = true;
      } else if (first) {
        taken = (key == "numSms" && number(device.multiprocessors, 1, 4096)) ||
                (key == "warpSize" && number(device.warp, 1, 1024)) ||
                (key == "computeMajor" && number(device.capability, 0, 1000));
      }
      if (!taken) scan_.skip();
    });
  }

  void distributed() {
    scan_.object([&](std::string_view key) {
      int rank = 0;
      if (key == "rank" && number(rank, 0, most_ranks))
        file_.rank = rank;
      else if (key == "pg_config" && scan_.peek() == StreamedJson::Kind::list)
        scan_.list([&] { group(); });
      else if (key == "nccl_version" && scan_.peek() == StreamedJson::Kind::text)
        nccl();
      else if (key != "world_size" || !number(file_.world_size, 0, most_ranks))
        scan_.skip();
    });
  }

  void nccl() {
    std::string version;
    scan_.text_into(version);
    file_.versions.push_back("NCCL " + version);
  }

  void group() {
    if (scan_.peek() != StreamedJson::Kind::object) return scan_.skip();
    TracedGroup group;
    std::string ranks;
    scan_.object([&](std::string_view key) {
      if (key == "pg_name")
        text_if(scan_, group.name);
      else if (key == "pg_desc")
        text_if(scan_, group.description);
      else if (key == "ranks" && scan_.peek() == StreamedJson::Kind::list)
        scan_.list([&] { rank_of(group); });
      else if (key == "ranks")
        text_if(scan_, ranks);
      else if (key != "pg_size" || !number(group.size, 0, most_ranks))
        scan_.skip();
    });
    for (const std::int64_t rank : ranks_in(ranks))
      if (rank <= most_ranks) group.ranks.push_back({static_cast<std::uint32_t>(rank)});
    std::sort(group.ranks.begin(), group.ranks.end());
    told_.push_back(std::move(group));
  }
  void rank_of(TracedGroup& group) {
    std::int64_t rank = -1;
    integer_if(scan_, rank);
    if (rank >= 0 && rank <= most_ranks) group.ranks.push_back({static_cast<std::uint32_t>(rank)});
  }

  // The head's groups complete those of the kernels; others are added.
  void tell_groups() {
    for (const TracedGroup& told : told_) {
      bool known = false;
      for (TracedGroup& group : file_.groups) {
        if (group.name != told.name) continue;
        if (!group.ranks.empty() && !told.ranks.empty() && group.ranks != told.ranks) continue;
        known = true;
        if (group.ranks.empty()) group.ranks = told.ranks;
        if (group.description.empty()) group.description = told.description;
        if (group.size == 0) group.size = told.size;
      }
      if (!known) file_.groups.push_back(told);
    }
    for (TracedGroup& group : file_.groups) {
      // A message names a group of one beside the ranks of the communicator.
      if (!group.ranks.empty()) group.size = static_cast<int>(group.ranks.size());
      if (group.ranks.empty() && group.size > 0 && group.size == file_.world_size)
        for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(group.size); ++rank)
          group.ranks.push_back({rank});
    }
    file_.shortened.resize(file_.groups.size());
  }

  static constexpr std::int64_t most_ranks = 1 << 24;
  StreamedJson& scan_;
  TraceFile& file_;
  EventKeeper keeper_;
  TraceEvent event_;
  std::vector<TracedGroup> told_;
};

}  // namespace

TraceFile read_json_trace(StreamedJson& scan, const std::string& name, TraceNames& names) {
  TraceFile file;
  file.name = name;
  JsonTraceReader{scan, names, file}.read();
  return file;
}

}  // namespace sim
