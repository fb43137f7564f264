// Products in 8 bits that no backend executes.
#pragma once

#include <string>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace real {

std::vector<std::string> eight_bit_problems(const sim::Layout& layout, const sim::Model& model);

// CodedSizes are those of a linear on a rank.
struct CodedSizes {
  std::string name;
  std::int64_t tokens = 0, in = 0, out = 0;
  bool are_multiples_of(std::int64_t unit) const {
    return tokens % unit == 0 && in % unit == 0 && out % unit == 0;
  }
};
// coded_sizes() has each kind of linear that multiplies in 8 bits.
std::vector<CodedSizes> coded_sizes(const sim::Layout& layout, const sim::Model& model);

}  // namespace real
