// Megatron-LM's flags: a bash array out, an argument file or such arrays in.
#include <fmt/format.h>

#include <array>
#include <cctype>

#include "sim/interop/formats.hpp"
#include "sim/interop/megatron_experts.hpp"
#include "sim/interop/megatron_launch.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

constexpr std::string_view offload = "offloading to the host is not modelled";
constexpr std::string_view optimizer_bytes =
    "the optimizer's states are modelled in fp32 (12 bytes per parameter)";

// Flags that no setting carries. The rest of what Megatron-LM knows has no effect on a step's time
// or memory, or little: data, tokenizer, learning rate, checkpoints, logging.
constexpr std::array known_flags{
    KnownKey{"--moe-*"},  // nothing without experts; what matters with them is judged before
    KnownKey{"--mtp-num-layers", Verdict::refused, "0",
             "multi-token prediction layers are not modelled"},
    KnownKey{"--mtp-loss-scaling-factor"},
    KnownKey{"--spec", Verdict::refused, "", "layers by a specification are not known here"},
    KnownKey{"--yaml-cfg", Verdict::refused, "", "the arguments lie in another file"},
    KnownKey{"--heterogeneous-layers-config-*", Verdict::refused, "",
             "layers of different kinds are not modelled"},
    KnownKey{"--encoder-num-layers", Verdict::refused, "0", "encoders are not modelled"},
    KnownKey{"--decoder-num-layers", Verdict::refused, "0", "encoder-decoders are not modelled"},
    KnownKey{"--perform-rl-step", Verdict::refused, "", "reinforcement learning is not modelled"},
    KnownKey{"--window-size", Verdict::refused, "", "sliding-window attention is not modelled"},
    KnownKey{"--window-attn-skip-freq"},
    KnownKey{"--apply-residual-connection-post-layernorm", Verdict::noted, "",
             "the residual connection is modelled before the norm"},
    KnownKey{"--fp32-residual-connection", Verdict::noted, "",
             "residual connections are modelled in the activations' format"},
    KnownKey{"--cpu-offloading-num-layers", Verdict::refused, "0", offload},
    KnownKey{"--optimizer-cpu-offload", Verdict::refused, "", offload},
    KnownKey{"--fine-grained-activation-offloading", Verdict::refused, "", offload},
    KnownKey{"--optimizer-offload-fraction"},
    KnownKey{"--fp4-format", Verdict::refused, "", "fp4 products are not modelled"},
    KnownKey{"--optimizer", Verdict::noted, "adam", "the step is forecast with Adam"},
    KnownKey{"--use-precision-aware-optimizer", Verdict::noted, "", optimizer_bytes},
    KnownKey{"--main-grads-dtype", Verdict::noted, "fp32", "see --grad-reduce-in-bf16"},
    KnownKey{"--main-params-dtype", Verdict::noted, "fp32", optimizer_bytes},
    KnownKey{"--exp-avg-dtype", Verdict::noted, "fp32", optimizer_bytes},
    KnownKey{"--exp-avg-sq-dtype", Verdict::noted, "fp32", optimizer_bytes},
    KnownKey{"--fp8-param-gather", Verdict::noted, "", "weights are modelled in 16 bits"},
    KnownKey{"--reuse-grad-buf-for-mxfp8-param-ag", Verdict::noted, "",
             "the buffers are modelled apart"},
    KnownKey{"--fp8-recipe", Verdict::noted, "delayed",
             "8-bit products are modelled with delayed scaling"},
    KnownKey{"--fp8-*"},
    KnownKey{"--no-fp8-wgrad", Verdict::noted, "", "weight gradients are modelled in fp8, too"},
    KnownKey{"--tp-comm-overlap-cfg", Verdict::noted, "",
             "user buffers are modelled with Transformer Engine's default methods"},
    KnownKey{"--tp-comm-*"},
    KnownKey{"--no-tp-comm-*"},
    KnownKey{"--disable-tp-comm-*"},
    KnownKey{"--overlap-param-gather-with-optimizer-step", Verdict::noted, "",
             "parameters are modelled as gathered in the forward pass"},
    KnownKey{"--ddp-num-buckets", Verdict::refused, "", "give --ddp-bucket-size instead"},
    KnownKey{"--ddp-pad-buckets-for-high-nccl-busbw"},
    KnownKey{"--ddp-reduce-scatter-with-fp32-accumulation", Verdict::noted, "",
             "the reduction is modelled as a reduce-scatter"},
    KnownKey{"--hierarchical-context-parallel-sizes", Verdict::noted, "",
             "context parallelism is modelled in one level"},
    KnownKey{"--microbatch-group-size-per-virtual-pipeline-stage", Verdict::noted, "",
             "groups are modelled as large as the pipeline"},
    KnownKey{"--overlap-p2p-communication-warmup-flush", Verdict::noted, "",
             "warm-up and flush are modelled as without it"},
    KnownKey{"--defer-embedding-wgrad-compute", Verdict::noted, "",
             "the head's weight gradient is modelled where it arises"},
    KnownKey{"--wgrad-deferral-limit"},
    KnownKey{"--distribute-saved-activations", Verdict::noted, "",
             "kept activations are modelled as whole on every tensor-parallel rank"},
    KnownKey{"--rampup-batch-size", Verdict::noted, "", "the final batch is forecast"},
    KnownKey{"--decrease-batch-size-if-needed"},
    KnownKey{"--use-nccl-ub", Verdict::noted, "", "user buffers of NCCL are not modelled"},
    KnownKey{"--use-sharp", Verdict::noted, "",
             "in-network reduction: set simulation.data_algorithm: in_switch"},
    KnownKey{"--suggested-communication-unit-size", Verdict::noted, "",
             "one layer is gathered ahead: see layout.prefetch_layers"},
    KnownKey{"--fsdp-double-buffer", Verdict::noted, "", "set layout.prefetch_layers instead"},
    KnownKey{"--enable-full-sharding-in-hsdp", Verdict::noted, "",
             "hybrid sharding is modelled with whole copies per group"},
    KnownKey{"--use-custom-fsdp", Verdict::refused, "", "write --use-megatron-fsdp"},
    KnownKey{"--transformer-impl", Verdict::noted, "transformer_engine",
             "kernels are modelled as Transformer Engine's"},
    KnownKey{"--use-legacy-models", Verdict::noted, "", "kernels are modelled as Megatron-Core's"},
    KnownKey{"--use-flash-attn"},
    KnownKey{"--no-masked-softmax-fusion"},
    KnownKey{"--no-bias-gelu-fusion", Verdict::noted, "", "modelled as fused: see framework"},
    KnownKey{"--no-bias-swiglu-fusion", Verdict::noted, "",
             "modelled as fused: set framework.gate: eager"},
    KnownKey{"--no-bias-dropout-fusion", Verdict::noted, "", "modelled as fused"},
    KnownKey{"--no-rope-fusion", Verdict::noted, "",
             "modelled as fused: set framework.rotary: eager"},
    KnownKey{"--no-persist-layer-norm"},
    KnownKey{"--no-gradient-accumulation-fusion", Verdict::noted, "",
             "gradients are modelled as accumulated by the product"},
    KnownKey{"--qk-l2-norm", Verdict::noted, "", "not modelled"},
    KnownKey{"--rotary-*"},
    KnownKey{"--use-rotary-position-embeddings", Verdict::refused, "",
             "write --position-embedding-type rope"},
    KnownKey{"--no-position-embedding"},
    KnownKey{"--rope-*"},
    KnownKey{"--use-rope-scaling"},
    KnownKey{"--no-rope-freq", Verdict::noted, "", "all layers are modelled with rotary positions"},
    KnownKey{"--mrope-*"},
    KnownKey{"--mscale*"},
    KnownKey{"--beta-fast"},
    KnownKey{"--beta-slow"},
    KnownKey{"--cache-mla-latents"},
    KnownKey{"--mla-down-proj-fusion", Verdict::noted, "",
             "the narrow products of latent attention are modelled as two"},
    KnownKey{"--relative-attention-*"},
    KnownKey{"--softmax-type"},
    KnownKey{"--make-vocab-size-divisible-by", Verdict::noted, "128",
             "the vocabulary is modelled as padded to tensor parallel x 128"},
    KnownKey{"--padded-vocab-size", Verdict::noted, "",
             "the padding follows from --vocab-size here"},
    KnownKey{"--batch-size", Verdict::refused, "", "no longer valid: --micro-batch-size"},
    KnownKey{"--model-parallel-size", Verdict::refused, "",
             "no longer valid: --tensor-model-parallel-size"},
    KnownKey{"--checkpoint-activations", Verdict::refused, "",
             "no longer valid: --recompute-granularity"},
    // Without an effect.
    KnownKey{"--use-mcore-models"},
    KnownKey{"--apply-*"},
    KnownKey{"--attention-softmax-in-fp32"},
    KnownKey{"--norm-epsilon"},
    KnownKey{"--init-*"},
    KnownKey{"--embedding-*"},
    KnownKey{"--calculate-*"},
    KnownKey{"--bert-*"},
    KnownKey{"--openai-gelu"},
    KnownKey{"--onnx-safe"},
    KnownKey{"--glu-linear-offset"},
    KnownKey{"--activation-func-clamp-value"},
    KnownKey{"--log-*"},
    KnownKey{"--no-log-*"},
    KnownKey{"--logging-*"},
    KnownKey{"--timing-*"},
    KnownKey{"--no-barrier-with-level-1-timing"},
    KnownKey{"--tensorboard-*"},
    KnownKey{"--wandb-*"},
    KnownKey{"--one-logger-*"},
    KnownKey{"--no-one-logger"},
    KnownKey{"--enable-one-logger"},
    KnownKey{"--app-tag-*"},
    KnownKey{"--config-logger-dir"},
    KnownKey{"--weight-decay*"},
    KnownKey{"--start-weight-decay"},
    KnownKey{"--end-weight-decay"},
    KnownKey{"--clip-grad"},
    KnownKey{"--adam-*"},
    KnownKey{"--sgd-momentum"},
    KnownKey{"--muon-*"},
    KnownKey{"--lr*"},
    KnownKey{"--min-lr"},
    KnownKey{"--decoupled-*"},
    KnownKey{"--override-opt*"},
    KnownKey{"--use-checkpoint-*"},
    KnownKey{"--use-mp-args-from-checkpoint-args"},
    KnownKey{"--train-*"},
    KnownKey{"--exit-*"},
    KnownKey{"--eval-*"},
    KnownKey{"--full-validation"},
    KnownKey{"--multiple-validation-sets"},
    KnownKey{"--test-*"},
    KnownKey{"--skip-train"},
    KnownKey{"--save*"},
    KnownKey{"--load*"},
    KnownKey{"--no-save-*"},
    KnownKey{"--no-load-*"},
    KnownKey{"--non-persistent-*"},
    KnownKey{"--persistent-save-interval"},
    KnownKey{"--finetune"},
    KnownKey{"--pretrained-checkpoint"},
    KnownKey{"--ckpt-*"},
    KnownKey{"--no-ckpt-*"},
    KnownKey{"--dist-ckpt-*"},
    KnownKey{"--distrib-optim-*"},
    KnownKey{"--use-dist-ckpt"},
    KnownKey{"--use-persistent-ckpt-worker"},
    KnownKey{"--auto-detect-ckpt-format"},
    KnownKey{"--async-save"},
    KnownKey{"--no-strict-fsdp-dtensor-load"},
    KnownKey{"--no-initialization"},
    KnownKey{"--loss-scale*"},
    KnownKey{"--initial-loss-scale"},
    KnownKey{"--min-loss-scale"},
    KnownKey{"--hysteresis"},
    KnownKey{"--fp16-lm-cross-entropy"},
    KnownKey{"--disable-bf16-reduced-precision-matmul"},
    KnownKey{"--seed"},
    KnownKey{"--data-parallel-random-init"},
    KnownKey{"--data-*"},
    KnownKey{"--dataloader-*"},
    KnownKey{"--valid-*"},
    KnownKey{"--split"},
    KnownKey{"--mock-data"},
    KnownKey{"--num-workers"},
    KnownKey{"--num-dataset-builder-threads"},
    KnownKey{"--per-split-data-args-path"},
    KnownKey{"--no-mmap-bin-files"},
    KnownKey{"--reset-*"},
    KnownKey{"--eod-mask-loss"},
    KnownKey{"--no-create-attention-mask-in-dataloader"},
    KnownKey{"--object-storage-cache-path"},
    KnownKey{"--mid-level-dataset-surplus"},
    KnownKey{"--allow-ambiguous-pad-tokens"},
    KnownKey{"--sample-rate"},
    KnownKey{"--tokenizer-*"},
    KnownKey{"--tiktoken-*"},
    KnownKey{"--legacy-tokenizer"},
    KnownKey{"--trust-remote-code"},
    KnownKey{"--vocab-file"},
    KnownKey{"--vocab-extra-ids"},
    KnownKey{"--merge-file"},
    KnownKey{"--distributed-*"},
    KnownKey{"--local-rank"},
    KnownKey{"--lazy-mpu-init"},
    KnownKey{"--use-cpu-initialization"},
    KnownKey{"--init-model-with-meta-device"},
    KnownKey{"--no-align-*"},
    KnownKey{"--no-scatter-gather-tensors-in-pipeline"},
    KnownKey{"--no-gradient-reduce-div-fusion"},
    KnownKey{"--nccl-communicator-config-path"},
    KnownKey{"--sharp-enabled-group"},
    KnownKey{"--disable-symmetric-registration"},
    KnownKey{"--high-priority-stream-groups"},
    KnownKey{"--pipeline-model-parallel-comm-backend"},
    KnownKey{"--empty-unused-memory-level"},
    KnownKey{"--manual-gc*"},
    KnownKey{"--no-manual-gc-eval"},
    KnownKey{"--profile*"},
    KnownKey{"--use-pytorch-profiler"},
    KnownKey{"--nsys-*"},
    KnownKey{"--record-memory-history"},
    KnownKey{"--memory-snapshot-path"},
    KnownKey{"--no-check-*"},
    KnownKey{"--check-*"},
    KnownKey{"--rerun-*"},
    KnownKey{"--error-injection-*"},
    KnownKey{"--iterations-to-skip"},
    KnownKey{"--result-rejected-tracker-filename"},
    KnownKey{"--disable-gloo-process-groups"},
    KnownKey{"--enable-*"},
    KnownKey{"--calc-ft-timeouts"},
    KnownKey{"--inprocess-*"},
    KnownKey{"--replication*"},
    KnownKey{"--straggler-*"},
    KnownKey{"--disable-straggler-on-startup"},
    KnownKey{"--adlr-*"},
    KnownKey{"--deterministic-mode", Verdict::noted, "", "kernels are modelled at full speed"},
    KnownKey{"--no-clone-scatter-output-in-embedding"},
    KnownKey{"--no-async-tensor-model-parallel-allreduce"},
    KnownKey{"--te-rng-tracker"},
    KnownKey{"--cuda-graph-scope"},
    KnownKey{"--cuda-graph-warmup-steps"},
    KnownKey{"--torch-*"},
    KnownKey{"--keep-fp8-transpose-cache"},
    // Of Megatron-DeepSpeed.
    KnownKey{"--deepspeed*"},
    KnownKey{"--zero-*"},
    KnownKey{"--no-pipeline-parallel"},
};

