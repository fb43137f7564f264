// The parts of a layer of a hybrid model: operators that mix its tokens, and operators that work on
// each of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

enum class Mixer : std::uint8_t {
  attention,
  mamba2,            // Dao and Gu 2024, arXiv:2405.21060
  gated_delta_net,   // Yang et al. 2024, arXiv:2412.06464
  linear,            // one product of hidden x hidden (Bercovich et al. 2024, arXiv:2411.19146)
  attention_mamba2,  // both on the same input, their outputs added (Falcon-H1)
  none,
};
constexpr auto words_of(Mixer) {
  return std::array{Word{Mixer::attention, "attention"},
                    Word{Mixer::mamba2, "mamba2"},
                    Word{Mixer::gated_delta_net, "gated_delta_net"},
                    Word{Mixer::linear, "linear"},
                    Word{Mixer::attention_mamba2, "attention_mamba2"},
                    Word{Mixer::none, "none"}};
}

enum class FeedForward : std::uint8_t { mlp, experts, linear, none };
constexpr auto words_of(FeedForward) {
  return std::array{Word{FeedForward::mlp, "mlp"}, Word{FeedForward::experts, "experts"},
                    Word{FeedForward::linear, "linear"}, Word{FeedForward::none, "none"}};
}

struct LayerKind {
  Mixer mixer = Mixer::attention;
  FeedForward feed_forward = FeedForward::mlp;
  std::int64_t kv_heads = 0;  // of attention; 0: the model's
  std::int64_t width = 0;     // of an MLP; 0: the model's
  bool operator==(const LayerKind&) const = default;
};

// A block of Mamba-2: one product makes the gate z, the input x, B, C and a step for each head; x,
// B and C pass a causal convolution; the heads of a group share B and C.
struct Mamba2 {
  std::int64_t heads = 0;  // 0: no layer is one
  std::int64_t head_dim = 64;
  std::int64_t groups = 8;
  std::int64_t state = 128;      // features of B and C for a group
  std::int64_t convolution = 4;  // tokens
  std::int64_t chunk = 128;      // tokens that the scan takes at a time
  // Kernels of a scan, counted, with sums and zeros of PyTorch; and what a chunk waits for the one
  // before it, which passes its state on once forward and twice backward. On an H200
  // (topologies/devices/measurements/README.md, h200_scans.csv).
  static constexpr int forward_kernels = 5, backward_kernels = 38;
  static constexpr Duration forward_step = std::chrono::nanoseconds(159);
  static constexpr Duration backward_step = std::chrono::nanoseconds(1234);
  bool convolution_bias = true;
  bool norm = true;  // of a group's heads, behind the gate
  bool exists() const { return heads > 0; }
  std::int64_t inner() const { return heads * head_dim; }
  std::int64_t state_features() const { return 2 * groups * state; }  // of B and C
  std::int64_t convolved() const { return inner() + state_features(); }
  std::int64_t projected() const { return 2 * inner() + state_features() + heads; }
  bool operator==(const Mamba2&) const = default;
};

// A gated delta net as Qwen3-Next has it: one product makes queries, keys, values, an output gate,
// and for each head of values a decay and a strength of writing; the first three pass a causal
// convolution.
struct GatedDeltaNet {
  std::int64_t key_heads = 0;  // 0: no layer is one
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 128;    // of a head's queries and keys
  std::int64_t value_dim = 128;  // of its values
  std::int64_t convolution = 4;
  static constexpr std::int64_t chunk = 64;  // of flash-linear-attention
  bool exists() const { return key_heads > 0; }
  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t convolved() const { return 2 * keys() + values(); }
  std::int64_t projected() const { return convolved() + values() + 2 * value_heads; }
  bool operator==(const GatedDeltaNet&) const = default;
};

struct Hybrid {
  std::vector<LayerKind> layers;  // one for each; empty: all are alike, but for their experts
  Mamba2 mamba;
  GatedDeltaNet delta_net;
  bool exists() const { return !layers.empty(); }
  bool has(Mixer mixer) const;  // of attention_mamba2 also each of the two
  bool has(FeedForward feed_forward) const;
  bool has_scan() const { return has(Mixer::mamba2) || has(Mixer::gated_delta_net); }
  // The kinds that there are, in the order of their first layers.
  std::vector<LayerKind> kinds() const;
  bool operator==(const Hybrid&) const = default;
};

// A letter for each layer, as Megatron-LM's --hybrid-layer-pattern has them
// (core/models/hybrid/hybrid_layer_allocation.py, Symbols): M Mamba-2, G gated delta net, *
// attention, - MLP, E experts, each alone.
constexpr std::string_view pattern_letters = "MG*-E";
// Appends the layer of a letter; false: there is no such letter.
bool append_letter(std::vector<LayerKind>& layers, char letter);
// Empty: some layer has two parts, or sizes of its own.
std::string pattern_of(const std::vector<LayerKind>& layers);
// A part of each layer; "M-M*" of ratios, as Megatron-LM's pattern_from_ratios() makes it.
std::string pattern_from_ratios(std::int64_t layers, double attention, double mlp);

// ScanShape is how ranks share an operator that carries a state from token to token. Tensor ranks
// have a part of its heads each. Context ranks exchange what it reads, one all-to-all for each
// part, so that each has all tokens of a part of the heads (Megatron-LM,
// core/ssm/mamba_context_parallel.py).
struct ScanShape {
  std::int64_t heads = 0;
  std::int64_t groups = 0;  // of heads; each tensor rank has some, each context rank one at least
  std::int64_t chunk = 1;   // tokens taken at a time
  // Time that a chunk by itself waits for the one before it in its sequence.
  Duration forward_step{}, backward_step{};
  struct Part {
    std::int64_t features = 0;
    bool of_groups = false;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> exchanged{};
  bool operator==(const ScanShape&) const = default;
};

}  // namespace sim
