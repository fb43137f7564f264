#include "sim/config/file_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sim {
namespace {

struct KnownKind {
  FileKind kind;
  std::string_view name;
  // Both at the top of a file tell the kind; the second may be empty.
  std::array<std::string_view, 2> keys;
  std::string_view use;  // what to do with such a file
};

// The first that matches counts.
constexpr std::array kinds{
    KnownKind{FileKind::scenario, "a scenario", {"layout", ""}, "give it to simulate or search"},
    KnownKind{FileKind::scenario, "a scenario", {"model", "cluster"}, "give it to simulate"},
    KnownKind{FileKind::records, "a file of records", {"stepcast_records", ""}, "give it to merge"},
    KnownKind{FileKind::step_record,
              "a record of a step",
              {"format", "gpus_per_node"},
              "give it to compare"},
    KnownKind{FileKind::report,
              "a report of stepcast",
              {"schema_version", "scenario"},
              "its scenario is named in it"},
    KnownKind{FileKind::model,
              "a model file",
              {"transformer", ""},
              "a scenario names it as 'model: FILE'"},
    KnownKind{FileKind::model,
              "a model file",
              {"layer_list", ""},
              "a scenario names it as 'model: FILE'"},
    KnownKind{FileKind::model,
              "a model file",
              {"diffusion_transformer", ""},
              "a scenario names it as 'model: FILE'"},
    KnownKind{FileKind::hugging_face,
              "a Hugging Face config.json",
              {"architectures", ""},
              "a scenario names it as 'model: FILE'"},
    KnownKind{FileKind::hugging_face,
              "a Hugging Face config.json",
              {"model_type", ""},
              "a scenario names it as 'model: FILE'"},
    KnownKind{FileKind::cluster,
              "a cluster file",
              {"device", "node"},
              "a scenario names it as 'cluster: {path: FILE}'"},
    KnownKind{FileKind::cluster,
              "a cluster file",
              {"pools", "fabric"},
              "a scenario names it as 'cluster: {path: FILE}'"},
    KnownKind{FileKind::device,
              "a device file",
              {"memory_bandwidth", "sms"},
              "a cluster file names it as 'device: FILE'"},
    KnownKind{FileKind::deepspeed,
              "a DeepSpeed config",
              {"zero_optimization", ""},
              "`stepcast import deepspeed` makes a scenario of it"},
    KnownKind{FileKind::deepspeed,
              "a DeepSpeed config",
              {"train_micro_batch_size_per_gpu", ""},
              "`stepcast import deepspeed` makes a scenario of it"},
    KnownKind{FileKind::accelerate,
              "a config of Accelerate",
              {"distributed_type", ""},
              "`stepcast import` shows which files become scenarios"},
    KnownKind{FileKind::nemo,
              "a NeMo config",
              {"trainer", ""},
              "`stepcast import nemo` makes a scenario of it"},
    KnownKind{FileKind::measured_set,
              "a set of measurements",
              {"quantity", "source"},
              "`stepcast validate` compares it"}};

bool matches(const Document& document, const KnownKind& known) {
  return std::all_of(known.keys.begin(), known.keys.end(),
                     [&](std::string_view key) { return key.empty() || document.root_has(key); });
}

const KnownKind& known_of(FileKind kind) {
  return *std::find_if(kinds.begin(), kinds.end(),
                       [&](const KnownKind& entry) { return entry.kind == kind; });
}

}  // namespace

std::optional<FileKind> kind_of(const Document& document) {
  for (const KnownKind& known : kinds)
    if (matches(document, known)) return known.kind;
  return std::nullopt;
}

std::string kind_text(FileKind kind) {
  const KnownKind& known = known_of(kind);
  return fmt::format("{}; {}", known.name, known.use);
}

void refuse_other_kinds(const Document& document, FileKind wanted) {
  for (const KnownKind& known : kinds)
    if (known.kind == wanted && matches(document, known)) return;
  for (const KnownKind& known : kinds) {
    if (known.kind == wanted || !matches(document, known)) continue;
    throw InputError{
        SourcePosition{document.name(), 0, 0},
        fmt::format("this is {}, not {}; {}", known.name, known_of(wanted).name, known.use)};
  }
}

}  // namespace sim
