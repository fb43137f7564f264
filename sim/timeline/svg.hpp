// What the SVG writers share.
#pragma once

#include <string>
#include <string_view>

namespace sim {

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
