#include "tests/property/random_scenario.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/property/support.hpp"
#include "tests/support/source_dir.hpp"

namespace sim::test {
namespace {

struct Shape {
  int tensor = 1, context = 1, data = 1, pipeline = 1, chunks = 1;
  bool mixture = false;                            // of 8 experts
  bool compiled = false;                           // torchtitan's way
  bool cuts_products = false;                      // AsyncTP, within a node
  int replicas() const { return context * data; }  // of the weights
  int ranks() const { return tensor * context * data * pipeline; }
};

Shape draw_shape(Dice& dice, const ScenarioLimits& limits) {
  constexpr std::array sizes{1, 1, 2, 4, 8};
  constexpr std::array contexts{1, 1, 1, 2, 4};
  constexpr std::array stages{1, 2, 3, 4};
  Shape shape;
  do {
    shape = {.tensor = dice.pick(sizes),
             .context = dice.pick(contexts),
             .data = dice.pick(sizes),
             .pipeline = dice.pick(stages)};
    if (limits.one_dimension) {
      const int kept = dice.below(4);
      if (kept != 0) shape.tensor = 1;
      if (kept != 1) shape.data = 1;
      if (kept != 2) shape.pipeline = 1;
      if (kept != 3) shape.context = 1;
    }
  } while (shape.ranks() > limits.most_ranks || shape.ranks() == 1);
  return shape;
}

std::string model_yaml(Dice& dice, const Shape& shape) {
  const int head_dim = dice.pick(std::array{32, 64});
  const int heads = 8 * (1 + dice.below(2));
  const bool llama = dice.coin();
  std::ostringstream text;
  text << "name: small\nsource: made for a test\ntransformer:\n  layers: "
       << shape.pipeline * shape.chunks * (1 + dice.below(3)) << "\n  hidden: " << heads * head_dim
       << "\n  heads: " << heads << "\n  feed_forward: " << 128 * (4 + dice.below(8))
       << (shape.mixture ? "\n  experts: {count: 8, per_token: 2, feed_forward: 256}" : "")
       << "\n  vocabulary: " << 512 * (1 + dice.below(20)) << "\n  max_sequence: 512\n"
       << (llama ? "  norm: rms\n  activation: swiglu\n  positions: rotary\n  biases: none\n"
                 : "  norm: layer\n  activation: gelu\n  positions: learned\n  biases: all\n"
                   "  hidden_dropout: 0.1\n  attention_dropout: 0.1\n")
       << "  head: language_model\n  tied_head: " << (dice.coin() ? "true" : "false") << "\n";
  return text.str();
}

bool splits(const std::string& schedule) {
  return schedule != "gpipe" && schedule != "1f1b" && schedule != "interleaved";
}

void write_parallelism(Dice& dice, const Shape& shape, const std::string& schedule,
                       std::ostream& out) {
  constexpr std::array placements{"[tp, dp, pp]", "[tp, pp, dp]", "[dp, tp, pp]", "[pp, dp, tp]"};
  constexpr std::array with_context{"[tp, cp, dp, pp]", "[cp, tp, pp, dp]", "[dp, cp, tp, pp]",
                                    "[pp, dp, cp, tp]"};
  const int micro_batch = 1 + dice.below(2);
  const int rounds = (schedule == "dualpipe-v" ? 2 : 1) + dice.below(3);
  const int micro_batches =
      shape.chunks > 1 ? rounds * shape.pipeline : rounds * shape.pipeline + dice.below(2);
  // The heads of the smallest model are 8.
  const bool divides = 8 % (shape.tensor * shape.context) == 0;
  constexpr std::array exchanges{"ring", "all_gather", "all_to_all"};
  const std::size_t exchange = static_cast<std::size_t>(dice.below(divides ? 3 : 2));
  out << "  tensor_parallel: " << shape.tensor << "\n  context_parallel: " << shape.context
      << "\n  context_exchange: " << exchanges[exchange]
      << "\n  pipeline_parallel: " << shape.pipeline << "\n  data_parallel: " << shape.data
      << "\n  virtual_stages: " << shape.chunks << "\n  schedule: " << schedule << "\n  placement: "
      << (shape.cuts_products ? placements[0]
                              : dice.pick(shape.context > 1 ? with_context : placements))
      << "\n  sequence_length: " << dice.pick(std::array{128, 256, 512})
      << "\n  micro_batch: " << micro_batch
      << "\n  global_batch: " << micro_batch * micro_batches * shape.data << "\n";
}

// A share of the ranks of a stage, with all of the tensor ranks for an expert's features or one.
void write_experts(Dice& dice, const Shape& shape, std::ostream& out) {
  const int tensor = dice.coin() ? shape.tensor : 1;
  int experts = 8;
  while (shape.tensor * shape.replicas() % (tensor * experts) != 0)
    experts /= 2;
  if (dice.coin() && experts > 1) experts /= 2;
  out << "  expert_parallel: " << experts << "\n  expert_tensor_parallel: " << tensor
      << "\n  expert_imbalance: " << (experts > 1 && dice.coin() ? 1.5 : 1.0) << "\n";
}

void write_layout(Dice& dice, const Shape& shape, const ScenarioLimits& limits, std::ostream& out) {
  constexpr std::array schedules{"gpipe", "1f1b", "zb-h1"};
  constexpr std::array with_chunks{"interleaved", "interleaved",    "zb-v",      "v-half",
                                   "v-min",       "interleaved-zb", "dualpipe-v"};
  constexpr std::array recomputes{"none", "selective", "full"};
  constexpr std::array buckets{"64 KiB", "1 MiB", "25 MiB"};
  out << "layout:\n";
  std::string schedule = dice.pick(schedules);
  if (shape.chunks > 1) schedule = shape.chunks == 2 ? dice.pick(with_chunks) : "interleaved";
  const bool beside = splits(schedule) && shape.chunks == 2;  // messages
  write_parallelism(dice, shape, schedule, out);
  // Split backward passes keep full gradients, as mixtures do: neither has ZeRO 2 and 3.
  const bool whole_gradients = splits(schedule) || shape.mixture;
  const int stages_of_zero = whole_gradients ? 2 : 4;
  const int zero = shape.replicas() > 1 ? dice.below(stages_of_zero) : 0;
  out << "  zero_stage: " << zero << "\n";
  if (zero > 0 && shape.data > 2 && !limits.one_dimension && dice.coin() && !shape.mixture)
    out << "  shard_group: " << shape.data / 2 << "\n";
  if (zero == 3) out << "  prefetch_layers: " << dice.below(3) << "\n";
  const bool splits_tokens =
      shape.tensor > 1 && (dice.coin() || shape.mixture || shape.cuts_products);
  if (shape.tensor > 1)
    out << "  sequence_parallel: " << (splits_tokens ? "true" : "false") << "\n";
  if (shape.mixture) write_experts(dice, shape, out);
  const bool flash = dice.coin() || shape.context > 1;  // merging parts needs a flash kernel
  out << "  recompute: " << dice.pick(recomputes)
      << "\n  attention: " << (flash ? "flash" : "unfused")
      << "\n  compute_dtype: fp16\n  gradient_dtype: " << (dice.coin() ? "fp16" : "fp32")
      << "\n  bucket: " << dice.pick(buckets) << "\n  first_bucket: 64 KiB\n";
  if (!limits.overlap) {
    out << (beside ? "  overlap: {gradients: false, parameters: false, tensor_wgrad: false}\n"
                   : "  overlap: false\n");
    return;
  }
  out << "  overlap: {";
  const char* separator = "";
  for (const char* what : {"gradients", "parameters", "pipeline", "tensor_wgrad"}) {
    const bool on = dice.below(4) > 0 || (beside && what == std::string_view{"pipeline"});
    if (shape.compiled && what == std::string_view{"tensor_wgrad"}) continue;
    out << separator << what << ": " << (on ? "true" : "false");
    separator = ", ";
  }
  if (shape.cuts_products && !splits(schedule)) out << ", tensor_products: true";
  out << "}\n";
}

struct Machine {
  const char* file;
  int gpus_per_node;
  bool resizable;  // a torus or dragonfly has the nodes that its shape says
};
// Those with NVSwitches first.
constexpr std::array machines{
    Machine{"dgx-h100", 8, true},       Machine{"dgx-h100-2to1", 8, true},
    Machine{"dgx-a100-80", 8, true},    Machine{"aws-p5", 8, true},
    Machine{"gcp-a3-mega", 8, true},    Machine{"torus-3d-h100", 8, false},
    Machine{"dgx1-v100", 8, true},      Machine{"cloud-v100-100g", 8, true},
    Machine{"h100-pcie", 8, true},      Machine{"a100-pcie", 8, true},
    Machine{"dragonfly-a100", 4, false}};
constexpr int with_nvswitch = 6;

void write_trouble(Dice& dice, const Shape& shape, std::ostream& out) {
  if (dice.coin())
    out << "  stragglers: [{rank: " << dice.below(shape.ranks()) << ", factor: 1.5}]\n";
  if (dice.coin()) out << "  faults: [{where: node 0 nic 0, factor: 0.5}]\n";
}

// Megatron-LM's passes over logits, gradients and weights and what its host waits for, or
// DeepSpeed's, or torchtitan's.
void write_framework(Dice& dice, const Shape& shape, std::ostream& out) {
  if (shape.compiled) {
    out << "framework: {name: torchtitan}\n";
    return;
  }
  const auto coin = [&] { return dice.coin() ? "true" : "false"; };
  if (!shape.mixture && dice.coin()) {
    out << "framework: {name: " << (dice.coin() ? "deepspeed" : "megatron_deepspeed") << "}\n";
    return;
  }
  out << "framework:\n  loss: " << (dice.coin() ? "separate" : "fused") << "\n";
  for (const char* key :
       {"gradient_prescale", "check_for_nan_in_grad", "separate_update", "waits_for_lengths",
        "sync_expert_counts", "batch_p2p_sync", "defer_gradient_sync"})
    out << "  " << key << ": " << coin() << "\n";
  out << "  blocking_launches: " << (dice.below(4) == 0 ? "true" : "false") << "\n";
}

}  // namespace

RandomScenario random_scenario(std::uint64_t seed, const ScenarioLimits& limits) {
  Dice dice{seed};
  Shape shape = draw_shape(dice, limits);
  shape.chunks = shape.pipeline > 1 && dice.below(3) == 0 ? 2 : 1;
  shape.mixture = limits.experts && !limits.one_dimension && dice.below(3) == 0;
  shape.compiled = !limits.one_dimension && !shape.mixture && shape.context == 1 &&
                   limits.algorithm.empty() && limits.cluster_yaml.empty() && dice.below(4) == 0;
  shape.cuts_products = shape.compiled && shape.tensor > 1 && shape.tensor <= 4;
  const std::string model_text = model_yaml(dice, shape);
  const int choice =
      dice.below(limits.nvswitch ? with_nvswitch : static_cast<int>(machines.size()));
  const Machine& machine = machines[static_cast<std::size_t>(choice)];
  std::ostringstream text;
  text << "name: random-" << seed << "\n";
  const TemporaryFile model{model_text};
  const TemporaryFile cluster{limits.cluster_yaml};
  text << "model: " << model.path() << "\ncluster:\n";
  if (limits.cluster_yaml.empty()) {
    text << "  path: " << sim::test::source_dir() + "/topologies/" << machine.file << ".yaml\n";
    if (machine.resizable)
      text << "  nodes: " << (shape.ranks() + machine.gpus_per_node - 1) / machine.gpus_per_node
           << "\n";
  } else {
    text << "  path: " << cluster.path() << "\n";
  }
  text << "  gpus: " << shape.ranks() << "\n";
  write_layout(dice, shape, limits, text);
  text << "simulation:\n  graphs: " << (dice.coin() ? "true" : "false") << "\n";
  if (!limits.algorithm.empty())
    text << "  tensor_algorithm: " << limits.algorithm << "\n  data_algorithm: " << limits.algorithm
         << "\n  tensor_protocol: simple\n  data_protocol: simple\n";
  if (limits.trouble) write_trouble(dice, shape, text);
  if (shape.compiled || (!limits.one_dimension && dice.below(3) == 0))
    write_framework(dice, shape, text);
  const TemporaryFile scenario{text.str()};
  return {.yaml = text.str() + "# model:\n" + model_text,
          .scenario = load_scenario(scenario.path())};
}

}  // namespace sim::test
