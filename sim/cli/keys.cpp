// stepcast keys: the catalogue of keys that a scenario file and --set take.
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/catalog/catalog.hpp"
#include "sim/cli/command.hpp"

namespace sim {
namespace {

struct KeysRequest {
  std::string pattern;
  OutputFormat format = OutputFormat::table;
  std::optional<SchemaOf> schema;
};

ExitCode print_keys(const KeysRequest& request) {
  if (request.schema) {
    print_result(file_schema(*request.schema));
    return ExitCode::done;
  }
  const std::vector<Key> keys = matching_keys(request.pattern);
  if (keys.empty()) static_cast<void>(require_key(request.pattern));  // the nearest names
  print_result(in_format(request.format, keys, keys_text, keys_json, keys_csv, keys_markdown));
  return ExitCode::done;
}

}  // namespace

Command keys_command() {
  const auto request = std::make_shared<KeysRequest>();
  return {.name = "keys",
          .help = "the keys of a scenario file and of --set",
          .options = {{.name = "PATTERN",
                       .into = &request->pattern,
                       .help = "only keys whose path contains it; with *, those that it matches"},
                      output_option(request->format),
                      {.name = "--schema",
                       .into = word_value<SchemaOf>(request->schema),
                       .form = "scenario|cluster|device|model",
                       .help = "JSON Schema of a kind of file, for editors",
                       .excludes = {"PATTERN", "--output"}}},
          .footer = "Example: stepcast keys 'layout.*parallel'",
          .run = [request] { return print_keys(*request); }};
}

}  // namespace sim
