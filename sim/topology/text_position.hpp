// Lines of a text, for the positions of errors.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim {

class TextLines {
 public:
  TextLines(std::string_view text, std::string name) : name_{std::move(name)}, size_{text.size()} {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }
  SourcePosition at(std::size_t offset) const {
    offset = std::min(offset, size_);
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto line = static_cast<int>(next - starts_.begin());
    return {name_, line, static_cast<int>(offset - *(next - 1)) + 1};
  }

 private:
  std::string name_;
  std::size_t size_;
  std::vector<std::size_t> starts_{0};
};

}  // namespace sim
