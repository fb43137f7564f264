// The file of a training job as a scenario: what `stepcast import KIND FILE` does.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/interop/handover.hpp"

namespace sim {

enum class JobKind : std::uint8_t {
  megatron,
  torchtitan,
  deepspeed,
  accelerate,
  nemo,
  automodel,
  mlperf,
  primus
};
constexpr auto words_of(JobKind) {
  return std::array{Word{JobKind::megatron, "megatron"},   Word{JobKind::torchtitan, "torchtitan"},
                    Word{JobKind::deepspeed, "deepspeed"}, Word{JobKind::accelerate, "accelerate"},
                    Word{JobKind::nemo, "nemo"},           Word{JobKind::automodel, "automodel"},
                    Word{JobKind::mlperf, "mlperf"},       Word{JobKind::primus, "primus"}};
}

struct JobFile {
  std::string file;
  std::string text;   // megatron: its flags, which `file` is only the name of then; or empty
  std::string flags;  // arguments of Megatron-DeepSpeed beside it; or empty
  // Name or file. REQUIRED: no file of a job says it, but for the name of one of mlperf.
  std::string cluster;
  std::string recipe;  // a function of a file in Python, of a file of several; or empty
  std::string model;   // name or file, where the file has none; or empty
  std::vector<std::string> definitions;  // NAME=VALUE: variables that a script leaves open
  // KEY=VALUE: instead of what the file says; "layout.", "framework.", "simulation.", "cluster."
  // and "flops." begin keys of the scenario that is made.
  std::vector<std::string> changes;
  ImportRequest known{};  // what else the file may leave open
};

struct ImportedJob {
  Scenario scenario;
  std::vector<Note> notes;           // what the forecast will leave out or read otherwise
  std::vector<std::string> ignored;  // keys without an effect on time or memory of a step
};

// import_job() takes as many nodes of the cluster as the job does; the model is the shipped one of
// its shape, if there is one. Throws InputError with every mistake of the file and what is missing
// beside it.
ImportedJob import_job(JobKind kind, const JobFile& job);

// The notes as lines for people: those of the file, the keys without an effect, and the GPUs of a
// node that stay idle.
std::vector<std::string> note_lines(const ImportedJob& imported);

// The scenario as a file in `folder` (empty: any), with the notes as its key `notes`.
std::string imported_yaml(const ImportedJob& imported, const JobFile& job,
                          const std::string& folder);

}  // namespace sim
