// Two records side by side: where they spent their time, and whether they did the same.
//
// Sums over a record are means per rank, weighted by how many ranks a track stands for: two records
// of one plan compare whether ranks were folded or not.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/perfetto.hpp"
#include "sim/timeline/record.hpp"

namespace sim {

struct Both {
  double a = 0, b = 0;  // seconds
  double difference() const { return b - a; }
  double ratio() const { return a > 0 ? b / a : 0; }  // 0: there is no A
};

struct NamedBoth {
  std::string name;
  Both time{};
};

// All operators of one name in one pass, mean per rank.
struct OperatorRow {
  std::string name;
  Pass pass = Pass::forward;
  OpKind kind = OpKind::gemm;
  double count_a = 0, count_b = 0;  // per rank
  Both mean{};                      // of one operator: active to end
  Both total{};                     // per rank
  // Its share of all by which operators of B take longer or shorter than those of A, summed without
  // sign.
  double share = 0;
};

struct RankSpread {
  std::string of;  // "step", "compute"
  Both least{}, mean{}, most{};
};

struct Sameness {
  bool same = false;
  std::string first_difference;  // empty: none. Names rank, operator and both values
  std::uint64_t operators = 0;   // compared, over all ranks
  std::uint64_t communication_calls = 0;
  Bytes communication_bytes{};
};

struct Comparison {
  std::string name_a, name_b;  // "simulated", "host"; with the scenario where they differ
  std::string scenario_a, scenario_b;
  Both step{};                     // the recorded one
  std::vector<NamedBoth> parts;    // the breakdown: they sum to the step
  std::vector<NamedBoth> work;     // compute by kind; communication by class, exposed or not
  std::vector<OperatorRow> rows;   // the operators that explain most of the difference first
  std::vector<NamedBoth> streams;  // busy time per stream
  std::vector<RankSpread> spread;  // over ranks
  std::vector<std::string> notes;  // "A was measured 10 times: 1.2 ms median, ..."
  Sameness sameness;
};

Comparison compare(const Record& a, const Record& b);

// Exact: operators, order per stream, kernels' shapes, bytes of every collective and message.
// Ranks that only one record holds are compared through the track that stands for them, by place.
Sameness same_work(const Record& a, const Record& b);

std::string comparison_table(const Comparison& comparison, bool color);
std::string comparison_json(const Comparison& comparison);
std::string comparison_csv(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);

// One Perfetto trace with both: processes "A: simulated, rank 0" above "B: host, rank 0", both
// starting at 0. Ranks that both hold, or all of each where they share none.
TraceStats write_comparison_trace(const std::string& path, const Record& a, const Record& b);

}  // namespace sim
