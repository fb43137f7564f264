#include "sim/rows/measured_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "sim/config/scalars.hpp"
#include "sim/rows/silent_words.hpp"

namespace sim {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

constexpr std::array row_columns{
    RunColumn{"use"},
    RunColumn{"row_id", CellKind::text, true},
    RunColumn{"source"},
    RunColumn{"source_path"},
    RunColumn{"evidence"},
    RunColumn{"status"},
    RunColumn{"gpu", CellKind::text, true},
    RunColumn{"gpu_mem_gb", CellKind::gigabytes},
    RunColumn{"gpus_per_node", CellKind::whole, true},
    RunColumn{"intra_node_link"},
    RunColumn{"inter_node_net"},
    RunColumn{"inter_node_gbps_per_gpu", CellKind::real},
    RunColumn{"cluster_notes"},
    RunColumn{"num_gpus", CellKind::whole, true},
    RunColumn{"framework"},
    RunColumn{"framework_version"},
    RunColumn{"model", CellKind::text, true},
    RunColumn{"params_b", CellKind::real},
    RunColumn{"layers", CellKind::whole, true},
    RunColumn{"hidden", CellKind::whole, true},
    RunColumn{"heads", CellKind::whole, true},
    RunColumn{"kv_heads", CellKind::whole},
    RunColumn{"head_dim", CellKind::whole},
    RunColumn{"ffn", CellKind::whole, true},
    RunColumn{"vocab", CellKind::whole, true},
    RunColumn{"seq_len", CellKind::whole, true},
    RunColumn{"tied_embeddings"},
    RunColumn{"dropout", CellKind::real},
    RunColumn{"moe_experts", CellKind::whole},
    RunColumn{"moe_topk", CellKind::whole},
    RunColumn{"moe_ffn", CellKind::whole},
    RunColumn{"moe_shared_ffn", CellKind::whole},
    RunColumn{"moe_dense_layers", CellKind::whole},
    RunColumn{"attn_kernel"},
    RunColumn{"tp", CellKind::whole},
    RunColumn{"pp", CellKind::whole},
    RunColumn{"vpp", CellKind::whole},
    RunColumn{"layers_per_chunk"},
    RunColumn{"dp", CellKind::whole},
    RunColumn{"cp", CellKind::whole},
    RunColumn{"ep", CellKind::whole},
    RunColumn{"etp", CellKind::whole},
    RunColumn{"zero_stage", CellKind::whole},
    RunColumn{"shard_strategy"},
    RunColumn{"dist_optimizer"},
    RunColumn{"seq_parallel"},
    RunColumn{"pp_schedule"},
    RunColumn{"mbs", CellKind::whole},
    RunColumn{"gbs", CellKind::whole},
    RunColumn{"grad_accum", CellKind::real},
    RunColumn{"precision", CellKind::text, true},
    RunColumn{"optimizer"},
    RunColumn{"recompute"},
    RunColumn{"overlap"},
    RunColumn{"host_issue_us", CellKind::real},
    RunColumn{"step_time_s", CellKind::real, true},
    RunColumn{"step_time_std_s", CellKind::real},
    RunColumn{"tflops_per_gpu", CellKind::real},
    RunColumn{"flop_formula"},
    RunColumn{"mfu", CellKind::real},
    RunColumn{"hfu", CellKind::real},
    RunColumn{"tokens_per_s_per_gpu", CellKind::real},
    RunColumn{"peak_mem_gib", CellKind::real},
    RunColumn{"mem_metric"},
    RunColumn{"derived_fields"},
    RunColumn{"config_provenance"},
    RunColumn{"completeness"},
    RunColumn{"missing"},
    RunColumn{"notes"},
};

class RunReader {
 public:
  RunReader(const CsvTable& table, BadRows bad, const RowContext& context)
      : table_{table}, bad_{bad}, context_{context} {}

  std::vector<MeasuredRow> read() {
    find_columns();
    std::vector<MeasuredRow> rows;
    for (const std::vector<CsvField>& record : table_.records()) {
      problems_.clear();
      MeasuredRow row = row_of(record);
      if (!problems_.empty()) set_aside(record.front().line, row);
      rows.push_back(std::move(row));
      if (refused_.size() >= most_table_problems) break;
    }
    for (const Problem& misfit : table_.misfits()) {
      MeasuredRow row;
      problems_ = {misfit};
      set_aside(misfit.where.line, row);
      rows.push_back(std::move(row));
    }
    if (rows.empty()) throw InputError{SourcePosition{table_.name(), 0, 0}, "has no rows"};
    if (!refused_.empty()) throw InputError{refused_};
    return rows;
  }

