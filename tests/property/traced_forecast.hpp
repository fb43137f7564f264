// A forecast's step as a GPU would run it with trouble, in the form of a traced run. Operators keep
// their order on every stream and their dependencies; collectives begin when all ranks have come.
// So trouble moves what follows, and is hidden where other streams have work.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim::test {

// A kernel that runs behind an operator on its stream.
struct FollowingKernel {
  std::string name;
  Duration time{};
};

// What happens to one operator of one rank.
struct OpTrouble {
  Duration longer{};      // it takes longer
  Duration late{};        // the host issues it so long after all it waits for is done
  bool blocking = false;  // a collective: compute stands still from before it to behind it
  std::vector<FollowingKernel> following{};
};
using TroubleOf = std::function<OpTrouble(RankId rank, const Program& program, OpId op)>;

struct HostTrouble {
  std::string name;
  HostSpan::What what = HostSpan::What::mark;
  Duration time{};  // at the begin of the step, in which nothing is issued
};

struct ReplayedStep {
  TracedRun run;   // of all ranks, on one clock, with one marked step
  Duration end{};  // of the step
  // Whether the replay without trouble has every begin and end of the forecast, to the picosecond.
  bool exact = false;
};

// replay() needs spans of every rank. `late`: what each rank's host does before it issues anything.
ReplayedStep replay(const Forecast& forecast, const TroubleOf& trouble,
                    const HostTrouble& late = {});

}  // namespace sim::test
