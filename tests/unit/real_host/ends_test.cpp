// Tables and loss.
#include "real/host/kernels/kernels_embedding.hpp"
#include "real/host/kernels/kernels_loss.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::int32_t> random_ids(std::uint64_t seed, std::int64_t count, std::int64_t classes) {
  std::vector<std::int32_t> ids;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    ids.push_back(
        static_cast<std::int32_t>(sim::uniform(seed, 99, i) * static_cast<double>(classes)));
  }
  return ids;
}

real::kernels::TokenIds one_row(const std::vector<std::int32_t>& ids) {
  const std::int64_t count = std::ssize(ids);
  return {.ids = ids.data(), .tokens = count, .sequence = count, .stride = count + 1};
}

// Sum of the losses of all tokens.
double loss(const Doubles& logits, const std::vector<std::int32_t>& targets, std::size_t classes) {
  double total = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += std::exp(logits[t * classes + c]);
    total += std::log(sum) - logits[t * classes + static_cast<std::size_t>(targets[t])];
  }
  return total;
}

}  // namespace

TEST_CASE("slices of a table give partial rows whose sum is the lookup", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 5));
  const std::int64_t ranks = random_size(seed, 1, 1, 4);
  const std::int64_t rows = random_size(seed, 2, 1, 9);
  const std::int64_t width = random_size(seed, 3, 1, 9);
  CAPTURE(seed, ranks, rows, width);
  const Floats table = random_floats(seed, 4, ranks * rows * width);
  const auto ids = random_ids(seed, 20, ranks * rows);
  const Floats dout = random_floats(seed, 5, 20 * width);
  Floats sum(static_cast<std::size_t>(20 * width));
  Floats gradient(table.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const real::TableSlice slice{.first = rank * rows, .rows = rows, .width = width};
    const auto part = static_cast<std::size_t>(rows * width);
    const std::size_t first = static_cast<std::size_t>(rank) * part;
    Floats out(sum.size(), 3.0F);
    real::lookup(slice, one_row(ids), std::span{table}.subspan(first, part), out);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += out[i];
    const std::span<float> to = std::span{gradient}.subspan(first, part);
    real::lookup_backward(slice, one_row(ids), dout, to, false);
    real::lookup_backward(slice, one_row(ids), dout, to, true);
  }
  Doubles expected(table.size());
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
      const std::size_t at = static_cast<std::size_t>(ids[t] * width) + i;
      const std::size_t token = t * static_cast<std::size_t>(width) + i;
      CHECK(sum[token] == table[at]);
      expected[at] += 2 * static_cast<double>(dout[token]);
    }
  }
  CHECK(relative_error(gradient, expected) < float_error);
}

TEST_CASE("slices of the tokens get their own positions", "[real_host]") {
  constexpr std::int64_t sequence = 6;
  constexpr std::int64_t width = 3;
  constexpr std::int64_t tokens = 24;  // four sequences
  const std::int64_t ranks = GENERATE(1, 2, 3, 4);
  const Floats table = random_floats(1, 1, 8 * width);  // longer than the sequence
  const Floats x = random_floats(1, 2, tokens * width);
  const Floats dy = random_floats(1, 3, tokens * width);
  Floats gradient(table.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t share = tokens / ranks;
    const real::PositionShape shape{
        .positions = {.tokens = share, .sequence = sequence, .first_token = rank * share},
        .width = width};
    const auto first = static_cast<std::size_t>(rank * share * width);
    const auto count = static_cast<std::size_t>(share * width);
    Floats y(count);
    real::add_positions(shape, std::span{x}.subspan(first, count), table, y);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = first + i;
      const std::size_t row = at / width % sequence;
      CHECK(y[i] == x[at] + table[row * width + at % width]);
    }
    real::add_positions_backward(shape, std::span{dy}.subspan(first, count), gradient, rank > 0);
  }
  Doubles expected(table.size());
  for (std::size_t i = 0; i < dy.size(); ++i)
    expected[i / width % sequence * width + i % width] += static_cast<double>(dy[i]);
  CHECK(relative_error(gradient, expected) < float_error);
}

TEST_CASE("the loss in slices of the vocabulary is that of the whole, padding left out",
          "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 8));
  const std::int64_t ranks = random_size(seed, 1, 1, 4);
  const std::int64_t width = random_size(seed, 2, 2, 12);
  // Down to a last slice that is padding only.
  const std::int64_t classes =
      std::max<std::int64_t>(2, ranks * width - (seed % 2 == 0 ? 0 : width));
  constexpr std::int64_t tokens = 7;
  CAPTURE(seed, ranks, width, classes);
  const Floats logits = random_floats(seed, 3, tokens * classes, 3.0);
  const auto targets = random_ids(seed, tokens, classes);
  const float scale = 0.125F;

  std::vector<Floats> slices;
  Floats maximum(tokens, std::numeric_limits<float>::lowest());
  Floats target(tokens);
  Floats sum(tokens);
  const auto slice_of = [&](std::int64_t rank) {
    return real::ClassSlice{.first = rank * width, .width = width, .classes = classes};
  };
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    // Padding holds what must not be read.
    Floats slice(static_cast<std::size_t>(tokens * width), 1e30F);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < slice_of(rank).real_width(); ++i) {
        slice[static_cast<std::size_t>(t * width + i)] =
            logits[static_cast<std::size_t>(t * classes + rank * width + i)];
      }
    }
    Floats local(tokens);
    real::loss_maximum(slice_of(rank), slice, local);
    for (std::size_t t = 0; t < tokens; ++t)
      maximum[t] = std::max(maximum[t], local[t]);
    slices.push_back(slice);
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Floats& slice = slices[static_cast<std::size_t>(rank)];
    Floats local_target(tokens);
    Floats local_sum(tokens);
    // In place: the exponentials take the place of the logits.
    real::loss_exponentials(slice_of(rank), slice, one_row(targets), maximum, slice, local_target,
                            local_sum);
    for (std::size_t t = 0; t < tokens; ++t) {
      target[t] += local_target[t];
      sum[t] += local_sum[t];
    }
  }
  const auto columns = static_cast<std::size_t>(classes);
  const double expected = loss(exact(logits), targets, columns);
  CHECK(std::abs(real::loss_of(target, sum) - expected) < float_error * std::abs(expected) + 1e-6);

  const Doubles gradient = finite_differences(
      [&](const Doubles& at) { return 0.125 * loss(at, targets, columns); }, exact(logits));
  Floats whole(gradient.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Floats& slice = slices[static_cast<std::size_t>(rank)];
    real::loss_gradient(slice_of(rank), slice, sum, one_row(targets), scale, slice);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < width; ++i) {
        const float value = slice[static_cast<std::size_t>(t * width + i)];
        if (i < slice_of(rank).real_width()) {
          whole[static_cast<std::size_t>(t * classes + rank * width + i)] = value;
        } else {
          CHECK(value == 0.0F);
        }
      }
    }
  }
  CHECK(relative_error(whole, gradient) < float_error);
}
