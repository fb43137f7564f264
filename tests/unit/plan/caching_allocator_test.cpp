#include "sim/plan/caching_allocator.hpp"

#include "tests/catch.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t kib = 1 << 10, mib = 1 << 20;

Buffer buffer(std::int64_t bytes, bool persistent = false,
              BufferCategory category = BufferCategory::activations) {
  Buffer made;
  made.size = Bytes{bytes};
  made.category = category;
  made.persistent = persistent;
  return made;
}

// Each step: buffers to be written, and then freed.
struct Step {
  std::vector<std::uint32_t> writes, frees;
};

CachedMemory replay(const std::vector<Buffer>& buffers, const std::vector<Step>& steps,
                    std::int64_t capacity = 1'000 * mib) {
  test::Sketch sketch{buffers};
  for (const Step& step : steps) {
    std::vector<BufferUse> uses;
    for (const std::uint32_t id : step.writes)
      uses.push_back({BufferId{id}, Access::write, Role::output});
    for (const std::uint32_t id : step.frees)
      uses.push_back({BufferId{id}, Access::free, Role::input});
    sketch.add(OpKind::elementwise, Stream::compute, {}, uses);
  }
  return cached_memory(sketch.program, Bytes{capacity});
}

}  // namespace

TEST_CASE("segments: 2 MiB for small blocks, 20 MiB below 10 MiB, else of their own", "[plan]") {
  const auto reserved = [](std::int64_t bytes) {
    return replay({buffer(bytes)}, {{{0}, {0}}}).reserved.count();
  };
  CHECK(reserved(1) == 2 * mib);
  CHECK(reserved(mib) == 2 * mib);
  CHECK(reserved(mib + 1) == 20 * mib);
  CHECK(reserved(10 * mib - 512) == 20 * mib);
  CHECK(reserved(10 * mib) == 10 * mib);
  CHECK(reserved(11 * mib) == 12 * mib);
  CHECK(replay({buffer(1)}, {{{0}, {0}}}).allocated.count() == 512);
}

TEST_CASE("a block is split when enough remains, and joins its free neighbours again", "[plan]") {
  // 5 + 5 MiB share a segment of 20; freed, they make room for a block of less than 10 again.
  CHECK(replay({buffer(5 * mib), buffer(5 * mib), buffer(9 * mib)}, {{{0, 1}, {0, 1}}, {{2}, {2}}})
            .reserved.count() == 20 * mib);
  // 600 KiB of small blocks: three of them do not fit into 2 MiB, but two and a rest do.
  CHECK(replay({buffer(900 * kib), buffer(900 * kib), buffer(200 * kib)}, {{{0, 1, 2}, {0, 1, 2}}})
            .reserved.count() == 2 * mib);
  CHECK(replay({buffer(900 * kib), buffer(900 * kib), buffer(300 * kib)}, {{{0, 1, 2}, {0, 1, 2}}})
            .reserved.count() == 4 * mib);
}

TEST_CASE("what is free in pieces does not serve a larger request", "[plan]") {
  // Of a segment of 100 MiB a block of 40 stays: its other 60 are no place for 70.
  const std::vector<Buffer> buffers = {buffer(100 * mib), buffer(40 * mib), buffer(70 * mib)};
  const std::vector<Step> steps = {{{0}, {0}}, {{1}, {}}, {{2}, {2}}, {{}, {1}}};
  const CachedMemory memory = replay(buffers, steps);
  CHECK(memory.reserved.count() == 170 * mib);
  CHECK(memory.allocated.count() == 110 * mib);
  CHECK(memory.fits);
  // A device of 130 MiB has room for both, but not in one piece.
  CHECK_FALSE(replay(buffers, steps, 130 * mib).fits);
}

TEST_CASE("free segments are returned to the device before it is out of memory", "[plan]") {
  const CachedMemory memory =
      replay({buffer(60 * mib), buffer(80 * mib)}, {{{0}, {0}}, {{1}, {1}}}, 100 * mib);
  CHECK(memory.fits);
  CHECK(memory.reserved.count() == 80 * mib);
}

TEST_CASE("the state of Adam comes at the end of the first step", "[plan]") {
  // Step 1: weights 30 and a block of 50, which the state takes over in step 2.
  const std::vector<Buffer> buffers = {buffer(30 * mib, true, BufferCategory::weights),
                                       buffer(50 * mib, true, BufferCategory::optimizer),
                                       buffer(50 * mib)};
  CHECK(replay(buffers, {{{2}, {2}}}).reserved.count() == (30 + 50 + 50) * mib);
}
