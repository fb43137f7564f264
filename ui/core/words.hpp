// Text of the libraries as text of the window.
#pragma once

#include <QString>
#include <string_view>

namespace ui {

inline QString to_qstring(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

// "gathered_parameters" -> "gathered parameters".
inline QString spaced(std::string_view word) {
  return to_qstring(word).replace('_', ' ');
}

}  // namespace ui
