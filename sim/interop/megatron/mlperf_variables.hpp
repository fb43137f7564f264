// Variables of a config_*.sh of MLPerf Training, each under one of several names.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/settings.hpp"

namespace sim {

// MlperfBenchmark: what a file trains. AMD's llama31_8b has names of its own (SIZE, GBS).
enum class MlperfBenchmark : std::uint8_t { none, llama31, llama31_amd, lora, gpt3, gpt_oss, dsv3 };

constexpr bool has_experts(MlperfBenchmark benchmark) {
  return benchmark == MlperfBenchmark::gpt_oss || benchmark == MlperfBenchmark::dsv3;
}

class MlperfVariables {
 public:
  using Names = std::initializer_list<const char*>;

  MlperfVariables(const ObjectReader& root, Imported& read) : root_{root}, read_{read} {}

  // The first that is set; 'null' and nothing are not.
  Text text(Names names) {
    Text found;
    for (const char* name : names) {
      Text one;
      read_setting(root_, name, one);
      if (!one || (*one).empty()) continue;
      if (found)
        read_.ignored.emplace_back(name);  // the first counts
      else
        found = one;
    }
    return found;
  }
  Whole whole(Names names) {
    Whole found;
    for (const char* name : names) {
      const std::optional<ValueReader> value = root_.find(name);
      if (!value || value->peek_text().value_or("").empty()) continue;
      Whole one;
      read_setting(root_, name, one);
      if (!one) continue;
      if (found)
        read_.ignored.emplace_back(name);  // the first counts
      else
        found = one;
    }
    return found;
  }
  Whole whole_or(Names names, std::int64_t fallback) {
    Whole found = whole(names);
    if (!found) found = fallback;
    return found;
  }
  // Hydra takes 1 and True alike.
  Flag flag(Names names, bool fallback) {
    const Text word = text(names);
    Flag found{fallback, word.place};
    if (!word) return found;
    if (*word == "1" || *word == "True" || *word == "true")
      found.value = true;
    else if (*word == "0" || *word == "False" || *word == "false")
      found.value = false;
    else
      word.place->problem(
          fmt::format("is '{}'; expected True, False, 1 or 0", (*word).substr(0, 80)));
    return found;
  }
  bool is_set(const char* name) const { return root_.has(name); }
  void note(const char* key, std::string what) { read_.notes.push_back({key, std::move(what)}); }

 private:
  const ObjectReader& root_;
  Imported& read_;
};

// read_mlperf_experts() reads how experts are run, and what else gpt_oss_20b and deepseekv3_671b
// have of their own.
void read_mlperf_experts(MlperfVariables& variables, MlperfBenchmark benchmark,
                         MegatronConfig& config);

}  // namespace sim
