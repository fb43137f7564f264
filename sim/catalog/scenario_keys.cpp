// Keys of the top of a scenario and of its small sections.
#include <fmt/format.h>

#include "sim/base/time_factors.hpp"
#include "sim/catalog/tables.hpp"
#include "sim/collective/collective_cost.hpp"
#include "sim/layout/learning_rate.hpp"
#include "sim/options/device_spread.hpp"
#include "sim/options/simulation_options.hpp"
#include "sim/scenario/disturbance.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim::catalog_tables {

using enum KeyType;

std::vector<Key> top() {
  constexpr IntegerRange gpus{1, 1 << 21};
  return {
      text_key(text, "name", KeyDefault::follows("the file's name"), "name of the scenario"),
      text_key(list, "notes", KeyDefault::follows("none"),
               "what an import says that the forecast leaves out, repeated in reports: [{key: ..., "
               "what: ..., modelled: false}]"),
      text_key(text, "carried", KeyDefault::follows("nothing"),
               "settings of an imported job that no step depends on, which an export writes back: "
               "{megatron: {--rotary-base: 500000}}"),
      text_key(file, "model", KeyDefault::required(),
               "model file, Hugging Face config.json or its folder, or the model itself"),
      text_key(file, "cluster", KeyDefault::follows("cluster.path"), "short form of cluster.path"),
      text_key(file, "cluster.path", KeyDefault::required(), "cluster file"),
      integer_key("cluster.nodes", {1, most_nodes}, "nodes",
                  KeyDefault::follows("the cluster file's"), "nodes of the cluster"),
      integer_key("cluster.gpus", gpus, "GPUs", KeyDefault::follows("all GPUs of the cluster"),
                  "GPUs of the job"),
      integer_key("cluster.gpus_per_node", gpus, "GPUs",
                  KeyDefault::follows("the most that keep groups on whole nodes"),
                  "GPUs used of each node, or of each rack of one NVLink domain"),
      text_key(text, "cluster.node_list", KeyDefault::follows("the first nodes"),
               "nodes of the cluster that the job has, in the order of its ranks: node[3-5,9]"),
      word_key<AllocationKind>("cluster.allocation.kind", KeyDefault::follows("packed"),
                               "how the nodes of the job are drawn from those of the cluster"),
      number_key("cluster.allocation.occupancy", {0, 0.999}, "",
                 KeyDefault::follows("required with kind: fragmented"),
                 "share of the nodes that other jobs have"),
      integer_key("cluster.allocation.seed", {}, "", KeyDefault::follows("1"), "seed of the draw"),
      word_key<AttentionFlops>("flops.attention", "full",
                               "FLOPs of causal attention in MFU: full, or the half needed"),
  };
}

Key factor_key(const char* part, const char* help) {
  return number_key(fmt::format("time_factors.{}", part), {least_time_factor, most_time_factor}, "",
                    KeyDefault::follows("1: the cost models as they are"), help);
}

std::vector<Key> simulation() {
  return in_section(
      "simulation",
      {
          word_key<CollectiveModel>("collectives", "fluid",
                                    "model of collectives: fluid, or message by message"),
          boolean_key("fold", "true", "simulate one rank per class of equal ranks"),
          boolean_key("graphs", "false", "CUDA graphs: no host time per kernel"),
          text_key(list, "graph_scope", KeyDefault::follows("the whole step"),
                   "with graphs: parts of layers that are captured: attn, mlp, moe, moe_router, "
                   "moe_preprocess, mamba"),
          number_key("device_spread", {0, 1}, "",
                     KeyDefault{fmt::format("{}", published_device_spread).c_str()},
                     "standard deviation of the speed of equal devices"),
          number_key("jitter", {0, 2}, "", "0", "standard deviation of ln(kernel time)"),
          integer_key("seed", {}, "", "1", "seed of the jitter"),
          word_key<Algorithm>("tensor_algorithm", "auto",
                              "algorithm of tensor-parallel collectives"),
          word_key<Protocol>("tensor_protocol", "auto",
                             "NCCL protocol of tensor-parallel collectives"),
          word_key<Algorithm>("data_algorithm", "auto", "algorithm of data-parallel collectives"),
          word_key<Protocol>("data_protocol", "auto", "NCCL protocol of data-parallel collectives"),
          integer_key("server_shards", {1, 1 << 16}, "servers", "1",
                      "shards of the parameter server"),
          integer_key("most_blocks.tensor", {0, most_nccl_blocks}, "thread blocks",
                      KeyDefault::follows("NCCL's own"),
                      "of tensor-parallel communicators at most (max_ctas); 0: NCCL's own"),
          integer_key("most_blocks.context", {0, most_nccl_blocks}, "thread blocks",
                      KeyDefault::follows("NCCL's own"),
                      "the same of context-parallel communicators"),
          integer_key("most_blocks.expert", {0, most_nccl_blocks}, "thread blocks",
                      KeyDefault::follows("NCCL's own"),
                      "the same of expert-parallel communicators"),
          integer_key("most_blocks.data", {0, most_nccl_blocks}, "thread blocks",
                      KeyDefault::follows("NCCL's own"), "the same of data-parallel communicators"),
          integer_key("most_blocks.pipeline", {0, most_nccl_blocks}, "thread blocks",
                      KeyDefault::follows("NCCL's own"),
                      "the same of messages between pipeline stages"),
          text_key(file, "anchor", KeyDefault::follows("none"),
                   "measured runs that the forecast starts from, a file of `stepcast anchor`"),
          factor_key("products", "factor on the time of matrix products and attention"),
          factor_key("memory_kernels", "factor on the time of all other kernels"),
          factor_key("host", "factor on the host's time to issue a kernel"),
          factor_key("tensor", "factor on tensor-, context- and expert-parallel communication"),
          factor_key("data", "factor on the time of other collectives"),
          factor_key("pipeline", "factor on the time of sends and receives"),
          text_key(list, "stragglers", KeyDefault::follows("none"),
                   "slow ranks: [{rank: 3, factor: 1.2}], factor of their kernel times"),
          text_key(list, "faults", KeyDefault::follows("none"),
                   "degraded links: [{where: node 1 nic 2, factor: 0.5}], capacity left"),
      });
}

