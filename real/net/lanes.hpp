// Trees over the members, along which chunks go up (reduced), down (copied) or both. Room-internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "real/net/rounds.hpp"

namespace real {

// A rank's place in one tree, which carries every `lanes`-th part of the data.
struct TreePlace {
  int parent = -1;              // position, or none
  std::vector<int> children{};  // positions
  int depth = 0;                // hops to the root
};

// Pipelined over chunks: chunk c of a tree of height H goes up an edge whose lower end is d hops
// below the root in round H - d + c, and down it in round H + d - 1 + c (d - 1 + c if nothing goes
// up).
class LaneSchedule : public Schedule {
 public:
  struct Setup {
    Exchange exchange{};
    std::vector<TreePlace> lanes{};  // of this rank
    int height = 0;                  // the same for all lanes
    bool up = false, down = false;
    // Where the sums go and what is copied from. Null: sums pass through scratch memory.
    std::byte* sums = nullptr;
  };
  explicit LaneSchedule(Setup setup);
  int rounds() const override;
  void fill(int round, Round& out) override;

 private:
  int up_start(int depth) const { return setup_.height - depth; }
  int down_start(int depth) const { return (setup_.up ? setup_.height : 0) + depth - 1; }
  Elements chunk(std::size_t lane, int index) const;
  std::byte* sum_of(std::size_t lane, int index) const;
  void fill_up(std::size_t lane, int round, Round& out) const;
  void fill_down(std::size_t lane, int round, Round& out) const;

  Setup setup_;
  int chunks_ = 1;
  std::int64_t scratch_stride_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
};

// The alternating binary tree over `nodes` (NVIDIA/nccl src/graph/trees.cc, ncclGetBtree): odd
// nodes are leaves, node 0 is the root and has one child.
TreePlace binary_tree_place(int nodes, int node);
int binary_tree_height(int nodes);

}  // namespace real
