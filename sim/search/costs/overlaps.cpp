#include "sim/search/costs/overlaps.hpp"

#include <algorithm>
#include <cmath>

namespace sim {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

// Collectives that run one after another between two kernels.
struct Window {
  std::uint32_t after = none, before = none;
  std::int64_t transfer = 0;
  std::int64_t sm = INT64_MAX;
};

Window joined(const Window& a, const Window& b) {
  return {std::min(a.after, b.after), std::max(a.before, b.before), a.transfer + b.transfer,
          std::min(a.sm, b.sm)};
}

// The windows of the stream of tensor-parallel collectives, which run in order. Two that overlap
// are taken as one, so that no kernel pays twice.
class Windows {
 public:
  Windows(const Program& program, std::uint32_t first, const OverlapCosts& costs)
      : program_{program}, first_{first}, costs_{costs} {}

  void collective(std::uint32_t op) {
    for (const OpId dependency : program_.dependencies({op}))
      if (dependency.value >= first_ && program_.stream[dependency.value] == Stream::compute)
        after_ = after_ == none ? dependency.value : std::max(after_, dependency.value);
    const LeastCollective cost = costs_.collective(op);
    waiting_.push_back({op, {after_, none, cost.transfer, cost.sm}});
  }

  void kernel(std::uint32_t op) {
    std::size_t done = 0;
    for (const OpId dependency : program_.dependencies({op}))
      while (done < waiting_.size() && waiting_[done].op <= dependency.value &&
             program_.stream[dependency.value] == Stream::tensor_comm)
        ++done;
    for (std::size_t i = 0; i < done; ++i) {
      Window window = waiting_[i].window;
      if (window.after == none || window.transfer == 0) continue;
      window.before = op;
      while (!closed_.empty() && closed_.back().before > window.after) {
        window = joined(closed_.back(), window);
        closed_.pop_back();
      }
      closed_.push_back(window);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
  }

  const std::vector<Window>& closed() const { return closed_; }

 private:
  struct Waiting {
    std::uint32_t op;
    Window window;
  };
  const Program& program_;
  std::uint32_t first_;
  const OverlapCosts& costs_;
  std::uint32_t after_ = none;  // the last kernel that all further collectives wait for
  std::vector<Waiting> waiting_;
  std::vector<Window> closed_;
};

}  // namespace

std::int64_t least_loss(std::vector<LeastKernel> kernels, std::int64_t transfer, std::int64_t sm,
                        const DeviceShares& shares) {
  const std::int64_t left = std::max(shares.device_sm - sm, shares.least_left);
  const auto speed = [&](const LeastKernel& kernel) {
    if (kernel.sm <= left) return 1.0;
    return kernel.persistent ? 0.5 : static_cast<double>(left) / static_cast<double>(kernel.sm);
  };
  std::sort(kernels.begin(), kernels.end(),
            [&](const LeastKernel& a, const LeastKernel& b) { return speed(a) > speed(b); });
  auto beside = static_cast<double>(transfer);
  double loss = 0;
  for (const LeastKernel& kernel : kernels) {
    const double at = speed(kernel);
    const double lasts = at > 0 ? static_cast<double>(kernel.time) / at : beside;
    const double together = std::min(beside, lasts);
    loss += (1 - at) * together;
    beside -= together;
  }
  // The engine's times are whole picoseconds: one less is surely not too much.
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(loss + 1e-3)) - 1);
}

std::vector<ForcedOverlap> forced_overlaps(const Program& program, std::uint32_t first,
                                           std::uint32_t last, const OverlapCosts& costs) {
  Windows windows{program, first, costs};
  for (std::uint32_t op = first; op < last; ++op) {
    if (program.stream[op] == Stream::tensor_comm) windows.collective(op);
    if (program.stream[op] == Stream::compute) windows.kernel(op);
  }
  std::vector<ForcedOverlap> overlaps;
  for (const Window& window : windows.closed()) {
    std::vector<LeastKernel> between;
    ForcedOverlap overlap{window.after, window.before, 0, 0};
    for (std::uint32_t op = window.after + 1; op < window.before; ++op) {
      if (program.stream[op] != Stream::compute) continue;
      between.push_back(costs.kernel(op));
      overlap.kernels += between.back().time;
    }
    overlap.loss = least_loss(std::move(between), window.transfer, window.sm, costs.shares);
    if (overlap.loss > 0) overlaps.push_back(overlap);
  }
  return overlaps;
}

}  // namespace sim
