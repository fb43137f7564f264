// What of a rank's state lies on the host, in one word: a dimension of a search.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

// OffloadParts: of the optimizer, the parameters (which need it, and ZeRO-3) and the activations,
// those that are not on the device alone.
enum class OffloadParts : std::uint8_t {
  none,
  optimizer,
  activations,
  optimizer_and_activations,
  optimizer_and_parameters,
  all
};
constexpr auto words_of(OffloadParts) {
  return std::array{Word{OffloadParts::none, "none"},
                    Word{OffloadParts::optimizer, "optimizer"},
                    Word{OffloadParts::activations, "activations"},
                    Word{OffloadParts::optimizer_and_activations, "optimizer+activations"},
                    Word{OffloadParts::optimizer_and_parameters, "optimizer+parameters"},
                    Word{OffloadParts::all, "optimizer+parameters+activations"}};
}

// offload_parts() are those of a layout.
OffloadParts offload_parts(const Layout& layout);

// offload() puts these parts of `layout` on the host and takes the others from there. A part that
// is there stays as it is (cpu or nvme, the fraction, the layers); one that comes goes to its
// memory.
void offload(OffloadParts parts, Layout& layout);

}  // namespace sim
