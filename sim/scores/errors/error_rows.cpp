#include "sim/scores/errors/error_rows.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sim {

std::vector<ErrorRow> error_rows(std::span<const SetResult> results) {
  std::vector<ErrorRow> found;
  for (const SetResult& result : results)
    for (const RowResult& row : result.rows)
      if (result.set.in_intervals && row.prediction && row.prediction->traits && row.row.has_time())
        found.push_back({.set = result.set.name,
                         .row = row.row.id,
                         .use = row.row.use,
                         .traits = *row.prediction->traits,
                         .memory_use = 1 / (1 + row.prediction->room()),
                         .log_error = -std::log1p(row.error())});
  return found;
}

std::string error_rows_csv(std::span<const ErrorRow> rows) {
  std::string text =
      "set,row,use,job,layout,framework,generation,dtype,schedule,experts,gpus,nodes,products,"
      "memory_kernels,host,tensor,data,pipeline,hidden,memory_use,validated,log_error\n";
  for (const ErrorRow& row : rows) {
    const JobTraits& it = row.traits;
    const StepShares& of = it.shares;
    text += fmt::format("{},{},{},\"{}\",\"{}\",{},{},{},{},{:d},{},{},", row.set, row.row,
                        word(row.use), it.job, it.layout, word(it.framework), word(it.generation),
                        word(it.dtype), word(it.schedule), it.experts, it.gpus, it.nodes);
    text += fmt::format("{:.5f},{:.5f},{:.5f},{:.5f},{:.5f},{:.5f},{:.5f},{:.4f},{:d},{:.6f}\n",
                        of.products, of.memory_kernels, of.host, of.tensor, of.data, of.pipeline,
                        of.hidden, row.memory_use, it.validated, row.log_error);
  }
  return text;
}

}  // namespace sim
