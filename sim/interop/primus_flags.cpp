// Arguments that AMD's Primus adds to Megatron-LM's, and those that its presets list with their
// defaults (AMD-AGI/Primus at fd1eeabb, primus/configs/modules/megatron and models/megatron).
#include <array>

#include "sim/interop/megatron_flag_table.hpp"

namespace sim {
namespace {

using Verdict::noted;
using Verdict::refused;
using Verdict::unmodelled;

constexpr std::array primus_flags{
    // Pipelines of its own; what else is said of them counts beside these two alone.
    KnownKey{"--patch-zero-bubble", refused, "",
             "Primus's zero-bubble pipeline is not read: set layout.schedule in the scenario"},
    KnownKey{"--patch-primus-pipeline", refused, "",
             "Primus's own pipeline is not read: set layout.schedule in the scenario"},
    KnownKey{"--zero-bubble-*"},
    KnownKey{"--enable-zero-bubble"},
    KnownKey{"--enable-zb-runtime"},
    KnownKey{"--enable-exactly-numeric-match"},
    KnownKey{"--allow-padding-num-layers"},
    KnownKey{"--profile-memory-iter"},
    KnownKey{"--num-seq-splits"},
    KnownKey{"--offload-time"},
    KnownKey{"--auto-offload-time"},
    KnownKey{"--offload-overlap-sr"},
    KnownKey{"--offload-chunk-num"},
    KnownKey{"--pp-algorithm"},
    KnownKey{"--communication-method"},
    // Kernels.
    KnownKey{"--use-sink-attention", unmodelled, "",
             "tokens that every window sees are not modelled"},
    KnownKey{"--sink-*"},
    KnownKey{"--no-fp8-weight-transpose-cache", unmodelled, "",
             "transposed 8-bit weights are modelled as kept"},
    KnownKey{"--disable-delayed-scaling-patches"},
    KnownKey{"--moe-use-fused-router-with-aux-score", noted, "",
             "the choice of experts is modelled in Transformer Engine's kernels"},
    KnownKey{"--moe-router-force-load-balancing-type", noted, "even",
             "tokens are forecast to come evenly to the experts"},
    KnownKey{"--weight-deosc", unmodelled, "", "its pass over the weights is not modelled"},
    KnownKey{"--weight-deosc-*"},
    KnownKey{"--muon-split-qkv", noted, "True",
             "queries, keys and values are modelled as matrices of their own"},
    // Of FSDP.
    KnownKey{"--data-parallel-replicate-degree", refused, "1",
             "copies of shards by this key are not read: set layout.shard_group in the scenario"},
    // As Megatron-LM has them where their switches are not given.
    KnownKey{"--scatter-gather-tensors-in-pipeline"},
    KnownKey{"--align-grad-reduce"},
    KnownKey{"--align-param-gather"},
    KnownKey{"--gradient-reduce-div-fusion"},
    KnownKey{"--barrier-with-L1-time"},
    KnownKey{"--pin-cpu-grads"},
    KnownKey{"--pin-cpu-params"},
    KnownKey{"--perform-initialization"},
    KnownKey{"--clone-scatter-output-in-embedding"},
    KnownKey{"--async-tensor-model-parallel-allreduce"},
    // Data, logs, profiles and checkpoints.
    KnownKey{"--use-rocm-mem-info*"},
    KnownKey{"--torch-profiler-*"},
    KnownKey{"--disable-wandb"},
    KnownKey{"--disable-tensorboard"},
    KnownKey{"--disable-mlflow"},
    KnownKey{"--disable-last-saving"},
    KnownKey{"--disable-compile-dependencies"},
    KnownKey{"--create-attention-mask-in-dataloader"},
    KnownKey{"--mmap-bin-files"},
    KnownKey{"--data-sharding"},
    // Of images, retrieval and other models.
    KnownKey{"--short-seq-prob"},
    KnownKey{"--retriever-seq-length"},
    KnownKey{"--query-in-block-prob"},
    KnownKey{"--indexer-*"},
    KnownKey{"--max-tokens-to-oom"},
    KnownKey{"--iter-per-epoch"},
    KnownKey{"--patch-dim"},
    KnownKey{"--num-classes"},
    KnownKey{"--num-channels"},
    KnownKey{"--img-*"},
    KnownKey{"--classes-fraction"},
    KnownKey{"--head-lr-mult"},
    KnownKey{"--conv-L-cache"},
};

}  // namespace

std::span<const KnownKey> judged_primus_flags() {
  return primus_flags;
}

}  // namespace sim
