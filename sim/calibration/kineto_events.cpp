#include "sim/calibration/kineto_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

// The fields of one event, of all categories.
struct Event {
  std::string phase, category, name;
  double at = 0, microseconds = 0;
  std::int64_t process = -1, thread = -1;
  TraceOperator op;
  TraceKernel kernel;
  TraceSlice slice;
  std::int64_t external = -1;
};

class TraceScanner {
 public:
  TraceScanner(std::string_view text, const std::string& name) : scan_{text, name} {}

  TraceEvents read() {
    bool found = scan_.peek() == JsonScan::Kind::list;  // old traces are a bare list
    if (found)
      events();
    else
      scan_.object([&](std::string_view key) {
        if (key == "traceEvents") {
          found = true;
          events();
        } else if (key == "deviceProperties" && scan_.peek() == JsonScan::Kind::list) {
          scan_.list([&] { device(); });
        } else if (key == "distributedInfo" && scan_.peek() == JsonScan::Kind::object) {
          distributed();
        } else if ((key == "cuda_runtime_version" || key == "cuda_driver_version") &&
                   scan_.peek() == JsonScan::Kind::number) {
          version(key == "cuda_runtime_version" ? "CUDA" : "CUDA driver");
        } else {
          scan_.skip();
        }
      });
    scan_.finish();
    if (!found) scan_.fail("no \"traceEvents\": this is no trace of the PyTorch profiler");
    const auto earlier = [](const auto& a, const auto& b) { return a.at < b.at; };
    std::stable_sort(events_.kernels.begin(), events_.kernels.end(), earlier);
    std::stable_sort(events_.copies.begin(), events_.copies.end(), earlier);
    std::stable_sort(events_.slices.begin(), events_.slices.end(), earlier);
    for (auto& [thread, launches] : events_.launches)
      std::stable_sort(launches.begin(), launches.end(), earlier);
    return std::move(events_);
  }

 private:
  // 13000 is 13.0.
  void version(const char* what) {
    const std::int64_t number = scan_.integer({.min = 0, .max = 10'000'000});
    events_.versions.push_back(fmt::format("{} {}.{}", what, number / 1000, number % 1000 / 10));
  }

  void device() {
    if (scan_.peek() != JsonScan::Kind::object) return scan_.skip();
    const bool first = events_.device.empty();
    scan_.object([&](std::string_view key) {
      if (first && key == "name" && scan_.peek() == JsonScan::Kind::text)
        events_.device = scan_.text();
      else if (first && key == "numSms" && scan_.peek() == JsonScan::Kind::number)
        events_.sms = static_cast<int>(scan_.integer({.min = 1, .max = 4096}));
      else if (first && key == "warpSize" && scan_.peek() == JsonScan::Kind::number)
        events_.warp = static_cast<int>(scan_.integer({.min = 1, .max = 1024}));
      else if (first && key == "computeMajor" && scan_.peek() == JsonScan::Kind::number)
        events_.capability = static_cast<int>(scan_.integer({.min = 0, .max = 1000}));
      else
        scan_.skip();
    });
  }

  void distributed() {
    scan_.object([&](std::string_view key) {
      if (key != "rank" || scan_.peek() != JsonScan::Kind::number) return scan_.skip();
      events_.rank = static_cast<int>(scan_.integer({.min = 0, .max = 1 << 24}));
    });
  }

  void events() {
    scan_.list([&] { event(); });
  }

  void event() {
    if (scan_.peek() != JsonScan::Kind::object) return scan_.skip();
    Event e;
    scan_.object([&](std::string_view key) {
      if (key == "ph")
        text_into(e.phase);
      else if (key == "cat")
        text_into(e.category);
      else if (key == "name")
        text_into(e.name);
      else if (key == "ts")
        real_into(e.at);
      else if (key == "dur")
        real_into(e.microseconds);
      else if (key == "pid")
        integer_into(e.process);
      else if (key == "tid")
        integer_into(e.thread);
      else if (key == "args" && scan_.peek() == JsonScan::Kind::object)
        arguments(e);
      else
        scan_.skip();
    });
    keep(e);
  }

  void arguments(Event& e) {
    scan_.object([&](std::string_view key) {
      if (key == "External id")
        integer_into(e.external);
      else if (key == "stream")
        integer_into(e.kernel.stream);
      else if (key == "correlation")
        integer_into(e.kernel.correlation);
      else if (key == "Input Dims" && scan_.peek() == JsonScan::Kind::list)
        scan_.list([&] { dims(e.op); });
      else if (key == "Input type" && scan_.peek() == JsonScan::Kind::list)
        scan_.list([&] { text_into(e.op.types.emplace_back()); });
      else if (key == "Collective name")
        text_into(e.kernel.collective);
      else if (key == "In msg nelems")
        integer_into(e.kernel.in_elements);
      else if (key == "Out msg nelems")
        integer_into(e.kernel.out_elements);
      else if (key == "dtype")
        text_into(e.kernel.dtype);
      else if (key == "Process Group Name")
        text_into(e.kernel.group);
      else if (key == "Process Group Ranks")
        ranks(e.kernel);
      else if (key == "Group size")
        group_size(e.kernel);
      else if (!slice_argument(key, e.slice))
        scan_.skip();
    });
  }

  // Reads an argument that Stepcast's own traces give an operator. False: it is something else.
  bool slice_argument(std::string_view key, TraceSlice& slice) {
    const std::array<std::pair<std::string_view, std::int64_t*>, 6> numbers{
        {{"op", &slice.op},
         {"m", &slice.m},
         {"n", &slice.n},
         {"k", &slice.k},
         {"batch", &slice.batch},
         {"bytes", &slice.bytes}}};
    for (const auto& [name, into] : numbers)
      if (name == key) {
        integer_into(*into);
        return true;
      }
    if (key != "operation") return false;
    text_into(slice.operation);
    return true;
  }

