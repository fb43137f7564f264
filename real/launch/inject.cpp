#include "real/launch/inject.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#include "real/net/out_of_memory.hpp"
#include "sim/base/words.hpp"

namespace real {
namespace {

constexpr std::array kinds{sim::Word{FaultKind::kill, "kill"}, sim::Word{FaultKind::hang, "hang"},
                           sim::Word{FaultKind::memory, "memory"},
                           sim::Word{FaultKind::fail, "fail"}, sim::Word{FaultKind::exit, "exit"}};

template <class Number>
bool read(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0;
}

}  // namespace

std::optional<Fault> parse_fault(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  Fault fault;
  bool good = second != std::string::npos;
  if (good) {
    good = false;
    for (const auto& kind : kinds)
      if (kind.text == text.substr(0, first)) {
        fault.kind = kind.value;
        good = true;
      }
    const std::string when = text.substr(second + 1);
    fault.before_joining = when == "start";
    good =
        good && read(text.substr(first + 1, second - first - 1), fault.rank) &&
        (fault.before_joining || (when.starts_with("step ") && read(when.substr(5), fault.step)));
  }
  if (!good)
    throw std::invalid_argument{fmt::format(
        "--inject is \"{}\": KIND:RANK:step N or KIND:RANK:start is wanted, KIND being kill, hang, "
        "memory, fail or exit",
        text)};
  return fault;
}

void cause(FaultKind kind) {
  switch (kind) {
    case FaultKind::kill:
      ::raise(SIGKILL);
      break;
    case FaultKind::hang:
      while (true)
        std::this_thread::sleep_for(std::chrono::hours{1});
    case FaultKind::memory: {
      // More than any address space has, so that no machine's overcommit grants it.
      constexpr std::int64_t bytes = std::int64_t{1} << 60;
      const std::unique_ptr<std::byte[]> memory{new (std::nothrow)
                                                    std::byte[static_cast<std::size_t>(bytes)]};
      if (memory == nullptr) throw OutOfMemory{bytes, "a fault injected for a test"};
      break;
    }
    case FaultKind::fail:
      throw std::runtime_error{"a fault injected for a test"};
    case FaultKind::exit:
      ::_exit(3);
  }
}

}  // namespace real
