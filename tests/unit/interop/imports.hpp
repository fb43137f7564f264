// Files of training jobs, imported, and what they are refused for.
#pragma once

#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/problems.hpp"

namespace sim::test {

// Flags of a small decoder of Megatron-LM, then `more`.
inline std::string decoder(const std::string& more) {
  return "ARGS=( --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048\n"
         "--position-embedding-type rope --vocab-size 50257 --attention-dropout 0.0\n"
         "--hidden-dropout 0.0 --micro-batch-size 2 --bf16 --use-distributed-optimizer\n" +
         more + "\n)\n";
}

inline Imported from_flags(const std::string& text, int gpus = 8) {
  return import_megatron(parse_flags(text, "a.sh"), {.gpus = gpus});
}
inline Imported from_toml(const std::string& text, int gpus) {
  return import_torchtitan(Document::parse(text, "a.toml", Syntax::toml), {.gpus = gpus});
}
inline Imported from_yaml(const std::string& text, int gpus = 0) {
  return import_nemo(Document::parse(text, "a.yaml", Syntax::yaml), {.gpus = gpus});
}

template <class Import>
std::vector<std::string> problems(Import import) {
  try {
    static_cast<void>(import());
  } catch (const InputError& error) {
    return lines_of(error);
  }
  return {};
}
inline std::vector<std::string> flag_problems(const std::string& text, int gpus = 8) {
  return problems([&] { return from_flags(text, gpus); });
}

inline bool notes(const Imported& result, const std::string& key) {
  for (const Note& note : result.notes)
    if (note.key == key) return true;
  return false;
}

}  // namespace sim::test