// CUDA graphs take the host's time away (simulation.graphs).
void read_graphs(const ObjectReader& root, Imported& result) {
  Text implementation;
  read_setting(root, "--cuda-graph-impl", implementation);
  result.graphs = implementation.value_or("none") != "none";
  for (const char* flag : {"--enable-cuda-graph", "--external-cuda-graph"}) {
    Flag graph;
    read_setting(root, flag, graph);
    result.graphs = result.graphs || graph.value_or(false);
  }
}

class FlagLines {
 public:
  void operator()(const Spelling& name, const Flag& setting) {
    if (setting && *setting == name.flag_means) text_ += fmt::format("  {}\n", name.flag);
  }
  void operator()(const Spelling& name, const Whole& setting) { value(name, setting); }
  void operator()(const Spelling& name, const Real& setting) { value(name, setting); }
  void operator()(const Spelling& name, const Text& setting) {
    if (!setting) return;
    // Words of a list stand apart; brackets and bars of a layout need quotes.
    const bool plain = setting.value->find_first_of("|()*[]") == std::string::npos;
    const char* quote = plain ? "" : "'";
    text_ += fmt::format("  {} {}{}{}\n", name.flag, quote, *setting, quote);
  }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  void value(const Spelling& name, const Setting<T>& setting) {
    if (setting) text_ += fmt::format("  {} {}\n", name.flag, *setting);
  }
  std::string text_;
};

