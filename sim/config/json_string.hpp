// Strings of JSON (RFC 8259, section 7), for both readers of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sim {

// Appends to `into` what the string at text[at], a quotation mark, says, and moves `at` behind it.
// Returns what is wrong, with `at` at that place; empty: nothing is. Beyond the RFC, U+0000 and
// halves of surrogate pairs are refused.
std::string_view read_json_string(std::string_view text, std::size_t& at, std::string& into);

// read_json_escape() does the same with an escape, behind its backslash: at most 11 characters.
std::string_view read_json_escape(std::string_view text, std::size_t& at, std::string& into);

}  // namespace sim
