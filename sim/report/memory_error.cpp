#include "sim/report/memory_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/base/check.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/config/reader.hpp"

namespace sim {

Bytes most_within(double fraction, Bytes capacity) {
  return Bytes{static_cast<std::int64_t>(
      std::floor(static_cast<double>(capacity.count()) / (1 + fraction)))};
}

namespace {

void read_excess(const ObjectReader& in, MemoryError& error) {
  const std::vector<ValueReader> values = in.list("excess");
  for (const ValueReader& value : values)
    error.excess.push_back(value.real({.min = -1, .max = 10}));
  if (values.size() != excess_shares.size())
    in.problem("excess",
               fmt::format("has {} values; allowed: {}", values.size(), excess_shares.size()));
  else if (!std::is_sorted(error.excess.begin(), error.excess.end()))
    in.problem("excess", "its values do not ascend");
}

}  // namespace

double chance_to_fit(const MemoryError& error, double room) {
  SIM_CHECK(error.excess.size() == excess_shares.size(), error.of);
  const auto above = std::upper_bound(error.excess.begin(), error.excess.end(), room);
  if (above == error.excess.begin()) return excess_shares.front();
  if (above == error.excess.end()) return excess_shares.back();
  const auto i = static_cast<std::size_t>(above - error.excess.begin());
  const double from = error.excess[i - 1], to = error.excess[i];
  return excess_shares[i - 1] +
         (excess_shares[i] - excess_shares[i - 1]) * (room - from) / (to - from);
}

MemoryRange range_of(const MemoryError& error, Bytes forecast) {
  SIM_CHECK(error.excess.size() == excess_shares.size(), error.of);
  const auto at = [&](double share) {
    const auto place = std::find(excess_shares.begin(), excess_shares.end(), share);
    const double excess = error.excess[static_cast<std::size_t>(place - excess_shares.begin())];
    return Bytes{std::llround(static_cast<double>(forecast.count()) * (1 + excess))};
  };
  return {.low = at(0.05), .high = at(0.95)};
}

MemoryErrors MemoryErrors::load(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  static_cast<void>(top.text("source"));
  MemoryErrors errors;
  bool has_all = false;
  for (const ValueReader& value : top.list("errors")) {
    const ObjectReader in = value.object();
    Entry entry{.without = in.text_or("without", ""), .framework = {}, .schedule = {}, .error = {}};
    entry.error.of = "all frameworks";
    if (in.has("framework")) {
      entry.framework = in.word<FrameworkName>("framework");
      entry.error.of = word(*entry.framework);
    }
    if (in.has("schedule")) {
      if (!entry.framework) in.problem("schedule", "goes with a framework only");
      entry.schedule = in.word<Schedule>("schedule");
      entry.error.of += fmt::format(" {}", word(*entry.schedule));
    }
    entry.error.fraction = in.real("error", {.min = 0, .max = 10});
    entry.error.rows = static_cast<int>(in.integer("rows", {.min = 1, .max = 1 << 20}));
    entry.error.measured = static_cast<int>(in.integer("measured", {.min = 0, .max = 1 << 20}));
    if (in.has("excess")) read_excess(in, entry.error);
    has_all |= entry.without.empty() && !entry.framework;
    errors.entries_.push_back(std::move(entry));
  }
  if (!has_all) top.problem("errors", "has no entry of all frameworks");
  if (top.has("kinds")) {
    errors.kinds_.emplace();
    for (const ValueReader& value : top.list("kinds"))
      errors.kinds_->push_back(value.text());
  }
  document.finish();
  return errors;
}

const MemoryError* MemoryErrors::find(const std::string& without, FrameworkName framework,
                                      Schedule schedule) const {
  const Entry* best = nullptr;
  const auto detail = [](const Entry& entry) {
    return int{entry.framework.has_value()} + int{entry.schedule.has_value()};
  };
  for (const Entry& entry : entries_) {
    if (entry.without != without || entry.framework.value_or(framework) != framework ||
        entry.schedule.value_or(schedule) != schedule)
      continue;
    if (!best || detail(entry) > detail(*best)) best = &entry;
  }
  return best ? &best->error : nullptr;
}

const MemoryError& MemoryErrors::of(FrameworkName framework, Schedule schedule) const {
  return *find("", framework, schedule);
}

MemoryError MemoryErrors::of(FrameworkName framework, Schedule schedule,
                             const std::vector<std::string>& kinds) const {
  MemoryError found = of(framework, schedule);
  if (!kinds_) return found;
  // A framework with a line of its own may rest on outcomes alone.
  const bool has_line = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.framework == framework;
  });
  for (const std::string& kind : kinds) {
    const bool own = has_line && kind == fmt::format("framework {}", word(framework));
    if (!own && std::find(kinds_->begin(), kinds_->end(), kind) == kinds_->end())
      found.unlike.push_back(kind);
  }
  if (found.unlike.empty()) return found;
  found.of = "the widest of all groups";
  const std::size_t middle = excess_shares.size() / 2;
  for (const Entry& entry : entries_) {
    if (!entry.without.empty()) continue;
    found.fraction = std::max(found.fraction, entry.error.fraction);
    if (entry.error.excess.empty() || found.excess.empty()) continue;
    for (std::size_t i = 0; i < excess_shares.size(); ++i) {
      double& own = found.excess[i];
      if (i < middle) own = std::min(own, entry.error.excess[i]);
      if (i > middle) own = std::max(own, entry.error.excess[i]);
    }
  }
  return found;
}

// A set that is nowhere left out has no rows in any figure.
const MemoryError& MemoryErrors::without(const std::string& set, FrameworkName framework,
                                         Schedule schedule) const {
  const MemoryError* found = find(set, framework, schedule);
  return found ? *found : of(framework, schedule);
}

std::optional<MemoryErrors> shipped_memory_errors() {
  const std::string path = data_folder() + "/validation/memory-error.yaml";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return MemoryErrors::load(path);
}

}  // namespace sim
