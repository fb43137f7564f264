#include <fmt/format.h>
#include <pybind11/stl.h>

#include "python/long_call.hpp"
#include "python/module.hpp"
#include "python/overrides.hpp"
#include "sim/base/complete_file.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/shown_ranks.hpp"
#include "sim/report/numbers.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/picture.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

// A forecast with the scenario that it is of.
struct Result {
  sim::Scenario scenario;
  sim::Forecast forecast;
  const sim::Report& report() const { return forecast.report; }
};
using Held = std::shared_ptr<Result>;

py::dict breakdown_dict(const sim::Breakdown& parts) {
  py::dict made;
  for (const sim::BreakdownField& field : sim::breakdown_fields)
    made[py::str(std::string{field.key})] = sim::in_seconds(parts.*field.member);
  return made;
}

Held forecast_of(const py::object& scenario, const py::object& overrides, bool what_if,
                 bool every_rank, const py::object& progress, int threads) {
  const ScenarioArgument wanted{scenario, overrides};
  Mailbox<sim::Progress> told;
  const auto work = [&](const std::stop_token& stop) {
    sim::Control control{.stop = stop, .progress = {}, .threads = threads};
    control.progress = [&](const sim::Progress& now) { told.put(now); };
    auto made = std::make_shared<Result>(Result{wanted.load(), sim::Forecast{}});
    made->forecast =
        sim::forecast(made->scenario, {.what_if = what_if, .every_rank = every_rank}, control);
    return made;
  };
  return run_long(work, [&] {
    if (const auto now = told.take(); now && !progress.is_none())
      progress(std::string{now->phase}, now->share);
  });
}

Held memory_of(const py::object& scenario, const py::object& overrides) {
  const ScenarioArgument wanted{scenario, overrides};
  const auto work = [&](const std::stop_token& stop) {
    auto made = std::make_shared<Result>(Result{wanted.load(), sim::Forecast{}});
    made->forecast = sim::forecast_memory(made->scenario, {.stop = stop});
    return made;
  };
  return run_long(work, [] {});
}

bool has_times(const Result& it) {
  return it.report().step_time > sim::Duration{};
}

py::list stages_of(const Result& it) {
  py::list stages;
  for (std::size_t i = 0; i < it.report().memory.size(); ++i) {
    const sim::StageMemory& memory = it.report().memory[i];
    py::dict stage;
    stage["stage"] = memory.stage;
    stage["peak_memory_bytes"] = memory.total.count();
    stage["fits"] = memory.fits();
    if (i < it.report().stage_breakdown.size())
      stage["breakdown_s"] = breakdown_dict(it.report().stage_breakdown[i]);
    stages.append(stage);
  }
  return stages;
}

py::dict what_ifs_of(const Result& it) {
  py::dict made;
  for (const sim::WhatIf& entry : it.report().what_if)
    made[py::str(std::string{word(entry.resource)})] = sim::in_seconds(entry.step_time);
  return made;
}

std::vector<sim::RankId> shown_ranks(const Result& it) {
  return one_rank_per_stage(it.scenario, *it.forecast.plan, it.forecast.timeline);
}

void save_trace(const Result& it, const py::object& path) {
  write_perfetto_file(path_of(path), *it.forecast.plan, it.forecast.timeline,
                      {.title = it.scenario.name,
                       .gpus_per_node = it.scenario.cluster.gpus_per_node(),
                       .ranks = shown_ranks(it)});
}

std::string picture_of(const Result& it) {
  return to_svg(*it.forecast.plan, it.forecast.timeline,
                {.title = it.scenario.name, .ranks = shown_ranks(it)});
}

std::string text_of(const Result& it) {
  return has_times(it) ? to_table(it.report()) : memory_table(it.report());
}

std::string json_of(const Result& it) {
  return has_times(it) ? to_json(it.report()) : memory_json(it.report());
}

std::string repr_of(const Result& it) {
  const sim::StageMemory& worst = it.report().worst_memory();
  const std::string step =
      has_times(it) ? fmt::format("{:.4g} s, MFU {:.1f} %, ",
                                  sim::in_seconds(it.report().step_time), 100 * it.report().mfu)
                    : std::string{};
  return fmt::format("<stepcast.Forecast of {}: {}{:.1f} of {:.1f} GiB{}>", it.scenario.name, step,
                     worst.total.gib(), worst.capacity.gib(),
                     it.report().fits() ? "" : ", does not fit");
}

