#include "sim/schedule/pipeline_order.hpp"

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"
#include "sim/schedule/placement.hpp"

namespace sim {
namespace {

class UnitTimes {
 public:
  UnitTimes(const Layout& layout, const std::vector<std::vector<Slot>>& ranks)
      : placement_{layout},
        micro_batches_{static_cast<std::size_t>(layout.micro_batches())},
        ranks_{ranks},
        begins_(ranks.size()) {
    for (std::vector<int>& of_kind : ends_)
      of_kind.assign(static_cast<std::size_t>(placement_.chunks()) * micro_batches_, not_yet);
  }

  std::vector<std::vector<int>> run() {
    std::size_t left = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      begins_[rank].reserve(ranks_[rank].size());
      left += ranks_[rank].size();
    }
    for (std::size_t before = left + 1; left < before;) {
      before = left;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (begins_[rank].size() < ranks_[rank].size() && advance(rank))
          --left;
    }
    SIM_CHECK(left == 0, left);
    return std::move(begins_);
  }

 private:
  static constexpr int not_yet = -1;

  int& end_of(SlotKind kind, int chunk, int microbatch) {
    return ends_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk) * micro_batches_ +
                                                 static_cast<std::size_t>(microbatch)];
  }

  // When what a pass starts from is there; not_yet: it is not known.
  int input_of(const Slot& slot, int chunk) {
    switch (slot.kind) {
      case SlotKind::forward:
        return chunk == 0 ? 0 : end_of(SlotKind::forward, chunk - 1, slot.microbatch);
      case SlotKind::backward:
        return chunk + 1 == placement_.chunks()
                   ? end_of(SlotKind::forward, chunk, slot.microbatch)
                   : end_of(SlotKind::backward, chunk + 1, slot.microbatch);
      case SlotKind::weight_backward:
        return end_of(SlotKind::backward, chunk, slot.microbatch);
    }
    return not_yet;
  }

  bool advance(std::size_t rank) {
    std::vector<int>& begins = begins_[rank];
    const Slot& slot = ranks_[rank][begins.size()];
    const int chunk = placement_.chunk_of(static_cast<int>(rank), slot.chunk);
    const int input = input_of(slot, chunk);
    if (input == not_yet) return false;
    const int free = begins.empty() ? 0 : begins.back() + 1;
    begins.push_back(std::max(free, input));
    end_of(slot.kind, chunk, slot.microbatch) = begins.back() + 1;
    return true;
  }

  Placement placement_;
  std::size_t micro_batches_;
  const std::vector<std::vector<Slot>>& ranks_;
  std::vector<std::vector<int>> begins_;
  std::array<std::vector<int>, 3> ends_;  // by kind; by chunk, by micro-batch
};

}  // namespace

PipelineOrder pipeline_order(const Layout& layout) {
  PipelineOrder made{.ranks = schedule_of(layout), .begins = {}};
  if (rules_of(layout.schedule).sends_beside) made.begins = UnitTimes{layout, made.ranks}.run();
  return made;
}

}  // namespace sim
