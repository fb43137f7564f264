// Kernels of a mixture of experts whose routers choose by their scores, and where they find who
// goes where. A backend that chooses evenly (real/engine/kernels/routing.hpp) leaves the table out.
#pragma once

#include <cstdint>

#include "real/engine/kernels.hpp"

namespace real {

// How a router makes weights of its scores (Megatron-LM, core/transformer/moe/moe_utils.py,
// topk_softmax_with_capacity). softmax: over the experts that a token has chosen; where that is
// one, over all. sigmoid: of each, over the sum of those that are chosen; where that is one, as it
// is.
enum class RouterScore : std::uint8_t { softmax, sigmoid };

struct RoutingShape {
  std::int64_t tokens = 0, per_token = 1, experts = 1;
  std::int64_t groups = 0,
               groups_per_token = 0;   // a token chooses among the experts of some groups
  std::int64_t parts = 1, part = 0;    // ranks that share the experts, and which of them this is
  std::int64_t shares = 1, share = 0;  // ranks that share each expert's features
  std::int64_t capacity = 0;           // rows of an expert at most; 0: no limit
  bool padded = false;                 // to the capacity, with rows of zeros
  constexpr std::int64_t held() const { return experts / parts; }  // experts of this rank
  constexpr std::int64_t copies() const { return tokens * per_token; }
  constexpr std::int64_t sources() const { return shares * parts; }  // of rows that come
};

}  // namespace real

namespace real::kernels {

// RoutedTokens says where the tokens of a micro-batch go in one layer. All arrays lie in the
// device's memory.
//
// Copies that are sent lie by expert, then by token. Those that come lie part by part, one of each
// rank that sent some; of a part, expert by expert. Sorted, they lie expert by expert, and of an
// expert part by part. Without padding neither has gaps: buffers are as large as the worst case,
// and only their beginning is used.
struct RoutedTokens {
  static constexpr std::int32_t dropped = -1;
  RoutingShape shape{};
  std::int64_t room_sent = 0, room_arrived = 0;  // rows at most
  std::int32_t* chosen = nullptr;   // [experts]: choices of each, those that are dropped, too
  std::int32_t* sent = nullptr;     // [experts]: rows
  std::int32_t* came = nullptr;     // [shares, parts, held experts]: rows
  std::int32_t* arrived = nullptr;  // [1]: all that came
  std::int32_t* experts = nullptr;  // [tokens, per_token]
  std::int32_t* rows = nullptr;     // of these copies among the rows that are sent, or `dropped`
  std::int32_t* copies = nullptr;   // [room_sent]: which copy a row is; `dropped`: it pads
  std::int32_t* order = nullptr;    // [room_arrived]: where a sorted row lay when it came
  float* weights = nullptr;         // [tokens, per_token]
};

struct RoutedScores {
  RouterScore score = RouterScore::softmax;
  sim::DType dtype = sim::DType::fp32;  // of the scores
};
// Chooses, and fills all but what comes from other ranks; where experts are padded, `came` as well.
// Experts beyond their capacity keep the choices that have the largest weights, of equal ones
// the first (Megatron-LM's moe_token_drop_policy "probs"). `kept`: fp32 [tokens, experts]:
// softmaxes over all experts, or sigmoids. `weights`: of the rows that are sent, zero for those
// that pad.
void choose_by_scores(const RoutedTokens& tokens, const RoutedScores& how, const void* scores,
                      float* kept, float* weights, StreamHandle stream);
void choose_by_scores_backward(const RoutedTokens& tokens, const RoutedScores& how,
                               const float* kept, const float* weight_gradients,
                               void* score_gradients, StreamHandle stream);
// Behind the last `came`: makes the order.
void order_arrived(const RoutedTokens& tokens, StreamHandle stream);

// Rows of tokens and of the copies that are sent, and of those as they came and by expert.
struct RoutedRows {
  sim::DType dtype = sim::DType::fp32;
  std::int64_t width = 0;
};
void copy_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                 StreamHandle stream);
void sum_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                StreamHandle stream);
void sort_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                 StreamHandle stream);
void restore_routed(const RoutedTokens& tokens, const RoutedRows& rows, const void* from, void* to,
                    StreamHandle stream);

// As WeighedShape, of as many rows as have arrived.
struct RoutedActivation {
  sim::Function function = sim::Function::swiglu;
  sim::DType dtype = sim::DType::fp32;
  std::int64_t width = 0;
};
void weighed_routed(const RoutedTokens& tokens, const RoutedActivation& of, const void* input,
                    const float* weights, void* output, StreamHandle stream);
void weighed_routed_backward(const RoutedTokens& tokens, const RoutedActivation& of,
                             const WeighedBackward& operands, StreamHandle stream);

// As STEPCAST_KERNELS.
#define STEPCAST_ROUTED_KERNELS(DO) \
  DO(choose_by_scores)              \
  DO(choose_by_scores_backward)     \
  DO(order_arrived)                 \
  DO(copy_routed)                   \
  DO(sum_routed) DO(sort_routed) DO(restore_routed) DO(weighed_routed) DO(weighed_routed_backward)

struct RoutedTable {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(&kernels::name) name = nullptr;
  STEPCAST_ROUTED_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL
};

}  // namespace real::kernels