  // Other programs write other types: what is not as expected stays as it was.
  void text_into(std::string& to) {
    if (scan_.peek() == JsonScan::Kind::text)
      to = scan_.text();
    else
      scan_.skip();
  }
  void real_into(double& to) {
    if (scan_.peek() == JsonScan::Kind::number)
      to = scan_.real({.min = -1e18, .max = 1e18});
    else
      scan_.skip();
  }
  void integer_into(std::int64_t& to) {
    double value = static_cast<double>(to);
    real_into(value);
    to = static_cast<std::int64_t>(value);
  }
  void group_size(TraceKernel& kernel) {
    std::int64_t size = 0;
    integer_into(size);
    kernel.group_size = static_cast<int>(std::clamp<std::int64_t>(size, 0, 1 << 24));
  }

  // A list of extents; lists of tensors, and what is no tensor, are nothing here.
  void dims(TraceOperator& op) {
    auto& extents = op.dims.emplace_back();
    if (scan_.peek() != JsonScan::Kind::list) return scan_.skip();
    scan_.list([&] {
      std::int64_t extent = -1;
      integer_into(extent);
      extents.push_back(extent);
    });
    if (std::any_of(extents.begin(), extents.end(), [](std::int64_t n) { return n < 0; }))
      extents.clear();
  }

  // "[0, 1, 2]": text, shortened with "..." where it is long.
  void ranks(TraceKernel& kernel) {
    std::string list;
    text_into(list);
    if (list.find("...") != std::string::npos) return;
    const char* at = list.data();
    const char* const end = at + list.size();
    while (at < end) {
      std::int64_t rank = 0;
      const auto [next, error] = std::from_chars(at, end, rank);
      if (error == std::errc{} && rank >= 0) kernel.ranks.push_back(rank);
      at = error == std::errc{} ? next : at + 1;
    }
  }

  void keep(Event& e) {
    if (e.phase != "X") return;
    if (e.category == "kernel" || e.category == "gpu_memcpy" || e.category == "gpu_memset") {
      keep_kernel(e);
    } else if (e.category == "cpu_op" && e.external >= 0 && !e.op.dims.empty()) {
      e.op.name = std::move(e.name);
      events_.operators.insert_or_assign(e.external, std::move(e.op));
    } else if (e.category == "cuda_runtime" || e.category == "cuda_driver") {
      const bool kernel = e.name.find("LaunchKernel") != std::string::npos;
      events_.calls_hip = events_.calls_hip || e.name.starts_with("hip");
      events_.launches[{e.process, e.thread}].push_back({e.at, kernel, e.kernel.correlation});
    } else if (e.category == "user_annotation") {
      keep_step(e);
    } else if (e.slice.op >= 0) {
      keep_slice(e);
    }
  }

  void check_times(const Event& e) const {
    constexpr double longest = 1e13;  // us: within the range of Duration
    if (e.microseconds < 0 || e.microseconds > longest)
      scan_.fail(
          fmt::format("'{}' takes {} us; expected 0 to {}", e.name, e.microseconds, longest));
  }

  void keep_slice(Event& e) {
    check_times(e);
    e.slice.process = e.process;
    e.slice.thread = e.thread;
    e.slice.name = std::move(e.name);
    e.slice.at = e.at;
    e.slice.microseconds = e.microseconds;
    events_.slices.push_back(std::move(e.slice));
  }

  void keep_kernel(Event& e) {
    check_times(e);
    e.kernel.name = std::move(e.name);
    e.kernel.at = e.at;
    e.kernel.microseconds = e.microseconds;
    e.kernel.external = e.external;
    if (e.kernel.stream < 0) e.kernel.stream = e.thread;
    (e.category == "kernel" ? events_.kernels : events_.copies).push_back(std::move(e.kernel));
  }

  void keep_step(const Event& e) {
    constexpr std::string_view head = "ProfilerStep#";
    if (!e.name.starts_with(head)) return;
    int number = 0;
    const char* const end = e.name.data() + e.name.size();
    const auto [stop, error] = std::from_chars(e.name.data() + head.size(), end, number);
    if (error == std::errc{} && stop == end)
      events_.steps.push_back({number, e.at, e.at + e.microseconds});
  }

  JsonScan scan_;
  TraceEvents events_;
};

}  // namespace

TraceEvents scan_kineto(std::string_view text, const std::string& name) {
  return TraceScanner{text, name}.read();
}

std::string collective_name(std::string_view torch) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> names{
      {{"allreduce", "all_reduce"},
       {"all_reduce", "all_reduce"},
       {"allreduce_coalesced", "all_reduce"},
       {"_allgather_base", "all_gather"},
       {"all_gather", "all_gather"},
       {"allgather", "all_gather"},
       {"_reduce_scatter_base", "reduce_scatter"},
       {"reduce_scatter", "reduce_scatter"},
       {"broadcast", "broadcast"},
       {"_broadcast_oop", "broadcast"},
       {"reduce", "reduce"},
       {"all_to_all", "all_to_all"},
       {"all_to_allv", "all_to_all"},
       {"alltoall_base", "all_to_all"},
       {"send", "send_receive"},
       {"recv", "send_receive"}}};
  for (const auto& [name, ours] : names)
    if (name == torch) return std::string{ours};
  return {};
}

}  // namespace sim
