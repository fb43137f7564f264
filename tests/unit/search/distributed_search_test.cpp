// The result of a search does not depend on who evaluates, in which order, and what was known: not
// in a byte. Shards lose nothing: proof in BOUNDS.md, "Parts"; test here.
#include "sim/search/distributed_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/search/result.hpp"
#include "tests/catch.hpp"
#include "tests/unit/search/small_search.hpp"

using namespace sim;
using test::small_search;

namespace {

const Control never;

struct Space {
  std::string search, layout;
};

// A pure function of the seed. Small, but several pipelines, sizes of job and shardings.
Space random_space(std::uint64_t seed) {
  std::uint64_t draw = 0;
  const auto pick = [&](const std::vector<std::string>& options) {
    const double at = uniform(seed, 0, draw++) * static_cast<double>(options.size());
    return options[static_cast<std::size_t>(at)];
  };
  return {fmt::format("top: {}, wave: {}, front_slowdown: {}, gpus: {}, micro_batch: {}, "
                      "zero_stage: {}, shard_group: 0, virtual_stages: [1, 2], recompute: {}, "
                      "recompute_every: 1{}",
                      pick({"1", "2", "5"}), pick({"1", "3", "16"}), pick({"0", "0.02", "0.5"}),
                      pick({"8", "[2, 4]", "[1, 4, 8]"}), pick({"1", "2", "[1, 2]", "[1, 4]"}),
                      pick({"0", "[0, 1]", "[0, 3]"}), pick({"none", "[none, full]"}),
                      pick({"", ", price_per_gpu_hour: 2"})),
          fmt::format("global_batch: {}", pick({"8", "16", "32"}))};
}

SearchSpecification specification_of(const Space& space) {
  return small_search(space.search, space.layout);
}

std::string json_of(const Search& search) {
  return search_json(make_result(search, true));
}

std::string searched_alone(const Space& space) {
  Search search{specification_of(space)};
  REQUIRE(run_search(search, never));
  return json_of(search);
}

// Runs a search, or a part of one, with a worker pool of threads; what it learns goes into `book`.
std::size_t search_part(const Space& space, Shard shard, ResultCache& book, int threads = 2) {
  Search search{specification_of(space), shard};
  WorkerPool workers{
      evaluate_units(search.specification(), search.candidates()), threads, {}, nullptr};
  DistributedSearch running{search, workers, book, nullptr};
  REQUIRE(running.run(never));
  return running.evaluated();
}

struct Answer {
  std::string json;
  std::size_t evaluated = 0;
};

Answer answered_from(const Space& space, ResultCache& book, int threads = 2) {
  Search search{specification_of(space)};
  WorkerPool workers{
      evaluate_units(search.specification(), search.candidates()), threads, {}, nullptr};
  DistributedSearch running{search, workers, book, nullptr};
  REQUIRE(running.run(never));
  return {json_of(search), running.evaluated()};
}

}  // namespace

TEST_CASE("parts that are merged give what one search gives, byte for byte", "[search]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Space space = random_space(seed);
    CAPTURE(seed, space.search, space.layout);
    const std::string alone = searched_alone(space);
    for (const std::uint32_t count : {2U, 3U, 5U}) {
      CAPTURE(count);
      ResultCache book;
      for (std::uint32_t i = count; i-- > 0;)
        search_part(space, {i, count}, book);
      CHECK(answered_from(space, book).json == alone);
    }
  }
}

TEST_CASE("what a part leaves out belongs to no result", "[search]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Space space = random_space(seed);
    CAPTURE(seed, space.search, space.layout);
    Search whole{specification_of(space)};
    REQUIRE(run_search(whole, never));
    ResultCache book;
    for (std::uint32_t i = 0; i < 3; ++i)
      search_part(space, {i, 3}, book);
    // The ranking of all that the parts have evaluated, without the search on top of it.
    Ranking ranking{whole.specification(), whole.candidates()};
    for (std::uint32_t i = 0; i < whole.candidates().all.size(); ++i)
      if (const std::string* answer = book.find(i)) ranking.add(evaluation_of_text(i, *answer));
    CHECK(ranking.best() == whole.ranking().best());
    CHECK(ranking.memory_front() == whole.ranking().memory_front());
    CHECK(ranking.by_gpus() == whole.ranking().by_gpus());
    CHECK(ranking.cost_front() == whole.ranking().cost_front());
    if (ranking.best().empty()) CHECK(ranking.closest() == whole.ranking().closest());
  }
}

TEST_CASE("a search that goes on from any records gives the same bytes", "[search]") {
  const Space space = random_space(3);
  const std::string alone = searched_alone(space);
  ResultCache all;
  const std::size_t evaluated = search_part(space, {}, all);
  REQUIRE(evaluated > 4);
  CHECK(answered_from(space, all).evaluated == 0);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    ResultCache some;  // of those that a run may have left behind
    for (std::uint32_t i = 0; i < 10'000; ++i)
      if (const std::string* answer = all.find(i); answer && uniform(seed, 1, i) < 0.5)
        some.add(i, *answer, {"some", 0, 0});
    const std::size_t known = some.size();
    const Answer answer = answered_from(space, some, 1 + static_cast<int>(seed % 4));
    CHECK(answer.json == alone);
    CHECK(answer.evaluated + known >= all.size() / 2);
  }
}

TEST_CASE("a search that is stopped keeps its records", "[search]") {
  const Space space = random_space(3);
  Search search{specification_of(space)};
  WorkerPool workers{evaluate_units(search.specification(), search.candidates()), 2, {}, nullptr};
  ResultCache book;
  DistributedSearch running{search, workers, book, nullptr};
  std::stop_source stop;
  CHECK_FALSE(
      running.run({.stop = stop.get_token()}, [&](const SearchProgress&) { stop.request_stop(); }));
  CHECK(book.size() > 0);
  CHECK(!search.ranking().best().empty());
  CHECK(answered_from(space, book).json == searched_alone(space));
}

TEST_CASE("the guess of what comes next is of candidates that are open", "[search]") {
  Search search{specification_of(random_space(1))};
  const std::vector<std::uint32_t> wave = search.next_wave();
  const std::vector<std::uint32_t> likely = search.likely_next(100);
  CHECK(likely.size() <= 100);
  CHECK(search.likely_next(1).size() <= 1);
  for (const std::uint32_t one : likely)
    CHECK(std::find(wave.begin(), wave.end(), one) == wave.end());
}

TEST_CASE("an evaluation reads back from its text, and only from that", "[search]") {
  const Evaluation one{7, true, true, Bytes{100}, Bytes{123}, Duration{456}};
  CHECK(evaluation_of_text(7, answer_text(one)) == one);
  CHECK_THROWS_AS(evaluation_of_text(7, R"({"fits":true,"by_retries":false,"memory_bytes":1})"),
                  InputError);
  CHECK_THROWS_AS(
      evaluation_of_text(7, R"({"fits":1,"by_retries":false,"memory_bytes":1,"step_time_ps":1})"),
      InputError);
  CHECK_THROWS_AS(evaluation_of_text(
                      7, R"({"fits":true,"by_retries":false,"memory_bytes":-1,"step_time_ps":1})"),
                  InputError);
}
