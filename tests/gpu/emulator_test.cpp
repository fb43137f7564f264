// Refusals of the emulator: mistakes that a GPU would answer with a hang or with wrong numbers.
#include "tests/gpu/emulation/emulator.hpp"

#include <array>
#include <vector>

#include "tests/catch.hpp"

using namespace emulation;

TEST_CASE("threads of a block meet at a barrier", "[emulator]") {
  std::vector<int> seen(64);
  run({{2}, {64}, 64 * sizeof(int)}, [&] {
    auto* shared = reinterpret_cast<int*>(shared_memory());
    shared[thread_index().x] = static_cast<int>(thread_index().x);
    block_barrier();
    seen[thread_index().x] += shared[63 - thread_index().x];
  });
  for (int i = 0; i < 64; ++i)
    CHECK(seen[static_cast<std::size_t>(i)] == 2 * (63 - i));
}

TEST_CASE("a barrier that some threads leave behind is refused", "[emulator]") {
  CHECK_THROWS_WITH(run({{1}, {64}, 0},
                        [] {
                          if (thread_index().x < 40) block_barrier();
                        }),
                    "a block barrier that some threads have left behind");
}

TEST_CASE("a warp-wide operation that some lanes do not reach is refused", "[emulator]") {
  CHECK_THROWS_WITH(run({{1}, {32}, 0},
                        [] {
                          if (lane() != 5) warp_meet(WarpOp::shuffle, 1);
                        }),
                    "a warp-wide operation that some lanes do not reach");
  CHECK_THROWS_WITH(
      run({{1}, {32}, 0}, [] { warp_meet(lane() < 16 ? WarpOp::shuffle : WarpOp::vote, 1); }),
      "lanes of a warp at different operations");
}

TEST_CASE("a missing barrier shows in the order of the warps", "[emulator]") {
  std::array<int, 2> read{};
  for (const bool descending : {false, true}) {
    set_order(descending ? Order::descending : Order::ascending);
    run({{1}, {64}, sizeof(int)}, [&] {
      auto* shared = reinterpret_cast<int*>(shared_memory());
      if (thread_index().x == 0) *shared = 1;
      if (thread_index().x == 63) read[descending ? 1 : 0] = *shared;
    });
  }
  set_order(Order::ascending);
  CHECK(read[0] == 1);
  CHECK(read[1] == -1);  // what shared memory starts with
}

TEST_CASE("a copy in the background arrives when it is waited for, not before", "[emulator]") {
  alignas(16) std::array<int, 4> source{1, 2, 3, 4};
  std::array<int, 2> read{};
  const auto kernel = [&](bool waits) {
    return [&, waits] {
      auto* shared = reinterpret_cast<int*>(shared_memory());
      if (thread_index().x == 0) {
        start_copy_16(shared, source.data(), true);
        commit_copies();
        if (waits) wait_for_copies(0);
        read[waits ? 1 : 0] = shared[3];
        wait_for_copies(0);
      }
    };
  };
  run({{1}, {32}, 64}, kernel(false));
  run({{1}, {32}, 64}, kernel(true));
  CHECK(read == std::array<int, 2>{-1, 4});
}
