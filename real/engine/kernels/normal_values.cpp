#include "real/engine/kernels/normal_values.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "sim/base/random.hpp"

// Compiled for several vector widths, chosen when the program starts. Sanitizers cannot start such
// programs (GCC's resolvers run before them), and clang 14 knows no levels of x86-64.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPCAST_VECTOR_WIDTHS __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define STEPCAST_VECTOR_WIDTHS
#endif

namespace real {
namespace {

// sim::uniform() with hash_combine(seed, stream) made once.
inline double uniform_of(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = sim::mix64(key ^ sim::mix64(index)) >> 11;
  return (static_cast<double>(static_cast<std::int64_t>(bits)) + 0.5) * 0x1.0p-53;
}

// The reductions and coefficients of FreeBSD's libm (msun/src: e_log.c, k_sin.c, k_cos.c; errors
// below 1 ulp there), without its branches for numbers that do not come up here.

// REQUIRES: a normal number in (0, 1).
inline double logarithm(double x) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcdULL;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // x = 2^exponent mantissa, the mantissa from sqrt(1/2) to sqrt(2).
  const auto exponent = static_cast<std::int64_t>(bits - root_half) >> 52;
  const double f = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52)) - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double rest =
      z * (6.666666666666735130e-01 +
           z * (3.999999999940941908e-01 +
                z * (2.857142874366239149e-01 +
                     z * (2.222219843214978396e-01 +
                          z * (1.818357216161805012e-01 +
                               z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
  const double half = 0.5 * f * f;
  const auto k = static_cast<double>(static_cast<int>(exponent));
  return k * 6.93147180369123816490e-01 -
         ((half - (s * (half + rest) + k * 1.90821492927058770002e-10)) - f);
}

struct Angle {
  double sine = 0, cosine = 0;
};
// Sine and cosine of 2 pi `turn`, a turn in (0, 1): within an eighth of a turn of a multiple of a
// quarter.
inline Angle angle_of(double turn) {
  // Not lround(), which is no vector code; `turn` is positive.
  const auto quarter = static_cast<int>(turn * 4 + 0.5);  // NOLINT(bugprone-incorrect-roundings)
  const double r = (turn - quarter * 0.25) * (2 * std::numbers::pi);
  const double z = r * r;
  const double sine =
      r + r * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double cosine =
      1 - 0.5 * z +
      z * z *
          (4.16666666666666019037e-02 +
           z * (-1.38888888888741095749e-03 +
                z * (2.48015872894767294178e-05 +
                     z * (-2.75573143513906633035e-07 +
                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double odd = (quarter & 1) != 0 ? cosine : sine;
  const double even = (quarter & 1) != 0 ? sine : cosine;
  return {(quarter & 2) != 0 ? -odd : odd, ((quarter + 1) & 2) != 0 ? -even : even};
}

struct Pair {
  float even = 0, odd = 0;
};
inline Pair pair_of(std::uint64_t key, std::int64_t pair, double deviation) {
  const auto at = 2 * static_cast<std::uint64_t>(pair);
  const double radius = std::sqrt(-2.0 * logarithm(uniform_of(key, at)));
  const Angle angle = angle_of(uniform_of(key, at + 1));
  return {static_cast<float>(radius * angle.cosine * deviation),
          static_cast<float>(radius * angle.sine * deviation)};
}

STEPCAST_VECTOR_WIDTHS
void fill_pairs(std::uint64_t key, std::int64_t first, std::int64_t count, double deviation,
                float* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Pair pair = pair_of(key, first + i, deviation);
    values[2 * i] = pair.even;
    values[2 * i + 1] = pair.odd;
  }
}

}  // namespace

void normal_values(std::uint64_t seed, std::uint64_t stream, std::int64_t first, double deviation,
                   std::span<float> values) {
  if (values.empty()) return;
  const std::uint64_t key = sim::hash_combine(seed, stream);
  float* at = values.data();
  auto left = static_cast<std::int64_t>(values.size());
  if (first % 2 != 0) {
    *at++ = pair_of(key, first / 2, deviation).odd;
    ++first;
    --left;
  }
  fill_pairs(key, first / 2, left / 2, deviation, at);
  if (left % 2 != 0) at[left - 1] = pair_of(key, (first + left) / 2, deviation).even;
}

}  // namespace real
