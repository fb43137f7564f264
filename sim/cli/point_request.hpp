// What the commands that forecast at many points share.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sim/cli/command.hpp"

namespace sim {

struct PointRequest {
  std::string scenario;
  std::vector<std::string> overrides;
  OutputFormat output = OutputFormat::table;
  bool no_progress = false;
};

Options point_options(PointRequest& request);

// A line on a terminal's stderr that counts points.
class PointCounter {
 public:
  explicit PointCounter(bool off) : shown_{!off && isatty(STDERR_FILENO) == 1} {}
  ~PointCounter() {
    if (shown_ && done_ > 0) std::fputs("\r\033[K", stderr);
  }
  PointCounter(const PointCounter&) = delete;
  PointCounter& operator=(const PointCounter&) = delete;
  std::function<void()> callback() {
    if (!shown_) return {};
    return [this] { std::fprintf(stderr, "\r%d points", ++done_); };
  }

 private:
  bool shown_;
  std::atomic<int> done_{0};
};

void write_plot(const std::string& path, const std::string& svg);

}  // namespace sim
