// The parts of a step that CUDA graphs capture.
#include "sim/engine/graph_scope.hpp"

#include <map>
#include <set>

#include "sim/engine/simulate.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

Plan mixture_plan() {
  static const Model model =
      load_model(std::string{test::source_dir()} + "/models/mixtral-8x7b.yaml");
  Layout layout;
  layout.data_parallel = layout.expert_parallel = 8;
  layout.pipeline_parallel = 1;
  layout.sequence_length = 128;
  layout.global_batch = 16;
  layout.zero_stage = 1;
  return make_plan(model, layout);
}

// Names of operators that a graph has, without what stands behind the first dot.
std::set<std::string> captured(const Program& program, const std::vector<GraphModule>& scope) {
  const std::vector<std::uint32_t> graphs = graphs_of(program, scope);
  std::set<std::string> names;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (graphs[op] != no_graph) {
      const std::string& name = program.name(OpId{op});
      names.insert(name.substr(0, name.find('.')));
    }
  return names;
}

Duration step(const std::vector<GraphModule>& scope, bool graphs) {
  const Cluster cluster =
      Cluster::load(std::string{test::source_dir()} + "/topologies/dgx-h100.yaml", 1);
  SimulationOptions options;
  options.graphs = graphs;
  options.graph_scope = scope;
  options.host_issue = std::chrono::microseconds{20};  // everything waits for the host
  return simulate(mixture_plan(), cluster, options).timeline.end.time_since_epoch();
}

}  // namespace

TEST_CASE("a graph has the parts of a layer that are named", "[engine]") {
  const Plan plan = mixture_plan();
  const Program& program = plan.programs[0];
  CHECK(captured(program, {}).empty());
  CHECK(captured(program, {GraphModule::attn}) ==
        std::set<std::string>{"input_norm", "qkv", "rotary", "attention", "attention_projection",
                              "attention_residual"});
  CHECK(captured(program, {GraphModule::moe_router}) ==
        std::set<std::string>{"post_attention_norm", "router"});
  CHECK(captured(program, {GraphModule::mlp}).empty());  // all layers have experts
  const std::set<std::string> experts = captured(program, {GraphModule::moe});
  CHECK(experts.contains("expert_up"));
  CHECK(experts.contains("expert_dispatch"));
  CHECK_FALSE(experts.contains("attention"));
}

TEST_CASE("a graph of Mamba-2 has its layer, that of attention none of it", "[engine]") {
  const Model model = load_model(std::string{test::source_dir()} + "/models/nemotron-h-8b.yaml");
  Layout layout;
  layout.sequence_length = 128;
  layout.global_batch = 1;
  const Plan plan = make_plan(model, layout);
  const std::set<std::string> mamba = captured(plan.programs[0], {GraphModule::mamba});
  CHECK(mamba == std::set<std::string>{"input_norm", "mamba_in", "mamba_convolution", "mamba_scan",
                                       "mamba_norm", "mamba_out", "mixer_residual"});
  CHECK_FALSE(captured(plan.programs[0], {GraphModule::attn}).contains("mixer_residual"));
}

TEST_CASE("a graph is of one layer in one pass of a micro-batch", "[engine]") {
  const Plan plan = mixture_plan();
  const Program& program = plan.programs[0];
  const std::vector<std::uint32_t> graphs = graphs_of(program, {GraphModule::attn});
  std::map<std::uint32_t, std::set<std::tuple<int, int, Pass>>> passes;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const OpLabel& label = program.label[op];
    if (graphs[op] != no_graph)
      passes[graphs[op]].insert({label.layer, label.microbatch, program.pass[op]});
  }
  // 32 layers, two micro-batches, forward and backward.
  CHECK(passes.size() == 32 * 2 * 2);
  for (const auto& [graph, of] : passes)
    CHECK(of.size() == 1);
}

TEST_CASE("the more is captured, the less waits for the host", "[engine]") {
  const Duration none = step({}, false), all = step({}, true);
  const Duration attention = step({GraphModule::attn}, true);
  const Duration more = step({GraphModule::attn, GraphModule::moe_router}, true);
  CHECK(none > attention);
  CHECK(attention > more);
  CHECK(more > all);
}
