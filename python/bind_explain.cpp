#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>

#include "python/long_call.hpp"
#include "python/module.hpp"
#include "python/overrides.hpp"
#include "sim/explain/explanation.hpp"
#include "sim/forecast/record.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

using Held = std::shared_ptr<sim::Explanation>;

std::vector<std::string> paths_of(const py::object& traces) {
  if (!py::isinstance<py::list>(traces) && !py::isinstance<py::tuple>(traces))
    return {path_of(traces)};
  std::vector<std::string> paths;
  for (const py::handle& trace : py::reinterpret_borrow<py::iterable>(traces))
    paths.push_back(path_of(py::reinterpret_borrow<py::object>(trace)));
  return paths;
}

sim::Explanation explanation_of(const std::vector<std::string>& traces,
                                const std::optional<ScenarioArgument>& wanted) {
  const sim::TracedRun run = sim::read_run(traces);
  if (!wanted) return sim::explain(run);
  std::vector<sim::RankId> ranks;
  for (const sim::RunRank& rank : run.ranks)
    ranks.push_back(rank.rank);
  const sim::Scenario scenario = wanted->load();
  const sim::Record forecast = simulated_record(scenario, ranks);
  return sim::explain(run, &forecast, &scenario.cluster.device());
}

Held explain_traces(const py::object& traces, const py::object& scenario,
                    const py::object& overrides) {
  const std::vector<std::string> paths = paths_of(traces);
  if (paths.empty()) throw py::value_error("traces is empty: give at least one file");
  std::optional<ScenarioArgument> wanted;
  if (!scenario.is_none()) wanted.emplace(scenario, overrides);
  const auto work = [&](const std::stop_token&) {
    return std::make_shared<sim::Explanation>(explanation_of(paths, wanted));
  };
  return run_long(work, [] {});
}

std::string text_of(const sim::Explanation& it) {
  return explanation_table(it, false);
}

}  // namespace

void add_explain(py::module_& module) {
  py::class_<sim::Explanation, Held>(module, "Explanation", "Where the time of a traced run goes.")
      .def_property_readonly(
          "step_time_s", [](const sim::Explanation& it) { return it.mean.step; },
          "Of the mean step, without first ones.")
      .def(
          "to_dict", [](const sim::Explanation& it) { return parsed_json(explanation_json(it)); },
          "What `stepcast explain -o json` prints, as a dict.")
      .def("__str__", text_of)
      .def("__repr__", [](const sim::Explanation& it) {
        return fmt::format("<stepcast.Explanation of {} ranks: {:.4g} s a step>", it.ranks.size(),
                           it.mean.step);
      });
  module.def("explain", explain_traces, py::arg("traces"), py::arg("scenario") = py::none(),
             py::arg("overrides") = py::none(),
             "Where the time of a traced run goes; with the scenario of its job, why it is slower "
             "than its forecast. `traces`: a path, or a list of them.");
}

}  // namespace stepcast_python
