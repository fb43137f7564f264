#include "tests/support/check_operands.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/program/happens_before.hpp"

namespace sim {
namespace {

using Roles = std::uint32_t;  // a bit for each
constexpr Roles bit(Role role) {
  return Roles{1} << static_cast<unsigned>(role);
}
constexpr Roles roles(std::initializer_list<Role> list) {
  Roles sum = 0;
  for (const Role role : list)
    sum |= bit(role);
  return sum;
}

enum class Subject : std::uint8_t { none, site, bucket };

struct Operands {
  Roles needed = 0;
  Roles possible = 0;  // besides
  Subject subject = Subject::none;
};

// As the comments of Action have it. A table with a row for each of them.
// NOLINTNEXTLINE(readability-function-size)
Operands operands_of_site(Action action) {
  using enum Role;
  switch (action) {
    case Action::forward:
      return {0, roles({input, residual, output, saved, weight, target_logit, exponential_sum, keys,
                        choice_weights})};
    case Action::backward:
      return {0, roles({input, saved, saved_output, gradient, residual_gradient, input_gradient,
                        weight_gradient, weight, target_logit, exponential_sum, keys, keys_gradient,
                        choice_weights, choice_gradient, workspace})};
    case Action::input_gradient:
      return {roles({gradient, input_gradient}), roles({weight, input})};
    case Action::rescale_gradient:
      return {0, roles({input_gradient, weight_gradient})};
    case Action::weight_gradient:
      return {roles({gradient, weight_gradient}), roles({input, saved, workspace})};
    case Action::adapt:
      return {0, roles({input, saved, gradient, weight, output, input_gradient, weight_gradient,
                        workspace})};
    case Action::bias_gradient:
      return {roles({gradient, weight_gradient})};
    case Action::encode:
      return {0, roles({input, saved, gradient, weight, encoded_weight, output})};
    case Action::gather_input:
      return {roles({output}), roles({input, saved})};
    case Action::loss_maximum:
      return {roles({input, maximum})};
    case Action::loss_exponentials:
      return {roles({maximum, target_logit, exponential_sum}), roles({input, saved, output})};
    case Action::sum_output:
    case Action::sum_gradient:
      return {roles({output}), roles({input})};
    case Action::reorder_tokens:
    case Action::sum_products:
    case Action::exchange_adapted:
    case Action::reduce_maximum:
    case Action::reduce_sum:
      return {roles({output})};
    case Action::attend:
      return {roles({input, keys, output})};
    case Action::merge_outputs:
      return {roles({input, output, saved})};
    case Action::attend_backward:
      return {roles({input, keys, saved_output, saved, gradient, output})};
    case Action::merge_gradients:
      return {roles({input, input_gradient, keys_gradient})};
    case Action::shift_gradients:
      return {roles({keys_gradient, input_gradient}), roles({input, output})};
    case Action::scatter_keys_gradient:
      return {roles({keys_gradient, output})};
    case Action::multiply_part:
      return {roles({input, output}), roles({weight, saved})};
    case Action::gradient_part:
      return {roles({gradient, input_gradient}), roles({weight})};
    case Action::place_slice:
      return {roles({output, workspace}), roles({input, gradient})};
    case Action::choose:
      return {roles({input, saved, choice_weights})};
    case Action::choose_backward:
      return {roles({saved, choice_gradient, input_gradient})};
    case Action::move_tokens:
      return {roles({input, output}), roles({saved, residual, choice_weights, choice_gradient})};
    case Action::exchange_tokens:
      return {roles({input, output}), roles({residual, saved, choice_weights, choice_gradient})};
    case Action::add_product_gradient:
      return {roles({input, input_gradient})};
    case Action::add_weight_gradient:
      return {roles({input, weight_gradient})};
    // gather_gradient, pull_slice, sum_slices, shift_keys, gather_keys, exchange_heads,
    // sort_tokens, ..._logits
    default:
      return {roles({input, output})};
  }
}

// NOLINTNEXTLINE(readability-function-size)
Operands operands_of(Action action) {
  using enum Role;
  if (action <= Action::add_weight_gradient) {
    Operands operands = operands_of_site(action);
    operands.subject = Subject::site;
    return operands;
  }
  switch (action) {
    case Action::send:
      return {roles({input})};
    case Action::receive:
      return {roles({output})};
    case Action::gather_received:
      return {roles({input, output})};
    case Action::collect_maxima:
    case Action::share_maxima:
      return {roles({output})};
    case Action::update_scales:
      return {roles({input})};
    case Action::gather_weights:
    case Action::reduce:
      return {roles({output}), roles({input}), Subject::bucket};
    case Action::cast_out:
    case Action::accumulate:
    case Action::cast_in:
      return {roles({input, output}), 0, Subject::bucket};
    case Action::compress:
      return {roles({gradient, output}), roles({state}), Subject::bucket};
    case Action::exchange_compressed:
      return {roles({output}), roles({input}), Subject::bucket};
    case Action::recompress:
      return {roles({output}), roles({input, gradient, saved, state}), Subject::bucket};
    case Action::decompress:
      return {roles({input, output}), roles({saved, state}), Subject::bucket};
    case Action::exchange_with_servers:
      return {roles({output}), roles({input}), Subject::bucket};
    case Action::outer_gradient:
      return {roles({input, output}), roles({state}), Subject::bucket};
    case Action::average_outer:
      return {roles({output}), 0, Subject::bucket};
    case Action::exchange_outer:
    case Action::mean_outer:
    case Action::last_from_host:
    case Action::outer_from_host:
    case Action::outer_to_host:
      return {roles({input, output}), 0, Subject::bucket};
    case Action::apply_outer:
      return {roles({input, output}), roles({state, saved}), Subject::bucket};
    case Action::update_on_host:
      return {roles({input, output, state}), 0, Subject::bucket};
    case Action::activations_to_host:
    case Action::activations_from_host:
      return {roles({input, output})};
    case Action::parameters_from_host:
    case Action::gradients_from_host:
    case Action::gradients_to_host:
    case Action::weights_from_host:
    case Action::quantize_weights:
    case Action::dequantize_weights:
    case Action::keep_secondary_shard:
      return {roles({input, output}), 0, Subject::bucket};
    case Action::copy_weights:
      return {roles({output}), roles({input}), Subject::bucket};
    case Action::prepare_gradients:
    case Action::replicate:
    case Action::sum_tied_gradient:
      return {roles({output}), 0, Subject::bucket};
    case Action::sum_tensor_gradients:
      return {roles({output, state})};
    case Action::sum_gradient_norm:
      return {};
    case Action::adam:
      return {roles({state}), roles({workspace})};
    case Action::orthogonalize:
      return {0, roles({state, workspace})};
    default:  // zero_gradients, gradient_norm
      return {roles({state})};
  }
}

constexpr Roles only_read = roles({Role::input, Role::residual, Role::saved_output, Role::weight,
                                   Role::gradient, Role::residual_gradient, Role::keys});
constexpr Roles only_written =
    roles({Role::output, Role::input_gradient, Role::weight_gradient, Role::encoded_weight});

void check_subject(const Program& program, OpId op, Subject subject) {
  const std::uint32_t index = program.subject[op.value];
  const std::size_t count = subject == Subject::site     ? program.sites.size()
                            : subject == Subject::bucket ? program.parameter_buckets.size()
                                                         : 0;
  const bool right =
      subject == Subject::none ? index == Program::no_subject : std::size_t{index} < count;
  if (!right) refuse_plan(place_of(program, op) + " has no such subject");
}

void check_roles(const Program& program, OpId op) {
  const Operands operands = operands_of(program.action[op.value]);
  check_subject(program, op, operands.subject);
  std::array<BufferId, role_count> of_role{};
  Roles found = 0;
  for (const BufferUse& use : program.buffer_uses(op)) {
    // Gathered weights end with whatever operator was issued last.
    if (use.role == Role::weight && use.access == Access::free) continue;
    const Roles role = bit(use.role);
    BufferId& buffer = of_role[static_cast<std::size_t>(use.role)];
    const bool twice = (found & role) != 0 && buffer != use.buffer && use.role != Role::state;
    if (twice) refuse_plan(place_of(program, op) + " has two buffers in one role");
    const bool writes = use.access == Access::write;
    const bool wrong =
        writes ? (only_read & role) != 0 : (only_written & role) != 0 && (found & role) == 0;
    if (wrong) refuse_plan(place_of(program, op) + " uses an operand the wrong way");
    found |= role;
    buffer = use.buffer;
  }
  // A linear that sees one token of each sequence keeps those alone.
  const bool no_input = program.action[op.value] == Action::weight_gradient &&
                        (found & roles({Role::input, Role::saved})) == 0;
  if ((found & operands.needed) != operands.needed || no_input) {
    refuse_plan(place_of(program, op) + " lacks an operand");
  }
  if ((found & ~(operands.needed | operands.possible)) != 0) {
    refuse_plan(place_of(program, op) + " has an operand that its action does not know");
  }
  const Action action = program.action[op.value];
  const bool has_weight = (action == Action::forward || action == Action::multiply_part) &&
                          program.sites[program.subject[op.value]].elements > 0;
  if (has_weight && (found & bit(Role::weight)) == 0) {
    refuse_plan(place_of(program, op) + " lacks its weights");
  }
}

// Of a life of a buffer.
struct Uses {
  std::uint32_t writer = UINT32_MAX;  // the last one
  HappensBefore::Clock readers{};     // since then
  bool alive = false;
};

class RaceCheck {
 public:
  explicit RaceCheck(const Program& program)
      : program_{program}, order_{program}, uses_(program.buffers.size()) {
    for (std::size_t i = 0; i < uses_.size(); ++i)
      uses_[i].alive = program.buffers[i].persistent;
  }

