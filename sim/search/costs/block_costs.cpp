#include "sim/search/costs/block_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/engine/host_issue.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/search/walk.hpp"

namespace sim {
namespace {

// The model with every run of equal layers cut to three, and which of those stands for each layer.
// Not the first one of a model without input block: it has no gradient to hand on.
struct ShortModel {
  Model model;
  std::vector<std::uint32_t> stands_for;            // by layer of the whole model
  int first_bf16_layers = 0, last_bf16_layers = 0;  // of those that are left
};

ShortModel shorten(const Model& whole, const Layout& layout) {
  constexpr std::size_t kept = 3;
  const std::vector<std::uint32_t> alike = shard(whole, layout).of_layer;
  ShortModel made{whole, {}};
  made.model.layers.clear();
  for (std::size_t i = 0; i < alike.size();) {
    std::size_t end = i + 1;
    const bool stands_alone = i == 0 && whole.input.ops.empty();
    while (!stands_alone && end < alike.size() && alike[end] == alike[i])
      ++end;
    const std::size_t length = std::min(end - i, kept);
    const auto first = static_cast<std::uint32_t>(made.model.layers.size());
    made.stands_for.insert(made.stands_for.end(), end - i, first + (length > 1 ? 1 : 0));
    for (std::size_t k = 0; k < length; ++k) {
      made.model.layers.push_back(whole.layers[i + k]);
      const auto layer = static_cast<std::int64_t>(i + k);
      if (layer < layout.first_bf16_layers) ++made.first_bf16_layers;
      if (layer >= std::ssize(alike) - layout.last_bf16_layers) ++made.last_bf16_layers;
    }
    i = end;
  }
  return made;
}

// Bytes of activations that are alive, operator by operator.
class ActivationHeap {
 public:
  explicit ActivationHeap(const Program& program)
      : program_{program}, alive_(program.buffers.size()) {}

  // Returns what is alive while it runs.
  std::int64_t issue(std::uint32_t op) {
    for (const BufferUse& use : program_.buffer_uses({op}))
      if (use.access == Access::write) change(use.buffer, true);
    const std::int64_t alive = now;
    most = std::max(most, alive);
    for (const BufferUse& use : program_.buffer_uses({op}))
      if (use.access == Access::free) change(use.buffer, false);
    return alive;
  }

  std::int64_t now = 0, most = 0;

 private:
  void change(BufferId id, bool alive) {
    const Buffer& buffer = program_.buffers[id.value];
    if (buffer.category != BufferCategory::activations || alive_[id.value] == alive) return;
    alive_[id.value] = alive;
    now += alive ? buffer.size.count() : -buffer.size.count();
  }

  const Program& program_;
  std::vector<bool> alive_;
};

bool of_a_block(const Program& program, std::uint32_t op) {
  return program.action[op] < Action::send && program.subject[op] != Program::no_subject;
}

bool is_of_experts(const Program& program, const Site& site) {
  return site.bucket < program.parameter_buckets.size() &&
         program.parameter_buckets[site.bucket].of_experts;
}

// A vision encoder is counted with the embedding, which it stands before.
BlockPlace place_of(const Site& site) {
  const bool vision =
      site.place == BlockPlace::vision || site.place == BlockPlace::vision_layer;
  return vision ? BlockPlace::input : site.place;
}

// A pass of a block: a run of operators.
struct PassRun {
  BlockPlace place = BlockPlace::input;
  int layer = -1;
  Pass pass = Pass::forward;
  std::uint32_t first = 0, last = 0;
  std::int64_t left = 0, most = 0;  // activations
  std::int64_t before = 0;          // alive when it began
  std::int64_t most_gathered = 0;   // with what ZeRO-3 has whole
};

// Bytes that ZeRO-3 has whole while an operator of a pass runs, at least: the weights of a block
// are one unit, and those of its experts another, from the first operator that reads one of them to
// the last; their gradients from the first that is written to the last.
class WholeUnits {
 public:
  WholeUnits(const Program& program, const Layout& layout)
      : program_{program},
        weight_bytes_{bytes_of(weights_of(layout))},
        gradient_bytes_{
            std::min(bytes_of(layout.activation_dtype), bytes_of(layout.gradient_dtype))} {
    std::uint32_t block = 0;
    for (const Site& site : program.sites) {
      if (site.op == 0) ++block;
      block_of_site_.push_back(block);
      if (program.owns_parameters(site)) unit_of(site).elements += site.elements;
    }
  }

