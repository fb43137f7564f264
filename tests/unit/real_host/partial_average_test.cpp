// Averages of which contributions are lost, on ranks that are threads.
#include "real/host/partial_average.hpp"

#include <numeric>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

namespace real {
namespace {

constexpr int ranks = 4;

// Rank r contributes r + 1 everywhere; what each rank has of the average over bucket 5 in `step`.
std::vector<std::vector<float>> averages(const LostContributions& lost, std::int64_t step) {
  auto world = make_local_world(ranks);
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < ranks; ++rank)
    values.emplace_back(10, static_cast<float>(rank + 1));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Transport& transport = *world[static_cast<std::size_t>(rank)];
      const auto exchange = start_partial_average(
          transport,
          {.reduction = Reduction::average,
           .members = members,
           .output = std::as_writable_bytes(std::span{values[static_cast<std::size_t>(rank)]})},
          lost, step, 5);
      while (!exchange->progress())
        transport.idle();
    });
  for (std::thread& thread : threads)
    thread.join();
  return values;
}

}  // namespace

TEST_CASE("an average is over what has arrived, and the same on all ranks", "[host]") {
  const LostContributions lost{.rate = 0.4, .seed = 9};
  int missing = 0;
  for (std::int64_t step = 0; step < 40; ++step) {
    double sum = 0;
    int arrived = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (lost.is_lost(step, 5, rank)) continue;
      sum += rank + 1;
      ++arrived;
    }
    missing += ranks - arrived;
    if (arrived == 0) {  // done again, with all of them
      sum = 10;
      arrived = ranks;
    }
    for (const std::vector<float>& of_rank : averages(lost, step))
      for (const float value : of_rank)
        CHECK_THAT(static_cast<double>(value), WithinRel(sum / arrived, 1e-6));
  }
  CHECK(missing > 40);  // of 160, 64 are expected
  CHECK(missing < 90);
}

TEST_CASE("all ranks agree on which messages of a bucket are lost", "[host]") {
  const LostContributions lost{.rate = 0.05, .seed = 2};
  int count = 0;
  constexpr int draws = 20'000;
  for (int i = 0; i < draws; ++i)
    count += lost.is_lost(i, 1, 2) ? 1 : 0;
  CHECK(std::abs(count / static_cast<double>(draws) - 0.05) < 0.008);
  CHECK_FALSE(LostContributions{.rate = 0, .seed = 2}.is_lost(3, 1, 2));
}

}  // namespace real
