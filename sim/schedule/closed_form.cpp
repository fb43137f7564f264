#include "sim/schedule/closed_form.hpp"

namespace sim {

// Every run of the schedule idles by itself; `m` counts its micro-batches.
ClosedForm bubble_closed_form(const Layout& layout) {
  const double stages = layout.pipeline_parallel;
  const auto batches = static_cast<double>(layout.run_batches());
  const double idle = stages - 1;
  if (layout.pipeline_parallel == 1) return {0, "no pipeline"};
  switch (layout.schedule) {
    case Schedule::gpipe:
    case Schedule::one_f_one_b:
      // Huang et al. 2018; Narayanan et al. 2019: (P-1)/m of the ideal time.
      return {idle / (batches + idle), "(P-1)/(m+P-1)"};
    case Schedule::interleaved: {
      // Narayanan et al. 2021, section 2.2: (P-1)/(v m) of the ideal time.
      const double pieces = batches * layout.virtual_stages;
      return {idle / (pieces + idle), "(P-1)/(v m+P-1)"};
    }
    case Schedule::zb_h1:
      // Qi et al. 2023, table 2: (P-1)(F+B-W) idle, with F = B = W one third of a micro-batch.
      return {idle / (3 * batches + idle), "(P-1)/(3m+P-1)"};
    case Schedule::interleaved_zb: {
      // PyTorch's order: that of zb-h1, in v chunks.
      const double pieces = 3 * batches * layout.virtual_stages;
      return {idle / (pieces + idle), "(P-1)/(3v m+P-1)"};
    }
    case Schedule::zb_v:
      // Qi et al. 2024, table 2: no rank idles between its own passes. The last rank begins P-1
      // forward passes of a half of a stage later than the first, and the optimizer waits for all;
      // runs follow each other without a wait.
      return {idle / (6 * batches * layout.pipeline_runs + idle), "(P-1)/(6m+P-1)"};
    case Schedule::dual_pipe_v:
      // The pairs of passes run one after the other: the same, but runs wait for each other.
      return {idle / (6 * batches + idle), "(P-1)/(6m+P-1)"};
    case Schedule::v_half:
      // The same, of b = (P-1)(F+B+W): b/2.
      return {idle / (2 * batches + idle), "(P-1)/(2m+P-1)"};
    case Schedule::v_min:
      // 2b/3.
      return {2 * idle / (3 * batches + 2 * idle), "2(P-1)/(3m+2(P-1))"};
  }
  return {};
}

}  // namespace sim
