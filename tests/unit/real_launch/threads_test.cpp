// Ranks as threads of this process.
#include <array>
#include <stop_token>
#include <vector>

#include "real/launch/launch.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("every rank runs the body once, in its own seat", "[launch]") {
  std::array<int, 5> runs{};
  const RunResult result = run_ranks({.ranks = 5}, [&](Seat& seat) {
    ++runs[static_cast<std::size_t>(seat.world().rank)];
    if (seat.world().size != 5 || seat.transport().rank() != seat.world().rank)
      throw std::runtime_error{"wrong seat"};
  });
  REQUIRE(result.end == RunEnd::done);
  REQUIRE(result.message.empty());
  REQUIRE_FALSE(result.supervisor);
  REQUIRE(runs == std::array{1, 1, 1, 1, 1});
}

TEST_CASE("a run that is asked to stop ends as an interrupted one", "[launch]") {
  std::stop_source source;
  Launch launch{.ranks = 3};
  launch.stop = source.get_token();
  std::array<int, 3> steps{};
  const RunResult result = run_ranks(launch, [&](Seat& seat) {
    const auto rank = static_cast<std::size_t>(seat.world().rank);
    while (!seat.stop_wanted()) {
      ++steps[rank];
      if (rank == 1 && steps[rank] == 4) source.request_stop();
    }
  });
  REQUIRE(result.end == RunEnd::interrupted);
  REQUIRE(result.message.empty());
  REQUIRE(steps[0] == steps[1]);
  REQUIRE(steps[1] == steps[2]);
}

TEST_CASE("the message names the rank that failed, not those that waited for it", "[launch]") {
  Launch launch{.ranks = 4};
  launch.operator_name = [](int rank, std::int64_t op) {
    return "operator " + std::to_string(op) + " of rank " + std::to_string(rank);
  };
  const RunResult result = run_ranks(launch, [](Seat& seat) {
    seat.heartbeat().begin_step(6);
    seat.heartbeat().begin(17);
    if (seat.world().rank == 2) throw std::bad_alloc{};
    std::byte token{};
    wait(seat.transport(),
         seat.transport().start_receive(seat.world().rank == 0 ? 1 : 0, 0, {&token, 1}));
  });
  REQUIRE(result.end == RunEnd::failed);
  REQUIRE(result.message ==
          "rank 2 failed in operator 17 of rank 2 of step 6: out of memory: an allocation of the "
          "host failed");
}

TEST_CASE("options that do not fit together are refused", "[launch]") {
  const auto nothing = [](Seat&) {};
  REQUIRE_THROWS_WITH(run_ranks({.ranks = 2, .ranks_per_gpu = 2}, nothing),
                      "--ranks-per-gpu needs ranks that are processes");
  REQUIRE_THROWS_WITH(
      run_ranks({.ranks = 2, .kind = RankKind::processes, .ranks_per_gpu = 101}, nothing),
      "--ranks-per-gpu is 101: 1 to 100 is wanted");
  REQUIRE_THROWS_WITH(run_ranks({.ranks = 2, .inject = "fail:2:start"}, nothing),
                      "--inject is \"fail:2:start\", but there are 2 ranks");
}

TEST_CASE("a file that a rank refuses is named as it is, and what all find is said once",
          "[launch]") {
  const RunResult refused = run_ranks({.ranks = 3}, [](Seat& seat) {
    if (seat.transport().rank() == 2)
      throw sim::InputError{sim::SourcePosition{"rank-00002.state", 0, 0}, "this shard is torn"};
    std::vector<std::byte> data(1);
    wait(seat.transport(), seat.transport().start_receive(2, 0, data));
  });
  REQUIRE(refused.end == RunEnd::refused);
  REQUIRE(refused.message == "rank-00002.state: error: this shard is torn");
  const RunResult shared =
      run_ranks({.ranks = 3}, [](Seat&) { throw SharedFailure{"step 2: the loss is not finite"}; });
  REQUIRE(shared.end == RunEnd::failed);
  REQUIRE(shared.message == "step 2: the loss is not finite");
}
