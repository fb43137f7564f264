// The mixtures of experts of MLPerf Training v6.0, which are jobs of Megatron-Bridge: gpt_oss_20b
// and deepseekv3_671b. Names, and what holds without them: Richardyu114/training_results_v6.0 at
// eabf23a0, NVIDIA/benchmarks/deepseekv3_671b/implementations/tyche-hsg_ngpu512_ngc26.04_nemo/conf
// and pretrain.py of tyche-hsg_ngpu4096_ngc26.04_nemo; jkjung-avt/training_results_v6.0 at
// acf261f8, Inventec/benchmarks/gpt_oss_20b/implementations/nemo26.08/conf/gpt_oss.yaml and
// pretrain.py. Formats of the optimizer: NVIDIA-NeMo/Megatron-Bridge at 067f987d,
// recipes/deepseek/h100.
#include "sim/interop/megatron/mlperf_variables.hpp"

namespace sim {
namespace {

void read_dispatch(MlperfVariables& in, bool dsv3, MegatronConfig& config) {
  config.expert_parallel = in.whole_or({"EXPERT_PARALLEL"}, 1);
  config.expert_tensor_parallel = in.whole_or({"EXPERT_TENSOR_PARALLEL"}, 1);
  config.token_dispatcher = in.text({"MOE_TOKEN_DISPATCHER_TYPE"});
  if (!config.token_dispatcher) config.token_dispatcher = std::string{dsv3 ? "alltoall" : "flex"};
  config.flex_backend = in.text({"MOE_FLEX_DISPATCHER_BACKEND"});
  if (!config.flex_backend) config.flex_backend = std::string{"hybridep"};
  config.hybridep_sms = in.whole_or({"MOE_HYBRIDEP_NUM_SMS"}, dsv3 ? 32 : 128);
  config.grouped_products = in.flag({"MOE_GROUPED_GEMM"}, true);
  config.router_fusion = in.flag({"MOE_ROUTER_FUSION"}, dsv3);
  config.fused_permutation = in.flag({"MOE_PERMUTE_FUSION"}, dsv3);
  config.overlap_experts = in.flag({"OVERLAP_MOE_EXPERT_PARALLEL_COMM"}, false);
  config.delay_weight_gradients = in.flag({"DELAY_WGRAD_COMPUTE"}, false);
}

void read_dsv3(MlperfVariables& in, MegatronConfig& config) {
  config.pipeline_layout = in.text({"PIPELINE_LAYOUT"});
  config.rotary_fusion = in.flag({"APPLY_ROPE_FUSION"}, false);
  config.fp8_head = in.flag({"FP8_OUTPUT_PROJ"}, false);
  config.precision_aware_optimizer = in.flag({"USE_PRECISION_AWARE_OPTIMIZER"}, true);
  if (!*config.precision_aware_optimizer) return;
  config.main_gradients = config.first_moment = config.second_moment = Text{"bf16"};
}

}  // namespace

void read_mlperf_experts(MlperfVariables& variables, MlperfBenchmark benchmark,
                         MegatronConfig& config) {
  if (!has_experts(benchmark)) return;
  const bool dsv3 = benchmark == MlperfBenchmark::dsv3;
  read_dispatch(variables, dsv3, config);
  if (dsv3) read_dsv3(variables, config);
  // A rank computes with as many rows whatever its router sends: static shapes for graphs.
  if (variables.text({"MOE_EXPERT_RANK_CAPACITY_FACTOR"}))
    variables.note("MOE_EXPERT_RANK_CAPACITY_FACTOR",
                   "experts are modelled without the padding of a rank to its capacity");
}

}  // namespace sim
