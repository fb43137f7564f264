// Helpers of the reader's tests: the problems of a text as one string.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sim/config/reader.hpp"

inline std::string problems_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const sim::InputError& error) {
    std::string text;
    for (const sim::Problem& problem : error.problems()) {
      const sim::SourcePosition& where = problem.where;
      if (!text.empty()) text += " | ";
      if (where.line > 0)
        text += std::to_string(where.line) + ':' + std::to_string(where.column) + ' ';
      text += problem.what;
    }
    return text;
  }
  return "none";
}

using Read = std::function<void(const sim::ObjectReader&)>;

inline std::string yaml_problems(std::string_view text, const Read& read) {
  return problems_of([&] {
    const sim::Document document = sim::Document::parse_yaml(text, "a.yaml");
    read(document.root_object());
    document.finish();
  });
}

inline std::string json_problems(std::string_view text, const Read& read) {
  return problems_of([&] {
    const sim::Document document = sim::Document::parse_json(text, "a.json");
    read(document.root_object());
    document.finish();
  });
}

inline void take_all(const sim::ObjectReader& top) {
  (void)top.keys();
}