  void run() {
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      const OpId op{i};
      for (const BufferUse& use : program_.buffer_uses(op)) {
        if (use.access == Access::write) write(use, op);
      }
      for (const BufferUse& use : program_.buffer_uses(op)) {
        if (use.access != Access::write) read(use, op);
      }
      for (const BufferUse& use : program_.buffer_uses(op)) {
        if (use.access == Access::free) end(use.buffer);
      }
    }
  }

 private:
  using Parts = std::map<std::pair<std::uint32_t, std::int16_t>, Uses>;

  void write(const BufferUse& use, OpId op) {
    Uses& whole = uses_[use.buffer.value];
    after_all(whole, use.buffer, op);
    if (use.part != BufferUse::whole) {
      Uses& part = parts_[{use.buffer.value, use.part}];
      after_all(part, use.buffer, op);
      whole.alive = true;
      return begin(part, op);
    }
    for_parts(use.buffer, [&](const Uses& part) { after_all(part, use.buffer, op); });
    end(use.buffer);
    begin(uses_[use.buffer.value], op);
  }

  void read(const BufferUse& use, OpId op) {
    Uses& whole = uses_[use.buffer.value];
    after_writer(whole, use.buffer, op);
    Uses* read = &whole;
    if (use.part != BufferUse::whole) {
      read = &parts_[{use.buffer.value, use.part}];
      read->alive = true;
      after_writer(*read, use.buffer, op);
    } else {
      for_parts(use.buffer, [&](const Uses& part) { after_writer(part, use.buffer, op); });
    }
    read->readers[order_.stream_of(op)] = op.value + 1;
  }

