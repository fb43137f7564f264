#include "sim/cli/option_values.hpp"

#include "sim/config/data_files.hpp"

namespace sim {

std::vector<std::string> option_values(const Option& option) {
  if (const auto* const one = std::get_if<WordValue>(&option.into)) return one->words;
  if (const auto* const one = std::get_if<OneOf>(&option.check)) return *one;
  const std::string& form = option.form.empty() ? option.name : option.form;
  if (form == "MODEL") return data_files("models");
  if (form == "CLUSTER") return data_files("topologies");
  return {};
}

}  // namespace sim