std::vector<Key> training() {
  constexpr RealRange share{0, 1}, moment{0, 0.9999999};
  constexpr IntegerRange steps{0, 1'000'000'000};
  return in_section(
      "training",
      {
          integer_key("steps", {1, steps.max}, "steps", "10", "optimizer steps of a run"),
          integer_key("seed", {}, "", "1", "seed of the weights and of the order of the data"),
          text_key(file, "data", KeyDefault::follows("the shipped corpus"),
                   "text, read as bytes, or a file of token ids"),
          number_key("learning_rate", share, "", "0.001", "constant rate; short form of the peak"),
          number_key("learning_rate.peak", share, "", "0.001", "rate behind the warm-up"),
          number_key("learning_rate.initial", share, "", "0", "rate at the start of the warm-up"),
          integer_key("learning_rate.warmup_steps", steps, "steps", "0", "steps of the warm-up"),
          word_key<RateDecay>("learning_rate.decay", "constant", "form of the decay"),
          number_key("learning_rate.minimum", share, "", "0", "rate behind the decay"),
          integer_key("learning_rate.decay_steps", {1, steps.max}, "steps",
                      KeyDefault::follows("required with a decay"),
                      "step at which the decay ends, counted from 0"),
          number_key("beta1", moment, "", "0.9", "Adam's decay of the first moment"),
          number_key("beta2", moment, "", "0.95", "Adam's decay of the second moment"),
          number_key("epsilon", {1e-30, 1}, "", "1e-08", "Adam's term in the denominator"),
          number_key("weight_decay", share, "", "0.1", "decoupled weight decay"),
          number_key("clip", {0, 1e6}, "", "1", "largest gradient norm; 0: no clipping"),
          word_key<TokenRouting>("routing", "auto",
                                 "how tokens choose experts: by the router's softmax or sigmoids, "
                                 "or evenly; auto: softmax on the host, even on a GPU"),
      });
}

std::vector<Key> disturbance() {
  constexpr RealRange share{0.001, 1};
  const auto by_preset = [] { return KeyDefault::follows("disturbance.preset"); };
  return in_section(
      "disturbance",
      {
          word_key<DisturbancePreset>("preset", "dedicated",
                                      "dedicated, or shared: other jobs use the fabric"),
          number_key("fabric_share", share, "", by_preset(),
                     "median share of the bandwidth between nodes that a step has"),
          number_key("fabric_share_low", share, "", by_preset(), "the same, the worst twentieth"),
          number_key("fabric_share_high", share, "", by_preset(), "the same, the best twentieth"),
          number_key("slow_nodes", {0, 1}, "", "0", "share of nodes that are slow"),
          number_key("slow_factor", {1, 100}, "", "1.1", "factor on the times of their kernels"),
          number_key("occupancy", {0, 0.999}, "", "0",
                     "share of the cluster's nodes that other jobs have; the job gets the rest"),
      });
}

}  // namespace sim::catalog_tables