 private:
  void report(const CsvField& field, std::string what) {
    problems_.push_back(
        {SourcePosition{table_.name(), field.line, field.column}, std::move(what), {}});
  }

  // A row with problems is refused with all of them, or listed with them.
  void set_aside(int line, MeasuredRow& row) {
    if (bad_ == BadRows::refuse) {
      refused_.insert(refused_.end(), problems_.begin(), problems_.end());
      return;
    }
    for (const Problem& problem : problems_) {
      if (!row.unreadable.empty()) row.unreadable += "; ";
      row.unreadable += fmt::format("line {}", problem.where.line);
      if (problem.where.column > 0)
        row.unreadable += fmt::format(", column {}", problem.where.column);
      row.unreadable += ": " + problem.what;
    }
    if (row.id.empty()) row.id = fmt::format("line {}", line);
  }

  void find_columns() {
    std::vector<std::string_view> names, required;
    for (const RunColumn& column : row_columns) {
      names.push_back(column.name);
      if (column.required) required.push_back(column.name);
    }
    std::vector<Problem> problems;
    for (const CsvField& field : table_.header()) {
      keys_.push_back(key_of_column(field.text));
      if (keys_.back().empty()) continue;
      names.push_back(field.text);
      if (std::string what = problem_of_key(keys_.back()); !what.empty())
        problems.push_back(
            {SourcePosition{table_.name(), field.line, field.column}, std::move(what), {}});
    }
    if (!problems.empty()) throw InputError{std::move(problems)};
    table_.check_columns(names, required);
    for (const CsvField& field : table_.header()) {
      const auto column = std::ranges::find(row_columns, field.text, &RunColumn::name);
      kinds_.push_back(column == row_columns.end() ? CellKind::text : column->kind);
    }
  }

  void check_number(const CsvField& field, std::string_view text, CellKind kind,
                    std::string_view name) {
    if (text.empty() || kind == CellKind::text) return;
    if (kind == CellKind::whole) {
      const auto parsed = parse_integer(text, true);
      const auto* value = std::get_if<std::int64_t>(&parsed);
      if (!value || *value < 0 || *value > std::numeric_limits<std::int32_t>::max())
        report(field, fmt::format("{} is '{}'; allowed: a whole number from 0 to 2147483647", name,
                                  field.text));
      return;
    }
    const auto parsed = parse_real(text);
    const auto* value = std::get_if<double>(&parsed);
    if (!value || !(*value >= 0) || *value > 1e12)
      report(field, fmt::format("{} is '{}'; allowed: a number from 0 to 1e12{}", name, field.text,
                                kind == CellKind::gigabytes ? ", with GB or without" : ""));
  }

  // "79.6 GB" as "79.6".
  static std::string_view without_unit(std::string_view text, CellKind kind) {
    if (kind != CellKind::gigabytes) return text;
    for (const std::string_view unit : {"GiB", "GB", "G"})
      if (text.ends_with(unit)) {
        text.remove_suffix(unit.size());
        break;
      }
    while (text.ends_with(' '))
      text.remove_suffix(1);
    return text;
  }

  MeasuredRow row_of(const std::vector<CsvField>& record) {
    MeasuredRow row;
    RunCells cells{.file = table_.name(), .line = record.front().line, .text = {}};
    for (std::size_t i = 0; i < record.size(); ++i) {
      const std::string& name = table_.header()[i].text;
      const std::string_view text = without_unit(record[i].text, kinds_[i]);
      check_number(record[i], text, kinds_[i], name);
      if (name == "row_id") take_id(record[i], row);
      if (name == "use") take_use(record[i], row);
      if (name == "status") take_status(record[i], row);
      cells.text.emplace(name, text);
    }
    take_keys(record, cells);
    if (!context_.words.empty() && problems_.empty())
      row.silent = silent_words(cells, context_.words);
    row.inferred = read_words(context_.words, cells);
    if (problems_.empty()) take_measured(record.front(), cells, row);
    if (problems_.empty()) row.defaults = fill_empty_cells(cells);
    row.cells = std::move(cells);
    return row;
  }

