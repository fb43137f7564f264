#include "real/host/kernels/kernels_linear.hpp"

#include "real/host/eigen_maps.hpp"

namespace real {

void linear_forward(const LinearShape& shape, std::span<const float> x, std::span<const float> w,
                    std::span<const float> bias, std::span<float> y) {
  auto to = strided(y, shape.tokens, shape.out, shape.row());
  to.noalias() = matrix(x, shape.tokens, shape.in) * matrix(w, shape.out, shape.in).transpose();
  if (!bias.empty()) to.rowwise() += matrix(bias, 1, shape.out).row(0);
}

void linear_input_gradient(const LinearShape& shape, std::span<const float> dy,
                           std::span<const float> w, std::span<float> dx, bool accumulate) {
  auto to = matrix(dx, shape.tokens, shape.in);
  const auto gradient = strided(dy, shape.tokens, shape.out, shape.row());
  const auto weight = matrix(w, shape.out, shape.in);
  if (accumulate) {
    to.noalias() += gradient * weight;
  } else {
    to.noalias() = gradient * weight;
  }
}

void linear_weight_gradient(const LinearShape& shape, std::span<const float> x,
                            std::span<const float> dy, std::span<float> dw,
                            const GradientSum& sum) {
  auto to = matrix(dw, shape.out, shape.in);
  const auto gradient = strided(dy, shape.tokens, shape.out, shape.row());
  const auto input = matrix(x, shape.tokens, shape.in);
  if (sum.accumulate) {
    to.noalias() += sum.scale * gradient.transpose() * input;
  } else {
    to.noalias() = sum.scale * gradient.transpose() * input;
  }
}

void bias_gradient(std::span<const float> dy, std::span<float> db, bool accumulate) {
  const auto width = static_cast<std::int64_t>(db.size());
  SIM_CHECK(width > 0 && dy.size() % db.size() == 0, dy.size(), db.size());
  const auto tokens = static_cast<std::int64_t>(dy.size() / db.size());
  auto to = array(db);
  if (!accumulate) to.setZero();
  for (std::int64_t t = 0; t < tokens; ++t)
    to += array(row(dy, t, width));
}

}  // namespace real
