// Shards of parameters that lie on the host, and gradients that go there bucket by bucket
// (Layout::offload_parameters).
#pragma once

#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

// A kernel of a copy engine.
std::uint32_t host_copy(LoweringContext& context, Bytes bytes, Bytes from_disk = {});

class HostTransfers : StagePart {
 public:
  HostTransfers(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store} {}

  // Fetches the parameters of a unit that the rank owns: into the shard that is gathered, or, if no
  // other rank shares the unit, into the whole.
  void fetch(std::uint32_t index);
  // Copies the gradients that the rank owns to the host, behind all that the stream of reductions
  // has been given.
  void take_gradients(std::uint32_t index);
  // Brings back the gradients that earlier micro-batches have left there.
  void bring_gradients(std::uint32_t index);

 private:
  Bytes bytes_of_shard(const Bucket& bucket) const;
  OpLabel label_of(const Bucket& bucket, const char* name);

  ParameterStore& store_;
};

}  // namespace sim::lowering
