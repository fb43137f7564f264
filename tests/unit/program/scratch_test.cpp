#include "sim/program/scratch.hpp"

#include <algorithm>
#include <map>

#include "tests/catch.hpp"

using namespace sim;

namespace {

// The most that a scratch holds at once, besides `operands` until they are freed and `results` from
// when they are written; all of it must be given back.
std::int64_t peak(const Scratch& scratch, std::int64_t operands, std::int64_t results) {
  std::map<int, std::int64_t> held;
  std::int64_t most = operands, around = operands;
  for (const ScratchStep& step : scratch) {
    if (step.moment == ScratchMoment::take) held[step.tensor] += step.bytes.count();
    if (step.moment == ScratchMoment::give) held.erase(step.tensor);
    if (step.moment == ScratchMoment::write_results) around += results;
    if (step.moment == ScratchMoment::free_operands) around -= operands;
    std::int64_t now = around;
    for (const auto& [tensor, bytes] : held)
      now += bytes;
    most = std::max(most, now);
  }
  CHECK(held.empty());
  CHECK(around == results);
  return most;
}

}  // namespace

TEST_CASE("an eager loss has three fp32 tensors of logits at its peak", "[plan]") {
  // Forward: logits in 16 bits, cast, log-softmax, which stays.
  CHECK(peak(eager_loss_forward(Bytes{400}), 200, 400) == 200 + 400 + 400);
  // Backward: log-softmax and the gradients of its output and input; then the cast one.
  CHECK(peak(eager_loss_backward(Bytes{400}), 400, 200) == 3 * 400);
}

TEST_CASE("a loss over a split vocabulary has four", "[plan]") {
  CHECK(peak(split_loss_forward(Bytes{400}), 200, 400) == 200 + 3 * 400);
  // Log-softmax, zeros with ones picked, their sum with the exponentials, its product.
  CHECK(peak(split_loss_backward(Bytes{400}), 400, 200) == 4 * 400);
}

TEST_CASE("a metric takes the cast logits and their log-softmax, one after another", "[plan]") {
  CHECK(peak(loss_metrics(Bytes{400}, 2), 300, 100) == 100 + 400 + 400);
  CHECK(peak(loss_metrics(Bytes{400}, 0), 300, 100) == 400);
}

TEST_CASE("scores of a fused softmax: bytes per score", "[plan]") {
  // An empty one and the product; product and probabilities. Backward in place of their gradient.
  const Scores fused{.matrix = Bytes{2}, .kept = Bytes{2}};
  CHECK(peak(scores_forward(fused), 0, 2) == 4);
  CHECK(peak(scores_backward(fused), 2, 0) == 4);
  // With dropout the probabilities, what was dropped and the mask are kept: 5. Backward the
  // dropped ones go once their gradient is there: 3 + 2 + 2.
  const Scores dropped{.matrix = Bytes{2}, .kept = Bytes{5}, .dropout = true};
  CHECK(peak(scores_backward(dropped), 5, 0) == 7);
}

TEST_CASE("scores of an eager softmax in fp32: bytes per score", "[plan]") {
  // 2 of the product, 4 cast, 4 of the softmax and 2 cast back, which are kept.
  const Scores eager{.matrix = Bytes{2}, .kept = Bytes{6}, .eager = true};
  CHECK(peak(scores_forward(eager), 0, 6) == 12);
  // 4 kept, the gradients of the softmax's output and input, 4 each.
  CHECK(peak(scores_backward(eager), 6, 0) == 12);
}

TEST_CASE("a copy stands beside what it replaces", "[plan]") {
  CHECK(peak(copied(Bytes{100}), 0, 100) == 200);
  CHECK(peak(gathered_list(Bytes{100}), 10, 100) == 10 + 200);
}
