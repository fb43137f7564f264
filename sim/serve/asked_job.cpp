#include "sim/serve/asked_job.hpp"

#include <fmt/format.h>

#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/search/workload.hpp"

namespace sim {
namespace {

constexpr const char* posted_file = "request";
constexpr std::int64_t most_asked_gpus = std::int64_t{1} << 20;

// A value of "set" as it would be written behind `=`.
std::string set_text(const ValueReader& value) {
  if (!value.is_list()) return value.peek_text().value_or("");
  std::string text;
  for (const ValueReader& one : value.list())
    text += (text.empty() ? "" : ", ") + set_text(one);
  return "[" + text + "]";
}

std::vector<std::string> overrides_in(const ObjectReader& top) {
  std::vector<std::string> overrides;
  if (!top.has("set")) return overrides;
  const ObjectReader set = top.object("set");
  for (const std::string& key : set.keys()) {
    const ValueReader value = set.at(key);
    if (value.is_object())
      set.problem(key, "expected a number, a text, true, false or a list of these");
    else
      overrides.push_back(fmt::format("{}={}", key, set_text(value)));
  }
  return overrides;
}

Workload workload_in(const ObjectReader& top) {
  Workload workload{.model = top.text("model"), .cluster = top.text("cluster")};
  workload.gpus = static_cast<int>(top.integer("gpus", {.min = 1, .max = most_asked_gpus}));
  workload.global_batch = top.integer("batch", {.min = 1});
  workload.sequence_length = top.integer_or("sequence", 0, {.min = 1});
  return workload;
}

}  // namespace

ScenarioSources asked_job(const std::string& body) {
  const ShippedOnly shipped;
  const Document document = Document::parse_json(body, posted_file);
  const ObjectReader top = document.root_object();
  const std::vector<std::string> overrides = overrides_in(top);
  if (top.has("text")) {
    const std::string text = top.text("text");
    document.finish();
    return ScenarioSources::of_text(text, posted_file, overrides);
  }
  if (top.has("model")) {
    Workload workload = workload_in(top);
    document.finish();
    workload.overrides = overrides;
    return workload_sources(workload);
  }
  const std::string name = top.text("scenario");
  document.finish();
  return ScenarioSources{find_data_file("scenarios", name), overrides};
}

}  // namespace sim
