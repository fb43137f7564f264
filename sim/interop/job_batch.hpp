// The batch of a job of DeepSpeed or Hugging Face: train_batch_size = micro-batch x accumulation
// steps x replicas, of which two suffice.
#pragma once

#include <optional>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {

struct JobBatch {
  Whole whole, micro, steps;
};
// Takes what the file leaves open from the options; an option that contradicts the file is a
// problem at the file's place.
void add_options(const ImportRequest& request, JobBatch& batch);

struct BatchSizes {
  std::int64_t global = 1, micro = 1;
};
// As DeepSpeed resolves it (runtime/config.py, _set_batch_related_parameters, commit 029f12b3):
// what one of the three leaves open is one step. Problems, at the places or at `root`: values
// outside 1 to 2^32, and a product that is not the whole. REQUIRES: `micro` or `whole`, replicas >
// 0.
std::optional<BatchSizes> sizes_of(const JobBatch& batch, std::int64_t replicas,
                                   const ObjectReader& root);

}  // namespace sim
