#include <pybind11/stl.h>

#include <filesystem>
#include <memory>
#include <ostream>

#include "python/long_call.hpp"
#include "python/module.hpp"
#include "python/overrides.hpp"
#include "sim/base/complete_file.hpp"
#include "sim/base/near_names.hpp"
#include "sim/search/candidates.hpp"

namespace stepcast_python {
namespace {

namespace py = pybind11;

using Held = std::shared_ptr<ImportedFile>;

// The value of a word, as the command line names it. Throws InputError.
template <class Value>
Value value_of(const std::string& text, const std::string& argument) {
  if (const std::optional<Value> value = sim::from_word<Value>(text)) return *value;
  std::vector<std::string_view> known;
  for (const auto& entry : words_of(Value{}))
    known.push_back(entry.text);
  throw py::value_error(argument + " is '" + text + "'; " + sim::choices_text(text, known));
}

Held import_file(const std::string& kind, const py::object& file, const py::object& cluster,
                 int gpus, const py::object& model, std::int64_t sequence, std::int64_t micro_batch,
                 std::int64_t batch, std::int64_t accumulation, const std::string& precision,
                 bool model_inside, const py::object& overrides) {
  sim::JobFile job{.file = path_of(file),
                   .text = {},
                   .flags = {},
                   .cluster = path_of(cluster),
                   .recipe = {},
                   .model = path_of(model),
                   .definitions = {},
                   .changes = overrides_of(overrides)};
  job.known.gpus = gpus;
  job.known.sequence_length = sequence;
  job.known.micro_batch = micro_batch;
  job.known.global_batch = batch;
  job.known.accumulation_steps = accumulation;
  if (!precision.empty()) job.known.precision = value_of<sim::DType>(precision, "precision");
  const auto of_kind = value_of<sim::JobKind>(kind, "kind");
  const auto work = [&](const std::stop_token&) {
    sim::ImportedJob imported = import_job(of_kind, job);
    if (model_inside) imported.scenario.model_path.clear();
    return std::make_shared<ImportedFile>(ImportedFile{job, std::move(imported)});
  };
  return run_long(work, [] {});
}

void save(const ImportedFile& it, const py::object& path) {
  const std::string target = path_of(path);
  const std::string folder = std::filesystem::absolute(target).parent_path().string();
  sim::write_complete_file(
      target, [&](std::ostream& out) { out << imported_yaml(it.job, it.file, folder); });
}

}  // namespace

void add_import(py::module_& module) {
  py::class_<ImportedFile, Held>(module, "Scenario", "A scenario that was read from a job.")
      .def_property_readonly(
          "notes", [](const ImportedFile& it) { return note_lines(it.job); },
          "What the forecast leaves out or reads otherwise, a line each.")
      .def_property_readonly(
          "gpus", [](const ImportedFile& it) { return it.job.scenario.layout.world_size(); })
      .def("save", save, py::arg("path"), "Writes the scenario file.")
      .def("__str__", [](const ImportedFile& it) { return imported_yaml(it.job, it.file, ""); })
      .def("__repr__", [](const ImportedFile& it) {
        return "<stepcast.Scenario " + it.job.scenario.name + ": " +
               describe(it.job.scenario.layout) + ">";
      });
  module.def("import_job", import_file, py::arg("kind"), py::arg("file"), py::kw_only(),
             py::arg("cluster"), py::arg("gpus") = 0, py::arg("model") = "",
             py::arg("sequence_length") = 0, py::arg("micro_batch") = 0,
             py::arg("global_batch") = 0, py::arg("accumulation_steps") = 0,
             py::arg("precision") = "", py::arg("model_inside") = false,
             py::arg("overrides") = py::none(),
             "The scenario of a job's file, as `stepcast import KIND FILE` reads it. The arguments "
             "from `gpus` to `precision` are for what the file leaves open. `model_inside`: the "
             "scenario has the model itself, not the path of its file.");
}

}  // namespace stepcast_python
