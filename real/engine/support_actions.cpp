// Which feature each action of a plan belongs to.
#include <array>

#include "real/engine/support.hpp"

namespace real {
namespace {

using enum Feature;

// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_ACTION(name, feature) \
  ActionSupport {                      \
    sim::Action::name, #name, feature  \
  }

constexpr std::array actions{
    STEPCAST_ACTION(forward, transformer),
    STEPCAST_ACTION(backward, transformer),
    STEPCAST_ACTION(input_gradient, transformer),
    STEPCAST_ACTION(weight_gradient, transformer),
    STEPCAST_ACTION(bias_gradient, transformer),
    STEPCAST_ACTION(encode, frozen_nf4),
    STEPCAST_ACTION(loss_maximum, transformer),
    STEPCAST_ACTION(loss_exponentials, transformer),
    STEPCAST_ACTION(gather_input, tensor_parallel),
    STEPCAST_ACTION(sum_output, tensor_parallel),
    STEPCAST_ACTION(sum_gradient, tensor_parallel),
    STEPCAST_ACTION(gather_gradient, tensor_parallel),
    STEPCAST_ACTION(reorder_tokens, framework_kernels),
    STEPCAST_ACTION(sum_products, framework_kernels),
    STEPCAST_ACTION(rescale_gradient, eight_bit_rest),
    STEPCAST_ACTION(adapt, adapters),
    STEPCAST_ACTION(exchange_adapted, adapters),
    STEPCAST_ACTION(reduce_maximum, tensor_parallel),
    STEPCAST_ACTION(reduce_sum, tensor_parallel),
    STEPCAST_ACTION(shift_keys, context_parallel),
    STEPCAST_ACTION(attend, context_parallel),
    STEPCAST_ACTION(merge_outputs, context_parallel),
    STEPCAST_ACTION(attend_backward, context_parallel),
    STEPCAST_ACTION(merge_gradients, context_parallel),
    STEPCAST_ACTION(shift_gradients, context_parallel),
    STEPCAST_ACTION(gather_keys, context_parallel),
    STEPCAST_ACTION(scatter_keys_gradient, context_parallel),
    STEPCAST_ACTION(order_for_exchange, context_parallel),
    STEPCAST_ACTION(exchange_heads, context_parallel),
    STEPCAST_ACTION(order_behind_exchange, context_parallel),
    STEPCAST_ACTION(exchange_part, tensor_products),
    STEPCAST_ACTION(multiply_part, tensor_products),
    STEPCAST_ACTION(gradient_part, tensor_products),
    STEPCAST_ACTION(scatter_part, tensor_products),
    STEPCAST_ACTION(place_slice, tensor_products),
    STEPCAST_ACTION(pull_slice, tensor_products),
    STEPCAST_ACTION(sum_slices, tensor_products),
    STEPCAST_ACTION(choose, experts),
    STEPCAST_ACTION(choose_backward, experts),
    STEPCAST_ACTION(move_tokens, experts),
    STEPCAST_ACTION(sort_tokens, experts),
    STEPCAST_ACTION(exchange_tokens, experts),
    STEPCAST_ACTION(gather_output, shared_key_heads),
    STEPCAST_ACTION(join_output, shared_key_heads),
    STEPCAST_ACTION(own_output, framework_forms),
    STEPCAST_ACTION(spread_gradient, shared_key_heads),
    STEPCAST_ACTION(scatter_output_gradient, shared_key_heads),
    STEPCAST_ACTION(add_product_gradient, transformer),
    STEPCAST_ACTION(add_weight_gradient, framework_kernels),
    STEPCAST_ACTION(send, Feature::pipeline),
    STEPCAST_ACTION(receive, Feature::pipeline),
    STEPCAST_ACTION(gather_received, Feature::pipeline),
    STEPCAST_ACTION(collect_maxima, eight_bit),
    STEPCAST_ACTION(share_maxima, eight_bit),
    STEPCAST_ACTION(update_scales, eight_bit),
    STEPCAST_ACTION(activations_to_host, Feature::offload),
    STEPCAST_ACTION(activations_from_host, Feature::offload),
    STEPCAST_ACTION(gather_weights, zero),
    STEPCAST_ACTION(copy_weights, framework_kernels),
    STEPCAST_ACTION(prepare_gradients, framework_kernels),
    STEPCAST_ACTION(cast_out, data_parallel),
    STEPCAST_ACTION(reduce, data_parallel),
    STEPCAST_ACTION(replicate, zero),
    STEPCAST_ACTION(accumulate, data_parallel),
    STEPCAST_ACTION(cast_in, data_parallel),
    STEPCAST_ACTION(compress, compression),
    STEPCAST_ACTION(exchange_compressed, compression),
    STEPCAST_ACTION(recompress, compression),
    STEPCAST_ACTION(decompress, compression),
    STEPCAST_ACTION(quantize_weights, compression),
    STEPCAST_ACTION(dequantize_weights, compression),
    STEPCAST_ACTION(keep_secondary_shard, compression),
    STEPCAST_ACTION(parameters_from_host, Feature::offload),
    STEPCAST_ACTION(gradients_from_host, Feature::offload),
    STEPCAST_ACTION(gradients_to_host, Feature::offload),
    STEPCAST_ACTION(update_on_host, Feature::offload),
    STEPCAST_ACTION(weights_from_host, Feature::offload),
    STEPCAST_ACTION(outer_gradient, Feature::local_steps),
    STEPCAST_ACTION(average_outer, Feature::local_steps),
    STEPCAST_ACTION(exchange_outer, Feature::local_steps),
    STEPCAST_ACTION(mean_outer, Feature::local_steps),
    STEPCAST_ACTION(apply_outer, Feature::local_steps),
    STEPCAST_ACTION(last_from_host, Feature::local_steps),
    STEPCAST_ACTION(outer_from_host, Feature::local_steps),
    STEPCAST_ACTION(outer_to_host, Feature::local_steps),
    STEPCAST_ACTION(exchange_with_servers, Feature::servers),
    STEPCAST_ACTION(zero_gradients, data_parallel),
    STEPCAST_ACTION(sum_tensor_gradients, tensor_parallel),
    STEPCAST_ACTION(sum_tied_gradient, Feature::pipeline),
    STEPCAST_ACTION(gradient_norm, optimizer),
    STEPCAST_ACTION(sum_gradient_norm, optimizer),
    STEPCAST_ACTION(adam, optimizer),
    STEPCAST_ACTION(orthogonalize, muon),
};
#undef STEPCAST_ACTION

constexpr bool actions_in_order() {
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].action != static_cast<sim::Action>(i)) return false;
  return actions.back().action == sim::Action::orthogonalize;
}
static_assert(actions_in_order(), "a feature for each action, in their order");

}  // namespace

std::span<const ActionSupport> action_support() {
  return actions;
}

}  // namespace real
