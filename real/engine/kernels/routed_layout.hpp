// The engine's form of a layout when routers choose by their scores.
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace real {

// With room for the tokens of all ranks on each: the number that comes is known when it comes. The
// operators are those of `layout`, in their order. Without experts, or with a capacity to which
// they are padded, nothing changes but that a distribution of tokens is forgotten.
sim::Layout with_room_for_all(sim::Layout layout, const sim::Model& model);

}  // namespace real