  // Those of the set stand behind what the row itself says.
  void take_keys(const std::vector<CsvField>& record, RunCells& cells) {
    for (const auto& [key, value] : context_.base)
      if (cells[own_column(key)].empty()) put_key(key, value, cells);
    for (std::size_t i = 0; i < record.size(); ++i)
      if (!keys_[i].empty() && !record[i].text.empty() && !is_dropped(keys_[i]))
        put_key(keys_[i], record[i].text, cells);
  }

  bool is_dropped(std::string_view key) const {
    return context_.drops_framework && key.starts_with("framework.");
  }

  void take_id(const CsvField& field, MeasuredRow& row) {
    row.id = field.text;
    if (row.id.empty())
      report(field, "row_id is empty");
    else if (!ids_.insert(row.id).second)
      report(field, fmt::format("a row above has the row_id '{}' too", row.id));
  }
  void take_use(const CsvField& field, MeasuredRow& row) {
    if (field.text.empty()) return;
    if (const std::optional<RowUse> use = from_word<RowUse>(field.text))
      row.use = *use;
    else
      report(field, fmt::format("use is '{}'; allowed: score, fit", field.text));
  }
  void take_status(const CsvField& field, MeasuredRow& row) {
    if (field.text == "OOM")
      row.outcome = Outcome::out_of_memory;
    else if (field.text.starts_with("analytic"))
      row.outcome = Outcome::analytic;
    else if (!field.text.empty() && field.text != "ok")
      report(field, fmt::format("status is '{}'; allowed: ok, OOM, or analytic with a remark",
                                field.text));
  }

  void take_measured(const CsvField& first, const RunCells& cells, MeasuredRow& row) {
    if (const std::optional<double> time = cells.real("step_time_s")) {
      if (*time <= 0 || *time > 1e6)
        report(first, fmt::format("step_time_s is {}; allowed: more than 0, up to 1e6", *time));
      else if (row.outcome == Outcome::out_of_memory)
        report(first, "a run that ended out of memory has no step_time_s");
      else
        row.measured = duration_from_seconds(*time);
    }
    if (const std::optional<double> memory = cells.real("peak_mem_gib")) {
      if (*memory > 0 && *memory < 1e6)
        row.memory = Bytes{static_cast<std::int64_t>(*memory * gib)};
      else
        report(first, fmt::format("peak_mem_gib is {}; allowed: more than 0, up to 1e6", *memory));
    }
    row.activation_share = share_of(cells["mem_metric"]);
  }

  // "... activation memory = 62.04% of the TP-only baseline ..."
  static std::optional<double> share_of(std::string_view metric) {
    constexpr std::string_view before = "activation memory = ";
    const std::size_t begin = metric.find(before);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::string_view rest = metric.substr(begin + before.size());
    const std::size_t length = rest.find("% of the TP-only baseline");
    if (length == std::string_view::npos) return std::nullopt;
    const auto parsed = parse_real(rest.substr(0, length));
    const auto* percent = std::get_if<double>(&parsed);
    if (!percent || !(*percent > 0) || *percent > 1e6) return std::nullopt;
    return *percent / 100;
  }

  const CsvTable& table_;
  BadRows bad_;
  const RowContext& context_;
  std::vector<CellKind> kinds_;
  std::vector<std::string> keys_;  // of columns that are keys
  std::set<std::string> ids_;
  std::vector<Problem> problems_;  // of the row that is read
  std::vector<Problem> refused_;
};

}  // namespace

std::string_view RunCells::operator[](std::string_view column) const {
  const auto found = text.find(column);
  return found == text.end() ? std::string_view{} : std::string_view{found->second};
}

std::optional<std::int64_t> RunCells::whole(std::string_view column) const {
  const auto parsed = parse_integer((*this)[column], true);
  if (const auto* value = std::get_if<std::int64_t>(&parsed)) return *value;
  return std::nullopt;
}

std::optional<double> RunCells::real(std::string_view column) const {
  const auto parsed = parse_real((*this)[column]);
  if (const auto* value = std::get_if<double>(&parsed)) return *value;
  return std::nullopt;
}

std::span<const RunColumn> run_columns() {
  return row_columns;
}

bool is_run_column(std::string_view name) {
  return std::ranges::find(row_columns, name, &RunColumn::name) != row_columns.end();
}

std::vector<MeasuredRow> read_runs(const CsvTable& table, BadRows bad, const RowContext& context) {
  return RunReader{table, bad, context}.read();
}

}  // namespace sim
