// A file of factors, read strictly. What follows from other figures of the file (a factor from
// steps) is held against them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/convergence/factors.hpp"

namespace sim {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 53;

ConvergenceSetting read_setting(const ObjectReader& top) {
  ConvergenceSetting setting;
  setting.suite = read_plain_name(top, "suite");
  setting.title = top.text_or("title", "");
  setting.program = top.text("program");
  setting.date = top.text("date");
  setting.model = top.text("model");
  setting.parameters = top.integer("parameters", {.min = 1, .max = most});
  setting.scenario = top.text("scenario");
  setting.data = top.text("data");
  setting.optimizer = top.text("optimizer");
  setting.learning_rate = top.real("learning_rate", {.min = 0, .max = 1});
  setting.replicas =
      static_cast<int>(top.integer("replicas", {.min = 1, .max = most_recorded_steps}));
  setting.global_batch = top.integer("global_batch", {.min = 1, .max = 1'000'000'000});
  setting.sequence_length = top.integer("sequence_length", {.min = 1, .max = 1'000'000'000});
  setting.steps = static_cast<int>(top.integer("steps", {.min = 2, .max = most_recorded_steps}));
  for (const ValueReader& seed : top.list("seeds"))
    setting.seeds.push_back(static_cast<std::uint64_t>(
        seed.integer({.min = 0, .max = std::numeric_limits<std::int64_t>::max()})));
  setting.smoothing = static_cast<int>(top.integer("smoothing", {.min = 1, .max = setting.steps}));
  return setting;
}

LossTarget read_target(const ObjectReader& from) {
  if (from.has("loss")) return {TargetKind::loss, from.real("loss", {.min = 0, .max = 1e6})};
  return {TargetKind::fall, from.real("fall", {.min = 0, .max = 1})};
}

// As many values as seeds; `word` stands for one that there is not.
std::vector<std::optional<double>> by_seed(const ObjectReader& from, std::string_view key,
                                           std::size_t seeds, std::string_view word) {
  std::vector<std::optional<double>> values;
  if (from.has(key)) {
    const std::vector<ValueReader> items = from.list(key);
    if (items.size() != seeds)
      from.problem(key, fmt::format("{} values for {} seeds; a value for each seed is wanted",
                                    items.size(), seeds));
    for (const ValueReader& item : items) {
      const bool none = item.peek_text() == std::string{word};
      values.push_back(none ? std::nullopt : std::optional{item.real({.min = 0, .max = 1e9})});
    }
  } else {
    static_cast<void>(from.at(key));
  }
  values.resize(seeds);
  return values;
}

struct WrittenFactor {
  ObjectReader entry;
  std::size_t scheme, target;
};

SchemeOutcome read_outcome(const ObjectReader& from, ConvergenceFactors& factors,
                           std::vector<WrittenFactor>& written) {
  const std::size_t seeds = factors.setting.seeds.size();
  SchemeOutcome outcome{.scheme = read_scheme(from), .sent = from.bytes("sent_per_step")};
  if (from.has("staleness")) outcome.staleness = from.real("staleness", {.min = 0, .max = 1e9});
  for (const std::optional<double>& loss : by_seed(from, "final_loss", seeds, "failed"))
    outcome.seeds.push_back(
        {.end = loss ? SeedEnd::trained : SeedEnd::failed, .final_loss = loss.value_or(0)});
  const std::vector<ValueReader> items = from.list("targets");
  if (items.size() != factors.targets.size())
    from.problem("targets", fmt::format("{} entries for {} targets; one for each is wanted",
                                        items.size(), factors.targets.size()));
  for (std::size_t i = 0; i < std::min(items.size(), factors.targets.size()); ++i) {
    const ObjectReader entry = items[i].object();
    const auto steps = by_seed(entry, "steps", seeds, "not_reached");
    for (std::size_t seed = 0; seed < seeds; ++seed)
      outcome.seeds[seed].steps.push_back(steps[seed]);
    written.push_back({entry, factors.schemes.size(), i});
  }
  for (SeedOutcome& seed : outcome.seeds)
    seed.steps.resize(factors.targets.size());
  return outcome;
}

// The written figure is what the steps say, as far as it is written.
void hold_against(const ObjectReader& entry, std::string_view key, std::optional<double> expected) {
  if (!entry.has(key)) {
    if (expected) static_cast<void>(entry.at(key));
    return;
  }
  const ValueReader value = entry.at(key);
  const bool none = value.peek_text() == "not_reached";
  const double found = none ? 0 : value.real({.min = 0, .max = 1e9});
  const bool same =
      none == !expected && (none || std::fabs(found - *expected) < 0.001 + 0.001 * found);
  if (!same)
    value.problem(fmt::format("{} is {}, but the steps of scheme and baseline give {}", key,
                              none ? "not_reached" : fmt::format("{:g}", found),
                              expected ? fmt::format("{:.4f}", *expected) : "not_reached"));
}

void check_factors(const ConvergenceFactors& factors, const std::vector<WrittenFactor>& written) {
  for (const WrittenFactor& one : written) {
    const StatisticalFactor factor = factor_of(factors, one.scheme, one.target);
    const auto figure = [&](double Spread::*member) {
      return factor.spread ? std::optional{(*factor.spread).*member} : std::nullopt;
    };
    static_cast<void>(one.entry.at("factor"));
    hold_against(one.entry, "factor", figure(&Spread::mean));
    hold_against(one.entry, "spread", figure(&Spread::deviation));
  }
}

ConvergenceFactors read_factors(const Document& document) {
  const ObjectReader top = document.root_object();
  ConvergenceFactors factors;
  static_cast<void>(top.integer("format", {.min = 1, .max = 1}));
  factors.setting = read_setting(top);
  for (const ValueReader& item : top.list("targets"))
    factors.targets.push_back(read_target(item.object()));
  const std::string baseline = top.text("baseline");
  std::vector<WrittenFactor> written;
  for (const ValueReader& item : top.list("schemes"))
    factors.schemes.push_back(read_outcome(item.object(), factors, written));
  const auto found = std::ranges::find_if(factors.schemes, [&](const SchemeOutcome& outcome) {
    return outcome.scheme.name == baseline;
  });
  if (found == factors.schemes.end()) {
    top.problem("baseline", fmt::format("there is no scheme '{}'", baseline.substr(0, 80)));
    for (const WrittenFactor& one : written)  // keys that would be unknown else
      static_cast<void>(one.entry.has("factor") && one.entry.has("spread"));
  } else {
    factors.baseline = static_cast<std::size_t>(found - factors.schemes.begin());
    check_factors(factors, written);
  }
  document.finish();
  return factors;
}

}  // namespace

ConvergenceFactors load_factors(const std::string& path) {
  return read_factors(Document::load(path));
}

ConvergenceFactors parse_factors(std::string_view text, const std::string& path) {
  return read_factors(Document::parse_yaml(text, path));
}

}  // namespace sim