// The switch of each activation; GELU is what there is without one.
void spell_activation(MegatronConfig& config, std::vector<Note>& notes) {
  const std::string name = config.activation.value_or("");
  if (name == "swiglu") config.swiglu = true;
  if (name == "squared_relu") config.squared_relu = true;
  if (name != "geglu") return;
  config.quick_geglu = true;
  notes.push_back(
      {"model.activation", "geglu is written as --quick-geglu: the sizes are the same"});
}

}  // namespace

std::string megatron_flag_lines(MegatronConfig config, std::vector<Note>& notes) {
  spell_activation(config, notes);
  // Megatron-FSDP refuses to train without these two.
  const bool fsdp = config.megatron_fsdp.value_or(false);
  FlagLines lines;
  for_each_setting(config,
                   [&](const Spelling& name, const auto& setting) { lines(name, setting); });
  return lines.text() +
         (fsdp ? "  --ckpt-format fsdp_dtensor\n  --no-gradient-accumulation-fusion\n" : "");
}

MegatronConfig read_megatron_flags(const ObjectReader& root, const ImportRequest& request,
                                   Imported& result) {
  MegatronConfig config;
  for_each_setting(config, [&](const Spelling& name, auto& setting) {
    read_setting(root, name.flag, setting);
    if constexpr (std::is_same_v<decltype(setting), Flag&>)
      if (setting && !name.flag_means) setting.value = !*setting;
  });
  read_graphs(root, result);
  // What the settings asked for is known; judge_keys() looks at the rest.
  const bool experts = request.model && request.model->experts.count > 0;
  if (experts || config.num_experts.value_or(0) > 0)
    judge_expert_keys(root, KeySpelling::flag, "", result);
  judge_keys(root, known_flags, "", result);
  return config;
}

