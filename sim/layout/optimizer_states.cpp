#include "sim/layout/optimizer_states.hpp"

#include <cmath>

#include "sim/base/rounding.hpp"

namespace sim {

std::int64_t moment_bytes(const Layout& layout, std::int64_t parameters, std::int64_t small) {
  if (layout.state_format == StateFormat::plain) return parameters * layout.moment_bytes();
  if (layout.state_format == StateFormat::bitsandbytes_32bit)
    return parameters * moments_of(layout.optimizer) * std::int64_t{4};
  const StateBlocks blocks = blocks_of(layout.state_format);
  const std::int64_t in_blocks = parameters - small;
  const std::int64_t scales = divide_up(in_blocks, blocks.numbers);
  const auto codes = std::llround(std::ceil(static_cast<double>(in_blocks) * blocks.bytes_each));
  // torchao: torch.zeros_like of the weights, which are fp32 where masters are kept.
  const bool as_weights =
      layout.state_format != StateFormat::bitsandbytes_8bit && !layout.master_weights;
  const int rest = as_weights ? bytes_of(layout.activation_dtype) : 4;
  return moments_of(layout.optimizer) * (codes + 4 * scales + small * rest);
}

}  // namespace sim
