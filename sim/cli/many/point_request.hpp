// Parts that the commands share which forecast at many points.
#pragma once

#include <atomic>
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
  explicit PointCounter(bool off);
  ~PointCounter();
  PointCounter(const PointCounter&) = delete;
  PointCounter& operator=(const PointCounter&) = delete;
  std::function<void()> callback();

 private:
  bool shown_;
  std::atomic<int> done_{0};
};

void write_plot(const std::string& path, const std::string& svg);

}  // namespace sim
