// Characters that the readers of several languages tell apart. ASCII, whatever the locale.
#pragma once

namespace sim {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// starts_name() and in_name() are for names in Python: a letter or an underscore; behind the first
// character a digit, too.
inline bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool in_name(char c) {
  return starts_name(c) || is_digit(c);
}

}  // namespace sim
