// Searches that run behind a server: started, watched, stopped, and kept for a while.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "sim/search/result.hpp"
#include "sim/serve/web.hpp"

namespace sim {

class SearchShelf {
 public:
  // `most_running` at a time, each for `longest`; the last `most_kept` results are kept.
  SearchShelf(std::size_t most_running, std::size_t most_kept, std::chrono::seconds longest);
  SearchShelf(const SearchShelf&) = delete;
  SearchShelf& operator=(const SearchShelf&) = delete;
  ~SearchShelf();  // stops all

  // 202 with the id; 429 where as many run as may.
  WebAnswer start(ScenarioSources sources);
  // 200 with the state, and the result where there is one; a page if `as_page` and it has ended.
  WebAnswer look(const std::string& id, bool as_page) const;
  // Tells it to stop: what it has found so far becomes its result.
  WebAnswer stop(const std::string& id);

 private:
  struct Entry;
  void work(Entry& entry, ScenarioSources sources, std::stop_token stop) const;
  std::shared_ptr<Entry> find(const std::string& id) const;
  static bool is_running(const Entry& entry);
  bool make_room();  // false: none

  const std::size_t most_running_, most_kept_;
  const std::chrono::seconds longest_;
  mutable std::mutex mutex_;  // of the map
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace sim
