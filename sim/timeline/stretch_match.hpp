// Kernels and operators between two products that are matched: which is which where their numbers
// differ. A part of align() (traced.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/timeline/match.hpp"
#include "sim/timeline/sequence_match.hpp"
#include "sim/timeline/traced.hpp"

namespace sim {

// match_class() has the kinds that a kernel's name tells apart; the rest is element-wise.
OpKind match_class(OpKind kind);

// kernels_of() is how many kernels an operator runs, at least one.
std::size_t kernels_of(const Program& program, std::uint32_t op);

// The kernel is one of the operator; TrackMatch::in_b has its first.
void set_match(TrackMatch& match, std::uint32_t op, std::uint32_t kernel);

// Kernels that one operator of the framework issued; a kernel without one is alone.
using KernelUnits = std::vector<std::vector<std::uint32_t>>;

// Operators of a class, each as often as it launches, and the kernels for them, all between the
// same two products.
struct Stretch {
  std::vector<std::uint32_t> ops;
  KernelUnits units;
};

class StretchMatcher {
 public:
  StretchMatcher(const Program& program, const RecordedTrack& track,
                 const std::vector<TracedKernel>& kernels, TrackMatch& match)
      : program_{program}, track_{track}, kernels_{kernels}, match_{match} {}

  // Matches them, and remembers the names of both.
  void set(std::uint32_t op, const std::vector<std::uint32_t>& unit);
  void add_uneven(Stretch stretch) { uneven_.push_back(std::move(stretch)); }
  // Pairs what was added at least cost, by times and by names; then what is left over, elsewhere in
  // the step, where names say so: kernels of other streams may run before or behind the products
  // between which they were issued.
  void match_uneven();

 private:
  // How often a kernel of a name is an operator of a name.
  using Pairings = std::map<std::string, std::map<std::uint32_t, std::size_t>>;

  SequencePairs pairs_of(const Stretch& of, const Pairings& known) const;
  void match_left_over();
  std::vector<Stretch> left_over() const;
  double cost_of(std::uint32_t op, const std::vector<std::uint32_t>& unit,
                 const Pairings& known) const;
  double name_cost(std::uint32_t op, const std::vector<std::uint32_t>& unit,
                   const Pairings& known) const;

  const Program& program_;
  const RecordedTrack& track_;
  const std::vector<TracedKernel>& kernels_;
  TrackMatch& match_;
  std::vector<Stretch> uneven_;
  Pairings pairings_;
};

}  // namespace sim
