// Text of strangers on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace sim {

// printable writes the bytes that command a terminal as \x1b: the control characters of ASCII, but
// for tab and line feed, and those of Unicode (U+0080 to U+009F, in UTF-8).
std::string printable(std::string_view text);

}  // namespace sim
