#include "sim/search/layouts.hpp"

#include <tbb/task_arena.h>

#include "sim/scenario/sources.hpp"

namespace sim {

SearchResult search_layouts(const ScenarioSources& sources, const Control& control,
                            const std::function<void(const SearchProgress&)>& evaluated) {
  tbb::task_arena arena{control.threads > 0 ? control.threads : tbb::task_arena::automatic};
  return arena.execute([&] {
    Search search{load_search(sources), {}, control};
    const bool complete = run_search(search, control, evaluated);
    if (!complete && !search.ranking().favourite()) throw Stopped{};
    return make_result(search, complete);
  });
}

}  // namespace sim
