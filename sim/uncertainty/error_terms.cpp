#include "sim/uncertainty/error_terms.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sim {

double scale_coefficient(int gpus) {
  return std::log2(gpus) / 3;
}

SourceVector source_coefficients(const JobTraits& traits) {
  const StepShares& shares = traits.shares;
  SourceVector made;
  const auto set = [&](ErrorSource source, double value) {
    made[static_cast<Eigen::Index>(source)] = value;
  };
  set(ErrorSource::machine, 1);
  set(ErrorSource::job, 1);
  set(ErrorSource::layout, 1);
  set(ErrorSource::scale, scale_coefficient(traits.gpus));
  set(ErrorSource::memory_kernels, shares.memory_kernels);
  set(ErrorSource::host, shares.host);
  set(ErrorSource::tensor, shares.tensor);
  set(ErrorSource::data, shares.data);
  set(ErrorSource::pipeline, shares.pipeline);
  return made;
}

std::vector<std::string> categories_of(const JobTraits& traits) {
  std::vector<std::string> found{
      fmt::format("generation {}", word(traits.generation)),
      fmt::format("dtype {}", word(traits.dtype)),
      fmt::format("dtype {} on {}", word(traits.dtype), word(traits.generation)),
      fmt::format("schedule {}", traits.pipelined ? word(traits.schedule) : "none")};
  // A technique may work well in one framework and not in another: each category is a pair of the
  // two. What a framework makes of it that is not named is in the error of those.
  if (traits.named)
    found.insert(found.begin(), fmt::format("framework {}", word(traits.framework)));
  if (traits.named && !traits.preset.empty())
    found.push_back(fmt::format("preset {}", traits.preset));
  const auto under = [&](bool is, std::string_view what) {
    if (is && traits.named)
      found.push_back(fmt::format("{} under {}", what, word(traits.framework)));
  };
  under(traits.tensor, "tensor parallel");
  under(traits.context, "context parallel");
  under(traits.zero_3, "ZeRO-3");
  under(traits.experts, "experts");
  if (traits.lengths) found.emplace_back("sequences of unequal length");
  if (traits.narrow_row_scales)
    found.emplace_back("scales of rows on less than 4,096 features of a rank");
  if (traits.expert_adapters) found.emplace_back("adapters of experts");
  if (traits.mixed_nodes) found.emplace_back("nodes of several kinds");
  if (traits.uneven_replicas) found.emplace_back("replicas with more micro-batches than others");
  if (traits.messages_ahead) found.emplace_back("overlap of messages under 1F1B or GPipe");
  for (const std::string& setting : traits.unmodelled)
    found.push_back(fmt::format("setting {}", setting));
  return found;
}

}  // namespace sim
