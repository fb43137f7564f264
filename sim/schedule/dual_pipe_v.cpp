#include "sim/schedule/dual_pipe_v.hpp"

#include <array>
#include <queue>
#include <utility>

namespace sim {
namespace {

class DualPipeV {
 public:
  DualPipeV(int rank, int ranks, int micro_batches)
      : rank_{rank}, behind_{ranks - rank - 1}, pairs_{micro_batches - 2 * ranks + rank + 1} {}

  std::vector<Slot> order() {
    warm_up();
    steady();
    end();
    return std::move(slots_);
  }

 private:
  void warm_up() {
    for (int i = 0; i < 2 * behind_; ++i)
      forward(0);
    for (int i = 0; i <= rank_; ++i) {
      forward(0);
      forward(1);
    }
    for (int i = 0; i < behind_; ++i) {
      input_gradients(1);
      weight_gradients();
      forward(1);
    }
  }

  // Each line is a pair that training code may overlap.
  void steady() {
    for (int i = 0; i < pairs_; ++i) {
      forward(0), backward(1);
      forward(1), backward(0);
    }
    for (int i = 0; i < behind_; ++i) {
      backward(1);
      forward(1), backward(0);
    }
  }

  // In the second half weight gradients are held back, to fill the waits that follow.
  void end() {
    const int passes = rank_ + 1;
    bool holds = false;
    const auto pass = [&](int chunk) { holds ? input_gradients(chunk) : backward(chunk); };
    for (int i = 0; i < passes; ++i) {
      if (i == passes / 2 && rank_ % 2 == 1) holds = true;
      pass(1);
      if (i == passes / 2 && rank_ % 2 == 0) holds = true;
      pass(0);
    }
    for (int i = 0; i < behind_; ++i) {
      weight_gradients();
      pass(0);
    }
    while (!held_.empty())
      weight_gradients();
  }

  int next(SlotKind kind, int chunk) {
    return next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)]++;
  }
  void forward(int chunk) {
    slots_.push_back({SlotKind::forward, chunk, next(SlotKind::forward, chunk)});
  }
  void input_gradients(int chunk) {
    const int microbatch = next(SlotKind::backward, chunk);
    slots_.push_back({SlotKind::backward, chunk, microbatch});
    held_.push({SlotKind::weight_backward, chunk, microbatch});
  }
  void weight_gradients() {
    if (held_.empty()) return;
    slots_.push_back(held_.front());
    held_.pop();
  }
  void backward(int chunk) {
    const int microbatch = next(SlotKind::backward, chunk);
    slots_.push_back({SlotKind::backward, chunk, microbatch});
    slots_.push_back({SlotKind::weight_backward, chunk, microbatch});
  }

  int rank_, behind_, pairs_;
  std::array<std::array<int, 2>, 3> next_{};
  std::queue<Slot> held_;  // weight gradients
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<Slot> dual_pipe_v(int rank, int ranks, int micro_batches) {
  return DualPipeV{rank, ranks, micro_batches}.order();
}

}  // namespace sim
