// Programs of a small Llama as a framework runs it, and what to ask of them.
#pragma once

#include <string>

#include "sim/framework/framework.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

namespace sim::test {

// A small Llama: 8 layers, hidden 32, vocabulary 300 padded to 512 over two tensor ranks.
inline Model llama_of(const Framework& framework) {
  Model model = transformer(1);
  run_with(framework, model);
  return model;
}

inline Framework with(bool Execution::*key) {
  Framework framework;
  framework.execution.*key = true;
  return framework;
}

inline Program program_of(const Framework& framework, const Layout& layout, std::size_t stage = 0) {
  const Plan plan = make_plan(llama_of(framework), layout);
  check_plan(plan);
  return plan.programs[stage];
}

inline int count(const Program& program, Action action, int microbatch = -1) {
  int found = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] != action) continue;
    if (microbatch < 0 || program.label[i].microbatch == microbatch) ++found;
  }
  return found;
}

inline const Kernel& first_kernel(const Program& program, const std::string& name) {
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.name({i}) == name) return program.kernels[program.work[i]];
  }
  FAIL("no operator " << name);
  return program.kernels.front();
}

}  // namespace sim::test
