// NVIDIA-NeMo/Automodel at 36044ad3: components/models/common/utils.py (BackendConfig: names,
// defaults where Transformer Engine and DeepEP are installed, as in NVIDIA's container),
// components/moe/ (layers.py, experts.py, megatron/token_dispatcher.py).
#include "sim/interop/bridge/automodel_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sim {
namespace {

class Kernels : private SettingProblems {
 public:
  Kernels(const AutomodelBackend& backend, const Whole& expert_ranks, bool has_flash_2,
          const ObjectReader& root, Imported& result)
      : SettingProblems{root},
        backend_{backend},
        expert_ranks_{expert_ranks},
        has_flash_2_{has_flash_2},
        result_{result} {}

  void set() {
    linears();
    norms();
    rotary();
    attention();
    eight_bits();
    if (result_.shape.experts.count == 0) return;
    experts();
    dispatcher();
    gate();
  }

 private:
  Layout& layout() { return result_.layout; }
  Framework& framework() { return result_.framework; }
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }
  static void refuse(const Text& at, const char* allowed) {
    at.place->problem(fmt::format("is '{}'; modelled: {}", (*at).substr(0, 80), allowed));
  }

  // Its classes have a linear each for queries, keys and values, and for a gate and what it gates.
  void linears() {
    framework().execution.separate_products = true;
    framework().qkv = KernelForm::fused;
    const std::string word = backend_.linear.value_or("te");
    if (word == "quack")
      note("model.backend.linear", "quack: modelled as cuBLAS's products");
    else if (word != "te" && word != "torch")
      refuse(backend_.linear, "te, torch, quack");
  }

  // torch.nn.RMSNorm is one kernel since PyTorch 2.8.
  void norms() {
    const std::string word = backend_.norm.value_or("torch_fp32");
    if (word == "torch_fp32")
      framework().rms_norm = NormForm::compiled;
    else if (word == "te" || word == "torch" || word == "quack")
      framework().rms_norm = NormForm::fused;
    else
      refuse(backend_.norm, "te, torch, torch_fp32, quack");
  }

  // BackendConfig.__post_init__ switches fused rotary embeddings off.
  void rotary() {
    framework().rotary = result_.shape.latent.exists() ? RotaryForm::complex : RotaryForm::eager;
    if (backend_.compiles_attention.value_or(false)) framework().rotary = RotaryForm::fused;
    if (backend_.rope_fusion.value_or(false))
      note("model.backend.rope_fusion",
           "Automodel switches it off at 36044ad3; releases that do not: framework.rotary fused");
  }

  // All but "eager" read keys and values of fewer heads as they are.
  void attention() {
    const std::string word = backend_.attention.value_or("te");
    framework().key_heads = word == "eager" ? KernelForm::eager : KernelForm::fused;
    layout().attention = AttentionKernel::flash;
    if (word == "eager") layout().attention = AttentionKernel::unfused;
    if (word == "eager" || word == "te") return;
    if (has_flash_2_) layout().attention = AttentionKernel::flash_2;
    constexpr std::array others{"flex", "cudnn", "tilelang", "magi", "torch"};
    if (std::ranges::find(others, word) != others.end())
      note("model.backend.attn", fmt::format("{}: modelled as FlashAttention", word));
    else if (word != "sdpa")
      refuse(backend_.attention, "te, sdpa, flex, eager");
  }

  void eight_bits() {
    const bool te_linears = backend_.linear.value_or("te") == "te";
    const bool te_experts = backend_.experts.value_or("torch_mm") == "te";
    const bool mxfp8_experts = backend_.experts.value_or("") == "torch_mm_mxfp8";
    Execution& runs = framework().execution;
    if (backend_.eight_bit) {
      const std::string word = *backend_.eight_bit;
      if (word == "current")
        runs.eight_bit = EightBit::transformer_engine_tensorwise;
      else if (word == "block")
        runs.eight_bit = EightBit::transformer_engine_blockwise;
      else if (word == "mxfp8")
        runs.eight_bit = EightBit::transformer_engine_mxfp8;
      else
        return refuse(backend_.eight_bit, "current, block, mxfp8");
      layout().compute_dtype = DType::fp8;
      if (result_.shape.experts.count > 0 && te_linears != te_experts)
        note("model.backend.te_fp8", te_linears
                                         ? "experts, which Transformer Engine does not run, are "
                                           "modelled in 8 bits as the linears"
                                         : "linears, which Transformer Engine does not run, are "
                                           "modelled in 8 bits as the experts");
    } else if (mxfp8_experts) {
      runs.eight_bit = EightBit::torchao_mxfp8;
      layout().compute_dtype = DType::fp8;
      note("model.backend.experts",
           "torch_mm_mxfp8: linears, which are not converted, are modelled in 8 bits, too");
    }
  }