  void begin(std::uint32_t first, std::uint32_t last) {
    for (auto& [key, unit] : units_)
      unit.weights = unit.gradients = {};
    for (std::uint32_t op = first; op < last; ++op) {
      if (!of_a_block(program_, op)) continue;
      for (const BufferUse& use : program_.buffer_uses({op})) {
        if (use.role != Role::weight && use.role != Role::weight_gradient) continue;
        Unit& unit = unit_of(program_.sites[program_.subject[op]]);
        (use.role == Role::weight ? unit.weights : unit.gradients).reach(op);
      }
    }
  }
  std::int64_t at(std::uint32_t op) const {
    std::int64_t bytes = 0;
    for (const auto& [key, unit] : units_)
      bytes += unit.elements * ((unit.weights.has(op) ? weight_bytes_ : 0) +
                                (unit.gradients.has(op) ? gradient_bytes_ : 0));
    return bytes;
  }

 private:
  struct Span {  // of operators
    std::uint32_t first = UINT32_MAX, last = 0;
    void reach(std::uint32_t op) {
      first = std::min(first, op);
      last = op;
    }
    bool has(std::uint32_t op) const { return first <= op && op <= last; }
  };
  struct Unit {
    std::int64_t elements = 0;
    Span weights, gradients;
  };

  Unit& unit_of(const Site& site) {
    const auto index = static_cast<std::size_t>(&site - program_.sites.data());
    return units_[{block_of_site_[index], is_of_experts(program_, site)}];
  }

