#include <fmt/format.h>
#include <pybind11/stl.h>

#include "python/long_call.hpp"
#include "python/module.hpp"
#include "python/overrides.hpp"
#include "sim/base/table_text.hpp"
#include "sim/search/layouts.hpp"
#include "sim/search/workload.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

using Held = std::shared_ptr<sim::SearchResult>;

py::dict progress_dict(const sim::SearchProgress& now) {
  py::dict made;
  made["layouts"] = now.counts.legal;
  made["decided"] = now.counts.legal - now.counts.open;
  made["simulated"] = now.counts.simulated;
  made["seconds"] = now.seconds;
  made["best_step_time_s"] =
      now.best ? py::object{py::float_(sim::in_seconds(now.best->step_time))} : py::none();
  return made;
}

Held search(const std::function<sim::ScenarioSources()>& sources, const py::object& progress,
            int threads) {
  Mailbox<sim::SearchProgress> told;
  const auto work = [&](const std::stop_token& stop) {
    return std::make_shared<sim::SearchResult>(
        sim::search_layouts(sources(), {.stop = stop, .progress = {}, .threads = threads},
                            [&](const sim::SearchProgress& now) { told.put(now); }));
  };
  return run_long(work, [&] {
    if (const auto now = told.take(); now && !progress.is_none()) progress(progress_dict(*now));
  });
}

Held search_scenario(const py::object& scenario, const py::object& overrides,
                     const py::object& progress, int threads) {
  const ScenarioArgument wanted{scenario, overrides};
  return search([&] { return wanted.open(); }, progress, threads);
}

Held search_workload(const py::object& model, const py::object& cluster, int gpus,
                     std::int64_t batch, std::int64_t sequence, const py::object& overrides,
                     const py::object& progress, int threads) {
  const sim::Workload workload{.model = path_of(model),
                               .cluster = path_of(cluster),
                               .gpus = gpus,
                               .global_batch = batch,
                               .sequence_length = sequence,
                               .overrides = overrides_of(overrides)};
  return search([&] { return workload_sources(workload); }, progress, threads);
}

py::object favourite_of(const sim::SearchResult& it) {
  const sim::RankedLayout* found = it.favourite();
  return found ? py::cast(*found, py::return_value_policy::copy) : py::none();
}

}  // namespace

void add_search(py::module_& module) {
  py::class_<sim::RankedLayout>(module, "RankedLayout", "A layout and what it is forecast to do.")
      .def_property_readonly(
          "step_time_s",
          [](const sim::RankedLayout& it) { return sim::in_seconds(it.evaluation.step_time); })
      .def_property_readonly(
          "peak_memory_bytes",
          [](const sim::RankedLayout& it) { return it.evaluation.memory.count(); })
      .def_readonly("tokens_per_s_per_gpu", &sim::RankedLayout::tokens_per_second_per_gpu)
      .def_readonly("mfu", &sim::RankedLayout::mfu)
      .def_readonly("gpus_per_node", &sim::RankedLayout::gpus_per_node)
      .def_property_readonly("gpus",
                             [](const sim::RankedLayout& it) { return it.layout.world_size(); })
      .def("__str__", [](const sim::RankedLayout& it) { return describe(it.layout); })
      .def("__repr__", [](const sim::RankedLayout& it) {
        return fmt::format("<stepcast.RankedLayout {}: {:.4g} s>", describe(it.layout),
                           sim::in_seconds(it.evaluation.step_time));
      });
  py::class_<sim::SearchResult, Held>(module, "SearchResult", "The best layouts, fastest first.")
      .def_readonly("best", &sim::SearchResult::best)
      .def_readonly("within_margin", &sim::SearchResult::within_margin,
                    "Faster, but with less memory left than the forecast's own error.")
      .def_readonly("complete", &sim::SearchResult::complete, "False: it was stopped early.")
      .def_property_readonly("favourite", favourite_of, "None: nothing fits.")
      .def_property_readonly("layouts_considered",
                             [](const sim::SearchResult& it) { return it.counts.legal; })
      .def(
          "to_dict", [](const sim::SearchResult& it) { return parsed_json(search_json(it)); },
          "What `stepcast search -o json` prints, as a dict.")
      .def("__str__", sim::search_table);
  module.def("search", search_scenario, py::arg("scenario"), py::arg("overrides") = py::none(),
             py::kw_only(), py::arg("progress") = py::none(), py::arg("threads") = 0,
             "The best layouts for the workload of a scenario file. `progress` is called with a "
             "dict of counts.");
  module.def("search_workload", search_workload, py::arg("model"), py::arg("cluster"),
             py::kw_only(), py::arg("gpus"), py::arg("global_batch"),
             py::arg("sequence_length") = 0, py::arg("overrides") = py::none(),
             py::arg("progress") = py::none(), py::arg("threads") = 0,
             "The best layouts for a model on some GPUs of a cluster, by names of shipped files or "
             "by paths.");
}

}  // namespace stepcast_python
