#include "sim/search/distributed_search.hpp"

#include <algorithm>
#include <chrono>

namespace sim {
namespace {

constexpr std::chrono::milliseconds between_looks{50};  // at whether to stop

}  // namespace

Task evaluate_units(const SearchSpecification& specification, const Candidates& candidates) {
  const auto memory = std::make_shared<EvaluationMemory>();
  return [&specification, &candidates, memory](std::uint64_t unit) {
    return answer_text(
        evaluate(specification, candidates, static_cast<std::uint32_t>(unit), *memory));
  };
}

std::string read_search_answer(const ObjectReader& answer) {
  return answer_text(read_evaluation(0, answer));
}

bool DistributedSearch::is_open(std::uint32_t unit) const {
  return !book_.find(unit) && !under_way_.contains(unit);
}

void DistributedSearch::submit(std::uint32_t unit) {
  workers_.submit(unit);
  under_way_.insert(unit);
}

// The wave first; then what will probably follow, the last of `likely` first.
void DistributedSearch::hand_out(const std::vector<std::uint32_t>& wave, std::size_t& next,
                                 std::vector<std::uint32_t>& likely) {
  for (; next < wave.size() && workers_.is_free(); ++next)
    if (is_open(wave[next])) submit(wave[next]);
  for (; !likely.empty() && workers_.is_free(); likely.pop_back())
    if (is_open(likely.back())) submit(likely.back());
}

void DistributedSearch::take_answer() {
  std::optional<Answered> answered = workers_.next(between_looks);
  if (!answered) return;
  under_way_.erase(answered->unit);
  ++evaluated_;
  if (file_) file_->append(answered->unit, answered->answer);
  book_.add(answered->unit, std::move(answered->answer), {"this run", 0, 0});
}

// Until all of the wave is known, or it is told to stop.
void DistributedSearch::complete(const std::vector<std::uint32_t>& wave, const Control& control) {
  const auto is_known = [&](std::uint32_t unit) { return book_.find(unit) != nullptr; };
  std::size_t next = 0;
  std::vector<std::uint32_t> likely;
  if (!std::all_of(wave.begin(), wave.end(), is_known)) {
    likely = search_.likely_next(static_cast<std::size_t>(workers_.threads()) + wave.size());
    std::reverse(likely.begin(), likely.end());
  }
  while (!control.stopped() && !std::all_of(wave.begin(), wave.end(), is_known)) {
    hand_out(wave, next, likely);
    take_answer();
  }
}

std::vector<Evaluation> DistributedSearch::known_of(const std::vector<std::uint32_t>& wave) const {
  std::vector<Evaluation> known;
  for (const std::uint32_t unit : wave)
    if (const std::string* answer = book_.find(unit))
      known.push_back(evaluation_of_text(unit, *answer));
  return known;
}

bool DistributedSearch::run(const Control& control,
                            const std::function<void(const SearchProgress&)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  while (!control.stopped()) {
    const std::vector<std::uint32_t> wave = search_.next_wave();
    if (wave.empty()) return true;
    complete(wave, control);
    search_.accept(known_of(wave));
    if (!progress) continue;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    progress({search_.counts(), passed.count(), search_.ranking().favourite()});
  }
  return false;
}

}  // namespace sim
