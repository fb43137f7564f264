// Parameter servers (Layout::servers).
#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

constexpr Bytes least_partition{1024};

class ServerChecker {
 public:
  ServerChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (!layout_.has_servers()) return without();
    keys();
    parallelism();
    others();
  }

 private:
  void without() {
    const Layout usual;
    if (layout_.server_place != usual.server_place ||
        layout_.server_machines != usual.server_machines || layout_.staleness != usual.staleness ||
        layout_.server_partition != usual.server_partition)
      list_.problem("servers.mode",
                    "servers.mode is none, but another key of servers is set; allowed: "
                    "synchronous, asynchronous, bounded");
  }

  void keys() {
    if (layout_.servers != Servers::bounded && layout_.staleness != 0)
      list_.problem("servers.staleness",
                    "servers.staleness is {} with servers.mode {}; allowed: 0, or servers.mode "
                    "bounded",
                    layout_.staleness, word(layout_.servers));
    const bool apart = layout_.server_place != ServerPlace::workers;
    if (apart && layout_.server_machines < 1)
      list_.problem("servers.machines",
                    "servers.machines is {} with servers.place {}; allowed: 1 or more, or "
                    "servers.place workers",
                    layout_.server_machines, word(layout_.server_place));
    if (!apart && layout_.server_machines > 0)
      list_.problem("servers.place",
                    "servers.machines is {}, but servers.place is workers; allowed: machines, "
                    "balanced",
                    layout_.server_machines);
    if (layout_.server_partition && *layout_.server_partition < least_partition)
      list_.problem("servers.partition", "servers.partition is {} B; allowed: {} B or more",
                    layout_.server_partition->count(), least_partition.count());
  }

  void one(const char* key, int value) {
    if (value > 1)
      list_.problem(key,
                    "{} is {} with servers.mode {}: the GPUs of a worker are replicas; allowed: 1",
                    key, value, word(layout_.servers));
  }

  void parallelism() {
    one("tensor_parallel", layout_.tensor_parallel);
    one("context_parallel", layout_.context_parallel);
    one("pipeline_parallel", layout_.pipeline_parallel);
    one("expert_parallel", layout_.expert_parallel);
    if (layout_.zero_stage > 1)
      list_.problem("zero_stage",
                    "zero_stage is {} with servers.mode {}, where every GPU has all parameters; "
                    "allowed: 0, or 1 with shard_group, the GPUs of a worker",
                    layout_.zero_stage, word(layout_.servers));
    else if (layout_.zero_stage == 1 && layout_.shard_group < 2)
      list_.problem("shard_group",
                    "shard_group is {} with zero_stage 1 and servers.mode {}; allowed: 2 or more, "
                    "the GPUs of a worker, or zero_stage 0",
                    layout_.shard_group, word(layout_.servers));
  }

  void others() {
    const auto refuse = [&](const char* key, const char* what) {
      list_.problem(key, "{} is not modelled with servers; allowed: one of them", what);
    };
    if (layout_.compression != GradientCompression::none)
      refuse("compression.gradients", "compression of gradients");
    if (layout_.offloads()) refuse("offload.optimizer", "an offloaded optimizer");
    if (layout_.local_steps > 1) refuse("local_steps.every", "training in local steps");
    if (is_quantized(layout_.compute_dtype))
      list_.problem("compute_dtype",
                    "compute_dtype is {} with servers, which share no scales between workers; "
                    "allowed: bf16, fp16, fp32",
                    word(layout_.compute_dtype));
    if (model_.has_experts())
      list_.problem("servers.mode",
                    "servers are not modelled with a mixture of experts; allowed: none");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_servers(const Layout& layout, const Model& model, LayoutProblemList& list) {
  ServerChecker{layout, model, list}.run();
}

}  // namespace sim
