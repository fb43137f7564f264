// The parts of the module; each adds its classes and functions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace stepcast_python {

void add_errors(pybind11::module_& module);
void add_forecast(pybind11::module_& module);
void add_timeline(pybind11::module_& module);
void add_search(pybind11::module_& module);
void add_sweep(pybind11::module_& module);
void add_import(pybind11::module_& module);
void add_explain(pybind11::module_& module);

// A stepcast.Timeline.
pybind11::object timeline_object(const sim::Plan& plan, const sim::Timeline& timeline);

// A JSON document as dicts, lists, numbers and texts.
pybind11::object parsed_json(const std::string& text);

}  // namespace stepcast_python
