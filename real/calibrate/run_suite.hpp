// Runs scenarios for real, one behind the other in one launch, and keeps of each what is compared
// with its forecast: a record (sim/timeline/record.hpp) of a typical step, with the times of all
// measured steps.
//
// Between the steps runs the reference, as long as a step: it tells what part of a step's time is
// the machine's drift.
//
// Each rank runs them all, so that processes, devices and services start once. A record is written
// when its run is complete: what a failure leaves is good.
#pragma once

#include <string>
#include <vector>

#include "real/calibrate/measure_machine.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/launch/launch.hpp"
#include "sim/layout/training.hpp"
#include "sim/timeline/record.hpp"

namespace real {

struct SuiteRun {
  std::string name;          // of the record's file
  MeasuredPlan what;         // of as many ranks as the suite
  sim::Training training{};  // `data` is a file
  Algorithms algorithms{};
};

struct SuiteRequest {
  MeasuredBackend backend = MeasuredBackend::host;
  int ranks = 1;
  int ranks_per_gpu = 0;
  int warm_up_steps = 2;
  int measured_steps = 5;  // up to three times as many where the machine is not calm
  // Besides. Recording may cost time on a device, so times come from steps of their own; of the
  // recorded ones, that in the middle is kept.
  int recorded_steps = 3;
  std::vector<SuiteRun> runs;
  std::string folder;                  // for the records; exists
  std::vector<std::string> arguments;  // of this program, for the ranks that are processes
  bool announce = false;               // rank 0 says on stderr what runs
};

std::string record_path(const std::string& folder, const std::string& name);

// The reference (reference.hpp) beside the steps of a run: before each measured step, behind the
// last of them, and behind the recorded ones. Seconds of a GEMM, of a copy, and of a piece with
// what other processes took. Empty: recorded without.
struct StepReferences {
  std::vector<double> product, copy, whole;
};

// RunFacts are the facts of a run that a record states beside its timeline.
struct RunFacts {
  double first_loss = 0, last_loss = 0;
  sim::Bytes device_memory{};  // of the rank that holds most: context, libraries
  StepReferences references{};
  std::string device{};  // clock, power and heat of rank 0's GPU beside the steps; or why not
};
std::vector<std::string> to_provenance(const RunFacts& facts);
// Throws InputError naming the record for one that was not written by run_suite().
RunFacts facts_of(const sim::Record& record, const std::string& path);

// Throws InputError for what the engine or the backend cannot run, std::invalid_argument as
// run_ranks() does.
RunResult run_suite(const SuiteRequest& request);

}  // namespace real
