#include "python/overrides.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

std::string scalar_text(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "true" : "false";
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (PyNumber_Check(value.ptr()) != 0) return py::str(value).cast<std::string>();
  throw py::type_error("a value is a number, a text, a bool or a list of these, not " +
                       py::repr(py::type::of(value)).cast<std::string>());
}

bool is_list(const py::handle& value) {
  return py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value) ||
         py::isinstance(value, py::module_::import("builtins").attr("range"));
}

std::string joined(const py::handle& values, const std::string& between) {
  std::string text;
  for (const py::handle& value : py::reinterpret_borrow<py::iterable>(values)) {
    if (!text.empty()) text += between;
    text += scalar_text(value);
  }
  return text;
}

}  // namespace

std::vector<std::string> overrides_of(const py::object& overrides) {
  std::vector<std::string> texts;
  if (overrides.is_none()) return texts;
  for (const auto& [key, value] : overrides.cast<py::dict>()) {
    const std::string text = is_list(value) ? "[" + joined(value, ", ") + "]" : scalar_text(value);
    texts.push_back(key.cast<std::string>() + "=" + text);
  }
  return texts;
}

std::vector<std::string> axes_of(const py::dict& over) {
  std::vector<std::string> texts;
  for (const auto& [key, values] : over)
    texts.push_back(key.cast<std::string>() + "=" +
                    (is_list(values) ? joined(values, ",") : scalar_text(values)));
  return texts;
}

ScenarioArgument::ScenarioArgument(const py::object& scenario, const py::object& overrides)
    : overrides_{overrides_of(overrides)} {
  if (py::isinstance<ImportedFile>(scenario)) {
    const auto& imported = scenario.cast<const ImportedFile&>();
    path_ = imported.job.scenario.name;
    text_ = imported_yaml(imported.job, imported.file, "");
    return;
  }
  if (!py::isinstance<py::dict>(scenario)) {
    path_ = path_of(scenario);
    return;
  }
  path_ = "scenario";  // of messages; JSON is YAML
  text_ = py::module_::import("json")
              .attr("dumps")(scenario, py::arg("indent") = 1)
              .cast<std::string>();
}

sim::ScenarioSources ScenarioArgument::open() const {
  return text_ ? sim::ScenarioSources::of_text(*text_, path_, overrides_)
               : sim::ScenarioSources{path_, overrides_};
}

std::string path_of(const py::object& path) {
  return py::module_::import("os").attr("fspath")(path).cast<std::string>();
}

}  // namespace stepcast_python
