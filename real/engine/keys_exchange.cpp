#include "real/engine/keys_exchange.hpp"

#include "real/engine/op_shapes.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::Role;

bool exchanges_keys(Action action) {
  return action == Action::shift_keys || action == Action::shift_gradients ||
         action == Action::gather_keys || action == Action::scatter_keys_gradient;
}

KeysExchange keys_exchange(const BoundProgram& program, const BoundOp& op) {
  SIM_CHECK(exchanges_keys(op.action), static_cast<int>(op.action));
  const kernels::HeadsShape heads = OpShapes{program}.heads(0);
  const sim::Layout& layout = program.plan->layout;
  const std::int64_t element = sim::bytes_of(heads.dtype), queries = heads.heads * heads.head_dim;
  const std::int64_t tokens = layout.micro_batch * layout.tokens_held();
  const std::int64_t rows = tokens * heads.row() * element;
  KeysExchange made{.columns = {.dtype = heads.dtype,
                                .sequences = tokens / heads.sequence,
                                .held = heads.sequence,
                                .row = heads.row(),
                                .first = queries,
                                .width = heads.row() - queries},
                    .backward = op.pass == sim::Pass::backward,
                    .from = {},
                    .to = {}};
  const std::int64_t slice = made.columns.message() * element;
  const auto add = [&](std::vector<KeysPiece>& to, Role role) {
    const Operand& place = op.operand(role);
    if (!place.exists()) return;
    const bool gathered =
        op.action == Action::gather_keys ? role == Role::output : role == Role::keys_gradient;
    const bool in_rows = !gathered && place.bytes >= rows;
    SIM_CHECK(in_rows || place.bytes % slice == 0, place.bytes, slice);
    to.push_back({place, in_rows});
  };
  add(made.from, Role::input);
  if (op.action != Action::gather_keys && op.action != Action::shift_keys)
    add(made.from, Role::keys_gradient);
  add(made.to, Role::output);
  if (op.action == Action::shift_gradients) add(made.to, Role::input_gradient);
  return made;
}

std::int64_t packed_bytes(const BoundProgram& program, const BoundOp& op) {
  if (!exchanges_keys(op.action)) return 0;
  const kernels::HeadExchange columns = keys_exchange(program, op).columns;
  return columns.message() * sim::bytes_of(columns.dtype);
}

}  // namespace real
