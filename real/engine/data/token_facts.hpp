// Contents of a file of training data, as text: `stepcast tokens show`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "real/engine/data/token_file.hpp"

namespace real {

// One line of it: a word or a number.
struct TokenFact {
  std::string name;                     // "largest_id"
  std::string word;                     // empty: `count` is meant
  std::optional<std::int64_t> count{};  // empty: the file does not say
  bool is_bytes = false;
};

// In order. `check`: reads every id, for the largest. Throws as find_tokens() and largest_of() do.
std::vector<TokenFact> token_facts(const std::string& path, bool check);

std::string token_table(const std::vector<TokenFact>& facts);
std::string token_json(const std::vector<TokenFact>& facts);
std::string token_csv(const std::vector<TokenFact>& facts);
std::string token_markdown(const std::vector<TokenFact>& facts);

}  // namespace real
