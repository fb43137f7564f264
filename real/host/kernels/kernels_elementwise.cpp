#include "real/host/kernels/kernels_elementwise.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "real/host/eigen_maps.hpp"

namespace real {
namespace {

using sim::Function;
using Values = Eigen::ArrayXf;

// gelu(x) = x/2 (1 + tanh u), u = c (x + a x^3), c = sqrt(2/pi)
constexpr float gelu_inner = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
constexpr float gelu_cubic = 0.044715F;

template <class X>
auto gelu_tanh(const X& x) {
  return (gelu_inner * x * (1.0F + gelu_cubic * x.square())).tanh();
}

// Elements at a time, so that intermediate values stay in the first-level cache.
constexpr std::size_t block = 1024;

template <class Visit>
void for_each_block(std::size_t size, Visit visit) {
  for (std::size_t at = 0; at < size; at += block)
    visit(at, std::min(block, size - at));
}

void plain_forward(Function function, std::span<const float> x, std::span<float> y) {
  for_each_block(x.size(), [&](std::size_t at, std::size_t count) {
    const auto from = array(x.subspan(at, count));
    auto to = array(y.subspan(at, count));
    if (function == Function::gelu) {
      to = 0.5F * from * (1.0F + gelu_tanh(from));
    } else if (function == Function::relu) {
      to = from.max(0.0F);
    } else {
      to = from.max(0.0F).square();
    }
  });
}

// d gelu/dx = (1 + tanh u)/2 + x/2 (1 - tanh^2 u) c (1 + 3 a x^2)
void gelu_slope(const Values& x, Values& tanh, Values& slope) {
  tanh = gelu_tanh(x);
  slope = 0.5F * (1.0F + tanh) +
          0.5F * x * (1.0F - tanh.square()) * gelu_inner * (1.0F + 3.0F * gelu_cubic * x.square());
}

void plain_backward(Function function, std::span<const float> x_or_y, std::span<const float> dy,
                    std::span<float> dx) {
  Values x;
  Values tanh;
  Values slope;
  for_each_block(dy.size(), [&](std::size_t at, std::size_t count) {
    x = array(x_or_y.subspan(at, count));
    const auto gradient = array(dy.subspan(at, count));
    auto to = array(dx.subspan(at, count));
    if (function == Function::gelu) {
      gelu_slope(x, tanh, slope);
      to = gradient * slope;
    } else if (function == Function::relu) {
      to = (x > 0.0F).select(gradient, 0.0F);
    } else {
      to = gradient * 2.0F * x.max(0.0F);
    }
  });
}

void gated_forward_row(Function function, std::span<const float> x, std::span<float> y) {
  const auto gate = array(x.first(y.size()));
  const auto up = array(x.subspan(y.size()));
  if (function == Function::swiglu) {
    array(y) = gate / (1.0F + (-gate).exp()) * up;
  } else {
    array(y) = 0.5F * gate * (1.0F + gelu_tanh(gate)) * up;
  }
}

// silu(x) = x s, s = sigmoid(x); its slope is s (1 + x (1 - s)).
struct GatedBackward {
  Function function = Function::swiglu;
  Values gate, inner, slope, value;

