// Attention against its definition in float64, gradients against its finite differences.
#include "real/engine/kernels/dropout.hpp"
#include "real/host/kernels/kernels_attention.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

namespace {

struct Reference {
  real::AttentionSize size;

  double element(const Doubles& qkv, std::int64_t token, std::int64_t head, std::int64_t i) const {
    return qkv[static_cast<std::size_t>(token * size.qkv_width() + head * size.head_dim + i)];
  }
  // Probabilities of one query.
  Doubles weights(const Doubles& qkv, std::int64_t batch, std::int64_t head, std::int64_t query,
                  double* log_sum) const {
    const std::int64_t group = size.heads + head / (size.heads / size.kv_heads);
    Doubles p(static_cast<std::size_t>(size.sequence));
    double largest = -1e300;
    const std::int64_t seen = std::min(size.causal ? query + 1 : size.sequence, size.length(batch));
    const std::int64_t first = size.window > 0 ? std::max<std::int64_t>(0, seen - size.window) : 0;
    for (std::int64_t key = first; key < seen; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < size.head_dim; ++i) {
        score += element(qkv, batch * size.sequence + query, head, i) *
                 element(qkv, batch * size.sequence + key, group, i);
      }
      p[static_cast<std::size_t>(key)] = score / std::sqrt(size.head_dim);
      largest = std::max(largest, p[static_cast<std::size_t>(key)]);
    }
    double total = 0;
    for (auto key = static_cast<std::size_t>(first); key < static_cast<std::size_t>(seen); ++key) {
      p[key] = std::exp(p[key] - largest);
      total += p[key];
    }
    for (double& value : p)
      value /= total;
    if (log_sum != nullptr) *log_sum = largest + std::log(total);
    return p;
  }
  // factor() is what a probability is multiplied by before it weighs a value.
  double factor(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    const real::kernels::ScoreRules& rules = size.rules;
    if (rules.dropout.probability == 0) return 1;
    const std::int64_t of_head =
        (rules.first_sequence + batch) * rules.all_heads + rules.first_head + head;
    const std::int64_t element = (of_head * size.sequence + query) * size.sequence + key;
    return real::DropoutMask{rules.dropout}.factor(static_cast<std::uint64_t>(element));
  }
  template <class Visit>
  void for_each_query(Visit visit) const {
    for (std::int64_t batch = 0; batch < size.batch; ++batch) {
      for (std::int64_t head = 0; head < size.heads; ++head) {
        for (std::int64_t query = 0; query < size.sequence; ++query)
          visit(batch, head, query);
      }
    }
  }
  Doubles output(const Doubles& qkv) const {
    Doubles out(static_cast<std::size_t>(size.tokens() * size.out_width()));
    for_each_query([&](std::int64_t batch, std::int64_t head, std::int64_t query) {
      const Doubles p = weights(qkv, batch, head, query, nullptr);
      const std::int64_t value = size.heads + size.kv_heads + head / (size.heads / size.kv_heads);
      const std::int64_t row = (batch * size.sequence + query) * size.out_width();
      for (std::int64_t i = 0; i < size.head_dim; ++i) {
        double total = 0;
        for (std::int64_t key = 0; key < size.sequence; ++key)
          total += p[static_cast<std::size_t>(key)] * factor(batch, head, query, key) *
                   element(qkv, batch * size.sequence + key, value, i);
        out[static_cast<std::size_t>(row + head * size.head_dim + i)] = total;
      }
    });
    return out;
  }
};

real::AttentionSize random_attention(std::uint64_t seed, std::int64_t longest) {
  real::AttentionSize size{.batch = random_size(seed, 1, 1, 2),
                           .sequence = random_size(seed, 2, 1, longest),
                           .heads = 0,
                           .kv_heads = random_size(seed, 3, 1, 2),
                           .head_dim = random_size(seed, 4, 1, 5),
                           .causal = seed % 2 == 0};
  size.heads = size.kv_heads * random_size(seed, 5, 1, 3);
  if (seed % 4 == 0) size.window = random_size(seed, 8, 1, size.sequence);
  return size;
}

