// Python's own functions, those that recipes call: copies, dicts, lists, numbers, attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/python/python_value.hpp"

namespace sim::python {

struct FunctionCall {
  Values& values;
  const std::vector<Value>& all;
  const std::vector<std::string>& names;  // as many as `all`; "": by position
  TextPlace place;                        // of the call
  TextPlace line;                         // of the statement of the file that is at work
  bool sure = true;                       // no condition that is not known stands around it
};

// builtin() is what the function gives; an unknown value where the arguments do not say. None: it
// is not one of Python's own, or takes other arguments.
std::optional<Value> builtin(std::string_view name, const FunctionCall& call);

// path_text() is the path of an object that pathlib.Path() has made.
std::optional<std::string> path_text(const Value& value);

}  // namespace sim::python
