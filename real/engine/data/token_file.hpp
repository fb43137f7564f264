// Contents of a file of training data: a text as bytes, or token ids behind a header. The formats,
// byte by byte, are in TOKENS.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/words.hpp"

namespace real {

// text: a token is a byte. raw: ids without a header, only where the caller says so.
enum class DataFormat : std::uint8_t { text, stepcast, llm_c, megatron, raw };
constexpr auto words_of(DataFormat) {
  return std::array{sim::Word{DataFormat::text, "text as bytes"},
                    sim::Word{DataFormat::stepcast, "Stepcast token file"},
                    sim::Word{DataFormat::llm_c, "llm.c token file"},
                    sim::Word{DataFormat::megatron, "Megatron-LM indexed dataset"},
                    sim::Word{DataFormat::raw, "ids without a header"}};
}

// Where the ids are. Ids are little-endian and unsigned.
struct TokenFile {
  DataFormat format = DataFormat::text;
  std::string data;        // the file with the ids; of Megatron-LM's two the .bin
  int width = 1;           // bytes of an id: 1, 2 or 4
  std::int64_t first = 0;  // byte of `data` where the ids begin
  std::int64_t count = 0;  // ids
  // The tokenizer's vocabulary, and the largest id, where the file says so; largest < vocabulary.
  std::optional<std::int64_t> vocabulary, largest;
};

// The header of Stepcast's own format.
inline constexpr std::string_view token_magic = "STEPCTOK";
inline constexpr std::int64_t token_header_bytes = 64;
using TokenHeader = std::array<std::byte, token_header_bytes>;

// Reads headers only, so it takes no time for a file of any size. Throws InputError for what is
// torn, contradicts itself, is of another version, byte order or format (compressed, NumPy, ...),
// and for a name in .bin without a header: that may be ids of any width.
TokenFile find_tokens(const std::string& path);
// Ids without a header, `width` bytes each (1, 2 or 4), whatever the file begins with.
TokenFile raw_tokens(const std::string& path, int width);

// Ids of the tokenizer: as the file says, of a text 256. Empty: the file does not say.
std::optional<std::int64_t> vocabulary_of(const TokenFile& tokens);

// REQUIRES: width 2 or 4, vocabulary and largest set.
TokenHeader header_of(const TokenFile& tokens);

}  // namespace real
