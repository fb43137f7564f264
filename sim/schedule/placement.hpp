// Which pipeline rank has which model chunk.
//
// loop: chunk c is on rank c mod P, as in the interleaved schedule (Narayanan et al. 2021). v: two
// chunks per rank, the second half of the model goes back from the last rank to the first, so that
// rank 0 has both the first and the last chunk (Qi et al. 2024, "Pipeline Parallelism with
// Controllable Memory"; PyTorch, distributed/pipelining, style="v").
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {

class Placement {
 public:
  explicit Placement(const Layout& layout)
      : ranks_{layout.pipeline_parallel},
        chunks_{layout.chunks()},
        is_v_{is_v_shaped(layout.schedule)} {}

  int chunks() const { return chunks_; }
  // The chunk that a rank has as its `local`-th.
  int chunk_of(int rank, int local) const {
    return local * ranks_ + (goes_back(local) ? ranks_ - 1 - rank : rank);
  }
  int rank_of(int chunk) const {
    const int at = chunk % ranks_;
    return goes_back(chunk / ranks_) ? ranks_ - 1 - at : at;
  }
  int local_of(int chunk) const { return chunk / ranks_; }
  // Where the output of a chunk that is not the last goes: +1 the next rank (of the last: the
  // first), -1 the rank before, 0 it stays.
  int step_behind(int chunk) const {
    if (!is_v_) return 1;
    return rank_of(chunk + 1) - rank_of(chunk);
  }
  // Whether the first and the last chunk are on one rank.
  bool ends_where_it_begins() const { return rank_of(0) == rank_of(chunks_ - 1); }

 private:
  bool goes_back(int local) const { return is_v_ && local % 2 == 1; }

  int ranks_, chunks_;
  bool is_v_;
};

}  // namespace sim
