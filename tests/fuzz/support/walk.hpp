// Reads a document as a program would that expects every type everywhere: the strict reader must
// answer each question with a value or a problem, and end with InputError or with success.
#pragma once

#include <string>
#include <vector>

#include "sim/config/reader.hpp"

// REQUIRES: outside of any namespace that a fuzz target shares with another one.
namespace fuzz {

inline void walk_value(const sim::ValueReader& value, int& budget);

inline void walk_object(const sim::ObjectReader& object, int& budget) {
  for (const std::string& key : object.keys()) {
    if (--budget < 0) return;
    walk_value(object.at(key), budget);
  }
  (void)object.has("layers");
  (void)object.integer_or("layres", 1, {.min = 1, .max = 10});
}

// Aliases make a small file walk like a large one, hence the budget.
inline void walk_value(const sim::ValueReader& value, int& budget) {
  if (--budget < 0) return;
  (void)value.where();
  (void)value.peek_text();
  if (value.is_object()) {
    walk_object(value.object(), budget);
  } else if (value.is_list()) {
    for (const sim::ValueReader& item : value.list())
      walk_value(item, budget);
  }
  switch (budget % 10) {
    case 0:
      (void)value.text();
      break;
    case 1:
      (void)value.integer({.min = -5, .max = 1'000'000});
      break;
    case 2:
      (void)value.real();
      break;
    case 3:
      (void)value.boolean();
      break;
    case 4:
      (void)value.bytes();
      break;
    case 5:
      (void)value.bandwidth();
      break;
    case 6:
      (void)value.duration();
      break;
    case 7:
      (void)value.list();
      break;
    case 8:
      (void)value.object().integer("x");
      break;
    default:
      value.problem("a problem of the program's own");
      break;
  }
}

inline void walk(const sim::Document& document) {
  int budget = 2000;
  walk_object(document.root_object(), budget);
  document.finish();
}

}  // namespace fuzz
