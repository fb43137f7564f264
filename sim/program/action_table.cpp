#include "sim/program/action_table.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace sim {
namespace {

using enum Role;
using enum ActionSubject;
using enum Written;

constexpr ActionRow row(Action action, ActionSubject subject, std::initializer_list<Role> needed,
                        std::initializer_list<Role> possible, Written written = all,
                        Combination combination = Combination::sum) {
  ActionRow made{
      .action = action, .subject = subject, .written = written, .combination = combination};
  for (const Role role : needed)
    made.needed |= role_bit(role);
  for (const Role role : possible)
    made.possible |= role_bit(role);
  return made;
}

constexpr std::array rows{
    row(Action::forward, site, {},
        {input, residual, output, saved, weight, target_logit, exponential_sum, keys,
         choice_weights}),
    row(Action::backward, site, {},
        {input, saved, saved_output, weight, gradient, residual_gradient, input_gradient,
         weight_gradient, target_logit, exponential_sum, maximum, keys, keys_gradient,
         choice_weights, choice_gradient, workspace}),
    row(Action::input_gradient, site, {gradient, input_gradient}, {input, weight}),
    row(Action::weight_gradient, site, {gradient, weight_gradient}, {input, saved, workspace}),
    row(Action::bias_gradient, site, {gradient, weight_gradient}, {}),
    row(Action::encode, site, {}, {input, output, saved, weight, encoded_weight, gradient}),
    row(Action::loss_maximum, site, {input, maximum}, {}),
    row(Action::loss_exponentials, site, {maximum, target_logit, exponential_sum},
        {input, output, saved}),
    row(Action::gather_input, site, {output}, {input, saved}),
    row(Action::sum_output, site, {output}, {input}),
    row(Action::sum_gradient, site, {output}, {input}),
    row(Action::gather_gradient, site, {input, output}, {}),
    row(Action::reorder_tokens, site, {output}, {}),
    row(Action::sum_products, site, {output}, {}),
    row(Action::rescale_gradient, site, {}, {input_gradient, weight_gradient}),
    row(Action::adapt, site, {},
        {input, output, saved, weight, gradient, input_gradient, weight_gradient, workspace}),
    row(Action::exchange_adapted, site, {output}, {}),
    row(Action::reduce_maximum, site, {output}, {}, all, Combination::maximum),
    row(Action::reduce_sum, site, {output}, {}),
    row(Action::shift_keys, site, {input, output}, {}),
    row(Action::attend, site, {input, output, keys}, {}),
    row(Action::merge_outputs, site, {input, output, saved}, {}),
    row(Action::attend_backward, site, {input, output, saved, saved_output, gradient, keys}, {}),
    row(Action::merge_gradients, site, {input, input_gradient, keys_gradient}, {}),
    row(Action::shift_gradients, site, {input_gradient, keys_gradient}, {input, output}),
    row(Action::gather_keys, site, {input, output}, {}),
    row(Action::scatter_keys_gradient, site, {output, keys_gradient}, {}),
    row(Action::order_for_exchange, site, {input, output}, {}),
    row(Action::exchange_heads, site, {input, output}, {}),
    row(Action::order_behind_exchange, site, {input, output}, {}),
    row(Action::exchange_part, site, {input, output}, {}),
    row(Action::multiply_part, site, {input, output}, {saved, weight}),
    row(Action::gradient_part, site, {gradient, input_gradient}, {weight}),
    row(Action::scatter_part, site, {input, output}, {}),
    row(Action::place_slice, site, {output, workspace}, {input, gradient}),
    row(Action::pull_slice, site, {input, output}, {}),
    row(Action::sum_slices, site, {input, output}, {}),
    row(Action::choose, site, {input, saved, choice_weights}, {}),
    row(Action::choose_backward, site, {saved, input_gradient, choice_gradient}, {}),
    row(Action::move_tokens, site, {input, output},
        {residual, saved, choice_weights, choice_gradient}),
    row(Action::sort_tokens, site, {input, output}, {}),
    row(Action::exchange_tokens, site, {input, output},
        {residual, saved, choice_weights, choice_gradient}),
    row(Action::gather_output, site, {input, output}, {}),
    row(Action::join_output, site, {input, output}, {}),
    row(Action::own_output, site, {input, output}, {}),
    row(Action::spread_gradient, site, {input, output}, {}),
    row(Action::scatter_output_gradient, site, {input, output}, {}),
    row(Action::add_product_gradient, site, {input, input_gradient}, {}),
    row(Action::add_weight_gradient, site, {input, weight_gradient}, {workspace}),
    row(Action::send, none, {input}, {}),
    row(Action::receive, none, {output}, {}),
    row(Action::gather_received, none, {input, output}, {}),
    row(Action::collect_maxima, none, {output}, {}),
    row(Action::share_maxima, none, {output}, {}, all, Combination::maximum),
    row(Action::update_scales, none, {input}, {}),
    row(Action::activations_to_host, none, {input, output}, {}, message),
    row(Action::activations_from_host, none, {input, output}, {}, message),
    row(Action::gather_weights, bucket, {output}, {input}, of_bucket),
    row(Action::copy_weights, bucket, {output}, {input}),
    row(Action::prepare_gradients, bucket, {output}, {}),
    row(Action::cast_out, bucket, {input, output}, {}, of_bucket),
    row(Action::reduce, bucket, {output}, {input}, of_bucket, Combination::average),
    row(Action::replicate, bucket, {output}, {}, of_bucket, Combination::average),
    row(Action::accumulate, bucket, {input, output}, {}, of_bucket),
    row(Action::cast_in, bucket, {input, output}, {}, of_bucket),
    row(Action::compress, bucket, {output, gradient}, {state}, message),
    row(Action::exchange_compressed, bucket, {output}, {input}, message, Combination::average),
    row(Action::recompress, bucket, {output}, {input, saved, gradient, state}, message),
    row(Action::decompress, bucket, {input, output}, {saved, state}, of_bucket),
    row(Action::quantize_weights, bucket, {input, output}, {}, message),
    row(Action::dequantize_weights, bucket, {input, output}, {}, of_bucket),
    row(Action::keep_secondary_shard, bucket, {input, output}, {}),
    row(Action::parameters_from_host, bucket, {input, output}, {}, of_bucket),
    row(Action::gradients_from_host, bucket, {input, output}, {}, of_bucket),
    row(Action::gradients_to_host, bucket, {input, output}, {}, message),
    row(Action::update_on_host, bucket, {input, output, state}, {}, message),
    row(Action::weights_from_host, bucket, {input, output}, {}, of_bucket),
    row(Action::outer_gradient, bucket, {input, output}, {state}, message),
    row(Action::average_outer, bucket, {output}, {}, message, Combination::average),
    row(Action::exchange_outer, bucket, {input, output}, {}, message),
    row(Action::mean_outer, bucket, {input, output}, {}, message),
    row(Action::apply_outer, bucket, {input, output}, {saved, state}, message),
    row(Action::last_from_host, bucket, {input, output}, {}, message),
    row(Action::outer_from_host, bucket, {input, output}, {}, message),
    row(Action::outer_to_host, bucket, {input, output}, {}, message),
    row(Action::exchange_with_servers, bucket, {output}, {input}, of_bucket),
    row(Action::zero_gradients, none, {state}, {}),
    row(Action::sum_tensor_gradients, none, {output, state}, {}),
    row(Action::sum_tied_gradient, bucket, {output}, {}, of_bucket),
    row(Action::gradient_norm, none, {state}, {}),
    row(Action::sum_gradient_norm, none, {}, {}),
    row(Action::adam, none, {state}, {workspace}),
    row(Action::orthogonalize, none, {}, {state, workspace}),
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].action != static_cast<Action>(i)) return false;
  return rows.back().action == Action::orthogonalize;
}
static_assert(in_order(), "a row for each action, in their order");

}  // namespace

const ActionRow& action_row(Action action) {
  return rows[static_cast<std::size_t>(action)];
}

}  // namespace sim
