#include "real/host/partial_average.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

std::span<float> as_numbers(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

class PartialAverage : public HostExchange {
 public:
  PartialAverage(Transport& transport, const CollectiveCall& call, std::vector<bool> arrives)
      : call_{call}, arrives_{std::move(arrives)} {
    const auto own = std::ranges::find(call.members, transport.rank()) - call.members.begin();
    const bool gathers = call.kind == sim::CollectiveKind::all_gather;
    if (!gathers && !arrives_[static_cast<std::size_t>(own)]) {
      // Zeros in place of the rank's own contribution: it is overwritten, or was only read.
      const bool in_place = call.input.empty() || call.input.data() == call.output.data();
      if (call.kind == sim::CollectiveKind::all_reduce && in_place) {
        std::ranges::fill(call_.output, std::byte{0});
      } else {
        zeros_.resize(call.input.size());
        call_.input = zeros_;
      }
    }
    run_ = start_collective(transport, call_);
  }

  bool progress() override {
    if (!run_->progress()) return false;
    const auto all = static_cast<float>(arrives_.size());
    const float scale = all / static_cast<float>(std::ranges::count(arrives_, true));
    if (call_.kind == sim::CollectiveKind::all_gather)
      scale_parts(scale);
    else
      for (float& number : as_numbers(call_.output))
        number *= scale;
    return true;
  }

 private:
  // top_k: of each rank its numbers, then their places. Those of lost messages count nothing.
  void scale_parts(float scale) {
    const std::size_t part = call_.output.size() / arrives_.size();
    for (std::size_t member = 0; member < arrives_.size(); ++member)
      for (float& number : as_numbers(call_.output.subspan(member * part, part / 2)))
        number *= arrives_[member] ? scale : 0.0F;
  }

  CollectiveCall call_;
  std::vector<bool> arrives_;  // by member
  std::vector<std::byte> zeros_;
  std::unique_ptr<CollectiveRun> run_;
};

}  // namespace

bool LostContributions::is_lost(std::int64_t step, std::uint32_t bucket, int member) const {
  const std::uint64_t message = sim::hash_combine(static_cast<std::uint64_t>(step), bucket);
  return sim::uniform(seed, message, static_cast<std::uint64_t>(member)) < rate;
}

bool is_average(const BoundOp& op) {
  return op.action == sim::Action::reduce || op.action == sim::Action::replicate ||
         op.action == sim::Action::exchange_compressed || op.action == sim::Action::average_outer;
}

std::vector<std::string> partial_average_problems(const sim::Layout& layout) {
  std::vector<std::string> problems;
  const auto refuse = [&](const char* key, const char* allowed) {
    problems.push_back(
        fmt::format("--dropped lost: averages of this {} have no single message of a rank; "
                    "allowed: {}",
                    key, allowed));
  };
  using enum sim::GradientCompression;
  const sim::GradientCompression scheme = layout.compression;
  if (scheme != none && scheme != top_k && scheme != random_k && scheme != power_sgd)
    refuse("layout.compression.gradients", "none, top_k, random_k, power_sgd");
  if (layout.outer_quantization != sim::OuterQuantization::none)
    refuse("layout.local_steps.quantization", "none");
  if (layout.has_servers()) refuse("layout.servers.mode", "none");
  return problems;
}

std::unique_ptr<HostExchange> start_partial_average(Transport& transport,
                                                    const CollectiveCall& call,
                                                    const LostContributions& lost,
                                                    std::int64_t step, std::uint32_t bucket) {
  std::vector<bool> arrives;
  for (const int member : call.members)
    arrives.push_back(!lost.is_lost(step, bucket, member));
  if (std::ranges::count(arrives, true) == 0) arrives.assign(arrives.size(), true);
  return std::make_unique<PartialAverage>(transport, call, std::move(arrives));
}

}  // namespace real
