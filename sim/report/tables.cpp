// The report as CSV (metric, value, unit: one row each, for spreadsheets) and as Markdown.
#include <fmt/format.h>

#include "sim/base/quantity.hpp"
#include "sim/collective/collective_cost.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/report.hpp"

namespace sim {
namespace {

struct Row {
  std::string metric;
  std::string value;
  std::string unit;
};

std::string real(double value) {
  return fmt::format("{}", value);
}

std::vector<Row> rows_of(const Report& report) {
  const StageMemory& worst = report.worst_memory();
  const std::string tokens = report.counts_samples ? "samples/s" : "tokens/s";
  std::vector<Row> rows{
      {"gpus", std::to_string(report.ranks), ""},
      {"step_time", real(in_seconds(report.step_time)), "s"},
      {"tokens_per_s", real(report.tokens_per_second), tokens},
      {"tokens_per_s_per_gpu", real(report.tokens_per_second_per_gpu), tokens},
      {"model_tflops_per_gpu", real(report.model_rate_per_gpu.in_flops_per_second() / 1e12),
       "TFLOP/s"},
      {"hardware_tflops_per_gpu", real(report.hardware_rate_per_gpu.in_flops_per_second() / 1e12),
       "TFLOP/s"},
      {"mfu", real(report.mfu), ""},
      {"hfu", real(report.hfu), ""},
      {"peak_mem", std::to_string(worst.total.count()), "B"},
      {"device_mem", std::to_string(worst.capacity.count()), "B"},
      {"fits", report.fits() ? "true" : "false", ""},
      {"memory_left", std::to_string(report.memory_left().count()), "B"},
      {"memory_in_doubt", report.memory_in_doubt() ? "true" : "false", ""}};
  if (report.loads) {
    rows.push_back({"sequences.real_share", real(report.loads->real_share()), ""});
    rows.push_back({"sequences.imbalance", real(report.loads->imbalance), ""});
    rows.push_back({"sequences.attention_imbalance", real(report.loads->attention_imbalance), ""});
  }
  if (report.interval) {
    rows.push_back(
        {"step_time_low", real(in_seconds(report.step_time) * report.interval->low), "s"});
    rows.push_back(
        {"step_time_high", real(in_seconds(report.step_time) * report.interval->high), "s"});
  }
  if (report.memory_error)
    rows.push_back({"memory_error", real(report.memory_error->fraction), ""});
  if (const std::optional<double> chance = report.fits_chance())
    rows.push_back({"fits_chance", real(*chance), ""});
  for (const BreakdownField& field : breakdown_fields)
    rows.push_back({fmt::format("breakdown.{}", field.key),
                    real(in_seconds(report.breakdown.*field.member)), "s"});
  rows.push_back({"bubble.share", real(report.bubble_share), ""});
  rows.push_back({"bubble.closed_form_share", real(report.bubble_closed_form), ""});
  for (const auto& category : words_of(BufferCategory{}))
    rows.push_back(
        {fmt::format("memory.{}", category.text),
         std::to_string(worst.use.at_peak[static_cast<std::size_t>(category.value)].count()), "B"});
  rows.push_back({"memory.reserved", std::to_string(worst.reserved.count()), "B"});
  if (worst.replayed) {
    rows.push_back({"memory.max_allocated", std::to_string(worst.max_allocated().count()), "B"});
    rows.push_back({"memory.max_reserved", std::to_string(worst.max_reserved().count()), "B"});
  }
  for (const CollectiveSummary& row : report.collectives) {
    const std::string name =
        fmt::format("collective.{}.{}.{}", word(row.kind), word(row.group), row.bytes.count());
    rows.push_back({name + ".count", std::to_string(row.count), ""});
    rows.push_back({name + ".mean_time", real(in_seconds(row.mean_time)), "s"});
    rows.push_back({name + ".busbw",
                    real(algorithm_bandwidth(row) * bus_factor(row.kind, row.ranks) / 1e9),
                    "GB/s"});
  }
  for (const WhatIf& entry : report.what_if)
    rows.push_back(
        {fmt::format("what_if.{}", word(entry.resource)), real(in_seconds(entry.step_time)), "s"});
  if (report.software) rows.push_back({"software", software_line(*report.software), ""});
  for (const Unvalidated& part : report.not_validated)
    rows.push_back({"not_validated", part.what + ' ' + part.name, ""});
  return rows;
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string text = "scenario,metric,value,unit\n";
  for (const Row& row : rows_of(report))
    text += fmt::format("{},{},{},{}\n", csv_field(report.scenario), csv_field(row.metric),
                        csv_field(row.value), row.unit);
  return text;
}

std::string to_markdown(const Report& report) {
  std::string text =
      fmt::format("## {}\n\n{} on {} x {} ({})\n\n| metric | value | unit |\n|---|---:|---|\n",
                  markdown_field(report.scenario), markdown_field(report.model),
                  grouped(report.ranks), report.device, markdown_field(report.cluster));
  for (const Row& row : rows_of(report))
    text += fmt::format("| {} | {} | {} |\n", markdown_field(row.metric), markdown_field(row.value),
                        row.unit);
  text += "\nWhere the numbers come from:\n\n";
  for (const std::string& line : provenance_lines(report))
    text += "- " + markdown_field(line) + "\n";
  return text;
}

namespace {

// A row per stage: its number, then bytes by category, reserved, total, capacity, and what PyTorch
// counts; what it reserves is left out where its allocator is not replayed.
std::vector<std::vector<std::string>> memory_rows(const Report& report) {
  std::vector<std::vector<std::string>> rows{{"stage"}};
  for (const auto& category : words_of(BufferCategory{}))
    rows[0].push_back(fmt::format("{}_bytes", category.text));
  for (const char* name : {"reserved_bytes", "total_bytes", "capacity_bytes", "fits",
                           "max_allocated_bytes", "max_reserved_bytes"})
    rows[0].emplace_back(name);
  for (const StageMemory& stage : report.memory) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(std::to_string(stage.stage));
    for (const Bytes bytes : stage.use.at_peak)
      row.push_back(std::to_string(bytes.count()));
    for (const Bytes bytes : {stage.reserved, stage.total, stage.capacity})
      row.push_back(std::to_string(bytes.count()));
    row.emplace_back(stage.fits() ? "true" : "false");
    row.push_back(std::to_string(stage.max_allocated().count()));
    row.push_back(stage.replayed ? std::to_string(stage.max_reserved().count()) : "");
  }
  return rows;
}

}  // namespace

std::string memory_csv(const Report& report) {
  std::string text;
  for (const std::vector<std::string>& row : memory_rows(report)) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += (i == 0 ? "" : ",") + row[i];
    text += '\n';
  }
  return text;
}

std::string memory_markdown(const Report& report) {
  std::string text;
  bool first = true;
  for (const std::vector<std::string>& row : memory_rows(report)) {
    for (const std::string& field : row)
      text += "| " + field + ' ';
    text += "|\n";
    if (first)
      for (std::size_t i = 0; i < row.size(); ++i)
        text += "|---:";
    if (first) text += "|\n";
    first = false;
  }
  return text;
}

}  // namespace sim
