// The kind of a file, by the keys at its top: one of ours, or of other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/config/reader.hpp"

namespace sim {

enum class FileKind : std::uint8_t {
  scenario,
  cluster,
  device,
  model,
  hugging_face,  // a config.json
  deepspeed,
  accelerate,
  nemo,
  measured_set,
  records,      // of a search or sweep
  step_record,  // of `simulate --record`
  report,       // of `-o json`
};

// The kind that a file surely has; nothing: its kind does not show.
std::optional<FileKind> kind_of(const Document& document);
// "a model file; a scenario names it as 'model: FILE'".
std::string kind_text(FileKind kind);

// Throws InputError where the file is surely of another kind, with what it is good for. A file
// whose kind does not show passes: its reader knows better what is wrong.
void refuse_other_kinds(const Document& document, FileKind wanted);

}  // namespace sim
