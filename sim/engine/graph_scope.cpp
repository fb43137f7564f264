#include "sim/engine/graph_scope.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace sim {
namespace {

enum class Part : std::uint8_t {
  attention,
  feed_forward_norm,
  feed_forward,
  router,
  experts,
  mamba,
  rest
};

// "qkv" of "qkv.forward" and of "mtp.qkv.forward".
std::string_view operator_of(std::string_view name) {
  if (name.starts_with("mtp.")) {
    name.remove_prefix(4);
    if (!name.empty() && name.front() >= '0' && name.front() <= '9')
      name.remove_prefix(std::min(name.size(), name.find('.') + 1));
  }
  return name.substr(0, name.find('.'));
}

Part part_of(std::string_view name) {
  constexpr std::array attention{"input_norm", "qkv",    "qk_norm", "rotary", "query",
                                 "key_value",  "delta_", "mixer_",  "indexer"};
  const std::string_view op = operator_of(name);
  const auto begins = [&](std::string_view with) { return op.starts_with(with); };
  if (begins("attention") || std::any_of(attention.begin(), attention.end(), begins))
    return Part::attention;
  if (op == "post_attention_norm") return Part::feed_forward_norm;
  if (begins("mlp") || op == "activation") return Part::feed_forward;
  if (op == "router" || begins("shared_expert")) return Part::router;
  if (begins("expert")) return Part::experts;
  if (begins("mamba_")) return Part::mamba;
  return Part::rest;
}

class Capture {
 public:
  Capture(const Program& program, const std::vector<GraphModule>& captured)
      : program_{program}, captured_{captured} {
    for (const std::string& name : program.names)
      parts_.push_back(part_of(name));
    for (const OpLabel& label : program.label)
      if (parts_[label.name] == Part::router)
        with_experts_.insert(label.layer);
      else if (parts_[label.name] == Part::mamba)
        with_mamba_.insert(label.layer);
  }

  bool has(std::uint32_t op) const {
    const OpLabel& label = program_.label[op];
    if (label.layer < 0 || program_.pass[op] > Pass::weight_backward) return false;
    const bool experts = with_experts_.contains(label.layer);
    switch (parts_[label.name]) {
      case Part::attention:
        return takes(with_mamba_.contains(label.layer) ? GraphModule::mamba : GraphModule::attn);
      case Part::feed_forward_norm:
        return experts ? takes(GraphModule::moe_router) || takes(GraphModule::moe)
                       : takes(GraphModule::mlp);
      case Part::feed_forward:
        return takes(experts ? GraphModule::moe : GraphModule::mlp);
      case Part::router:
        return takes(GraphModule::moe_router) || takes(GraphModule::moe);
      case Part::experts:
        return takes(GraphModule::moe);
      case Part::mamba:
        return takes(GraphModule::mamba);
      case Part::rest:
        break;
    }
    return false;
  }

 private:
  bool takes(GraphModule module) const {
    return std::find(captured_.begin(), captured_.end(), module) != captured_.end();
  }

  const Program& program_;
  const std::vector<GraphModule>& captured_;
  std::vector<Part> parts_;                           // by name
  std::set<std::int16_t> with_experts_, with_mamba_;  // layers
};

}  // namespace

std::vector<std::uint32_t> graphs_of(const Program& program,
                                     const std::vector<GraphModule>& captured) {
  std::vector<std::uint32_t> graphs(program.size(), no_graph);
  if (captured.empty()) return graphs;
  const Capture capture{program, captured};
  std::uint32_t next = 0;
  const auto pass_of = [&](std::uint32_t op) {
    const OpLabel& label = program.label[op];
    return std::tuple{label.layer, label.microbatch, program.pass[op]};
  };
  // Operators on other streams, such as the reduction of a bucket, go out between.
  std::uint32_t last = no_graph;  // captured operator
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (!capture.has(op)) {
      if (program.stream[op] == Stream::compute) last = no_graph;
      continue;
    }
    const bool goes_on = last != no_graph && pass_of(op) == pass_of(last);
    graphs[op] = goes_on ? graphs[last] : next++;
    last = op;
  }
  return graphs;
}

}  // namespace sim
