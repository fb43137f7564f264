#include "sim/trace/trace_event.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sim/config/characters.hpp"
#include "sim/trace/collective_words.hpp"

namespace sim {
namespace {

constexpr double largest_number = 1e18;
constexpr std::int64_t largest_integer = 1'000'000'000'000'000'000;
constexpr std::int64_t picoseconds_of_microsecond = 1'000'000;

// The time of a number with an exponent.
std::optional<TraceTime> rounded_time(std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  static_cast<void>(end);
  if (error != std::errc{} || !(std::abs(value) <= largest_number)) return std::nullopt;
  const double whole = std::floor(value);
  TraceTime time{static_cast<std::int64_t>(whole),
                 static_cast<std::int32_t>(std::lround((value - whole) * 1e6))};
  if (time.picoseconds == picoseconds_of_microsecond) time = {time.microseconds + 1, 0};
  return time;
}

// Up to six digits behind the point, the seventh rounds.
std::int64_t fraction_of(std::string_view digits) {
  std::int64_t value = 0;
  for (std::size_t i = 0; i < 6; ++i)
    value = value * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  return value + (digits.size() > 6 && digits[6] >= '5' ? 1 : 0);
}

bool is_garbage(std::string_view name) {
  for (const std::string_view word :
       {"gc.collect", "Python GC", "PythonGC", "gc_collect", "<built-in method collect of module"})
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

struct CategoryKind {
  std::string_view category;
  EventKind kind;
};
constexpr std::array categories{CategoryKind{"cpu_op", EventKind::op},
                                CategoryKind{"kernel", EventKind::kernel},
                                CategoryKind{"cuda_runtime", EventKind::runtime},
                                CategoryKind{"cuda_driver", EventKind::runtime},
                                CategoryKind{"hip_runtime", EventKind::runtime},
                                CategoryKind{"hip_driver", EventKind::runtime},
                                CategoryKind{"gpu_memcpy", EventKind::copy},
                                CategoryKind{"gpu_memset", EventKind::set},
                                CategoryKind{"user_annotation", EventKind::mark},
                                CategoryKind{"python_function", EventKind::python},
                                CategoryKind{"python_gc", EventKind::garbage},
                                CategoryKind{"ac2g", EventKind::flow}};

EventKind kind_of(const TraceEvent& event) {
  for (const CategoryKind& known : categories)
    if (known.category == event.category)
      return known.kind == EventKind::python && is_garbage(event.name) ? EventKind::garbage
                                                                       : known.kind;
  return event.slice.op >= 0 ? EventKind::slice : EventKind::other;
}

class EventReader {
 public:
  EventReader(StreamedJson& scan, TraceEvent& event) : scan_{scan}, event_{event} {}

  void read() {
    scan_.object([&](std::string_view key) { field(key); });
    event_.kind = kind_of(event_);
  }

 private:
  void field(std::string_view key) {
    if (key == "ph")
      text_if(scan_, event_.phase);
    else if (key == "cat")
      text_if(scan_, event_.category);
    else if (key == "name")
      text_if(scan_, event_.name);
    else if (key == "ts")
      begin();
    else if (key == "dur")
      duration();
    else if (key == "pid")
      integer_if(scan_, event_.process);
    else if (key == "tid")
      integer_if(scan_, event_.thread);
    else if (key == "id")
      integer_if(scan_, event_.flow);
    else if (key == "args" && scan_.peek() == StreamedJson::Kind::object && wants_arguments())
      scan_.object([&](std::string_view argument) { this->argument(argument); });
    else
      scan_.skip();
  }

  // Python functions and counters are most of some traces.
  bool wants_arguments() const {
    return (event_.phase.empty() || event_.phase == "X") && event_.category != "python_function";
  }

  void begin() {
    if (scan_.peek() != StreamedJson::Kind::number) return scan_.skip();
    event_.at = trace_time(scan_.number());
    if (!event_.at) scan_.fail(fmt::format("a time of more than {} us", largest_number));
  }
  void duration() {
    if (scan_.peek() != StreamedJson::Kind::number)
      scan_.fail("dur is no number; expected microseconds");
    const std::string_view number = scan_.number();
    const std::optional<TraceTime> time = trace_time(number);
    if (!time) scan_.fail(fmt::format("a time of more than {} us", largest_number));
    event_.duration = *time;
    event_.microseconds =
        static_cast<double>(time->microseconds) + static_cast<double>(time->picoseconds) * 1e-6;
  }

  void argument(std::string_view key) {
    if (key == "External id")
      integer_if(scan_, event_.external);
    else if (key == "correlation")
      integer_if(scan_, event_.correlation);
    else if (key == "stream")
      integer_if(scan_, event_.stream);
    else if (key == "device")
      integer_if(scan_, event_.device);
    else if (key.starts_with("Input "))
      shapes(key);
    else if (!collective_argument(key) && !slice_argument(key))
      scan_.skip();
  }

  void shapes(std::string_view key) {
    const bool wanted = (event_.name.empty() || has_known_work(event_.name) ||
                         !operation_of_backend(event_.name).empty()) &&
                        scan_.peek() == StreamedJson::Kind::list;
    if (wanted && key == "Input Dims")
      scan_.list([&] { dims(); });
    else if (wanted && key == "Input type")
      scan_.list([&] { text_if(scan_, event_.op.types.emplace_back()); });
    else
      scan_.skip();
  }

  // A list of extents; lists of tensors, and what is no tensor, are nothing here.
  void dims() {
    auto& extents = event_.op.dims.emplace_back();
    if (scan_.peek() != StreamedJson::Kind::list) return scan_.skip();
    scan_.list([&] {
      std::int64_t extent = -1;
      integer_if(scan_, extent);
      extents.push_back(extent);
    });
    if (std::any_of(extents.begin(), extents.end(), [](std::int64_t n) { return n < 0; }))
      extents.clear();
  }

  bool collective_argument(std::string_view key) {
    EventCollective& call = event_.collective;
    if (key == "Collective name")
      text_if(scan_, call.operation);
    else if (key == "In msg nelems")
      integer_if(scan_, call.in_elements);
    else if (key == "Out msg nelems")
      integer_if(scan_, call.out_elements);
    else if (key == "dtype")
      text_if(scan_, call.dtype);
    else if (key == "Process Group Name")
      text_if(scan_, call.group);
    else if (key == "Process Group Description")
      text_if(scan_, call.description);
    else if (key == "Process Group Ranks")
      text_if(scan_, call.ranks);
    else if (key == "Group size")
      group_size(call);
    else
      return false;
    return true;
  }

  void group_size(EventCollective& call) {
    std::int64_t size = 0;
    integer_if(scan_, size);
    call.group_size = static_cast<int>(std::clamp<std::int64_t>(size, 0, 1 << 24));
  }

  // Arguments that Stepcast's own traces give an operator.
  bool slice_argument(std::string_view key) {
    EventSlice& slice = event_.slice;
    const std::array<std::pair<std::string_view, std::int64_t*>, 6> numbers{
        {{"op", &slice.op},
         {"m", &slice.m},
         {"n", &slice.n},
         {"k", &slice.k},
         {"batch", &slice.batch},
         {"bytes", &slice.bytes}}};
    for (const auto& [name, into] : numbers)
      if (name == key) {
        integer_if(scan_, *into);
        return true;
      }
    if (key != "operation" && key != "group") return false;
    text_if(scan_, key == "group" ? slice.group : slice.operation);
    return true;
  }

  StreamedJson& scan_;
  TraceEvent& event_;
};

}  // namespace

std::optional<TraceTime> trace_time(std::string_view number) {
  const bool negative = number.starts_with('-');
  const std::string_view digits = number.substr(negative ? 1 : 0);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (digits.find_first_of("eE") != std::string_view::npos || point > 18)
    return rounded_time(number);
  std::int64_t whole = 0;
  std::from_chars(digits.data(), digits.data() + point, whole);
  std::int64_t fraction = point < digits.size() ? fraction_of(digits.substr(point + 1)) : 0;
  if (negative) {
    whole = -whole;
    fraction = -fraction;
  }
  if (fraction < 0) {
    --whole;
    fraction += picoseconds_of_microsecond;
  } else if (fraction == picoseconds_of_microsecond) {
    ++whole;
    fraction = 0;
  }
  return TraceTime{whole, static_cast<std::int32_t>(fraction)};
}

void TraceEvent::clear() {
  phase.clear();
  category.clear();
  name.clear();
  at.reset();
  microseconds = 0;
  duration = {};
  process = thread = external = correlation = stream = device = flow = -1;
  op.name.clear();
  op.dims.clear();
  op.types.clear();
  for (std::string* text :
       {&collective.operation, &collective.dtype, &collective.group, &collective.description,
        &collective.ranks, &slice.operation, &slice.group})
    text->clear();
  collective.in_elements = collective.out_elements = 0;
  collective.group_size = 0;
  slice.op = slice.bytes = -1;
  slice.m = slice.n = slice.k = 0;
  slice.batch = 1;
}

bool read_event(StreamedJson& scan, TraceEvent& event) {
  if (scan.peek() != StreamedJson::Kind::object) {
    scan.skip();
    return false;
  }
  event.clear();
  EventReader{scan, event}.read();
  return true;
}

std::vector<std::int64_t> ranks_in(std::string_view text) {
  std::vector<std::int64_t> ranks;
  if (text.find("...") != std::string_view::npos) return ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error == std::errc{} && rank >= 0) ranks.push_back(rank);
    at = error == std::errc{} ? next : at + 1;
  }
  return ranks;
}

void text_if(StreamedJson& scan, std::string& to) {
  if (scan.peek() == StreamedJson::Kind::text)
    scan.text_into(to);
  else
    scan.skip();
}

void integer_if(StreamedJson& scan, std::int64_t& to) {
  if (scan.peek() != StreamedJson::Kind::number) return scan.skip();
  const std::string_view number = scan.number();
  const char* const end = number.data() + number.size();
  std::int64_t whole = 0;
  const auto read = std::from_chars(number.data(), end, whole);
  if (read.ec == std::errc{} && read.ptr == end) {
    if (std::abs(whole) <= largest_integer) to = whole;
    return;
  }
  double value = 0;
  const auto real = std::from_chars(number.data(), end, value);
  if (real.ec == std::errc{} && std::abs(value) <= largest_number)
    to = static_cast<std::int64_t>(value);
}

}  // namespace sim
