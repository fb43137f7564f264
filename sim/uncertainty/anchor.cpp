// The file of an anchor, read and written.
#include "sim/uncertainty/anchor.hpp"

#include <fmt/format.h>

#include <array>

#include "sim/base/table_text.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

constexpr IntegerRange gpus{1, 1 << 21};
constexpr double most_seconds = 1e6;
constexpr RealRange seconds{.min = 1e-9, .max = most_seconds};

struct ShareField {
  std::string_view name;
  double StepShares::*member;
};
constexpr std::array share_fields{ShareField{"products", &StepShares::products},
                                  ShareField{"memory_kernels", &StepShares::memory_kernels},
                                  ShareField{"host", &StepShares::host},
                                  ShareField{"tensor", &StepShares::tensor},
                                  ShareField{"data", &StepShares::data},
                                  ShareField{"pipeline", &StepShares::pipeline},
                                  ShareField{"hidden", &StepShares::hidden}};

struct TraitField {
  std::string_view name;
  bool JobTraits::*member;
};
constexpr std::array trait_fields{TraitField{"pipelined", &JobTraits::pipelined},
                                  TraitField{"experts", &JobTraits::experts},
                                  TraitField{"tensor_parallel", &JobTraits::tensor},
                                  TraitField{"context_parallel", &JobTraits::context},
                                  TraitField{"zero_3", &JobTraits::zero_3},
                                  TraitField{"validated", &JobTraits::validated}};

AnchorRun read_run(const ObjectReader& in) {
  AnchorRun run;
  run.scenario = in.text("scenario");
  run.measured = duration_from_seconds(in.real("measured_s", seconds));
  run.forecast = duration_from_seconds(in.real("forecast_s", seconds));
  run.anchored = duration_from_seconds(in.real("anchored_s", seconds));
  run.log_error = in.real("log_error", {.min = -20, .max = 20});
  JobTraits& traits = run.traits;
  traits.job = in.text("job");
  traits.layout = in.text("layout");
  traits.generation = in.word<Generation>("generation");
  traits.dtype = in.word<DType>("dtype");
  traits.schedule = in.word<Schedule>("schedule");
  for (const TraitField& field : trait_fields)
    traits.*field.member = in.boolean(field.name);
  traits.named = !in.has("named") || in.boolean("named");
  if (in.has("preset")) traits.preset = in.text("preset");
  traits.gpus = static_cast<int>(in.integer("gpus", gpus));
  traits.nodes = static_cast<int>(in.integer("nodes", gpus));
  if (in.has("unmodelled"))
    for (const ValueReader& setting : in.list("unmodelled"))
      traits.unmodelled.push_back(setting.text());
  if (in.has("parts")) {
    const ObjectReader parts = in.object("parts");
    for (std::size_t i = 0; i < parts_of_step.size(); ++i)
      if (parts.has(parts_of_step[i].factor.name))
        run.parts[i] = parts.real(parts_of_step[i].factor.name, {.min = -20, .max = 20});
  }
  const ObjectReader shares = in.object("shares");
  for (const ShareField& field : share_fields)
    traits.shares.*field.member = shares.real(field.name, {.min = 0, .max = 1});
  return run;
}

std::string shares_text(const StepShares& shares) {
  std::string text;
  for (const ShareField& field : share_fields)
    text += fmt::format("{}{}: {:.6f}", text.empty() ? "" : ", ", field.name, shares.*field.member);
  return text;
}

std::string trait_text(const JobTraits& traits) {
  std::string text;
  for (const TraitField& field : trait_fields)
    text += fmt::format("    {}: {}\n", field.name, traits.*field.member);
  if (!traits.named) text += "    named: false\n";
  if (!traits.preset.empty()) text += fmt::format("    preset: {}\n", yaml_quoted(traits.preset));
  return text;
}

std::string unmodelled_text(const JobTraits& traits) {
  std::string text;
  for (const std::string& setting : traits.unmodelled)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", yaml_quoted(setting));
  return text.empty() ? text : fmt::format("    unmodelled: [{}]\n", text);
}

std::string parts_text(const PartErrors& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts_of_step.size(); ++i)
    if (parts[i])
      text += fmt::format("{}{}: {:.6f}", text.empty() ? "" : ", ", parts_of_step[i].factor.name,
                          *parts[i]);
  return text.empty() ? text : fmt::format("    parts: {{{}}}\n", text);
}

std::string run_text(const AnchorRun& run) {
  const JobTraits& it = run.traits;
  return fmt::format(
      "  - scenario: {}\n"
      "    measured_s: {}\n"
      "    forecast_s: {}\n"
      "    anchored_s: {}\n"
      "    log_error: {:.6f}\n"
      "    job: {}\n"
      "    layout: {}\n"
      "    generation: {}\n    dtype: {}\n    schedule: {}\n"
      "{}"
      "    gpus: {}\n    nodes: {}\n"
      "{}{}"
      "    shares: {{{}}}\n",
      yaml_quoted(run.scenario), in_seconds(run.measured), in_seconds(run.forecast),
      in_seconds(run.anchored), run.log_error, yaml_quoted(it.job), yaml_quoted(it.layout),
      word(it.generation), word(it.dtype), word(it.schedule), trait_text(it), it.gpus, it.nodes,
      unmodelled_text(it), parts_text(run.parts), shares_text(it.shares));
}

}  // namespace

Anchor load_anchor(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  Anchor anchor;
  anchor.device = top.text("device");
  anchor.framework = top.word<FrameworkName>("framework");
  const std::vector<ValueReader> runs = top.list("runs");
  for (const ValueReader& entry : runs) {
    anchor.runs.push_back(read_run(entry.object()));
    anchor.runs.back().traits.framework = anchor.framework;
  }
  if (runs.empty()) top.problem("runs", "an anchor has one measured run or more");
  document.finish();
  return anchor;
}

std::string anchor_yaml(const Anchor& anchor) {
  std::string text =
      "# Measured runs, beside their forecasts: what `stepcast anchor` learns from. For scenario\n"
      "# key simulation.anchor, or --anchor. docs/how-sure.md defines the figures.\n";
  text += fmt::format("device: {}\nframework: {}\nruns:\n", yaml_quoted(anchor.device),
                      word(anchor.framework));
  for (const AnchorRun& run : anchor.runs)
    text += run_text(run);
  return text;
}

}  // namespace sim