  // "te" and "gmm" need a fused dispatcher; else Automodel takes torch_mm.
  void experts() {
    std::string word = backend_.experts.value_or("torch_mm");
    const std::string way = backend_.dispatcher.value_or("deepep");
    if ((word == "te" || word == "gmm") && way == "torch") word = "torch_mm";
    framework().execution.experts = ExpertForm::automodel_each;
    if (word == "torch_mm" || word == "torch_mm_mxfp8")
      framework().execution.experts = ExpertForm::automodel;
    else if (word == "torch")
      note("model.backend.experts",
           "torch: a loop that waits for the device at every expert; modelled without the waits");
    else if (word != "te" && word != "gmm")
      refuse(backend_.experts, "torch, te, gmm, torch_mm, torch_mm_mxfp8");
  }

  // The ranks of a stage: ep_shard x ep, ep fastest (components/distributed/mesh_utils.py).
  void dispatcher() {
    const std::string word = backend_.dispatcher.value_or("deepep");
    const int ranks = static_cast<int>(size(expert_ranks_, 1, 1 << 20));
    layout().expert_parallel = ranks;
    if (layout().tensor_parallel > 1) layout().expert_tensor_parallel = 1;
    const bool fused = word == "deepep" || word == "hybridep" || word == "uccl_ep";
    if (!fused && word != "torch") return refuse(backend_.dispatcher, "deepep, hybridep, torch");
    framework().execution.waits_for_counts = true;
    if (ranks == 1) return;
    if (word == "uccl_ep") note("model.backend.dispatcher", "uccl_ep: modelled as DeepEP");
    if (!fused) {
      layout().token_dispatcher = TokenDispatcher::allgather;
      return;
    }
    const bool hybrid = word == "hybridep";
    layout().token_dispatcher = hybrid ? TokenDispatcher::hybridep : TokenDispatcher::deepep;
    constexpr std::int64_t default_sms = 20, most_sms = 1024;
    layout().dispatch_sms = static_cast<int>(
        backend_.dispatch_sms ? size(backend_.dispatch_sms, 1, most_sms) : default_sms);
  }

  // FakeBalancedGate: token t chooses the experts k t, k t + 1, ..., modulo their number.
  void gate() {
    const bool on = backend_.balanced.value_or(false);
    if (!on) return;
    if (backend_.noise.value_or(0) > 0)
      note("model.backend.fake_gate_noise", "experts are modelled as chosen evenly");
    else
      layout().expert_choice = ExpertChoice::consecutive;
  }

  const AutomodelBackend& backend_;
  const Whole& expert_ranks_;
  bool has_flash_2_ = false;
  Imported& result_;
};

}  // namespace

AutomodelBackend read_automodel_backend(const ObjectReader& model, Imported& result) {
  AutomodelBackend backend;
  const auto found = section_at(model, "backend");
  if (!found) return backend;
  backend.said = true;
  read_setting(*found, "attn", backend.attention);
  read_setting(*found, "linear", backend.linear);
  read_setting(*found, "rms_norm", backend.norm);
  read_setting(*found, "experts", backend.experts);
  read_setting(*found, "dispatcher", backend.dispatcher);
  read_setting(*found, "dispatcher_num_sms", backend.dispatch_sms);
  read_setting(*found, "rope_fusion", backend.rope_fusion);
  read_setting(*found, "fake_balanced_gate", backend.balanced);
  read_setting(*found, "fake_gate_noise", backend.noise);
  read_setting(*found, "compile_attn", backend.compiles_attention);
  read_setting(*found, "enable_fsdp_optimizations", backend.keeps_units);
  if (const auto bits = section_at(*found, "te_fp8")) {
    backend.eight_bit = Text{std::string{"current"}, found->find("te_fp8")};
    read_setting(*bits, "recipe", backend.eight_bit);
    static_cast<void>(bits->has("_target_"));
    note_unknown_keys(*bits, "model.backend.te_fp8.", result);
  }
  judge_keys(*found, known_keys("automodel", "backend"), "model.backend.", result);
  note_unknown_keys(*found, "model.backend.", result);
  return backend;
}

bool runs_own_class(const AutomodelBackend& backend, const TransformerShape& shape) {
  return backend.said || shape.experts.count > 0 || shape.latent.exists();
}

void set_automodel_kernels(const AutomodelBackend& backend, const Whole& expert_ranks,
                           bool has_flash_2, const ObjectReader& root, Imported& result) {
  Kernels{backend, expert_ranks, has_flash_2, root, result}.set();
}

}  // namespace sim
