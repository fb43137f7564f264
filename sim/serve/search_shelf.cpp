#include "sim/serve/search_shelf.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/base/deadline.hpp"
#include "sim/base/input_error.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/page/search_page.hpp"

namespace sim {
namespace {

enum class ShelfState : std::uint8_t { running, done, stopped, failed };
constexpr std::array shelf_words{"running", "done", "stopped", "failed"};

}  // namespace

struct SearchShelf::Entry {
  std::uint64_t id = 0;
  mutable std::mutex mutex;  // of what follows
  ShelfState state = ShelfState::running;
  SearchProgress progress{};
  std::string json{}, page{}, error{};
  std::jthread thread{};  // last: it ends before what it writes to
};

namespace {

nlohmann::ordered_json progress_json(const SearchProgress& progress) {
  nlohmann::ordered_json made{{"legal", progress.counts.legal},
                              {"open", progress.counts.open},
                              {"simulated", progress.counts.simulated},
                              {"seconds", progress.seconds}};
  if (progress.best) made["best_step_time_s"] = to_seconds(progress.best->step_time);
  return made;
}

}  // namespace

SearchShelf::SearchShelf(std::size_t most_running, std::size_t most_kept,
                         std::chrono::seconds longest)
    : most_running_{most_running}, most_kept_{most_kept}, longest_{longest} {}

SearchShelf::~SearchShelf() {
  for (const auto& [id, entry] : entries_)
    entry->thread.request_stop();
}

void SearchShelf::work(Entry& entry, ScenarioSources sources, std::stop_token stop) const {
  const Deadline deadline{std::move(stop), longest_};
  const auto ends = [&](ShelfState state, const std::string& error) {
    const std::lock_guard lock{entry.mutex};
    entry.state = state;
    entry.error = error;
  };
  try {
    SearchSpecification specification = [&] {
      const ShippedOnly shipped;
      return load_search(sources);
    }();
    Search search{std::move(specification), {}, deadline.control()};
    const bool complete =
        run_search(search, deadline.control(), [&](const SearchProgress& progress) {
          const std::lock_guard lock{entry.mutex};
          entry.progress = progress;
        });
    const SearchResult result = make_result(search, complete);
    std::string json = search_json(result), page = search_page(result, {});
    const std::lock_guard lock{entry.mutex};
    entry.json = std::move(json);
    entry.page = std::move(page);
    entry.state = complete ? ShelfState::done : ShelfState::stopped;
  } catch (const Stopped&) {
    ends(ShelfState::stopped, "stopped before any layout was found");
  } catch (const std::exception& error) {
    ends(ShelfState::failed, error.what());
  }
}

// Its lock is free again before the entry may be dropped.
bool SearchShelf::is_running(const Entry& entry) {
  const std::lock_guard lock{entry.mutex};
  return entry.state == ShelfState::running;
}

bool SearchShelf::make_room() {
  std::size_t running = 0;
  for (const auto& [id, entry] : entries_)
    running += is_running(*entry) ? 1 : 0;
  if (running >= most_running_) return false;
  for (auto at = entries_.begin(); entries_.size() >= most_kept_ && at != entries_.end();)
    at = is_running(*at->second) ? std::next(at) : entries_.erase(at);
  return true;
}

WebAnswer SearchShelf::start(ScenarioSources sources) {
  const std::lock_guard lock{mutex_};
  if (!make_room())
    return web_error(429, fmt::format("{} searches run already: wait, or stop one", most_running_));
  const auto entry = std::make_shared<Entry>();
  entry->id = ++last_;
  entries_[entry->id] = entry;
  // Its token is the argument: `entry->thread` may be assigned after it has begun.
  entry->thread =
      std::jthread{[this, &of = *entry, job = std::move(sources)](std::stop_token stop) mutable {
        work(of, std::move(job), std::move(stop));
      }};
  return {.status = 202, .body = fmt::format("{{\"id\": \"{}\"}}\n", entry->id)};
}

std::shared_ptr<SearchShelf::Entry> SearchShelf::find(const std::string& id) const {
  std::uint64_t number = 0;
  const auto [end, wrong] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (wrong != std::errc{} || end != id.data() + id.size()) return nullptr;
  const std::lock_guard lock{mutex_};
  const auto at = entries_.find(number);
  return at == entries_.end() ? nullptr : at->second;
}

WebAnswer SearchShelf::look(const std::string& id, bool as_page) const {
  const std::shared_ptr<Entry> entry = find(id);
  if (!entry) return web_error(404, "there is no such search; old results are dropped");
  const std::lock_guard lock{entry->mutex};
  if (as_page && !entry->page.empty()) return {.type = "text/html", .body = entry->page};
  nlohmann::ordered_json answer{{"id", id},
                                {"state", shelf_words[static_cast<std::size_t>(entry->state)]},
                                {"progress", progress_json(entry->progress)}};
  if (!entry->error.empty()) answer["error"] = entry->error;
  std::string text = answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!entry->json.empty()) text.replace(text.size() - 1, 1, ", \"result\": " + entry->json + "}");
  return {.body = text + "\n"};
}

WebAnswer SearchShelf::stop(const std::string& id) {
  const std::shared_ptr<Entry> entry = find(id);
  if (!entry) return web_error(404, "there is no such search; old results are dropped");
  entry->thread.request_stop();
  return look(id, false);
}

}  // namespace sim
