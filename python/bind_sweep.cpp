#include <pybind11/stl.h>
#include <tbb/task_arena.h>

#include <atomic>

#include "python/long_call.hpp"
#include "python/module.hpp"
#include "python/overrides.hpp"
#include "sim/economics/budget_report.hpp"
#include "sim/sweep/sweep.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

using Held = std::shared_ptr<sim::Sweep>;

Held sweep(const py::object& scenario, const py::dict& over, const py::object& overrides, bool best,
           const py::object& progress, int threads) {
  const std::string path = path_of(scenario);
  const std::vector<std::string> texts = overrides_of(overrides), axes = axes_of(over);
  std::atomic<std::uint64_t> done{0}, points{0};
  const auto work = [&](const std::stop_token& stop) {
    tbb::task_arena arena{threads > 0 ? threads : tbb::task_arena::automatic};
    return arena.execute([&] {
      const sim::SweepSpecification wanted = sim::load_sweep(path, texts, axes, best);
      points = point_count(wanted.axes);
      return std::make_shared<sim::Sweep>(sim::run_sweep(wanted, [&] { ++done; }, {.stop = stop}));
    });
  };
  std::uint64_t told = 0;
  return run_long(work, [&] {
    const std::uint64_t now = done;
    if (now == told || progress.is_none()) return;
    told = now;
    progress(now, points.load());
  });
}

py::list points_of(const sim::Sweep& it) {
  return parsed_json(sweep_json(it))["points"].cast<py::list>();
}

py::object budget(const py::object& scenario, const py::object& overrides) {
  const std::string path = path_of(scenario);
  const std::vector<std::string> texts = overrides_of(overrides);
  const auto work = [&](const std::stop_token& stop) {
    return sim::budget_json(
        sim::answer_budget(sim::load_scenario(path, texts), texts, {.stop = stop}));
  };
  return parsed_json(run_long(work, [] {}));
}

}  // namespace

void add_sweep(py::module_& module) {
  py::class_<sim::Sweep, Held>(module, "Sweep", "Forecasts over a grid of values.")
      .def_property_readonly("points", points_of,
                             "A dict per point, the last axis fastest; `problem` in place of "
                             "figures where there is no forecast.")
      .def_readonly("notes", &sim::Sweep::notes)
      .def(
          "to_dict", [](const sim::Sweep& it) { return parsed_json(sweep_json(it)); },
          "What `stepcast sweep -o json` prints, as a dict.")
      .def("to_svg", sim::sweep_svg,
           "Step time over the first axis, a line per value of the second.")
      .def("_repr_svg_", sim::sweep_svg)
      .def("__len__", [](const sim::Sweep& it) { return it.points.size(); })
      .def("__str__", sim::sweep_table);
  module.def("sweep", sweep, py::arg("scenario"), py::arg("over"),
             py::arg("overrides") = py::none(), py::kw_only(), py::arg("best") = false,
             py::arg("progress") = py::none(), py::arg("threads") = 0,
             "Forecasts at every point of a grid: `over` has keys of the scenario with lists of "
             "values, or ranges such as \"8..64*2\". `progress` is called with the points done and "
             "their number.");
  module.def("budget", budget, py::arg("scenario"), py::arg("overrides") = py::none(),
             "Time, failures and cost of a whole training run, as `stepcast budget -o json` "
             "prints them.");
}

}  // namespace stepcast_python
