// Which operators of a program stand for all of its kernels, and what was measured of them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "sim/calibration/measurements.hpp"

namespace real {

// Operators that do the same to operands of the same sizes: one row of the program's kernels, done
// by one action of one function. (Two functions may cost the same in the plan and not here.)
struct KernelVariant {
  sim::Kernel kernel;
  std::vector<std::uint32_t> ops;  // all of them, in issue order
};
std::vector<KernelVariant> kernel_variants(const BoundProgram& program);

// The operators to run for one sample of `op`: the kernels before it in the program, which leave
// its operands where they lie in a step, and the operator itself, at the end.
std::vector<std::uint32_t> with_lead_in(const BoundProgram& program, std::uint32_t op);

// Where the arena holds what is never negative: Adam's second moments (their square root is taken)
// and the sums of exponentials of the loss (their logarithm). Everything else may have any sign.
std::vector<Operand> positive_operands(const BoundProgram& program);

// Seconds of each variant, over all passes.
struct KernelTimes {
  std::vector<std::vector<double>> of_variant;
  // Half the width of the interval that holds the median with 95%, relative to it, of the variant
  // where it is widest among those that make up 95% of the program's time. Infinite below 5
  // samples.
  double spread(std::span<const KernelVariant> variants) const;
  // The variants whose interval moves the time of the program by more than `share` of it.
  std::vector<std::size_t> unsure(std::span<const KernelVariant> variants, double share) const;
};

double median(std::vector<double> values);

// Adds up what programs and ranks have measured: a kernel's time is the mean of its variants',
// weighted by how many operators each stands for.
class KernelTable {
 public:
  bool has(const sim::Kernel& kernel) const;
  void add(const sim::Kernel& kernel, double seconds, double operators, int samples);
  std::vector<sim::MeasuredKernel> rows(const std::string& source) const;

 private:
  struct Row {
    sim::Kernel kernel;
    double seconds = 0, operators = 0;
    int samples = 0;
  };
  std::vector<Row> rows_;  // in the order of the first addition
};

}  // namespace real
