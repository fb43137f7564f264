// The seam between a search and who does the work: threads, ranks of MPI, shards.
//
// An Evaluation is a pure function of the specification and the number of a candidate. Whoever
// computes it, in whatever order, the result of the search is computed from the set of evaluations
// alone (ranking.hpp), and which candidates are evaluated follows from evaluations alone, wave by
// wave (search.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/control.hpp"
#include "sim/collective/communicator_memory.hpp"
#include "sim/config/reader.hpp"
#include "sim/engine/wirings.hpp"
#include "sim/search/candidates.hpp"

namespace sim {

struct Evaluation {
  std::uint32_t index = 0;  // of the candidate
  bool fits = false;
  bool by_retries = false;  // it fits by retries of the allocator (sim/report/stage_memory.hpp)
  Bytes memory{};           // of the fullest GPU, with what the device keeps for itself
  Duration step_time{};     // zero where it does not fit: not simulated
  bool operator==(const Evaluation&) const = default;
};

// What evaluations of one search need again and again. It changes none of them. Thread-safe.
struct EvaluationMemory {
  Wirings wirings;
  KnownCommunicators communicators;
};

// Exact: the memory planner on the whole plan, then the folded simulation if it fits.
// REQUIRES: the candidates are those of the specification, and `memory` is of this specification
// alone. Thread-safe. Throws Stopped.
Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index, EvaluationMemory& memory, const Control& control = {});
// Of one candidate alone.
Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index);

// What it says of its candidate as a JSON object in one line, and back. Problems are recorded at
// `answer`; the text throws InputError.
std::string answer_text(const Evaluation& evaluation);
Evaluation read_evaluation(std::uint32_t index, const ObjectReader& answer);
Evaluation evaluation_of_text(std::uint32_t index, std::string_view answer);

}  // namespace sim
