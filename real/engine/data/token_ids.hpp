// The ids of a token file, in pieces; the whole file checked, and written in Stepcast's own format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "real/engine/data/input_file.hpp"
#include "real/engine/data/token_file.hpp"

namespace real {

// Ids `first` and on. REQUIRES: first + to.size() <= tokens.count.
void read_ids(const InputFile& file, const TokenFile& tokens, std::int64_t first,
              std::span<std::uint32_t> to);

// Why `id`, the one at `index`, is not what the header says; empty: it is.
std::string header_problem(const TokenFile& tokens, std::int64_t index, std::int64_t id);

// Reads every id: the largest. Throws InputError for one that the header does not allow.
std::int64_t largest_of(const TokenFile& tokens);

struct WrittenTokens {
  TokenFile tokens;
  std::string sha256;  // of the file
};
// Writes `from` as a token file of ids below `vocabulary`, in 16 bits where they are enough. The
// file appears when it is complete. Throws InputError for an id that is none of the vocabulary.
WrittenTokens write_tokens(const TokenFile& from, std::int64_t vocabulary, const std::string& to);

}  // namespace real
