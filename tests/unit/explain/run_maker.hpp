// Traced runs made by hand, for tests.
#pragma once

#include <string>

#include "sim/trace/traced_run.hpp"

namespace sim::test {

inline TimePoint at_us(std::int64_t microseconds) {
  return TimePoint{std::chrono::microseconds{microseconds}};
}

// Builds one rank after the other. Times are microseconds.
class RunMaker {
 public:
  explicit RunMaker(bool one_clock = true);

  RunMaker& rank(std::uint32_t number);
  RunMaker& step(const std::string& name, std::int64_t begin, std::int64_t end);
  // A kernel that the host issued at `issued`; below 0: the trace does not tell.
  RunMaker& kernel(const std::string& name, OpKind kind, std::int64_t begin, std::int64_t length,
                   std::int64_t issued = -1, std::uint32_t stream = 7);
  RunMaker& product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t begin,
                    std::int64_t length);
  // Of the last kernel: its work, and the operator of the framework that issued it.
  RunMaker& work(const Kernel& of);
  RunMaker& issued_by(std::int32_t issuer);
  RunMaker& collective(CollectiveKind kind, std::int32_t group, std::int64_t bytes,
                       std::int64_t begin, std::int64_t length, std::int64_t issued = -1);
  RunMaker& on_stream(std::uint32_t stream);  // the last kernel or collective
  RunMaker& host(const std::string& name, HostSpan::What what, std::int64_t begin,
                 std::int64_t end);
  std::int32_t group(const std::string& description, std::vector<std::uint32_t> ranks);

  TracedRun run() { return run_; }

 private:
  std::uint32_t name(const std::string& text);
  RunRank& last() { return run_.ranks.back(); }

  TracedRun run_;
};

}  // namespace sim::test
