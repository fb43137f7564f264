#include "sim/convergence/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/near_names.hpp"

namespace sim {
namespace {

constexpr int most_seeds = 1000;

// `seeds: 3` are 1, 2, 3; a list has the seeds themselves.
std::vector<std::uint64_t> read_seeds(const ValueReader& value) {
  std::vector<std::uint64_t> seeds;
  if (!value.is_list()) {
    const std::int64_t count = value.integer({.min = 1, .max = most_seeds});
    for (std::int64_t seed = 1; seed <= count; ++seed)
      seeds.push_back(static_cast<std::uint64_t>(seed));
    return seeds;
  }
  for (const ValueReader& item : value.list()) {
    const auto seed = static_cast<std::uint64_t>(
        item.integer({.min = 0, .max = std::numeric_limits<std::int64_t>::max()}));
    if (std::ranges::find(seeds, seed) != seeds.end()) item.problem("this seed is listed twice");
    seeds.push_back(seed);
  }
  if (seeds.empty() || seeds.size() > most_seeds)
    value.problem(fmt::format("a suite has 1 to {} seeds", most_seeds));
  return seeds;
}

std::vector<LossTarget> read_targets(const ObjectReader& top) {
  std::vector<LossTarget> targets;
  if (top.has("targets")) {
    for (const ValueReader& item : top.list("targets")) {
      const double share = item.real({.min = 0.01, .max = 0.99});
      const LossTarget target{TargetKind::fall, share};
      if (std::ranges::find(targets, target) != targets.end())
        item.problem("this target is listed twice");
      targets.push_back(target);
    }
  }
  if (top.has("target_loss"))
    targets.push_back({TargetKind::loss, top.real("target_loss", {.min = 0, .max = 1e6})});
  if (targets.empty()) targets.push_back({TargetKind::fall, 0.9});
  return targets;
}

void read_schemes(const ObjectReader& top, ConvergenceSuite& suite) {
  for (const ValueReader& item : top.list("schemes")) {
    const ObjectReader entry = item.object();
    SyncScheme scheme = read_scheme(entry);
    const bool known = std::ranges::any_of(
        suite.schemes, [&](const SyncScheme& other) { return other.name == scheme.name; });
    if (known) entry.problem("name", "there is another scheme of this name");
    if (scheme.warm_up >= suite.steps && suite.steps > 0 && scheme.warm_up > 0)
      entry.problem("warm_up", fmt::format("warm_up is {} of {} steps; allowed: 0 to {}",
                                           scheme.warm_up, suite.steps, suite.steps - 1));
    suite.schemes.push_back(std::move(scheme));
  }
  if (suite.schemes.empty() && top.has("schemes"))
    top.problem("schemes", "a suite has at least one scheme, the baseline");
}

void find_baseline(const ObjectReader& top, ConvergenceSuite& suite) {
  if (top.has("baseline")) {
    const std::string name = top.text("baseline");
    const auto found = std::ranges::find_if(
        suite.schemes, [&](const SyncScheme& scheme) { return scheme.name == name; });
    if (found == suite.schemes.end()) {
      std::vector<std::string_view> names;
      for (const SyncScheme& scheme : suite.schemes)
        names.push_back(scheme.name);
      top.problem("baseline", fmt::format("there is no scheme '{}'; {}", name.substr(0, 80),
                                          choices_text(name, names)));
      return;
    }
    suite.baseline = static_cast<std::size_t>(found - suite.schemes.begin());
  }
  if (!suite.schemes.empty() && suite.schemes[suite.baseline].warm_up > 0)
    top.problem("schemes", fmt::format("the baseline '{}' has a warm_up; a warm-up is trained with "
                                       "the baseline, so only other schemes have one",
                                       suite.schemes[suite.baseline].name));
}

// A ninth of the steps, odd: short beside the fall, long beside the noise of a batch.
int usual_smoothing(int steps) {
  return steps < 9 ? 1 : steps / 9 | 1;
}

ConvergenceSuite read_suite(const Document& document, const std::string& path) {
  const ObjectReader top = document.root_object();
  ConvergenceSuite suite;
  suite.path = path;
  suite.name = read_plain_name(top, "name");
  suite.title = top.text_or("title", "");
  suite.base = resolve_path(path, top.text("scenario"));
  suite.steps = static_cast<int>(top.integer("steps", {.min = 2, .max = most_recorded_steps}));
  suite.seeds = read_seeds(top.at("seeds"));
  suite.smoothing = static_cast<int>(
      top.integer_or("smoothing", usual_smoothing(suite.steps), {.min = 1, .max = suite.steps}));
  if (suite.smoothing % 2 == 0)
    top.problem("smoothing", fmt::format("smoothing is {}; allowed: an odd number of steps, the "
                                         "same number before and behind each",
                                         suite.smoothing));
  suite.targets = read_targets(top);
  read_schemes(top, suite);
  find_baseline(top, suite);
  document.finish();
  return suite;
}

}  // namespace

ConvergenceSuite load_convergence_suite(const std::string& path) {
  return read_suite(Document::load(path), path);
}

ConvergenceSuite parse_convergence_suite(std::string_view text, const std::string& path) {
  return read_suite(Document::parse_yaml(text, path), path);
}

}  // namespace sim
