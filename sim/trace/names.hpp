// Texts that occur again and again, as numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sim {

class TraceNames {
 public:
  std::uint32_t number(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    numbers_.emplace(name, number);
    return number;
  }
  // The names by number. The object is empty afterwards.
  std::vector<std::string> take() {
    std::vector<std::string> list(numbers_.size());
    while (!numbers_.empty()) {
      auto node = numbers_.extract(numbers_.begin());
      list[node.mapped()] = std::move(node.key());
    }
    return list;
  }
  // By number; what number() adds may move them.
  std::vector<std::string_view> list() const {
    std::vector<std::string_view> list(numbers_.size());
    for (const auto& [name, number] : numbers_)
      list[number] = name;
    return list;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace sim