Floats log_sums_of(const Reference& reference, const Doubles& qkv) {
  Floats sums;
  reference.for_each_query([&](std::int64_t batch, std::int64_t head, std::int64_t query) {
    double log_sum = 0;
    reference.weights(qkv, batch, head, query, &log_sum);
    sums.push_back(static_cast<float>(log_sum));
  });
  return sums;
}

}  // namespace

TEST_CASE("both attention kernels compute the softmax of the scores times the values",
          "[real_host]") {
  // Sequences beyond one and two blocks of 64 keys.
  const std::uint64_t seed = GENERATE(range(0, 12));
  CAPTURE(seed);
  const Reference reference{random_attention(seed, seed < 6 ? 40 : 170)};
  const real::AttentionSize& size = reference.size;
  const Floats qkv = random_floats(seed, 6, size.tokens() * size.qkv_width());
  const Doubles expected = reference.output(exact(qkv));

  Floats out(expected.size());
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  real::flash_forward(size, qkv, out, log_sums);
  CHECK(relative_error(out, expected) < float_error);
  CHECK(relative_error(log_sums, exact(log_sums_of(reference, exact(qkv)))) < float_error);

  Floats unfused(expected.size());
  Floats probabilities(static_cast<std::size_t>(size.probabilities()));
  real::unfused_forward(size, qkv, unfused, probabilities);
  CHECK(relative_error(unfused, expected) < float_error);
  // Run again without an output, as recomputation does.
  Floats again(probabilities.size());
  real::unfused_forward(size, qkv, {}, again);
  CHECK(again == probabilities);
}

TEST_CASE("gradients of attention are the finite differences of its definition", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 8));
  CAPTURE(seed);
  const Reference reference{random_attention(seed, 7)};
  const real::AttentionSize& size = reference.size;
  const Floats qkv = random_floats(seed, 6, size.tokens() * size.qkv_width());
  const Floats dout = random_floats(seed, 7, size.tokens() * size.out_width());
  const Doubles expected = finite_differences(
      [&](const Doubles& at) { return dot(reference.output(at), dout); }, exact(qkv));

  Floats out(dout.size());
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  Floats probabilities(static_cast<std::size_t>(size.probabilities()));
  real::flash_forward(size, qkv, out, log_sums);
  real::unfused_forward(size, qkv, {}, probabilities);
  Floats dqkv(qkv.size(), 9.0F);
  real::flash_backward(size, qkv, out, log_sums, dout, dqkv);
  CHECK(relative_error(dqkv, expected) < float_error);
  Floats unfused(qkv.size(), 9.0F);
  real::unfused_backward(size, qkv, probabilities, dout, unfused);
  CHECK(relative_error(unfused, expected) < float_error);
}

TEST_CASE("blocks of queries and keys change nothing in the gradients of attention",
          "[real_host]") {
  // The unfused kernel has no blocks; it is checked against finite differences above.
  const std::uint64_t seed = GENERATE(range(20, 26));
  CAPTURE(seed);
  const real::AttentionSize size = random_attention(seed, 200);
  const Floats qkv = random_floats(seed, 6, size.tokens() * size.qkv_width());
  const Floats dout = random_floats(seed, 7, size.tokens() * size.out_width());
  Floats out(dout.size());
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  Floats probabilities(static_cast<std::size_t>(size.probabilities()));
  real::flash_forward(size, qkv, out, log_sums);
  real::unfused_forward(size, qkv, {}, probabilities);
  Floats flash(qkv.size());
  Floats unfused(qkv.size());
  real::flash_backward(size, qkv, out, log_sums, dout, flash);
  real::unfused_backward(size, qkv, probabilities, dout, unfused);
  CHECK(relative_error(flash, exact(unfused)) < float_error);
}

TEST_CASE("large scores do not overflow attention", "[real_host]") {
  const real::AttentionSize size{
      .batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_dim = 4, .causal = true};
  const Floats qkv = random_floats(1, 1, size.tokens() * size.qkv_width(), 40.0);
  Floats out(static_cast<std::size_t>(size.tokens() * size.out_width()));
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  real::flash_forward(size, qkv, out, log_sums);
  Floats unfused(out.size());
  real::unfused_forward(size, qkv, unfused, {});
  // Scores of some 3,000, which float32 knows to about 2e-4: so much their exponentials differ.
  const Doubles expected = Reference{size}.output(exact(qkv));
  CHECK(relative_error(out, expected) < 2e-3);
  CHECK(relative_error(unfused, expected) < 2e-3);
}

