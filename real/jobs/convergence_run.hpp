// A suite of schemes of synchronisation, trained for real: `stepcast convergence`.
#pragma once

#include <functional>
#include <string>

#include "real/jobs/training_run.hpp"
#include "sim/base/control.hpp"
#include "sim/convergence/suite.hpp"
#include "sim/convergence/tables.hpp"

namespace real {

struct ConvergenceOptions {
  // Stop: the run at hand ends behind its step, and the result has those that are complete.
  // Progress: the share of all runs, in the phase "training".
  sim::Control control{};
  DroppingNetwork network{};                            // of every run, the baseline's, too
  std::function<void(const std::string& line)> note{};  // hears of every run, when it has ended
};

// Trains every scheme of the suite with every seed on the host backend, ranks as threads of this
// process, one run after another: seed by seed, and all schemes with each, the baseline first. A
// run whose numbers are not finite, or that fails otherwise, is a result and ends nothing else.
//
// Throws InputError, before anything is trained, for keys of a scheme that are none of a scenario
// or that the engine cannot train with (at their place in the suite's file), and for a baseline
// that compresses; std::invalid_argument in a process that a launcher has started as one of several
// ranks.
sim::ConvergenceResult run_convergence(const sim::ConvergenceSuite& suite,
                                       const ConvergenceOptions& options);

}  // namespace real
