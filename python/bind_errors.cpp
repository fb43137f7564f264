// Errors of the input as Python exceptions that know where the mistakes are.
#include <pybind11/stl.h>

#include "python/module.hpp"
#include "sim/base/control.hpp"
#include "sim/base/input_error.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

py::list problems_of(const sim::InputError& error) {
  py::list problems;
  for (const sim::Problem& problem : error.problems())
    problems.append(py::cast(problem));
  return problems;
}

void raise_input_error(const py::object& type, const sim::InputError& error) {
  const py::object raised = type(error.what());
  const py::list problems = problems_of(error);
  raised.attr("problems") = problems;
  raised.attr("file") = problems[0].attr("file");
  raised.attr("line") = problems[0].attr("line");
  raised.attr("column") = problems[0].attr("column");
  PyErr_SetObject(type.ptr(), raised.ptr());
}

}  // namespace

void add_errors(py::module_& module) {
  py::class_<sim::Problem>(module, "Problem", "One mistake in the input, and where it is.")
      .def_property_readonly("file", [](const sim::Problem& it) { return it.where.file; })
      .def_property_readonly(
          "line", [](const sim::Problem& it) { return it.where.line; },
          "From 1; 0: the file as a whole.")
      .def_property_readonly("column", [](const sim::Problem& it) { return it.where.column; })
      .def_readonly("what", &sim::Problem::what, "What is wrong and what is allowed.")
      .def_readonly("source_line", &sim::Problem::source_line)
      .def("__repr__", [](const sim::Problem& it) { return to_text(it); });
  // Kept for as long as the interpreter lives, like the classes of the language.
  static py::object& input_error =
      *new py::object{py::reinterpret_steal<py::object>(PyErr_NewExceptionWithDoc(
          "stepcast.InputError",
          "A mistake in a scenario, in a file that it names or in an override."
          " `problems` has them all, each with file, line and column.",
          PyExc_ValueError, nullptr))};
  module.attr("InputError") = input_error;
  py::register_exception<sim::Stopped>(module, "Stopped", PyExc_RuntimeError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const sim::InputError& error) {
      raise_input_error(input_error, error);
    }
  });
}

}  // namespace stepcast_python
