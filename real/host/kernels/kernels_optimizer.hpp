// AdamW, and what it needs to know of the gradient.
#pragma once

#include <cstdint>
#include <span>

namespace real {

struct AdamStep {
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;                // of clipping, applied as the gradient is read
  double correction1 = 1, correction2 = 1;  // 1 - beta1^step, 1 - beta2^step; steps from 1
};

// Decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), in the order of operations of
// torch.optim.AdamW. With a master copy the update acts on it and `weight` receives it.
void adamw(const AdamStep& step, std::span<const float> gradient, std::span<float> weight,
           std::span<float> master, std::span<float> m, std::span<float> v);

double sum_of_squares(std::span<const float> gradient);
// The factor of the gradient with which its norm does not exceed `clip`; 0: no limit (Pascanu,
// Mikolov & Bengio 2013, algorithm 1; 1e-6 beside the norm as torch's clip_grad_norm_).
double clip_scale(double norm, double clip);

}  // namespace real
