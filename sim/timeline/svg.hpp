// Helpers that the SVG writers share.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sim {

// Colours of lines and points, told apart by colour-blind readers too. Okabe and Ito, Color
// Universal Design (2008), and a dark green, a brown and a violet, apart from them in lightness.
inline constexpr std::array<const char*, 10> svg_colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                         "#e69f00", "#56b4e9", "#000000", "#004d38",
                                                         "#7a4a12", "#6a3fb5"};
constexpr const char* svg_colour(std::size_t number) {
  return svg_colours[number % svg_colours.size()];
}

// `text` as the content of an SVG element.
inline std::string svg_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace sim
