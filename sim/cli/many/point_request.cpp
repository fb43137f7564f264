#include "sim/cli/many/point_request.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace sim {

Options point_options(PointRequest& request) {
  return {scenario_option(request.scenario),
          output_option(request.output),
          set_option(request.overrides, " at every point"),
          anchor_option(request.overrides),
          {.name = "--no-progress",
           .into = &request.no_progress,
           .help = "no counter on the terminal"}};
}

void write_plot(const std::string& path, const std::string& svg) {
  write_text_file(path, svg);
  print_note(fmt::format("plot: {}", path));
}

PointCounter::PointCounter(bool off) : shown_{!off && isatty(STDERR_FILENO) == 1} {}

PointCounter::~PointCounter() {
  if (shown_ && done_ > 0) std::fputs("\r\033[K", stderr);
}

std::function<void()> PointCounter::callback() {
  if (!shown_) return {};
  return [this] { std::fprintf(stderr, "\r%d points", ++done_); };
}

}  // namespace sim