  const Program& program_;
  std::int64_t weight_bytes_, gradient_bytes_;
  std::vector<std::uint32_t> block_of_site_;
  std::map<std::pair<std::uint32_t, bool>, Unit> units_;
};

// second_micro_batch() are the passes of the second one: the first one encodes weights, too, and
// the last one may reduce gradients.
std::vector<PassRun> second_micro_batch(const Program& program, const Layout& layout) {
  std::vector<PassRun> runs;
  ActivationHeap heap{program};
  std::vector<std::int64_t> alive(program.size());
  std::int64_t before = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (of_a_block(program, op)) {
      const Site& site = program.sites[program.subject[op]];
      const bool goes_on = !runs.empty() && runs.back().place == place_of(site) &&
                           runs.back().layer == site.layer && runs.back().pass == program.pass[op];
      if (!goes_on) {
        before = heap.most = heap.now;
        if (program.label[op].microbatch == 1)
          runs.push_back({.place = place_of(site),
                          .layer = site.layer,
                          .pass = program.pass[op],
                          .first = op,
                          .last = op,
                          .before = before});
      }
    }
    alive[op] = heap.issue(op);
    if (runs.empty() || program.label[op].microbatch != 1 || !of_a_block(program, op)) continue;
    runs.back().last = op + 1;
    runs.back().left = heap.now - before;
    runs.back().most = heap.most - before;
  }
  WholeUnits units{program, layout};
  for (PassRun& run : runs) {
    units.begin(run.first, run.last);
    for (std::uint32_t op = run.first; op < run.last; ++op)
      run.most_gathered = std::max(run.most_gathered, alive[op] - run.before + units.at(op));
  }
  return runs;
}

class Reader {
 public:
  Reader(const Program& program, const BlockPricing& pricing)
      : program_{program},
        overlap_costs_{[this](std::uint32_t op) { return kernel_of(op); },
                       [this](std::uint32_t op) { return collectives_[program_.work[op]]; },
                       pricing.shares} {
    const auto device_sm = static_cast<double>(pricing.shares.device_sm);
    for (const KernelCost& cost : pricing.kernels.costs_of(program))
      kernels_.push_back(
          {pricing.slowness == 1
               ? cost.time.count()
               : duration_from_seconds(to_seconds(cost.time) * pricing.slowness).count(),
           std::lround(cost.sm_share * device_sm), cost.persistent && !cost.abreast});
    for (const Collective& collective : program.collectives)
      collectives_.push_back(is_within_layers(collective.group) ? pricing.collective(collective)
                                                                : LeastCollective{});
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void read(const PassRun& run, BlockCosts& costs) const {
    constexpr auto data = 1U << static_cast<unsigned>(Stream::data_comm);
    const std::vector<ForcedOverlap> overlaps =
        forced_overlaps(program_, run.first, run.last, overlap_costs_);
    const Walk path = walk(
        program_, run.first, run.last, data, [&](std::uint32_t op) { return time_of(op); },
        overlaps);
    count_launches(run, costs);
    add_kernels(run, costs);
    // Selective recomputation stands in the middle of a backward pass, and is part of it.
    const bool within_backward = run.pass == Pass::recompute && costs.backward > 0;
    if (run.pass == Pass::forward) {
      costs.forward = path.last_kernel;
      costs.forward_left = run.left;
      costs.forward_most = run.most;
      return;
    }
    if (run.pass == Pass::recompute && !within_backward) {
      costs.recompute = path.last_kernel;
      costs.recompute_left = run.left;
      costs.recompute_most = run.most;
      costs.recompute_most_gathered = run.most_gathered;
      return;
    }
    if (run.pass == Pass::weight_backward) {
      costs.weight = path.last_kernel;
      costs.weight_freed = std::max<std::int64_t>(0, -run.left);
      return;
    }
    if (costs.backward == 0) costs.backward_head = path.first_kernel;
    costs.backward += path.last_kernel;
    costs.backward_most = std::max(costs.backward_most, costs.backward_left + run.most);
    costs.backward_most_gathered =
        std::max(costs.backward_most_gathered, costs.backward_left + run.most_gathered);
    costs.backward_left += run.left;
    costs.backward_tail = path.last_kernel - end_of_input_gradient(run, path);
  }

  // Copies of the second micro-batch to the host.
  bool sends(std::uint32_t op) const {
    return program_.action[op] == Action::activations_to_host && program_.label[op].microbatch == 1;
  }
  void read_copy(std::uint32_t op, BlockCosts& costs) const {
    costs.sent += program_.kernels[program_.work[op]].bytes.count();
    costs.sending += kernels_[program_.work[op]].time;
  }

 private:
  // The first micro-batch may have no gradients to add to, so these kernels are left out.
  static bool may_be_missing(Action action) { return action == Action::add_weight_gradient; }

  LeastKernel kernel_of(std::uint32_t op) const {
    return may_be_missing(program_.action[op]) ? LeastKernel{} : kernels_[program_.work[op]];
  }

  std::int64_t time_of(std::uint32_t op) const {
    return program_.kind[op] == OpKind::collective ? collectives_[program_.work[op]].time
                                                   : kernel_of(op).time;
  }

  void add_kernels(const PassRun& run, BlockCosts& costs) const {
    const std::int64_t room = overlap_costs_.shares.device_sm - least_data_sms * 1024;
    for (std::uint32_t op = run.first; op < run.last; ++op) {
      if (program_.stream[op] != Stream::compute) continue;
      const LeastKernel kernel = kernel_of(op);
      costs.kernels += kernel.time;
      if (kernel.persistent && kernel.sm > room) costs.persistent += kernel.time;
    }
  }

  void count_launches(const PassRun& run, BlockCosts& costs) const {
    CallParts parts{program_};
    for (std::uint32_t op = run.first; op < run.last; ++op) {
      const bool part = parts.is_part(op);
      if (may_be_missing(program_.action[op])) continue;
      (part ? costs.parts : costs.launches) += launches_of(program_, op);
    }
  }

  std::int64_t end_of_input_gradient(const PassRun& run, const Walk& path) const {
    std::int64_t end = 0;
    for (std::uint32_t op = run.first; op < run.last; ++op) {
      const Action action = program_.action[op];
      if (program_.stream[op] == Stream::compute &&
          (action == Action::backward || action == Action::input_gradient ||
           action == Action::gradient_part))
        end = path.ends[op - run.first];
    }
    return end;
  }

  const Program& program_;
  std::vector<LeastKernel> kernels_;
  std::vector<LeastCollective> collectives_;
  OverlapCosts overlap_costs_;
};

}  // namespace

DType weights_of(const Layout& layout) {
  return layout.gathers_in_eight_bits() ? DType::fp8 : layout.activation_dtype;
}

namespace {

// Bytes of an element that is not trained, at least (FrozenFormat; scales are left out).
double least_frozen_bytes(const Layout& layout) {
  if (layout.frozen_format == FrozenFormat::nf4) return 0.5;
  const bool in_eight_bits =
      layout.frozen_format == FrozenFormat::int8 || is_quantized(layout.compute_dtype);
  return in_eight_bits ? 1 : static_cast<double>(bytes_of(layout.activation_dtype));
}

std::int64_t frozen_bytes_of(const ShardedBlock& block, const Layout& layout) {
  std::int64_t elements = 0;
  for (const ShardedOp& op : block.ops)
    elements += op.frozen_parameters;
  return static_cast<std::int64_t>(static_cast<double>(elements) * least_frozen_bytes(layout));
}

}  // namespace

ModelCosts model_costs(const Model& model, const Layout& layout, const BlockPricing& pricing) {
  SIM_CHECK(layout.chunks() == 1 && layout.micro_batches() == 3, layout.chunks());
  Layout whole = layout;
  whole.layers_per_chunk = {static_cast<int>(model.layers.size())};
  const ShortModel shorter = shorten(model, whole);
  whole.layers_per_chunk = {static_cast<int>(shorter.model.layers.size())};
  whole.first_bf16_layers = shorter.first_bf16_layers;
  whole.last_bf16_layers = shorter.last_bf16_layers;
  // Which layers of a chunk keep theirs follows from their place in it (stage_costs).
  if (layout.offloads_activations()) whole.offload_layers = whole.layers_per_chunk.front();
  const Plan plan = make_plan(shorter.model, whole);
  const Program& program = plan.programs.front();
  ModelCosts costs;
  costs.of_layer = shorter.stands_for;
  costs.layers.resize(shorter.model.layers.size());
  const auto costs_of = [&](BlockPlace place, int layer) -> BlockCosts& {
    if (place == BlockPlace::layer) return costs.layers[static_cast<std::size_t>(layer)];
    return place == BlockPlace::input ? costs.input : costs.output;
  };
  const Reader reader{program, pricing};
  for (const PassRun& run : second_micro_batch(program, layout))
    reader.read(run, costs_of(run.place, run.layer));
  for (std::uint32_t op = 0; layout.offloads_activations() && op < program.size(); ++op)
    if (reader.sends(op))
      reader.read_copy(op, costs_of(BlockPlace::layer, program.label[op].layer));
  for (const Site& site : program.sites) {
    BlockCosts& block = costs_of(place_of(site), site.layer);
    (site.tied                      ? block.shared
     : is_of_experts(program, site) ? block.expert_parameters
                                    : block.parameters) += site.elements;
  }
  const ShardedModel sharded = shard(shorter.model, whole);
  for (std::size_t i = 0; i < costs.layers.size() && layout.trains_adapters(); ++i)
    costs.layers[i].frozen_bytes = frozen_bytes_of(sharded.blocks[sharded.of_layer[i]], layout);
  costs.boundary = INT64_MAX;
  const auto blocks = sharded.vision ? sharded.vision->patches
                                     : static_cast<std::uint32_t>(sharded.blocks.size());
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (sharded.output && i == *sharded.output) continue;
    const std::int64_t bytes = sharded.blocks[i].output.count();
    costs.boundary = std::min(costs.boundary, bytes);
    costs.largest_boundary = std::max(costs.largest_boundary, bytes);
  }
  return costs;
}

}  // namespace sim
