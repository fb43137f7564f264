#include "sim/interop/missing_options.hpp"

#include <fmt/format.h>

namespace sim {

void MissingOptions::add_common(const ImportRequest& request) {
  if (!request.model) add("--model llama-3.1-8b", "the model");
  if (request.sequence_length == 0) add("--seq-length 4096", "the tokens of a sequence");
  if (request.gpus == 0) add("--gpus 8", "the number of GPUs");
}

std::string MissingOptions::sentence(std::string_view file) const {
  std::string what, example;
  for (const Entry& entry : entries_) {
    const std::string_view name = std::string_view{entry.option}.substr(0, entry.option.find(' '));
    what += fmt::format("{}{} ({})", what.empty() ? "" : ", ", entry.why, name);
    example += " " + entry.option;
  }
  return fmt::format(
      "not in this file: {}; give the options, for example: stepcast import {} {} --cluster "
      "dgx-h100{}",
      what, format_, file, example);
}

}  // namespace sim