Exported export_megatron(const Scenario& scenario) {
  Exported out;
  Refusals refusals;
  const MegatronConfig config = megatron_from_scenario(scenario, refusals, out.notes);
  throw_refusals(scenario, Target::megatron, refusals);
  const std::string lines = megatron_flag_lines(config, out.notes);
  out.text = header_text(scenario, out.notes, "# ",
                         "Arguments of Megatron-LM's pretrain_gpt.py. Add data, tokenizer and "
                         "optimizer:\n. FILE; torchrun ... pretrain_gpt.py "
                         "\"${STEPCAST_ARGS[@]}\"") +
             "STEPCAST_ARGS=(\n" + lines + ")\n";
  return out;
}

Imported import_megatron(const Document& flags, const ImportRequest& request) {
  const ObjectReader root = flags.root_object();
  Imported read;
  const ImportRequest known = with_gpus_of_launcher(root, request, read);
  const MegatronConfig config = read_megatron_flags(root, known, read);
  for (const Remark& remark : flags.remarks())
    read.notes.push_back({remark.about, remark.what});
  flags.finish();
  Imported result = scenario_of_megatron(config, {}, known, root);
  result.graphs = read.graphs;
  result.ignored = read.ignored;
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
  finish_import(flags, root, result);
  return result;
}

}  // namespace sim
