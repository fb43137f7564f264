// Text for people: lines, headings, colour on request.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/report/report.hpp"

namespace sim {

inline constexpr int page_width = 100;

class Page {
 public:
  explicit Page(TextStyle style) : style_{style} {}
  void line(const std::string& text = {}) { text_ += text + '\n'; }
  void heading(const std::string& title, const std::string& note = {}) {
    line();
    line(paint("1", title) + (note.empty() ? "" : "  " + paint("2", note)));
  }
  std::string paint(const char* code, const std::string& text) const {
    return style_.color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  std::string take() { return std::move(text_); }

 private:
  TextStyle style_;
  std::string text_;
};

// uneven_text() says that racks are filled unequally, and what to set.
inline std::string uneven_text(const Report& report) {
  return fmt::format("the last node has {} ranks, the others {}; set cluster.gpus_per_node: {}",
                     report.ranks - (report.nodes - 1) * report.gpus_per_node, report.gpus_per_node,
                     report.even_gpus_per_node);
}

}  // namespace sim
