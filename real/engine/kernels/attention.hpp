// Ways to compute attention. A backend has a list of them, the fastest first; an operator takes the
// first that takes its shape, when it is prepared.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "real/engine/kernels.hpp"

namespace real {

// Bytes of log_sum_exp: a number, or a row of probabilities, for each head and token.
inline std::int64_t kept_bytes(const kernels::AttentionShape& shape) {
  const kernels::HeadsShape& heads = shape.heads;
  return 4 * heads.heads * heads.tokens * (shape.fused ? 1 : heads.sequence);
}

struct AttentionForward {
  const void* qkv = nullptr;
  void* output = nullptr;        // null: not wanted
  float* log_sum_exp = nullptr;  // null: not kept
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string_view name() const = 0;
  virtual bool takes(const kernels::AttentionShape& shape) const = 0;
  // Bytes that a launch may use, until it has run, of the workspace of its stream.
  virtual std::int64_t workspace(const kernels::AttentionShape& shape, bool backward) const = 0;
  // A library's plan is made here; the launch keeps what it needs.
  virtual kernels::Launch forward(const kernels::AttentionShape& shape,
                                  const AttentionForward& operands,
                                  kernels::Workspace workspace) const = 0;
  virtual kernels::Launch backward(const kernels::AttentionShape& shape,
                                   const kernels::AttentionBackward& operands,
                                   kernels::Workspace workspace) const = 0;
};

using Attentions = std::span<const Attention* const>;

// Throws std::runtime_error, naming the shape, where there is none.
const Attention& attention_for(const kernels::AttentionShape& shape, Attentions attentions);

// By plain functions.
class KernelAttention : public Attention {
 public:
  struct Functions {
    bool (*takes)(const kernels::AttentionShape&) = nullptr;
    decltype(&kernels::attention_forward) forward = nullptr;
    decltype(&kernels::attention_backward) backward = nullptr;
    decltype(&kernels::attention_backward_workspace) backward_workspace = nullptr;
  };
  KernelAttention(std::string_view name, const Functions& functions)
      : name_{name}, functions_{functions} {}
  std::string_view name() const override { return name_; }
  bool takes(const kernels::AttentionShape& shape) const override {
    return functions_.takes(shape);
  }
  std::int64_t workspace(const kernels::AttentionShape& shape, bool backward) const override {
    return backward ? functions_.backward_workspace(shape) : 0;
  }
  kernels::Launch forward(const kernels::AttentionShape& shape, const AttentionForward& operands,
                          kernels::Workspace /*workspace*/) const override {
    return kernels::as_launch(functions_.forward, shape, operands.qkv, operands.output,
                              operands.log_sum_exp);
  }
  kernels::Launch backward(const kernels::AttentionShape& shape,
                           const kernels::AttentionBackward& operands,
                           kernels::Workspace workspace) const override {
    return kernels::as_launch(functions_.backward, shape, operands, workspace);
  }

 private:
  std::string_view name_;
  Functions functions_;
};

}  // namespace real
