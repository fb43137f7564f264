// Keys of the section `budget` (sim/economics).
#include "sim/catalog/tables.hpp"
#include "sim/economics/budget.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

KeyDefault not_given() {
  return KeyDefault::follows("not given");
}

std::vector<Key> work() {
  return {
      number_key("tokens", {1, 1e18}, "tokens",
                 KeyDefault::follows("one of tokens, steps, minimum_steps"),
                 "tokens to train on; samples for layer lists"),
      integer_key("steps", {1, 1'000'000'000'000}, "steps",
                  KeyDefault::follows("one of tokens, steps, minimum_steps"), "optimizer steps"),
      number_key("minimum_steps", {1, 1e12}, "steps",
                 KeyDefault::follows("one of tokens, steps, minimum_steps"),
                 "steps to the target loss with an infinite batch"),
      number_key("critical_batch", {0, 1e18}, "tokens", KeyDefault::follows("with minimum_steps"),
                 "critical batch size"),
      number_key("step_factor", {0.1, 100}, "", "1",
                 "mean step over the forecast's: `stepcast variability` gives it"),
      quantity_key(money, "price.gpu_hour", not_given(), "price of a GPU-hour"),
      quantity_key(money, "price.spot_gpu_hour", not_given(),
                   "price of a GPU-hour of spot capacity"),
      quantity_key(money, "price.kwh", not_given(), "price of a kWh"),
      quantity_key(power, "power.gpu", KeyDefault::follows("TDP of the device"),
                   "power of one GPU"),
      quantity_key(power, "power.node", KeyDefault::follows("0.82 of the TDP of its GPUs"),
                   "power of a node without its GPUs"),
      number_key("power.pue", {1, 10}, "", "1.09", "power usage effectiveness"),
      quantity_key(long_time, "finish_in", not_given(), "asks how many GPUs finish in this time"),
      number_key("confidence", {0.01, 0.9999}, "", "0.95", "probability to finish in time"),
      word_key<Scaling>("scaling", "fixed_batch", "how the batch follows the number of replicas"),
      integer_key("max_gpus", {1, 1 << 21}, "GPUs", KeyDefault::follows("131072, or the job's"),
                  "most GPUs that are considered"),
      integer_key("runs", {100, 1'000'000}, "runs", "10000", "simulated runs (Monte Carlo)"),
      integer_key("seed", {}, "", "1", "seed of the simulated runs"),
      text_key(text, "sources", KeyDefault::follows("none"),
               "where your own values come from: {power.pue: our data centre}"),
  };
}

std::vector<Key> failures() {
  const KeyDefault published = KeyDefault::follows("the published one's");
  return {
      word_key<PublishedFailures>("failures.published", "llama-3",
                                  "published run whose failure rates are the defaults"),
      quantity_key(long_time, "failures.gpu", published, "mean time between failures of one GPU"),
      quantity_key(long_time, "failures.node", published, "mean time between failures of one node"),
      quantity_key(long_time, "failures.network", published,
                   "mean time between failures of a node's share of the network"),
      quantity_key(long_time, "failures.software", published,
                   "mean time between failures of the software of one node"),
      number_key("failures.weibull_shape", {0.3, 5}, "", "1",
                 "shape of the times between failures; 1: exponential"),
      quantity_key(long_time, "preemption.node", "never",
                   "spot capacity: mean time until one node is taken"),
      quantity_key(long_time, "preemption.wait", "0 s", "wait for a node in its place"),
      quantity_key(long_time, "stragglers.node", "never", "mean time until one node turns slow"),
      quantity_key(long_time, "stragglers.found_after", "30 min", "time until it is found"),
      number_key("stragglers.factor", {1, 100}, "", "1", "factor of the step time meanwhile"),
      quantity_key(long_time, "flaps.nic", "never",
                   "mean time between two moments in which the link of a NIC is down"),
      quantity_key(long_time, "flaps.outage", KeyDefault::follows("5 s, with flaps.nic"),
                   "mean time for which it is down"),
  };
}

std::vector<Key> checkpoints() {
  return {
      boolean_key("checkpoint.asynchronous", "true",
                  "training stops for the copy to the host only, not for the write"),
      text_key(text, "checkpoint.interval", "daly",
               "daly, young, or the work between two checkpoints: 30 min"),
      quantity_key(size, "checkpoint.bytes", KeyDefault::follows("weights and optimizer states"),
                   "size of a checkpoint"),
      quantity_key(long_time, "checkpoint.overhead", "3 s", "stop beside the copy or the write"),
      quantity_key(bandwidth, "checkpoint.node_bandwidth",
                   KeyDefault::follows("2 TB/s over 2,048 nodes"), "storage bandwidth of one node"),
      quantity_key(bandwidth, "checkpoint.storage_bandwidth", "2 TB/s", "bandwidth of the storage"),
      quantity_key(bandwidth, "checkpoint.copy_bandwidth",
                   KeyDefault::follows("the slowest PCIe link of a node"),
                   "bandwidth of one GPU's copy to the host"),
      quantity_key(long_time, "restart.detect", "10 min", "time until a failure is diagnosed"),
      quantity_key(long_time, "restart.reschedule", "2 min", "time until processes run again"),
      quantity_key(long_time, "restart.load", KeyDefault::follows("size / storage bandwidth"),
                   "time to load a checkpoint"),
  };
}

std::vector<Key> strategies() {
  return {
      integer_key("spares.nodes", {0, 100'000}, "nodes", KeyDefault::follows("as many as it takes"),
                  "nodes that stand by, and are paid for"),
      quantity_key(long_time, "spares.repair", "1 d", "time until a lost node is a spare again"),
      quantity_key(long_time, "spares.swap", KeyDefault::follows("restart.reschedule"),
                   "time until processes run on a spare"),
      word_key<MemoryPlace>("memory_checkpoint.place", "none",
                            "whose memory holds copies between two checkpoints"),
      integer_key("memory_checkpoint.every", {1, 1'000'000'000}, "steps",
                  KeyDefault::follows("as often as a copy takes"), "steps between two copies"),
      quantity_key(long_time, "memory_checkpoint.overhead", "0 s", "stop for each copy"),
      quantity_key(bandwidth, "memory_checkpoint.copy_bandwidth",
                   KeyDefault::follows("the slowest PCIe link of a node"),
                   "bandwidth of one GPU's copy to the host"),
      quantity_key(bandwidth, "memory_checkpoint.network_bandwidth",
                   KeyDefault::follows("the NICs of a node"), "bandwidth of a node to others"),
      integer_key("elastic.nodes", {0, 64}, "nodes", "0",
                  "nodes, beyond the spares, without which the job goes on with fewer replicas"),
      word_key<Scaling>("elastic.batch", "fixed_batch",
                        "whether the batch is kept with fewer replicas"),
      quantity_key(long_time, "elastic.resize", KeyDefault::follows("restart.reschedule"),
                   "halt when a node is back"),
      quantity_key(long_time, "corruption.gpu", "never",
                   "mean time between silent corruptions of one GPU"),
      number_key("corruption.share", {0, 0.99}, "", "0",
                 "share of each step for checks that find a corruption at once"),
      quantity_key(long_time, "corruption.check_every", "1 d", "work between two checks"),
      quantity_key(long_time, "corruption.check", "5 min", "time of a check"),
  };
}

}  // namespace

std::vector<Key> budget() {
  std::vector<Key> keys = work();
  for (std::vector<Key> (*more)() : {failures, checkpoints, strategies})
    for (Key& key : more())
      keys.push_back(std::move(key));
  return in_section("budget", std::move(keys));
}

}  // namespace sim::catalog_tables
