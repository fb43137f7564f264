#include "sim/program/scratch.hpp"

namespace sim {
namespace {

constexpr ScratchStep write_results{ScratchMoment::write_results, 0, {}};
constexpr ScratchStep free_operands{ScratchMoment::free_operands, 0, {}};
ScratchStep take(std::uint8_t tensor, Bytes bytes) {
  return {ScratchMoment::take, tensor, bytes};
}
ScratchStep give(std::uint8_t tensor) {
  return {ScratchMoment::give, tensor, {}};
}

}  // namespace

Scratch eager_loss_forward(Bytes logits) {
  return {take(0, logits), write_results, give(0), free_operands};
}

Scratch eager_loss_backward(Bytes logits) {
  return {take(0, logits), take(1, logits), free_operands, give(0), write_results, give(1)};
}

Scratch split_loss_forward(Bytes logits) {
  // Cast, less the maximum, its exponentials; then the difference to the logarithm of their sum.
  return {take(0, logits), take(1, logits), take(2, logits), give(2),
          write_results,   give(1),         give(0),         free_operands};
}

Scratch split_loss_backward(Bytes logits) {
  // Zeros with ones picked, the exponentials, their sum; its product in place of the exponentials.
  return {take(0, logits), take(1, logits), take(2, logits), give(1),       take(3, logits),
          free_operands,   give(0),         give(2),         write_results, give(3)};
}

Scratch loss_metrics(Bytes logits, int count) {
  Scratch scratch{write_results, free_operands};
  for (int i = 0; i < count; ++i)
    scratch.insert(scratch.end(), {take(0, logits), take(1, logits), give(0), give(1)});
  return scratch;
}

Scratch scores_forward(const Scores& scores) {
  const Bytes matrix = scores.matrix;
  if (!scores.eager)
    return {take(0, matrix), take(1, matrix), give(0), write_results, give(1), free_operands};
  return {take(0, matrix), take(1, matrix), give(0), take(2, matrix * 2),
          write_results,   give(2),         give(1), free_operands};
}

Scratch scores_backward(const Scores& scores) {
  const Bytes matrix = scores.matrix;
  // The product with the probabilities needs their 16-bit form no more once its gradient is there.
  const Bytes left = scores.kept - matrix;
  if (!scores.eager) {
    if (!scores.dropout) return {take(0, matrix), write_results, free_operands, give(0)};
    return {take(0, matrix), free_operands, take(1, left), take(2, matrix),
            give(0),         write_results, give(2),       give(1)};
  }
  return {take(0, matrix),
          free_operands,
          take(1, left),
          take(2, matrix * 2),
          give(0),
          take(3, matrix * 2),
          give(1),
          give(2),
          take(4, matrix * 2),
          give(3),
          take(5, matrix),
          give(4),
          write_results,
          give(5)};
}

Scratch copied(Bytes bytes) {
  return {take(0, bytes), write_results, give(0), free_operands};
}

Scratch gathered_list(Bytes gathered) {
  return {write_results, take(0, gathered), give(0), free_operands};
}

}  // namespace sim
