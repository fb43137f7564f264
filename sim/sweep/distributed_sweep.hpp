// A sweep whose points are forecast by a worker pool (threads, ranks of MPI), or are taken from
// records that have them. Points do not depend on each other, so the sweep is the same on any
// workers.
#pragma once

#include <functional>

#include "sim/base/control.hpp"
#include "sim/distribute/record_file.hpp"
#include "sim/distribute/worker_pool.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {

// A point as a JSON object in one line, and back, exactly. Problems are recorded at `answer`; the
// text throws InputError.
std::string answer_text(const PointResult& point);
PointResult read_point(const ObjectReader& answer);
PointResult point_of_text(std::string_view answer);

// forecast_units() is for WorkerPool and Service; read_sweep_answer() for parse_records().
Task forecast_units(const SweepSpecification& specification);
std::string read_sweep_answer(const ObjectReader& answer);

// The files that the points read: those of the first one, and of each that differs from it in one
// key; of an axis of numbers one is enough, unless it names a file. Values that no forecast can be
// made for count as far as they are read.
std::vector<InputFile> files_of(const SweepSpecification& specification);

struct DistributedSweep {
  const SweepSpecification& specification;
  WorkerPool& workers;
  ResultCache& book;
  RecordFile* file = nullptr;  // null: answers are not kept
  Shard shard{};               // whose points are forecast
  std::function<void()> done{};

  // Forecasts what the book does not know. False: it was told to stop before all was known.
  bool run(const Control& control);
  // REQUIRES: run() has returned true for all shards.
  Sweep result() const;
};

}  // namespace sim