  static void begin(Uses& uses, OpId op) {
    uses.alive = true;
    uses.writer = op.value;
    uses.readers = {};
  }

  void end(BufferId buffer) {
    uses_[buffer.value] = {};
    const auto [first, last] = range(buffer);
    parts_.erase(first, last);
  }

  std::pair<Parts::iterator, Parts::iterator> range(BufferId buffer) {
    return {parts_.lower_bound({buffer.value, 0}), parts_.lower_bound({buffer.value + 1, 0})};
  }

  template <class Visit>
  void for_parts(BufferId buffer, Visit visit) {
    const auto [first, last] = range(buffer);
    for (auto at = first; at != last; ++at)
      visit(at->second);
  }

  void after_all(const Uses& uses, BufferId buffer, OpId op) const {
    after_writer(uses, buffer, op);
    if (uses.alive && !order_.ordered(uses.readers, op)) {
      refuse_plan(place_of(program_, op) + " writes buffer " + std::to_string(buffer.value) +
                  " while another operator reads it");
    }
  }

  void after_writer(const Uses& uses, BufferId buffer, OpId op) const {
    if (uses.writer == UINT32_MAX || uses.writer == op.value) return;
    if (order_.ordered(OpId{uses.writer}, op)) return;
    refuse_plan(place_of(program_, op) + " uses buffer " + std::to_string(buffer.value) +
                " without waiting for " + place_of(program_, OpId{uses.writer}));
  }

  const Program& program_;
  HappensBefore order_;
  std::vector<Uses> uses_;
  Parts parts_;  // of the buffers that are used so
};

}  // namespace

void refuse_plan(const std::string& what) {
  throw std::logic_error("plan check: " + what);
}

std::string place_of(const Program& program, OpId op) {
  return "stage " + std::to_string(program.stage) + ", operator " + std::to_string(op.value) +
         " (" + program.name(op) + ")";
}

void check_operands(const Program& program) {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    check_roles(program, OpId{i});
}

void check_parameters(const Program& program) {
  struct Range {
    std::uint32_t bucket;
    std::int64_t first, elements;
  };
  std::vector<Range> ranges;
  for (const Site& site : program.sites) {
    if (site.elements == 0) continue;
    if (site.bucket >= program.parameter_buckets.size()) refuse_plan("a site has no such bucket");
    if (site.summed_first < site.first ||
        site.summed_first + site.summed > site.first + site.elements) {
      refuse_plan("a site sums what is not its own");
    }
    ranges.push_back({site.bucket, site.first, site.elements});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair{a.bucket, a.first} < std::pair{b.bucket, b.first};
  });
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    const ParameterBucket& bucket = program.parameter_buckets[range.bucket];
    if (range.first + range.elements > bucket.elements) refuse_plan("a site leaves its bucket");
    if (i == 0 || ranges[i - 1].bucket != range.bucket) continue;
    const Range& before = ranges[i - 1];
    const bool same = before.first == range.first && before.elements == range.elements;  // tied
    if (!same && before.first + before.elements > range.first) refuse_plan("two sites overlap");
  }
  for (const ParameterBucket& bucket : program.parameter_buckets) {
    const std::int64_t padding = bucket.padded - bucket.elements;
    if (padding < 0 || padding >= bucket.shards || bucket.padded % bucket.shards != 0) {
      refuse_plan("a bucket does not divide among its ranks");
    }
  }
}

void check_races(const Program& program) {
  RaceCheck{program}.run();
}

}  // namespace sim
