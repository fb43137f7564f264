// Averages over ranks of which some contributions are lost (`--dropped lost`). All ranks
// know from the seed which ones arrive, and the average is over those. Where none arrives, the
// exchange counts as done again, with all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/host/communication.hpp"

namespace real {

struct LostContributions {
  double rate = 0;
  std::uint64_t seed = 0;
  // Whether the message of a member, a rank of the world, for a bucket's average in a step is lost.
  bool is_lost(std::int64_t step, std::uint32_t bucket, int member) const;
};

// Whether an operator is an average to which ranks contribute.
bool is_average(const BoundOp& op);

// Layouts whose averages are none of these, by key.
std::vector<std::string> partial_average_problems(const sim::Layout& layout);

// The collective of an operator with is_average(), where what is lost is missing.
std::unique_ptr<HostExchange> start_partial_average(Transport& transport,
                                                    const CollectiveCall& call,
                                                    const LostContributions& lost,
                                                    std::int64_t step, std::uint32_t bucket);

}  // namespace real
