#include "python/module.hpp"

namespace py = pybind11;

namespace stepcast_python {

py::object parsed_json(const std::string& text) {
  return py::module_::import("json").attr("loads")(text);
}

}  // namespace stepcast_python

PYBIND11_MODULE(_stepcast, module) {
  module.doc() = "Forecasts of distributed training steps; `import stepcast` instead.";
  module.attr("__version__") = STEPCAST_VERSION;
  stepcast_python::add_errors(module);
  stepcast_python::add_timeline(module);
  stepcast_python::add_import(module);
  stepcast_python::add_forecast(module);
  stepcast_python::add_search(module);
  stepcast_python::add_sweep(module);
  stepcast_python::add_explain(module);
}
