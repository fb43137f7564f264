// The colour classes of spans: what a picture or a window tells apart at a glance.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/program/program.hpp"

namespace sim {

enum class Ink : std::uint8_t {
  forward,
  recompute,
  backward,
  weight_backward,
  optimizer,
  tensor,
  data,
  pipeline,
  none,
};
inline constexpr std::size_t ink_count = 8;

struct InkLegend {
  std::string_view text;
  std::string_view colour;  // "#rrggbb", on a white ground
};
// Colours: Okabe & Ito 2008, told apart by all kinds of eyes.
inline constexpr std::array<InkLegend, ink_count> ink_legend{{{"forward", "#0072b2"},
                                                              {"recompute", "#56b4e9"},
                                                              {"backward", "#009e73"},
                                                              {"weight gradients", "#004d38"},
                                                              {"optimizer", "#000000"},
                                                              {"tensor", "#f0e442"},
                                                              {"data", "#d55e00"},
                                                              {"pipeline", "#cc79a7"}}};

Ink ink_of(const Program& program, OpId op);

}  // namespace sim
