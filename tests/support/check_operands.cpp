#include "tests/support/check_operands.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/program/action_table.hpp"
#include "sim/program/happens_before.hpp"

namespace sim {
namespace {

constexpr RoleSet roles(std::initializer_list<Role> list) {
  RoleSet sum = 0;
  for (const Role role : list)
    sum |= role_bit(role);
  return sum;
}

constexpr RoleSet only_read = roles({Role::input, Role::residual, Role::saved_output, Role::weight,
                                     Role::gradient, Role::residual_gradient, Role::keys});
constexpr RoleSet only_written =
    roles({Role::output, Role::input_gradient, Role::weight_gradient, Role::encoded_weight});

void check_subject(const Program& program, OpId op, ActionSubject subject) {
  const std::uint32_t index = program.subject[op.value];
  const std::size_t count = subject == ActionSubject::site     ? program.sites.size()
                            : subject == ActionSubject::bucket ? program.parameter_buckets.size()
                                                               : 0;
  const bool right =
      subject == ActionSubject::none ? index == Program::no_subject : std::size_t{index} < count;
  if (!right) refuse_plan(place_of(program, op) + " has no such subject");
}

void check_roles(const Program& program, OpId op) {
  const ActionRow& operands = action_row(program.action[op.value]);
  check_subject(program, op, operands.subject);
  std::array<BufferId, role_count> of_role{};
  RoleSet found = 0;
  for (const BufferUse& use : program.buffer_uses(op)) {
    // Gathered weights end with whatever operator was issued last.
    if (use.role == Role::weight && use.access == Access::free) continue;
    const RoleSet role = role_bit(use.role);
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
  if (has_weight && (found & role_bit(Role::weight)) == 0) {
    refuse_plan(place_of(program, op) + " lacks its weights");
  }
}

// Uses of a buffer in one of its lives.
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
