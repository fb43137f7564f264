// stepcast tokens: files of token ids for `stepcast run`: what one holds, and making one.
#include <fmt/format.h>

#include <memory>

#include "real/engine/data/token_facts.hpp"
#include "real/engine/data/token_ids.hpp"
#include "sim/base/table_text.hpp"
#include "sim/cli/train/engine.hpp"

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

ExitCode show(const ShowRequest& request) {
  print_result(in_format(request.output, real::token_facts(request.file, request.check),
                         real::token_table, real::token_json, real::token_csv,
                         real::token_markdown));
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
  const std::int64_t vocabulary =
      request.vocabulary > 0 ? request.vocabulary : real::vocabulary_of(from).value_or(0);
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

Command show_tokens_command() {
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
                       .writes = Output::file,
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
          .commands = {show_tokens_command(), convert_command()},
          .footer =
              "Example: stepcast tokens convert train.bin train.tokens --from uint16 "
              "--vocabulary 50257"};
}

}  // namespace sim
