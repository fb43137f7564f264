#include "real/engine/data/token_facts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "real/engine/data/token_ids.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/table_text.hpp"

namespace real {
namespace {

std::string text_for_people(const TokenFact& fact) {
  if (!fact.word.empty()) return fact.word;
  if (!fact.count) return "the file does not say";
  return fact.is_bytes ? sim::to_text(sim::Bytes{*fact.count}) : sim::grouped(*fact.count);
}

// Nothing where the file does not say.
std::string text_for_programs(const TokenFact& fact) {
  if (!fact.word.empty()) return fact.word;
  return fact.count ? std::to_string(*fact.count) : "";
}

}  // namespace

std::vector<TokenFact> token_facts(const std::string& path, bool check) {
  const TokenFile tokens = find_tokens(path);
  std::vector<TokenFact> facts{{"file", path}, {"format", std::string{sim::word(tokens.format)}}};
  if (tokens.data != path) facts.push_back({"data", tokens.data});
  const auto add = [&](const char* name, std::optional<std::int64_t> count) {
    facts.push_back({.name = name, .word = "", .count = count});
  };
  add("tokens", tokens.count);
  add("bits", 8 * tokens.width);
  add("vocabulary", tokens.vocabulary);
  add("largest_id", tokens.largest);
  if (check) add("largest_id_found", largest_of(tokens));
  add("size", tokens.first + tokens.count * tokens.width);
  facts.back().is_bytes = true;
  return facts;
}

std::string token_table(const std::vector<TokenFact>& facts) {
  std::string text;
  for (const TokenFact& fact : facts)
    text += fmt::format("{:<18}{}\n", sim::title_of(fact.name), text_for_people(fact));
  return text;
}

std::string token_json(const std::vector<TokenFact>& facts) {
  nlohmann::ordered_json json;
  for (const TokenFact& fact : facts) {
    nlohmann::ordered_json& value = json[fact.is_bytes ? "bytes" : fact.name];
    if (!fact.word.empty())
      value = fact.word;
    else if (fact.count)
      value = *fact.count;
  }
  return json.dump(2) + "\n";
}

std::string token_csv(const std::vector<TokenFact>& facts) {
  std::string text = "fact,value,unit\n";
  for (const TokenFact& fact : facts)
    text += fmt::format("{},{},{}\n", fact.name, sim::csv_field(text_for_programs(fact)),
                        fact.is_bytes ? "B" : "");
  return text;
}

std::string token_markdown(const std::vector<TokenFact>& facts) {
  std::string text = "| fact | value |\n|---|---|\n";
  for (const TokenFact& fact : facts)
    text += fmt::format("| {} | {} |\n", sim::title_of(fact.name),
                        sim::markdown_field(text_for_people(fact)));
  return text;
}

}  // namespace real
