// The reference on a core: the host backend's own GEMM, and memcpy.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "real/calibrate/core_clock.hpp"
#include "real/calibrate/kernel_samples.hpp"
#include "real/calibrate/reference.hpp"
#include "real/host/kernels/kernels_linear.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

// A quarter of a millisecond and a twentieth on a core of 2020: far above what reading a clock
// costs, far below a turn of the scheduler (some milliseconds). Five parts of computing to one of
// moving memory, as in a step of the small models that a core trains.
constexpr std::int64_t side = 160;
constexpr std::size_t copied = 1 << 20;
// The median of so many is that of an undisturbed one, whatever the scheduler does once or twice.
constexpr int pieces_of_core = 20;
// Ranks that take turns: several turns of each.
constexpr int pieces_of_turns = 80;
// Turns are of milliseconds: two seconds hold enough of them, whatever a step takes.
constexpr double longest = 2;
// Where the machine has become busier since the number of pieces was chosen.
constexpr double longest_wall = 2 * longest;
constexpr int fewest_pieces = 10;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class HostReference : public Reference {
 public:
  explicit HostReference(bool share_cores) : share_cores_{share_cores} {}

  ReferenceRun run(int pieces) override {
    SIM_CHECK(pieces > 0, pieces);
    // The clock of the wall only, which is no system call: a scheduler takes the core away where a
    // thread calls the system, which neither a piece nor a step does often.
    std::vector<double> products, copies;
    const double begin = wall_now();
    double at = begin;
    for (int i = 0; i < pieces; ++i) {
      linear_forward({.tokens = side, .in = side, .out = side}, a_, b_, {}, c_);
      const double between = wall_now();
      std::memcpy(to_.data(), from_.data(), copied);
      const double end = wall_now();
      products.push_back(between - at);
      copies.push_back(end - between);
      at = end;
      if (i + 1 >= fewest_pieces && at - begin > longest_wall) break;
    }
    const double whole = (at - begin) / static_cast<double>(products.size());
    if (share_cores_)
      return {.typical = {.product = mean(products), .copy = mean(copies)}, .whole = whole};
    return {.typical = {.product = median(products), .copy = median(copies)}, .whole = whole};
  }

  int pieces_between_kernels() const override {
    return share_cores_ ? pieces_of_turns : pieces_of_core;
  }

  // As long as the step: who waits for a core gets it for the first moments at once, so a short
  // stretch of work beside others looks better than a step does.
  int pieces_beside_step(double step, double piece) const override {
    const double pieces = std::min(step, longest) / std::max(piece, 1e-6);
    return static_cast<int>(std::max(double{fewest_pieces}, std::ceil(pieces)));
  }

 private:
  static std::vector<float> numbers() {
    std::vector<float> values(static_cast<std::size_t>(side * side));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5F - static_cast<float>(i % 7) * 0.125F;
    return values;
  }

  bool share_cores_;
  std::vector<float> a_ = numbers(), b_ = numbers(), c_ = numbers();
  std::vector<std::byte> from_ = std::vector<std::byte>(copied),
                         to_ = std::vector<std::byte>(copied);
};

}  // namespace

std::unique_ptr<Reference> make_host_reference(bool share_cores) {
  return std::make_unique<HostReference>(share_cores);
}

}  // namespace real
