// Checkpoints: the whole state of a training run, a file per rank and a manifest.
//
//   FOLDER/step-00000020/manifest.json      model, step, parameters, every shard's size and SHA-256
//   FOLDER/step-00000020/rank-00003.state   what rank 3 counts as its own (BoundBucket::counted)
//
// A shard says of each of its blocks which rectangle of which parameter it is, so a checkpoint is
// read under any layout: weights, masters and moments are fp32 and come back bit by bit. Each file
// appears under its name only when it is whole and on disk, the manifest last: a run that dies
// while it writes leaves the checkpoint before. Ranks of several machines need one file system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/control.hpp"
#include "real/engine/parameters.hpp"

namespace real {

struct CheckpointRank {
  const BoundProgram& program;
  const std::vector<Parameter>& parameters;
  Backend& backend;
  Control& control;
};

struct CheckpointPoint {
  std::int64_t step = 0;   // that comes next
  std::uint64_t seed = 0;  // of the run
};

// Collective. Throws std::runtime_error naming the file that cannot be written.
void save_checkpoint(const std::string& folder, const CheckpointPoint& point,
                     const CheckpointRank& rank);

// Collective; returns the step that comes next. `folder`: a checkpoint, or one that holds several:
// then the latest that is whole. Throws InputError naming a file that is missing, torn, changed or
// of another model; every file is checked by a rank that reads it.
std::int64_t load_checkpoint(const std::string& folder, const CheckpointRank& rank);

}  // namespace real
