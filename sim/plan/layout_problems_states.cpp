// Checks of a layout: the formats of optimizer states.
#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

class StateChecker {
 public:
  StateChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    moment("moment_dtype", layout_.moment_dtype);
    if (layout_.second_moment_dtype) second_moment(*layout_.second_moment_dtype);
    masters();
    if (layout_.optimizer == OptimizerKind::muon) muon();
    if (layout_.optimizer == OptimizerKind::lamb) lamb();
    if (layout_.optimizer == OptimizerKind::adafactor) adafactor();
    if (layout_.optimizer == OptimizerKind::ademamix) ademamix();
    if (layout_.state_format != StateFormat::plain) blocks();
  }

 private:
  bool is_apart() const {
    return layout_.offloads() || layout_.trains_apart() || layout_.has_servers() ||
           layout_.compression != GradientCompression::none;
  }

  // Optimizers of bitsandbytes (optim/) and torchao (optim/adam.py).
  void blocks() {
    constexpr const char* key = "state_format";
    const std::string_view format = word(layout_.state_format);
    const bool torchao = layout_.state_format == StateFormat::torchao_8bit ||
                         layout_.state_format == StateFormat::torchao_4bit ||
                         layout_.state_format == StateFormat::torchao_fp8;
    const OptimizerKind kind = layout_.optimizer;
    const bool kept = kind == OptimizerKind::adam || kind == OptimizerKind::lion ||
                      kind == OptimizerKind::momentum || kind == OptimizerKind::ademamix;
    if (!kept || (torchao && kind != OptimizerKind::adam))
      list_.problem(key, "state_format is {} with optimizer {}; allowed: {}", format, word(kind),
                    torchao ? "adam" : "adam, lion, momentum, ademamix");
    if (layout_.moment_dtype != DType::fp32 || layout_.second_moment_dtype)
      list_.problem("moment_dtype",
                    "moment_dtype or second_moment_dtype is set with state_format {}, which is "
                    "their format; allowed: fp32",
                    format);
    if (layout_.master_format != MasterFormat::fp32)
      list_.problem("master_format", "master_format is {} with state_format {}; allowed: fp32",
                    word(layout_.master_format), format);
    if (is_apart())
      list_.problem(key,
                    "state_format is {} with offload, servers, compression or local_steps, which "
                    "is not modelled; allowed: plain",
                    format);
  }

  // Sums of rows and columns are of whole matrices.
  void adafactor() {
    constexpr const char* key = "optimizer";
    if (layout_.zero_stage > 0 || layout_.tensor_parallel > 1)
      list_.problem(key,
                    "optimizer is adafactor with zero_stage {} and tensor_parallel {}, and it "
                    "takes sums of whole matrices; allowed: 0 and 1",
                    layout_.zero_stage, layout_.tensor_parallel);
    if (layout_.moment_dtype != DType::fp32)
      list_.problem("moment_dtype", "moment_dtype is {} with optimizer adafactor; allowed: fp32",
                    word(layout_.moment_dtype));
    if (is_apart())
      list_.problem(key,
                    "optimizer is adafactor with offload, servers, compression or local_steps, "
                    "which is not modelled; allowed: adam");
  }

  // bitsandbytes has it (optim/ademamix.py).
  void ademamix() {
    if (layout_.state_format == StateFormat::bitsandbytes_32bit ||
        layout_.state_format == StateFormat::bitsandbytes_8bit)
      return;
    list_.problem("state_format",
                  "state_format is {} with optimizer ademamix; allowed: bitsandbytes_32bit, "
                  "bitsandbytes_8bit",
                  word(layout_.state_format));
  }

  // Transformer Engine's FusedAdam on the device alone has other states than fp32 beside masters.
  bool is_transformer_engine() const {
    return layout_.optimizer == OptimizerKind::adam && layout_.master_weights &&
           model_.execution.optimizer == OptimizerForm::fused && !layout_.offloads() &&
           !layout_.trains_apart() && layout_.compression == GradientCompression::none;
  }

  void moment(const char* key, DType dtype) {
    const bool short_one = dtype == DType::fp8 && is_transformer_engine();
    if (dtype == DType::fp32 || bytes_of(dtype) == 2 || short_one) return;
    list_.problem(key, "{} is {}; allowed: fp32, bf16, fp16{}", key, word(dtype),
                  dtype == DType::fp8 ? ", and fp8 with adam in one pass (framework.optimizer "
                                        "fused), master_weights, without offload, compression "
                                        "and local_steps"
                                      : "");
  }

  void second_moment(DType dtype) {
    constexpr const char* key = "second_moment_dtype";
    if (moments_of(layout_.optimizer) < 2)
      return list_.problem(key, "second_moment_dtype is given, but {} has one moment or none",
                           word(layout_.optimizer));
    if (dtype == layout_.moment_dtype) return;
    if (!is_transformer_engine())
      return list_.problem(key,
                           "second_moment_dtype is {} and moment_dtype {}; two formats need adam "
                           "in one pass (framework.optimizer fused), master_weights, and no "
                           "offload, compression or local_steps",
                           word(dtype), word(layout_.moment_dtype));
    moment(key, dtype);
  }

  void masters() {
    constexpr const char* key = "master_format";
    const MasterFormat format = layout_.master_format;
    if (format == MasterFormat::fp32) return;
    if (!is_transformer_engine())
      return list_.problem(key,
                           "master_format is {}; allowed: fp32, or another one with adam in one "
                           "pass (framework.optimizer fused), master_weights, and no offload, "
                           "compression or local_steps",
                           word(format));
    if (format == MasterFormat::remainders &&
        (layout_.activation_dtype != DType::bf16 || layout_.eight_bit_parameters))
      list_.problem(key,
                    "master_format is remainders, which bf16 weights have: activation_dtype is {} "
                    "and fp8_parameters {}; allowed: fp32, fp16",
                    word(layout_.activation_dtype), layout_.eight_bit_parameters);
  }

  // Norms are of whole tensors, in states on the device (DeepSpeed, runtime/zero/utils.py,
  // ZERO_SUPPORTED_OPTIMIZERS, has no LAMB).
  void lamb() {
    const auto one = [&](const char* key, int value, int allowed) {
      if (value > allowed)
        list_.problem(key,
                      "{} is {} with optimizer lamb, which takes the norms of whole tensors; "
                      "allowed: {}",
                      key, value, allowed);
    };
    one("zero_stage", layout_.zero_stage, 0);
    one("tensor_parallel", layout_.tensor_parallel, 1);
    if (model_.has_experts())
      list_.problem("optimizer", "optimizer is lamb with a mixture of experts; allowed: adam");
    if (layout_.offloads())
      list_.problem("offload.optimizer",
                    "offload.optimizer is {} with optimizer lamb; allowed: none",
                    word(layout_.offload_optimizer));
    if (layout_.updates_on_servers())
      list_.problem("servers.mode",
                    "servers.mode is {} with optimizer lamb, and servers hold parts of tensors; "
                    "allowed: none, synchronous",
                    word(layout_.servers));
    if (layout_.moment_dtype != DType::fp32)
      list_.problem("moment_dtype", "moment_dtype is {} with optimizer lamb; allowed: fp32",
                    word(layout_.moment_dtype));
  }

  // As Megatron-LM has it, with matrices whole on a rank.
  void muon() {
    constexpr const char* key = "optimizer";
    const Execution& runs = model_.execution;
    const bool apart = layout_.offloads() || layout_.trains_apart() ||
                       layout_.compression != GradientCompression::none;
    if (model_.is_layer_list)
      return list_.problem(key, "optimizer is muon, but {} is a list of layers without matrices",
                           model_.name);
    if (model_.has_experts() && layout_.expert_tensor() > 1)
      list_.problem("expert_tensor_parallel",
                    "expert_tensor_parallel is {} with optimizer muon, which is not modelled; "
                    "allowed: 1",
                    layout_.expert_tensor());
    if (layout_.shard_group > 0 && layout_.shard_group < layout_.replicas())
      list_.problem("shard_group",
                    "shard_group is {} with optimizer muon, which is not modelled; allowed: 0",
                    layout_.shard_group);
    if (layout_.zero_stage > 1)
      list_.problem(key,
                    "optimizer is muon with zero_stage {}; allowed: 0 (every replica updates all), "
                    "1 (a matrix belongs to one of them)",
                    layout_.zero_stage);
    if (apart || runs.optimizer != OptimizerForm::fused || layout_.moment_dtype != DType::fp32)
      list_.problem(key,
                    "optimizer is muon; allowed with framework.optimizer fused, moment_dtype fp32, "
                    "and no offload, compression or local_steps");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_states(const Layout& layout, const Model& model, LayoutProblemList& list) {
  StateChecker{layout, model, list}.run();
}

}  // namespace sim