template <class Value>
auto figure(Value sim::Report::*member) {
  return [member](const Result& it) { return it.report().*member; };
}

void add_figures(py::class_<Result, Held>& type) {
  type.def_property_readonly(
          "step_time_s", [](const Result& it) { return sim::in_seconds(it.report().step_time); },
          "Time of one training step, in seconds.")
      .def_property_readonly(
          "step_time_ps", [](const Result& it) { return it.report().step_time.count(); },
          "The same in picoseconds, exactly.")
      .def_property_readonly("tokens_per_s", figure(&sim::Report::tokens_per_second))
      .def_property_readonly("tokens_per_s_per_gpu",
                             figure(&sim::Report::tokens_per_second_per_gpu))
      .def_property_readonly("mfu", figure(&sim::Report::mfu),
                             "Model FLOPs utilisation, 0 to 1, without recomputation.")
      .def_property_readonly("hfu", figure(&sim::Report::hfu),
                             "Hardware FLOPs utilisation, 0 to 1, with recomputation.")
      .def_property_readonly("gpus", figure(&sim::Report::ranks))
      .def_property_readonly("nodes", figure(&sim::Report::nodes))
      .def_property_readonly("parameters", figure(&sim::Report::parameters))
      .def_property_readonly("tokens_per_step", figure(&sim::Report::tokens))
      .def_property_readonly("bubble_share", figure(&sim::Report::bubble_share),
                             "Share of the step that is pipeline bubble.")
      .def_property_readonly("notes", [](const Result& it) { return sim::note_lines(it.report()); })
      .def_property_readonly(
          "provenance", [](const Result& it) { return sim::provenance_lines(it.report()); },
          "Where every parameter set comes from.");
}

}  // namespace

void add_forecast(py::module_& module) {
  py::class_<Result, Held> type{module, "Forecast",
                                "The forecast of one training step. Units are in the names."};
  add_figures(type);
  type.def_property_readonly(
          "fits", [](const Result& it) { return it.report().fits(); },
          "Whether every GPU has enough memory.")
      .def_property_readonly(
          "memory_in_doubt", [](const Result& it) { return it.report().memory_in_doubt(); },
          "It fits, but by less than the memory forecast's own error.")
      .def_property_readonly(
          "fits_chance", [](const Result& it) { return it.report().fits_chance(); },
          "The share of such runs that fit; None where no error is known.")
      .def_property_readonly(
          "peak_memory_bytes",
          [](const Result& it) { return it.report().worst_memory().total.count(); },
          "Of the fullest GPU.")
      .def_property_readonly(
          "device_memory_bytes",
          [](const Result& it) { return it.report().worst_memory().capacity.count(); })
      .def_property_readonly(
          "breakdown_s", [](const Result& it) { return breakdown_dict(it.report().breakdown); },
          "Where the time of the mean GPU goes; the parts sum to the step.")
      .def_property_readonly("stages", stages_of, "One dict per pipeline stage.")
      .def_property_readonly("what_if_s", what_ifs_of,
                             "The step with one resource at a time infinitely fast, in seconds.")
      .def_property_readonly(
          "layout",
          [](const Result& it) -> py::object { return parsed_json(json_of(it))["layout"]; })
      .def_property_readonly(
          "timeline",
          [](const Result& it) { return timeline_object(*it.forecast.plan, it.forecast.timeline); })
      .def(
          "to_dict", [](const Result& it) { return parsed_json(json_of(it)); },
          "What `stepcast simulate -o json` prints, as a dict.")
      .def("to_json", json_of)
      .def("save_trace", save_trace, py::arg("path"),
           "Writes a trace for ui.perfetto.dev, one rank per pipeline stage.")
      .def("to_svg", picture_of, "The step as a picture.")
      .def("_repr_svg_", picture_of)
      .def("__str__", text_of)
      .def("__repr__", repr_of);
  module.def("forecast", forecast_of, py::arg("scenario"), py::arg("overrides") = py::none(),
             py::kw_only(), py::arg("what_if") = false, py::arg("every_rank") = false,
             py::arg("progress") = py::none(), py::arg("threads") = 0,
             "Forecasts one training step of a scenario: a file, or a dict with what it would say. "
             "`overrides`: keys of the scenario and their values, as --set takes them.");
  module.def("memory", memory_of, py::arg("scenario"), py::arg("overrides") = py::none(),
             "The memory of a step, without simulating its time.");
}

}  // namespace stepcast_python
