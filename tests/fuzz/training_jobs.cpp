// Files of training frameworks: the first byte says which importer reads the rest. Any text is an
// InputError, or a job whose layout is sound for its model.
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/bridge/bridge_launch.hpp"
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/foreign_start.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/trainers/trainer_job.hpp"
#include "sim/interop/trainers/trainer_launch.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using fuzz::require;

sim::Imported import(char kind, std::string_view text, const sim::ImportRequest& request) {
  using sim::Document;
  using sim::Syntax;
  switch (kind) {
    case 'm':
      return sim::import_megatron(sim::parse_flags(text, "a.sh"), request);
    case 't':
      return sim::import_torchtitan(Document::parse(text, "a.toml", Syntax::toml), request);
    case 'a':
      return sim::import_accelerate(Document::parse(text, "a.yaml", Syntax::yaml), "", request);
    case 'p': {
      const std::string name = sim::recipe_name(text, "a.py", "");
      const sim::EvaluatedPython made = sim::evaluate_recipe(text, "a.py", name, false);
      return sim::import_bridge_recipe(made, name, request);
    }
    case 'u':
      return sim::import_automodel(Document::parse(text, "a.yaml", Syntax::yaml), request);
    case 'v':
      return sim::import_mlperf(sim::parse_variables(text, "a.sh"), request);
    case 'l': {  // a launch line
      const sim::Launch launch = sim::parse_launch(text, "a.sh", {});
      for (const sim::BridgeLaunch& line : sim::bridge_launches(launch))
        require(!sim::missing_source_text(line).empty());
      static_cast<void>(sim::foreign_start(sim::JobKind::megatron, launch, "a.sh"));
      std::optional<sim::TrainerLaunch> trainer = sim::trainer_launch(launch, "/nowhere/a.sh");
      if (!trainer) throw sim::InputError{{"a.sh", 0, 0}, "no trainer"};
      return sim::import_trainer(
          trainer->arguments, trainer->accelerate ? &*trainer->accelerate : nullptr, "", request);
    }
    case 'n':
      return sim::import_nemo(Document::parse(text, "a.yaml", Syntax::yaml), request);
    default:
      return sim::import_deepspeed(Document::parse(text, "a.json", Syntax::json), nullptr, request);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const sim::TransformerShape shape =
      *sim::load_model(sim::test::source_dir() + "/models/gpt2.yaml").shape;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  sim::ImportRequest request{.gpus = 64};
  // DeepSpeed's JSON has no model.
  if (text.front() != 'm' && text.front() != 't' && text.front() != 'n' && text.front() != 'v') {
    request.model = shape;
    request.sequence_length = 1024;
  }
  try {
    const sim::Imported job = import(text.front(), text.substr(1), request);
    require(sim::layout_problems(job.layout, sim::build_transformer(job.shape)).empty());
    require(job.layout.world_size() >= 1);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
