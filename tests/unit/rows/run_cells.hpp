// A row of a table of runs that can be simulated, to be changed cell by cell.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/rows/measured_rows.hpp"
#include "sim/rows/run_scenario.hpp"
#include "tests/support/source_dir.hpp"

namespace sim::test {

inline const std::string header =
    "use,row_id,status,gpu,gpus_per_node,inter_node_gbps_per_gpu,num_gpus,model,layers,hidden,"
    "heads,"
    "ffn,vocab,seq_len,attn_kernel,tp,pp,dp,mbs,gbs,precision,recompute,step_time_s\n";
inline const std::string sound =
    "score,r0,ok,A100-80GB,8,200,16,GPT,4,1024,16,4096,50257,1024,flash,2,2,4,1,16,bf16,none,1.5\n";

inline const std::vector<WordRule>& words() {
  static const std::vector<WordRule> rules = load_words(source_dir() + "/validation/words.yaml");
  return rules;
}

// The sound row with some cells replaced; columns that the header has not, and keys of a scenario,
// may be added. Without a framework its words are read.
inline RunCells cells_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  RunCells cells = *read_runs(CsvTable::parse(header + sound, "t.csv"))[0].cells;
  for (const auto& [column, text] : changes) {
    if (const std::string key = key_of_column(column); !key.empty())
      put_key(key, text, cells);
    else
      cells.text.insert_or_assign(column, text);
  }
  read_words(words(), cells);
  return cells;
}

// Why the row with these changes cannot be simulated; empty if it can.
inline std::string reason(const std::vector<std::pair<std::string, std::string>>& changes) {
  try {
    run_scenario(cells_with(changes), sim::test::source_dir());
  } catch (const NotSimulated& refusal) {
    return refusal.what();
  }
  return "";
}

}  // namespace sim::test
