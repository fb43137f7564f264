#include "sim/base/printable.hpp"

#include <fmt/format.h>

namespace sim {
namespace {

bool commands_terminal(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t')) return true;
  const bool in_c1 = byte >= 0x80 && byte < 0xa0;
  return in_c1 && at > 0 && static_cast<unsigned char>(text[at - 1]) == 0xc2;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size(); ++at)
    shown += commands_terminal(text, at)
                 ? fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]))
                 : std::string{text[at]};
  return shown;
}

}  // namespace sim
