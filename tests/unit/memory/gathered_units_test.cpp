#include "sim/memory/gathered_units.hpp"

#include "sim/memory/caching_allocator.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t mib = 1 << 20;

// Units of an embedding (40 MiB gathered), a layer (60 MiB) and a head (20 MiB), over 2 ranks. A
// forward pass gathers the embedding, the layer and the head, copies each out and lets it go.
struct Fsdp {
  test::Sketch sketch{{}};

  Fsdp() {
    Program& program = sketch.program;
    program.allocation = {.expandable = true, .copies_gathered = true};
    const BlockPlace places[] = {BlockPlace::input, BlockPlace::layer, BlockPlace::output};
    const std::int64_t sizes[] = {40 * mib, 60 * mib, 20 * mib};
    for (std::uint32_t unit = 0; unit < 3; ++unit) {
      const auto buffer = [&](std::int64_t bytes, BufferCategory category, bool persistent) {
        Buffer made;
        made.size = Bytes{bytes};
        made.category = category;
        made.persistent = persistent;
        program.buffers.push_back(made);
        return BufferId{static_cast<std::uint32_t>(program.buffers.size() - 1)};
      };
      ParameterBucket bucket;
      bucket.elements = bucket.padded = sizes[unit] / 2;
      bucket.shards = 2;
      bucket.weight = buffer(sizes[unit], BufferCategory::gathered_parameters, false);
      bucket.weight_shard = buffer(sizes[unit] / 2, BufferCategory::weights, true);
      bucket.gradient_shard = buffer(sizes[unit] / 2, BufferCategory::gradients, true);
      bucket.optimizer = buffer(sizes[unit] / 4 * 12, BufferCategory::optimizer, true);
      program.parameter_buckets.push_back(bucket);
      Site site;
      site.place = places[unit];
      site.bucket = unit;
      program.sites.push_back(site);
    }
  }

  void add(Action action, std::uint32_t unit, Access access, Pass pass = Pass::parameter_sync) {
    const BufferId weight = sketch.program.parameter_buckets[unit].weight;
    sketch.add(OpKind::elementwise, Stream::compute, {}, {{weight, access, Role::weight}});
    sketch.program.action.back() = action;
    sketch.program.subject.back() = unit;
    sketch.program.pass.back() = pass;
  }
  void gather(std::uint32_t unit) {
    add(Action::gather_weights, unit, Access::write);
    add(Action::copy_weights, unit, Access::write);
  }
  std::int64_t reserved() const {
    return cached_memory(sketch.program, Bytes{10'000 * mib}).reserved.count() / mib;
  }
};

}  // namespace

TEST_CASE("FSDP2: shards are the fp32 masters, and the moments come later", "[plan]") {
  Fsdp fsdp;
  // 30 M elements of a rank: 4 bytes, then 8 more; each of the 9 tensors a multiple of 20 MiB.
  CHECK(fsdp.reserved() == 30 * 12);
}

TEST_CASE("FSDP2: what is outside of layers is gathered first and stays", "[plan]") {
  Fsdp fsdp;
  fsdp.gather(0);
  fsdp.add(Action::forward, 0, Access::free, Pass::forward);
  // Embedding and head: 60 MiB in the gather's stream, 60 MiB copied out. The buffer is held until
  // the next unit is copied out, here that of the next step: twice 60 MiB in that stream.
  CHECK(fsdp.reserved() == 30 * 12 + 120 + 60);
  // The layer is gathered while that buffer is held, as many in that stream; it is free before the
  // layer is copied out, 60 MiB.
  fsdp.gather(1);
  fsdp.add(Action::forward, 1, Access::free, Pass::forward);
  CHECK(fsdp.reserved() == 30 * 12 + 120 + 120);
  // The head is there already.
  fsdp.gather(2);
  fsdp.add(Action::forward, 2, Access::free, Pass::forward);
  CHECK(fsdp.reserved() == 30 * 12 + 120 + 120);
}

TEST_CASE("FSDP2: a gradient on its way to the host leaves its place", "[plan]") {
  const auto reserved = [](bool to_host) {
    Fsdp fsdp;
    for (const std::uint32_t unit : {2U, 1U, 0U}) {
      fsdp.add(Action::reduce, unit, Access::read);
      if (!to_host) continue;
      const BufferId shard = fsdp.sketch.program.parameter_buckets[unit].gradient_shard;
      fsdp.sketch.add(OpKind::host_copy, Stream::host_copy, {},
                      {{shard, Access::free, Role::input}});
      fsdp.sketch.program.action.back() = Action::gradients_to_host;
      fsdp.sketch.program.subject.back() = unit;
    }
    return fsdp.reserved();
  };
  // 20, 60 and 40 MiB of fp32 shards, or the largest at a time.
  CHECK(reserved(false) == 30 * 12 + 120);
  CHECK(reserved(true) == 30 * 12 + 60);
}

TEST_CASE("FSDP2: parameters and their gradients are tensors of their own", "[plan]") {
  const auto reserved = [](int tensors) {
    Fsdp fsdp;
    Program& program = fsdp.sketch.program;
    program.allocation.expandable = false;
    Buffer gradient;
    gradient.size = Bytes{60 * mib};
    program.buffers.push_back(gradient);
    const BufferId made{static_cast<std::uint32_t>(program.buffers.size() - 1)};
    program.parameter_buckets[1].gradient = made;
    // The layer: 30 M elements of 2 bytes.
    program.sites[1].elements = 30 * mib / tensors;
    for (int i = 1; i < tensors; ++i)
      program.sites.push_back(program.sites[1]);
    for (std::uint32_t site = 1; site < program.sites.size(); ++site) {
      if (program.sites[site].bucket != 1) continue;
      for (int twice = 0; twice < 2; ++twice) {  // the second is added to the first
        fsdp.sketch.add(OpKind::elementwise, Stream::compute, {},
                        {{made, Access::write, Role::weight_gradient}});
        program.action.back() = Action::weight_gradient;
        program.subject.back() = site;
        program.pass.back() = Pass::backward;
      }
    }
    fsdp.sketch.add(OpKind::elementwise, Stream::compute, {}, {{made, Access::free, Role::input}});
    return cached_memory(program, Bytes{10'000 * mib}).allocated.count() / mib;
  };
  CHECK(reserved(1) == 30 * 12 + 60);
  CHECK(reserved(3) == 30 * 12 + 60);
}

TEST_CASE("FSDP2: reduced gradients are fp32 shards of a stream of their own", "[plan]") {
  Fsdp fsdp;
  fsdp.add(Action::reduce, 1, Access::read);
  // 30 M elements, half of them on this rank: 60 MiB.
  CHECK(fsdp.reserved() == 30 * 12 + 60);
}
