// CodedCasts finds the codes that products in 8 bits read, and casts what has none yet
// (real/engine/eight_bit.hpp). Operators are to be asked for in their order: what lies in a slot is
// known from what was asked before.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "real/engine/eight_bit.hpp"
#include "real/engine/op_shapes.hpp"

namespace real {

class CodedCasts {
 public:
  using Launch = kernels::Launch;
  // All outlive it.
  CodedCasts(const BoundProgram& program, std::byte* arena, const CodedMemory& memory,
             const kernels::Table& kernels)
      : program_{program},
        arena_{arena},
        memory_{memory},
        kernels_{kernels},
        shapes_{program},
        sites_{coded_sites(program)} {}

  // An operator `encode`.
  Launch encode(const BoundOp& op);
  // Codes of an operand, and what makes them first; no launch: they are there.
  struct Codes {
    const std::uint8_t* codes = nullptr;
    const void* scales = nullptr;
    Launch cast{};
  };
  struct Pair {
    Codes first, second;
  };
  // REQUIRES: is_coded(op).
  Pair operands_of(const BoundOp& op);
  // Whether a product keeps its input as codes.
  bool keeps_codes(const BoundOp& op) const;

 private:
  struct Places {
    std::uint8_t* rows = nullptr;
    std::uint8_t* turned = nullptr;
  };
  // What a slot was filled for.
  struct Use {
    std::uint32_t site = 0;
    std::int32_t microbatch = -1;
    sim::Pass pass = sim::Pass::forward;
    bool operator==(const Use&) const = default;
  };
  enum class Scale : std::uint8_t { anew, as_before };

  const BoundOp& product_behind(const BoundOp& op) const;
  kernels::CodedShape shape_of(const BoundOp& product, CodedTensor tensor) const;
  kernels::TensorScale* kept_scale(const BoundOp& op, CodedTensor tensor) const;
  Launch cast(const BoundOp& product, CodedTensor tensor, const std::byte* values, Places to,
              Scale how) const;
  Launch turn(const BoundOp& product, CodedTensor tensor, const std::uint8_t* codes,
              std::uint8_t* to) const;
  Codes codes_at(const BoundOp& product, CodedTensor tensor, const std::uint8_t* codes,
                 Launch cast = {}) const;
  // `make` fills the slot unless it is filled for this product.
  template <class Make>
  Codes from_slot(const BoundOp& product, CodedTensor tensor, bool turned, Make make);
  bool fill(const BoundOp& product, CodedTensor tensor, bool turned);

  Launch encode_input(const BoundOp& op);
  Launch encode_weight(const BoundOp& op);
  Launch encode_gradient(const BoundOp& op);
  Launch encode_saved(const BoundOp& op);
  Places input_places(const BoundOp& product) const;
  Codes input(const BoundOp& product);
  Codes kept_input(const BoundOp& product);
  Codes weight(const BoundOp& product, bool turned);
  Codes gradient(const BoundOp& product, bool turned);
  Launch turned_input(const BoundOp& product, std::uint8_t* to) const;

  std::uint8_t* slot(CodedTensor tensor, bool turned) const {
    return memory_.slots[static_cast<std::size_t>(slot_of(tensor, turned))];
  }
  std::byte* at(const BoundOp& op, sim::Role role) const {
    const Operand& operand = op.operand(role);
    return operand.exists() ? arena_ + operand.offset : nullptr;
  }
  std::uint8_t* codes_in(const BoundOp& op, sim::Role role) const {
    return reinterpret_cast<std::uint8_t*>(at(op, role));
  }

  const BoundProgram& program_;
  std::byte* arena_;
  const CodedMemory& memory_;
  const kernels::Table& kernels_;
  OpShapes shapes_;
  CodedSites sites_;
  std::array<std::optional<Use>, coded_slots> held_;
};

// One launch of several; empty ones are left out.
kernels::Launch all_in_turn(std::vector<kernels::Launch> launches);

}  // namespace real
