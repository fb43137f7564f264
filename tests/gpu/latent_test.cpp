#include "real/engine/kernels/latent.hpp"

#include <array>

#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::LatentHeads;
using sim::DType;

namespace {

enum Input : std::size_t { queries, made, rotary_keys };

// visit(element of [q|k|v], input, element of it, factor): all of the linear map.
template <class Visit>
void for_each_factor(const LatentHeads& shape, Visit visit) {
  const std::int64_t d = shape.head(), half = shape.rotary / 2, width = shape.plain + shape.value;
  const auto turn = [&](std::int64_t t, std::int64_t to, Input from, std::int64_t at) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t % shape.tokens.sequence) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(shape.rotary));
      visit(to + i, from, at + i, std::cos(angle));
      visit(to + i, from, at + i + half, -std::sin(angle));
      visit(to + i + half, from, at + i + half, std::cos(angle));
      visit(to + i + half, from, at + i, std::sin(angle));
    }
  };
  for (std::int64_t t = 0; t < shape.tokens.tokens; ++t)
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t query = t * shape.row() + h * d, key = query + shape.heads * d;
      const std::int64_t value = t * shape.row() + 2 * shape.heads * d + h * shape.value;
      const std::int64_t of = t * shape.heads + h;
      for (std::int64_t i = 0; i < shape.plain; ++i) {
        visit(query + i, queries, of * d + i, 1.0);
        visit(key + i, made, of * width + i, 1.0);
      }
      turn(t, query + shape.plain, queries, of * d + shape.plain);
      turn(t, key + shape.plain, rotary_keys, t * shape.rotary);
      for (std::int64_t i = 0; i < shape.value; ++i)
        visit(value + i, made, of * width + shape.plain + i, 1.0);
    }
}

}  // namespace

TEST_CASE("heads of latent attention are put together, and their gradients taken apart", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::int64_t unit = GENERATE(8, 1);  // whole vectors, and none
  const LatentHeads shape{.dtype = dtype,
                          .tokens = {.tokens = 22, .sequence = 11},
                          .heads = 3,
                          .plain = 2 * unit,
                          .rotary = 2 * unit,
                          .value = 3 * unit};
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::array<Numbers, 3> x{random_numbers(1, size(22 * 3 * shape.head()), dtype),
                                 random_numbers(2, size(22 * 3 * 5 * unit), dtype),
                                 random_numbers(3, size(22 * shape.rotary), dtype)};
  const Numbers g = random_numbers(4, size(22 * shape.row()), dtype);
  Numbers expected(g.size());
  std::array<Numbers, 3> dx{Numbers(x[0].size()), Numbers(x[1].size()), Numbers(x[2].size())};
  for_each_factor(shape, [&](std::int64_t to, Input from, std::int64_t at, double factor) {
    expected[size(to)] += factor * x[from][size(at)];
    dx[from][size(at)] += factor * g[size(to)];
  });

  const Array table{DType::fp32, size(11 * shape.rotary)};
  real::kernels::fill_rotary_table(11, shape.rotary, 10000, table.floats(), nullptr);
  const Array q{dtype, x[queries]}, m{dtype, x[made]}, k{dtype, x[rotary_keys]};
  const Array qkv{dtype, g.size()}, gradient{dtype, g};
  const Array dm{dtype, x[made].size()}, dk{dtype, x[rotary_keys].size()};
  real::kernels::put_latent_heads(shape, {q.data(), m.data(), k.data(), table.floats()}, qkv.data(),
                                  nullptr);
  CHECK(worst_error(qkv.numbers(), expected) < tolerance(dtype));
  real::kernels::latent_gradients(shape, {gradient.data(), dm.data(), dk.data(), table.floats()},
                                  nullptr);
  Numbers dq = gradient.numbers();
  dq.resize(x[queries].size());
  CHECK(worst_error(dq, dx[queries]) < tolerance(dtype));
  CHECK(worst_error(dm.numbers(), dx[made]) < tolerance(dtype));
  CHECK(worst_error(dk.numbers(), dx[rotary_keys]) < tolerance(dtype));
}

TEST_CASE("rows are split and joined", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t unit = GENERATE(8U, 1U);
  const real::kernels::SplitRows shape{dtype, 7, static_cast<std::int64_t>(3 * unit),
                                       static_cast<std::int64_t>(unit)};
  const Numbers x = random_numbers(1, 7 * 4 * unit, dtype);
  const Array whole{dtype, x}, first{dtype, 7 * 3 * unit}, second{dtype, 7 * unit};
  real::kernels::split_rows(shape, whole.data(), first.data(), second.data(), nullptr);
  const Numbers a = first.numbers(), b = second.numbers();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / (4 * unit), column = i % (4 * unit);
    const double got =
        column < 3 * unit ? a[row * 3 * unit + column] : b[row * unit + column - 3 * unit];
    CHECK(got == x[i]);
  }
  const Array joined{dtype, x.size()};
  real::kernels::join_rows(shape, first.data(), second.data(), joined.data(), nullptr);
  CHECK(joined.numbers() == x);
}