namespace {

// Two sequences that end in padding, heads of a tensor rank, and dropout if wanted.
struct Padded {
  std::vector<std::int32_t> ids;
  real::kernels::AdamStep step{.number = 3};
  Reference reference;

  Padded(std::uint64_t seed, double dropout) {
    real::AttentionSize& size = reference.size;
    size = random_attention(seed, seed % 3 == 0 ? 90 : 7);
    size.window = 0;
    size.batch = 2;
    size.sequence += 2;
    const std::int64_t stride = size.sequence + 1;
    ids.assign(static_cast<std::size_t>(size.batch * stride), 5);
    for (std::int64_t batch = 0; batch < size.batch; ++batch) {
      const std::int64_t length =
          random_size(seed, static_cast<std::uint64_t>(8 + batch), 1, size.sequence);
      for (std::int64_t i = length; i < size.sequence; ++i)
        ids[static_cast<std::size_t>(batch * stride + i)] = 0;
    }
    size.rules = {.tokens = {.ids = ids.data(),
                             .tokens = size.tokens(),
                             .sequence = size.sequence,
                             .stride = stride},
                  .padding = 0,
                  .dropout = {.probability = dropout, .seed = seed, .site = 9, .step = &step},
                  .first_sequence = 4,
                  .first_head = size.heads,
                  .all_heads = 2 * size.heads};
  }
};

}  // namespace

TEST_CASE("no query sees padding, and dropout acts on the probabilities", "[real_host]") {
  const std::uint64_t seed = GENERATE(range(0, 9));
  const double dropout = GENERATE(0.0, 0.3);
  CAPTURE(seed, dropout);
  const Padded padded{seed, dropout};
  const real::AttentionSize& size = padded.reference.size;
  const Floats qkv = random_floats(seed, 6, size.tokens() * size.qkv_width());
  const Doubles expected = padded.reference.output(exact(qkv));

  Floats out(expected.size()), unfused(expected.size());
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  Floats probabilities(static_cast<std::size_t>(size.probabilities()));
  real::flash_forward(size, qkv, out, log_sums);
  real::unfused_forward(size, qkv, unfused, probabilities);
  CHECK(relative_error(out, expected) < float_error);
  CHECK(relative_error(unfused, expected) < float_error);
  CHECK(relative_error(log_sums, exact(log_sums_of(padded.reference, exact(qkv)))) < float_error);
}

TEST_CASE("gradients of attention with padding and dropout are finite differences", "[real_host]") {
  const std::uint64_t seed = GENERATE(1, 2, 4, 5, 7, 8);
  const double dropout = GENERATE(0.0, 0.3);
  CAPTURE(seed, dropout);
  const Padded padded{seed, dropout};
  const real::AttentionSize& size = padded.reference.size;
  const Floats qkv = random_floats(seed, 6, size.tokens() * size.qkv_width());
  const Floats dout = random_floats(seed, 7, size.tokens() * size.out_width());
  const Doubles expected = finite_differences(
      [&](const Doubles& at) { return dot(padded.reference.output(at), dout); }, exact(qkv));

  Floats out(dout.size());
  Floats log_sums(static_cast<std::size_t>(size.log_sums()));
  Floats probabilities(static_cast<std::size_t>(size.probabilities()));
  real::flash_forward(size, qkv, out, log_sums);
  real::unfused_forward(size, qkv, {}, probabilities);
  Floats flash(qkv.size(), 9.0F), unfused(qkv.size(), 9.0F);
  real::flash_backward(size, qkv, out, log_sums, dout, flash);
  real::unfused_backward(size, qkv, probabilities, dout, unfused);
  CHECK(relative_error(flash, expected) < float_error);
  CHECK(relative_error(unfused, expected) < float_error);
}
