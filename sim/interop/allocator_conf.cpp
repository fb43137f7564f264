#include "sim/interop/allocator_conf.hpp"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "sim/interop/settings.hpp"

namespace sim {
namespace {

constexpr const char* variable = "PYTORCH_CUDA_ALLOC_CONF";

struct Option {
  std::string_view name, value;
};

// "expandable_segments:True,max_split_size_mb:512"
std::vector<Option> options_of(std::string_view text) {
  std::vector<Option> options;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    if (!one.empty())
      options.push_back(
          {one.substr(0, colon), colon == std::string_view::npos ? "" : one.substr(colon + 1)});
  }
  return options;
}

bool read_option(const Option& option, Execution& runs) {
  if (option.name == "expandable_segments") {
    const bool known = option.value == "True" || option.value == "true" ||
                       option.value == "False" || option.value == "false";
    if (!known) return false;
    runs.expandable_segments = option.value == "True" || option.value == "true";
    return true;
  }
  if (option.name == "max_split_size_mb") {
    std::int64_t mib = 0;
    const char* end = option.value.data() + option.value.size();
    const auto [at, error] = std::from_chars(option.value.data(), end, mib);
    // PyTorch refuses less than its large segments have, and takes more than any device has for
    // none (c10/core/AllocatorConfig.cpp, parseMaxSplitSize).
    if (error != std::errc{} || at != end || mib <= 20 || mib > (1 << 20)) return false;
    runs.max_split_size = Bytes{mib << 20};
    return true;
  }
  // Without effect: no fraction of the device is set (CUDACachingAllocator.cpp, set_fraction).
  return option.name == "garbage_collection_threshold";
}

}  // namespace

void read_allocator_conf(const ObjectReader& root, Imported& result) {
  Text conf;
  read_setting(root, allocator_conf_flag, conf);
  if (!conf) return;
  Execution& runs = result.framework.execution;
  for (const Option& option : options_of(*conf)) {
    if (read_option(option, runs)) continue;
    result.notes.push_back({variable, fmt::format("{}{}{} is not modelled", option.name,
                                                  option.value.empty() ? "" : ":", option.value)});
  }
  if (runs.expandable_segments) runs.max_split_size = {};
}

std::string allocator_conf_line(const Execution& runs) {
  if (runs.expandable_segments)
    return fmt::format("export {}=expandable_segments:True\n", variable);
  if (runs.max_split_size.count() == 0) return "";
  return fmt::format("export {}=max_split_size_mb:{}\n", variable,
                     runs.max_split_size.count() >> 20);
}

}  // namespace sim
