// Trouble of known kinds and sizes, to be put into a replayed forecast.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/explain/waterfall.hpp"
#include "tests/property/traced_forecast.hpp"

namespace sim::test {

enum class Injection : std::uint8_t {
  products,       // those of a pass take 20 % longer
  attention,      // 30 %
  memory_bound,   // kernels of one kind, 40 %
  optimizer,      // 50 %
  extra_kernels,  // a kernel of 5 us behind every eighth one
  not_fused,      // an element-wise operator is three kernels, each as long
  half_rate,      // the collectives of one group take twice as long
  straggler,      // the kernels of one rank take 30 % longer
  exposed,        // collectives beside compute block it
  host_gaps,      // the host issues every twentieth kernel late
  data_loading,
  garbage,
};
constexpr auto words_of(Injection) {
  return std::array{Word{Injection::products, "products 20 % slower"},
                    Word{Injection::attention, "attention 30 % slower"},
                    Word{Injection::memory_bound, "memory-bound kernels 40 % slower"},
                    Word{Injection::optimizer, "optimizer 50 % slower"},
                    Word{Injection::extra_kernels, "kernels that are not in the forecast"},
                    Word{Injection::not_fused, "missing fusion"},
                    Word{Injection::half_rate, "links of a group at half rate"},
                    Word{Injection::straggler, "a rank 30 % slower"},
                    Word{Injection::exposed, "collectives that block"},
                    Word{Injection::host_gaps, "host gaps"},
                    Word{Injection::data_loading, "data loading"},
                    Word{Injection::garbage, "garbage collection"}};
}

struct InjectedTrouble {
  TroubleOf trouble;
  HostTrouble late{};
};

// injected() draws what the kind leaves open by the seed. Its kernels may not be in the forecast:
// then it changes nothing.
InjectedTrouble injected(Injection kind, const Forecast& forecast, std::uint64_t seed);

// Both at once.
InjectedTrouble both(const InjectedTrouble& a, const InjectedTrouble& b);

// The parts that name the kind.
std::set<TroubleKind> named_by(Injection kind);

// What the trouble adds to the kernels of a rank, where that is all it does.
Duration added_to(const Forecast& forecast, RankId rank, const InjectedTrouble& trouble);

// Whether all the trouble does is to make kernels longer, or more, on all ranks alike.
constexpr bool is_of_kernels(Injection kind) {
  return kind <= Injection::not_fused;
}

}  // namespace sim::test