  void row(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
    const auto up = array(x.subspan(dy.size()));
    gate = array(x.first(dy.size()));
    if (function == Function::swiglu) {
      inner = 1.0F / (1.0F + (-gate).exp());
      slope = inner * (1.0F + gate * (1.0F - inner));
      value = gate * inner;
    } else {
      gelu_slope(gate, inner, slope);
      value = 0.5F * gate * (1.0F + inner);
    }
    array(dx.first(dy.size())) = array(dy) * up * slope;
    array(dx.subspan(dy.size())) = array(dy) * value;
  }
};

}  // namespace

bool is_gated(Function function) {
  return function == Function::swiglu || function == Function::geglu;
}

void activation_forward(Function function, std::int64_t width, std::span<const float> x,
                        std::span<float> y) {
  SIM_CHECK(is_activation(function) && x.size() == y.size() * (is_gated(function) ? 2 : 1),
            x.size(), y.size());
  if (!is_gated(function)) return plain_forward(function, x, y);
  const auto tokens = static_cast<std::int64_t>(y.size()) / width;
  for (std::int64_t t = 0; t < tokens; ++t)
    gated_forward_row(function, row(x, t, 2 * width), row(y, t, width));
}

void activation_backward(Function function, std::int64_t width, std::span<const float> x_or_y,
                         std::span<const float> dy, std::span<float> dx) {
  SIM_CHECK(is_activation(function) && x_or_y.size() == dx.size() &&
                dx.size() == dy.size() * (is_gated(function) ? 2 : 1),
            x_or_y.size(), dy.size(), dx.size());
  if (!is_gated(function)) return plain_backward(function, x_or_y, dy, dx);
  GatedBackward backward{.function = function, .gate = {}, .inner = {}, .slope = {}, .value = {}};
  const auto tokens = static_cast<std::int64_t>(dy.size()) / width;
  for (std::int64_t t = 0; t < tokens; ++t)
    backward.row(row(x_or_y, t, 2 * width), row(dy, t, width), row(dx, t, 2 * width));
}

void rotary(const RotaryShape& shape, std::span<float> rows, bool inverse) {
  const std::int64_t half = shape.turned / 2;
  SIM_CHECK(shape.turned % 2 == 0 && shape.turned <= shape.head_dim &&
                shape.heads * shape.head_dim <= shape.width &&
                static_cast<std::int64_t>(rows.size()) == shape.tokens * shape.width,
            shape.turned, shape.head_dim, shape.heads, shape.width, rows.size());
  Values frequency(half);
  for (std::int64_t i = 0; i < half; ++i) {
    frequency[i] = static_cast<float>(std::pow(
        kernels::rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(shape.turned)));
  }
  Values cosine;
  Values sine;
  Values turned;
  // Position by position, so that cosines and sines are computed once for all sequences.
  for (std::int64_t at = 0; at < std::min(shape.sequence, shape.tokens); ++at) {
    const std::int64_t position = shape.context.position(at, shape.sequence);
    const Values angle = frequency * static_cast<float>(position);
    cosine = angle.cos();
    sine = inverse ? Values{-angle.sin()} : Values{angle.sin()};
    for (std::int64_t t = at; t < shape.tokens; t += shape.sequence) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        float* pair = rows.data() + t * shape.width + head * shape.head_dim;
        Eigen::Map<Values> first{pair, half};
        Eigen::Map<Values> second{pair + half, half};
        turned = first * cosine - second * sine;
        second = second * cosine + first * sine;
        first = turned;
      }
    }
  }
}

void copy(std::span<const float> from, std::span<float> to) {
  SIM_CHECK(from.size() == to.size(), from.size(), to.size());
  if (!from.empty()) std::memmove(to.data(), from.data(), from.size_bytes());
}

void add(std::span<const float> from, std::span<float> to) {
  SIM_CHECK(from.size() == to.size(), from.size(), to.size());
  array(to) += array(from);
}

void scale(std::span<const float> from, float factor, std::span<float> to) {
  SIM_CHECK(from.size() == to.size(), from.size(), to.size());
  array(to) = array(from) * factor;
}

void sum(std::span<const float> a, std::span<const float> b, std::span<float> to) {
  SIM_CHECK(a.size() == to.size() && b.size() == to.size(), a.size(), b.size(), to.size());
  array(to) = array(a) + array(b);
}

void zero(std::span<float> to) {
  array(to).setZero();
}

// All bits of the exponent are set in infinities and in NaN, and in nothing else.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7f800000U;
  std::uint32_t found = 0;
  for (const float value : values)
    found |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent ? 1U : 0U;
  return found == 0;
}

}  // namespace real
