#include "sim/memory/caching_allocator.hpp"

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
  // A block of 40 of a segment of 100 MiB stays: its other 60 are no place for 70.
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

TEST_CASE("what is cached never makes a device too small, what is split does", "[plan]") {
  const auto two_streams = [](std::int64_t capacity) {
    BlockPool pool{Bytes{capacity * mib}, SegmentForm::fixed};
    for (int stream = 0; stream < 4; ++stream)
      pool.give(pool.take(Bytes{60 * mib}, stream));
    return pool.most();
  };
  CHECK(two_streams(1'000).reserved.count() == 240 * mib);
  CHECK(two_streams(1'000).kept.count() == 0);
  // 60 MiB at a time suffice, by returning what the stream before has left.
  CHECK(two_streams(60).fits);
  CHECK(two_streams(60).kept.count() == 60 * mib);
  CHECK(two_streams(60).retries == 3);
  CHECK_FALSE(two_streams(59).fits);
  CHECK(two_streams(59).reserved.count() == 60 * mib);
  // A segment of 60 of which 10 are in use is not returned.
  BlockPool pool{Bytes{100 * mib}, SegmentForm::fixed};
  pool.give(pool.take(Bytes{60 * mib}));
  pool.take(Bytes{10 * mib});
  pool.take(Bytes{60 * mib}, 1);
  CHECK_FALSE(pool.most().fits);
  CHECK(pool.most().reserved.count() == 120 * mib);
}

TEST_CASE("the host waits for the device before segments are returned", "[plan]") {
  BlockPool* that = nullptr;
  BlockPool::Address waiting = -1;
  BlockPool pool{Bytes{100 * mib}, SegmentForm::fixed, BlockPool::any_size, [&] {
                   if (waiting >= 0) that->give(waiting);
                   waiting = -1;
                 }};
  that = &pool;
  waiting = pool.take(Bytes{80 * mib});
  pool.take(Bytes{90 * mib}, 1);
  CHECK(pool.most().fits);
}

TEST_CASE("retries are those of the last step", "[plan]") {
  BlockPool pool{Bytes{100 * mib}, SegmentForm::fixed};
  // Memory that one stream has left is no place for another.
  pool.give(pool.take(Bytes{60 * mib}, 0));
  CHECK(pool.most().retries == 0);
  pool.give(pool.take(Bytes{60 * mib}, 1));
  CHECK(pool.most().retries == 1);
  pool.give(pool.take(Bytes{60 * mib}, 0));
  CHECK(pool.most().retries == 2);
  pool.count_retries_anew();
  CHECK(pool.most().retries == 0);
  // The first step returns 60 for 80, which the next ones use for both.
  CHECK(replay({buffer(60 * mib), buffer(80 * mib)}, {{{0}, {0}}, {{1}, {1}}}, 100 * mib).retries ==
        0);
}

TEST_CASE("the moments of Adam come at the end of the first step", "[plan]") {
  // Step 1: weights 30, masters 40 and a block of 40, which the first moment takes over in step 2;
  // the second moment and the block then have segments of their own.
  const std::vector<Buffer> buffers = {buffer(30 * mib, true, BufferCategory::weights),
                                       buffer(120 * mib, true, BufferCategory::optimizer),
                                       buffer(40 * mib)};
  const CachedMemory memory = replay(buffers, {{{2}, {2}}});
  CHECK(memory.reserved.count() == (30 + 120 + 40) * mib);
  CHECK(memory.allocated.count() == (30 + 120 + 40) * mib);
}

TEST_CASE("parameters leave their first places behind", "[plan]") {
  // Two of 20 and 40 MiB, moved into a buffer of 60: an activation of 40 fits where one was, of 50
  // nowhere.
  const auto reserved = [](std::int64_t activation, bool moved) {
    test::Sketch sketch{{buffer(60 * mib, true, BufferCategory::weights), buffer(activation)}};
    sketch.add(
        OpKind::elementwise, Stream::compute, {},
        {{BufferId{1}, Access::write, Role::output}, {BufferId{1}, Access::free, Role::output}});
    ParameterBucket bucket;
    bucket.elements = bucket.padded = 30 * mib;
    bucket.weight = BufferId{0};
    sketch.program.parameter_buckets = {bucket};
    for (const std::int64_t elements : {10 * mib, 20 * mib}) {
      Site site;
      site.bucket = 0;
      site.elements = elements;
      sketch.program.sites.push_back(site);
    }
    sketch.program.allocation.moved_parameters = moved;
    return cached_memory(sketch.program, Bytes{1'000 * mib}).reserved.count();
  };
  CHECK(reserved(40 * mib, false) == 100 * mib);
  CHECK(reserved(40 * mib, true) == 120 * mib);
  CHECK(reserved(50 * mib, true) == 170 * mib);
}

TEST_CASE("a buffer may stand for several tensors", "[plan]") {
  // Two tensors of 9 MiB share a segment of 20; one of 18 MiB has its own.
  Buffer two = buffer(18 * mib);
  two.tensors = 2;
  CHECK(replay({two}, {{{0}, {0}}}).reserved.count() == 20 * mib);
  CHECK(replay({buffer(18 * mib)}, {{{0}, {0}}}).reserved.count() == 18 * mib);
}

TEST_CASE("scratch is taken between results and operands, in its own order", "[plan]") {
  // Operator 0 writes 40; operator 1 takes 30, frees the 40, takes another 30 in its place.
  test::Sketch sketch{{buffer(40 * mib), buffer(20 * mib)}};
  sketch.add(OpKind::elementwise, Stream::compute, {},
             {{BufferId{0}, Access::write, Role::output}});
  sketch.add(OpKind::elementwise, Stream::compute, {},
             {{BufferId{0}, Access::free, Role::input},
              {BufferId{1}, Access::write, Role::output},
              {BufferId{1}, Access::free, Role::output}});
  sketch.program.scratches = {{{ScratchMoment::take, 0, Bytes{30 * mib}},
                               {ScratchMoment::free_operands, 0, {}},
                               {ScratchMoment::take, 1, Bytes{30 * mib}},
                               {ScratchMoment::give, 0, {}},
                               {ScratchMoment::give, 1, {}},
                               {ScratchMoment::write_results, 0, {}}}};
  sketch.program.scratch_of_op = {{OpId{1}, 0}};
  // The buffer that operator 1 takes and frees itself is what the scratch says in full.
  const CachedMemory memory = cached_memory(sketch.program, Bytes{1'000 * mib});
  CHECK(memory.allocated.count() == 70 * mib);
  CHECK(memory.reserved.count() == 70 * mib);
}

TEST_CASE("segments that grow have no pieces that are too small", "[plan]") {
  // As above: of 100 MiB a block of 40 stays. 70 takes the other 60 and grows by 20.
  const std::vector<Buffer> buffers = {buffer(100 * mib), buffer(40 * mib), buffer(70 * mib)};
  test::Sketch sketch{buffers};
  const auto step = [&](std::uint32_t id, Access access) {
    sketch.add(OpKind::elementwise, Stream::compute, {}, {{BufferId{id}, access, Role::output}});
  };
  step(0, Access::write);
  step(0, Access::free);
  step(1, Access::write);
  step(2, Access::write);
  step(2, Access::free);
  step(1, Access::free);
  sketch.program.allocation.expandable = true;
  const CachedMemory memory = cached_memory(sketch.program, Bytes{1'000 * mib});
  CHECK(memory.reserved.count() == 120 * mib);
  CHECK(memory.allocated.count() == 110 * mib);
}

TEST_CASE("what grows returns its free pieces, and takes them again", "[plan]") {
  BlockPool pool{Bytes{100 * mib}, SegmentForm::expandable};
  const auto first = pool.take(Bytes{60 * mib});
  pool.take(Bytes{20 * mib});
  pool.give(first);
  // Another stream asks: 60 MiB of the first are returned for it.
  pool.take(Bytes{60 * mib}, 1);
  CHECK(pool.most().reserved.count() == 80 * mib);
  CHECK(pool.most().kept.count() == 80 * mib);
  // The device has 20 of 100 left: not for the 60 again, but for 20 of them.
  CHECK(pool.most().fits);
  pool.take(Bytes{60 * mib});
  CHECK_FALSE(pool.most().fits);
  BlockPool again{Bytes{100 * mib}, SegmentForm::expandable};
  const auto one = again.take(Bytes{60 * mib});
  again.take(Bytes{20 * mib});
  again.give(one);
  again.take(Bytes{60 * mib}, 1);
  again.take(Bytes{20 * mib});
  CHECK(again.most().fits);
}

TEST_CASE("the end of a segment that grows serves what no other block does", "[plan]") {
  // Free: 30 MiB between two blocks, and 20 at the end, where more can be added.
  BlockPool pool{Bytes{1'000 * mib}, SegmentForm::expandable};
  const auto first = pool.take(Bytes{30 * mib});
  pool.take(Bytes{10 * mib});
  const auto last = pool.take(Bytes{20 * mib});
  pool.give(first);
  pool.give(last);
  REQUIRE(pool.most().reserved.count() == 60 * mib);
  // Both are large enough: 15 lie in the 30, so 20 still fit at the end, and 15 in between.
  pool.take(Bytes{15 * mib});
  pool.take(Bytes{20 * mib});
  pool.take(Bytes{15 * mib});
  CHECK(pool.most().reserved.count() == 60 * mib);
}

TEST_CASE("blocks of max_split_size and more are not split, nor taken for less", "[plan]") {
  const auto reserved = [](std::int64_t most, std::int64_t first, std::int64_t then) {
    BlockPool pool{Bytes{1'000 * mib}, SegmentForm::fixed, most};
    pool.give(pool.take(Bytes{first * mib}));
    pool.take(Bytes{then * mib});
    pool.take(Bytes{then * mib});
    return pool.most().reserved.count() / mib;
  };
  CHECK(reserved(BlockPool::any_size, 200, 40) == 200);
  CHECK(reserved(100 * mib, 200, 40) == 280);
  // A request of that size gets it whole, unless 20 MiB and more would be left.
  CHECK(reserved(100 * mib, 200, 190) == 390);
  CHECK(reserved(100 * mib, 200, 180) == 560);
  CHECK(reserved(100 * mib, 200, 181) == 382);
}

TEST_CASE("blocks of max_split_size are returned before all others", "[plan]") {
  BlockPool pool{Bytes{400 * mib}, SegmentForm::fixed, 100 * mib};
  const auto large = pool.take(Bytes{150 * mib});
  const auto small = pool.take(Bytes{50 * mib});
  pool.give(large);
  pool.give(small);
  // 250 need more than the 200 that are left: the 150 go, the 50 stay, and nothing is retried.
  pool.take(Bytes{250 * mib});
  CHECK(pool.most().retries == 0);
  pool.take(Bytes{50 * mib});
  CHECK(pool.most().reserved.count() == 300 * mib);
}

TEST_CASE("blocks belong to the stream they were made for", "[plan]") {
  BlockPool pool{Bytes{1'000 * mib}, SegmentForm::fixed};
  const auto first = pool.take(Bytes{50 * mib});
  pool.give(first);
  pool.take(Bytes{50 * mib}, 1);
  CHECK(pool.most().reserved.count() == 100 * mib);
}

TEST_CASE("logits of which metrics are taken stay until the next micro-batch has its own",
          "[plan]") {
  const auto reserved = [](int metrics) {
    test::Sketch sketch{std::vector<Buffer>{buffer(64 * mib), buffer(64 * mib)}};
    const auto add = [&](OpKind kind, Pass pass, std::uint32_t logits, Access access) {
      sketch.add(kind, Stream::compute, {}, {{BufferId{logits}, access, Role::input}});
      sketch.program.pass.back() = pass;
    };
    sketch.program.allocation.loss_metrics = metrics;
    for (const std::uint32_t logits : {0U, 1U}) {
      add(OpKind::gemm, Pass::forward, logits, Access::write);
      add(OpKind::cross_entropy, Pass::forward, logits, Access::read);
      add(OpKind::cross_entropy, Pass::backward, logits, Access::free);
    }
    return cached_memory(sketch.program, Bytes{1'000 * mib}).reserved.count() / mib;
  };
  CHECK(reserved(0) == 64);
  // Those of one micro-batch and of the one before: never of three.
  CHECK(reserved(2) == 128);
}
