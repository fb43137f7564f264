#include "sim/plan/outer_message.hpp"

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"
#include "sim/plan/parameters/compression_work.hpp"

namespace sim {

OuterMessage message_of(const Layout& layout, std::int64_t parameters) {
  SIM_CHECK(layout.trains_apart());
  if (layout.outer_quantization == OuterQuantization::none)
    return {.all = Bytes{parameters * bytes_of(layout.outer_dtype)}, .part = parameters};
  OuterMessage made{.pieces = layout.replicas() / layout.local_ranks};
  made.part = divide_up(parameters, made.pieces);
  made.piece = lowering::quantized_bytes(made.part, bits_of(layout.outer_quantization));
  made.all = made.piece * made.pieces;
  return made;
}

}  // namespace sim
