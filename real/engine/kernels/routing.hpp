// Which experts the tokens go to, and in which order the copies of them travel.
//
// A plan is made of even shares, so the choice is even: copy `choice` of token `token` goes to
// expert (token * per_token + choice) mod experts (Megatron-LM's runs with
// --moe-router-force-load-balancing choose evenly as well, at random). With the whole sequence and
// each rank's share of the tokens divided evenly among the experts (engine_problems), the count
// within the rank is as good as that within the sequence: the layout does not change the model.
#pragma once

#include <cstdint>

namespace real {

// The tokens of a micro-batch that a rank holds before they are sent.
struct Routing {
  std::int64_t tokens = 0;
  std::int64_t per_token = 1;
  std::int64_t experts = 1;

  constexpr std::int64_t copies() const { return tokens * per_token; }
  constexpr std::int64_t copies_for_each() const { return copies() / experts; }  // expert
  constexpr std::int64_t expert_of(std::int64_t token, std::int64_t choice) const {
    return (token * per_token + choice) % experts;
  }
  // The row of a copy among those that are sent: by expert, and so by rank; then by token.
  constexpr std::int64_t row_of(std::int64_t token, std::int64_t choice) const {
    const std::int64_t copy = token * per_token + choice;
    return copy % experts * copies_for_each() + copy / experts;
  }
};

// The copies that have come to a rank: part by part, one of each rank that sent some; of a part,
// expert by expert. Sorted, they lie expert by expert, and of an expert part by part.
struct Arrived {
  std::int64_t experts = 1;  // that the rank has
  std::int64_t parts = 1;    // 1: nothing came, or only one expert is here: the orders are the same
  std::int64_t rows = 0;     // copies
  constexpr std::int64_t block() const { return rows / (experts * parts); }
  // Where the copy that stands at `row` when sorted lay when it came.
  constexpr std::int64_t came_at(std::int64_t row) const {
    const std::int64_t expert = row / (parts * block());
    const std::int64_t part = row / block() % parts;
    return (part * experts + expert) * block() + row % block();
  }
};

}  // namespace real
