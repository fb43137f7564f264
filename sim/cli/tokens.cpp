// stepcast tokens: files of token ids for `stepcast run`: what one holds, and making one.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "real/engine/token_ids.hpp"
#include "sim/base/quantity.hpp"
#include "sim/cli/engine.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

struct ShowRequest {
  std::string file;
  bool check = false;
  OutputFormat output = OutputFormat::table;
};

struct ConvertRequest {
  std::string from, to;
  std::string kind = "auto";  // auto, bytes, uint16, uint32
  std::int64_t vocabulary = 0;
};

constexpr std::int64_t byte_vocabulary = 256;

// What is said of a file, in order. `value`: for programs; null where the file does not say it.
struct Fact {
  std::string name;
  nlohmann::ordered_json value;
  std::string unit, text;  // `text`: for people
};

Fact count_of(const std::string& name, const std::optional<std::int64_t>& count,
              const std::string& unit = "") {
  if (!count) return {name, nullptr, unit, "the file does not say"};
  return {name, *count, unit, grouped(*count)};
}

std::vector<Fact> facts_of(const ShowRequest& request) {
  const real::TokenFile tokens = real::find_tokens(request.file);
  const std::int64_t bytes = tokens.first + tokens.count * tokens.width;
  std::vector<Fact> facts{{"file", request.file, "", request.file},
                          {"format", word(tokens.format), "", std::string{word(tokens.format)}}};
  if (tokens.data != request.file) facts.push_back({"data", tokens.data, "", tokens.data});
  facts.push_back(count_of("tokens", tokens.count));
  facts.push_back(count_of("bits", 8 * tokens.width));
  facts.push_back(count_of("vocabulary", tokens.vocabulary));
  facts.push_back(count_of("largest_id", tokens.largest));
  if (request.check) facts.push_back(count_of("largest_id_found", real::largest_of(tokens)));
  facts.push_back({"size", bytes, "B", to_text(Bytes{bytes})});
  return facts;
}

std::string table(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts)
    text += fmt::format("{:<18}{}\n", title_of(fact.name), fact.text);
  return text;
}

std::string json(const std::vector<Fact>& facts) {
  nlohmann::ordered_json json;
  for (const Fact& fact : facts)
    json[fact.unit.empty() ? fact.name : "bytes"] = fact.value;
  return json.dump(2) + "\n";
}

// Numbers as they are, text without quotes, nothing where the file does not say.
std::string plain(const Fact& fact) {
  if (fact.value.is_null()) return "";
  return fact.value.is_string() ? fact.value.get<std::string>() : fact.value.dump();
}

std::string csv(const std::vector<Fact>& facts) {
  std::string text = "fact,value,unit\n";
  for (const Fact& fact : facts)
    text += fmt::format("{},{},{}\n", fact.name, csv_field(plain(fact)), fact.unit);
  return text;
}

std::string markdown(const std::vector<Fact>& facts) {
  std::string text = "| fact | value |\n|---|---|\n";
  for (const Fact& fact : facts)
    text += fmt::format("| {} | {} |\n", title_of(fact.name), markdown_field(fact.text));
  return text;
}

ExitCode show(const ShowRequest& request) {
  print_result(in_format(request.output, facts_of(request), table, json, csv, markdown));
  return ExitCode::done;
}

real::TokenFile source_of(const ConvertRequest& request) {
  if (request.kind == "bytes") return real::raw_tokens(request.from, 1);
  if (request.kind == "uint16") return real::raw_tokens(request.from, 2);
  if (request.kind == "uint32") return real::raw_tokens(request.from, 4);
  return real::find_tokens(request.from);
}

ExitCode convert(const ConvertRequest& request) {
  const real::TokenFile from = source_of(request);
  std::int64_t vocabulary = request.vocabulary;
  if (vocabulary == 0 && from.vocabulary) vocabulary = *from.vocabulary;
  if (vocabulary == 0 && from.format == real::DataFormat::text) vocabulary = byte_vocabulary;
  if (vocabulary == 0)
    throw WrongUse{
        fmt::format("{} does not say the vocabulary of its tokenizer: add --vocabulary N "
                    "(GPT-2: 50257)",
                    request.from)};
  const real::WrittenTokens written = real::write_tokens(from, vocabulary, request.to);
  print_result(fmt::format("{}: {} tokens of {} bits, vocabulary {}, largest id {}; SHA-256 {}\n",
                           request.to, grouped(written.tokens.count), 8 * written.tokens.width,
                           grouped(vocabulary), grouped(*written.tokens.largest), written.sha256));
  return ExitCode::done;
}

Command show_command() {
  const auto request = std::make_shared<ShowRequest>();
  return {.name = "show",
          .help = "what a file of training data holds",
          .options = {{.name = "FILE",
                       .into = &request->file,
                       .help = "token file, .bin or .idx, or text",
                       .required = true},
                      {.name = "--check",
                       .into = &request->check,
                       .help = "read every id, not just the header"},
                      output_option(request->output)},
          .run = [request] { return show(*request); }};
}

Command convert_command() {
  const auto request = std::make_shared<ConvertRequest>();
  return {.name = "convert",
          .help = "a token file from a text, an llm.c or Megatron-LM file, or plain ids",
          .options = {{.name = "FROM",
                       .into = &request->from,
                       .help = "what to convert",
                       .required = true},
                      {.name = "TO",
                       .into = &request->to,
                       .help = "the token file to write",
                       .required = true},
                      {.name = "--from",
                       .into = &request->kind,
                       .form = "auto|bytes|uint16|uint32",
                       .help = "what FROM is: bytes, ids without a header, or auto: as its header "
                               "says",
                       .check = OneOf{"auto", "bytes", "uint16", "uint32"}},
                      {.name = "--vocabulary",
                       .into = &request->vocabulary,
                       .form = "N",
                       .help = "ids of the tokenizer (bytes: 256; else as the header says)",
                       .check = CountFrom{1, 2147483647}}},
          .run = [request] { return convert(*request); }};
}

}  // namespace

Command tokens_command() {
  return {.name = "tokens",
          .help = "files of token ids to train on",
          .commands = {show_command(), convert_command()},
          .footer =
              "Example: stepcast tokens convert train.bin train.tokens --from uint16 "
              "--vocabulary 50257"};
}

}  // namespace sim
