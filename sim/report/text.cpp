// The report as text for people: 100 columns, block characters, colour on request.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/quantity.hpp"
#include "sim/collective/collective_cost.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/page.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule/closed_form.hpp"

namespace sim {
namespace {

// A bar of `cells` columns at most, in eighths of a column.
std::string bar(double share, int cells) {
  constexpr std::array eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::clamp(share, 0.0, 1.0);
  const int parts = static_cast<int>(std::lround(clamped * cells * 8));
  std::string text;
  for (int i = 0; i < parts / 8; ++i)
    text += "█";
  return text + eighths[static_cast<std::size_t>(parts % 8)];
}

double ratio(Duration part, Duration whole) {
  return whole.count() > 0 ? in_seconds(part) / in_seconds(whole) : 0;
}

std::string batch_line(const Report& report) {
  const Layout& l = report.layout;
  const std::string each = report.counts_samples
                               ? fmt::format("{} samples per step", grouped(l.global_batch))
                               : fmt::format("{} {} {} tokens per step", grouped(l.global_batch),
                                             l.pads_rows()     ? "rows of up to"
                                             : l.has_lengths() ? "rows of"
                                                               : "sequences of",
                                             grouped(l.sequence_length));
  return fmt::format("{}, {} products, gradients {} (reduced in {})", each, word(l.compute_dtype),
                     word(l.gradient_dtype), word(l.reduce_dtype));
}

void add_software(Page& page, const Report& report) {
  if (!report.software) return;
  for (const std::string& line :
       wrapped("software: " + software_line(*report.software), page_width))
    page.line(line);
  for (const std::string& difference : software_differences(*report.software))
    for (const std::string& line : wrapped(difference, page_width - 2))
      page.line("  " + page.paint("2", line));
}

void add_unvalidated(Page& page, const Report& report) {
  for (const std::string& line : wrapped(unvalidated_line(report.not_validated), page_width))
    page.line(page.paint("1;33", line));
}

// "2 nodes of 72 GPUs, 64 of each used, 8 idle".
std::string nodes_line(const Report& report) {
  std::string text = fmt::format("{} node{} of {} GPUs", grouped(report.nodes),
                                 report.nodes == 1 ? "" : "s", report.room.gpus);
  if (report.nodes > 1 && report.idle_gpus_per_node() > 0)
    text += fmt::format(", {} of each used, {} idle", report.gpus_per_node,
                        report.idle_gpus_per_node());
  if (!report.allocation.empty()) text += fmt::format(" ({})", report.allocation);
  return text;
}

// Groups that lie on several nodes though they need not, each in a line, and unequal nodes.
void add_crossing(Page& page, const Report& report) {
  std::vector<std::string> lines;
  for (const CrossingGroups& groups : report.crossing)
    lines.push_back("! " + describe(groups, report.room));
  if (report.even_gpus_per_node != report.gpus_per_node)
    lines.push_back("! " + uneven_text(report));
  for (const std::string& line : lines)
    for (const std::string& part : wrapped(line, page_width))
      page.line(page.paint("33", part));
}

const char* fit_text(const Report& report) {
  if (!report.fits()) return "DOES NOT FIT";
  if (report.fits_by_retries()) return "fits only with the allocator's retries";
  return report.memory_in_doubt() ? "may not fit" : "fits";
}

// Below the figures of the headline.
void add_interval(Page& page, const Report& report, const TimeInterval& interval) {
  const double rate = report.tokens_per_second_per_gpu;
  page.line(fmt::format(
      "  {:<20}{:<24}{:<20}{}",
      range_text(interval.shortest(report.step_time), interval.longest(report.step_time)),
      fmt::format("{} to {}", significant(rate / interval.high), significant(rate / interval.low)),
      // No step is faster than the peak.
      fmt::format("{:.1f} to {:.1f} %", 100 * report.mfu / interval.high,
                  std::max(100 * report.mfu, std::min(100.0, 100 * report.mfu / interval.low))),
      interval.own_runs > 0 ? fmt::format("{:.0f} %, anchored on {} run{}", 100 * interval.level,
                                          interval.own_runs, interval.own_runs == 1 ? "" : "s")
                            : fmt::format("{:.0f} % of such runs", 100 * interval.level)));
  if (interval.of_unknown_framework())
    for (const std::string& line : wrapped(fmt::format("! {}", unnamed_text), page_width))
      page.line(page.paint("33", line));
  if (interval.unlike.empty()) return;
  std::string names;
  for (const std::string& name : interval.unlike)
    names += (names.empty() ? "" : ", ") + name;
  for (const std::string& line :
       wrapped("! not validated: no measured run has " + names, page_width))
    page.line(page.paint("33", line));
}

void add_headline(Page& page, const Report& report) {
  page.line(page.paint(
      "1", fmt::format("{} on {} x {}", report.model, grouped(report.ranks), report.device)));
  page.line(fmt::format("{} parameters; {}, {}", scaled_count(report.parameters), report.cluster,
                        nodes_line(report)));
  page.line(layout_text(report.layout, LayoutForm::sentence));
  page.line(batch_line(report));
  add_software(page, report);
  for (const std::string& text : load_lines(report))
    for (const std::string& line : wrapped(text, page_width))
      page.line(line);
  add_unvalidated(page, report);
  add_crossing(page, report);
  page.line();
  const StageMemory& worst = report.worst_memory();
  const std::string unit = report.counts_samples ? "samples" : "tokens";
  page.line(fmt::format("  {:<20}{:<24}{:<20}{}", "step time", unit + "/s per GPU", "MFU",
                        "memory of the fullest GPU"));
  const std::string memory = fmt::format("{:.1f} of {:.1f} GiB: {}", worst.total.gib(),
                                         worst.capacity.gib(), fit_text(report));
  page.line(
      "  " + page.paint("1;32", fmt::format("{:<20}", precise(report.step_time))) +
      page.paint("1", fmt::format("{:<24}{:<20}", significant(report.tokens_per_second_per_gpu),
                                  fmt::format("{:.1f} %", 100 * report.mfu))) +
      page.paint(report.fits() && !report.memory_in_doubt() ? "1" : "1;31", memory));
  if (report.interval) add_interval(page, report, *report.interval);
  page.line();
  page.line(
      fmt::format("  {} {}/s in all; {:.1f} model TFLOP/s per GPU, {:.1f} executed (HFU {:.1f} "
                  "%), peak {:.0f}",
                  significant(report.tokens_per_second), unit,
                  report.model_rate_per_gpu.in_flops_per_second() / 1e12,
                  report.hardware_rate_per_gpu.in_flops_per_second() / 1e12, 100 * report.hfu,
                  report.peak_rate.in_flops_per_second() / 1e12));
  for (const std::string& line : wrapped("FLOPs: " + flop_formula(report), page_width - 2))
    page.line("  " + page.paint("2", line));
}

void add_notes(Page& page, const Report& report) {
  for (const std::string& note : note_lines(report)) {
    bool first = true;
    for (const std::string& line : wrapped(note, page_width - 8)) {
      page.line((first ? "  note: " : "        ") + line);
      first = false;
    }
  }
}

// add_meetings() reports groups that train apart.
void add_meetings(Page& page, const Report& report) {
  if (!report.meetings) return;
  const MeetingTimes& meetings = *report.meetings;
  page.line(fmt::format(
      "  exposed data has {} of meetings: every {} steps each GPU exchanges {}, which takes {}{}",
      to_text(meetings.per_step), report.layout.local_steps, to_text(meetings.message),
      to_text(meetings.exposed), report.layout.outer_overlap > 0 ? " beyond training" : ""));
}

// add_servers() reports workers and parameter servers.
void add_servers(Page& page, const Report& report) {
  if (!report.servers) return;
  const ServerRun& run = *report.servers;
  page.line(fmt::format("  exposed data: a worker waits {} for servers, {} for slower workers",
                        to_text(run.exchange), to_text(run.others)));
  std::string line = fmt::format("  servers update {:.0f} % of the time", 100 * run.servers_busy);
  if (!report.servers_link.empty())
    line +=
        fmt::format("; busiest link {}, {:.0f} %", report.servers_link, 100 * run.busiest_share);
  page.line(line);
  if (run.staleness.empty()) return;
  page.line("  staleness " + to_text(run.staleness, 1));
  const auto slowest = std::max_element(run.waited_for.begin(), run.waited_for.end());
  if (slowest != run.waited_for.end() && *slowest > 0)
    page.line(fmt::format("  {:.0f} % of the waits for slower workers are for rank {}",
                          100 * *slowest, slowest - run.waited_for.begin()));
}

void add_breakdown(Page& page, const Report& report) {
  page.heading("Time of a GPU",
               fmt::format("mean of {}; the parts sum to the step exactly", grouped(report.ranks)));
  constexpr int cells = 50;
  for (const BreakdownField& field : breakdown_fields) {
    if (!field.shows(report.breakdown)) continue;
    const Duration part = report.breakdown.*field.member;
    const double share = ratio(part, report.step_time);
    page.line(fmt::format("  {:<18}{:>10}  {:>5.1f} %  {}", field.title, precise(part), 100 * share,
                          page.paint(field.color, bar(share, cells))));
  }
  add_meetings(page, report);
  add_servers(page, report);
  if (report.layout.pipeline_parallel > 1)
    page.line(
        fmt::format("  bubble {:.1f} % of the step; {} = {:.1f} % for equal stages and free "
                    "transfers",
                    100 * report.bubble_share, bubble_closed_form(report.layout).formula,
                    100 * report.bubble_closed_form));
}

// add_host_memory() reports offloaded states.
void add_host_memory(Page& page, const Report& report) {
  const StageMemory& memory = *std::max_element(
      report.memory.begin(), report.memory.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.host.memory < b.host.memory; });
  const auto of = [](Bytes used, Bytes all) {
    return all > Bytes{} ? fmt::format("{:.1f} of {:.1f} GiB", used.gib(), all.gib())
                         : fmt::format("{:.1f} GiB", used.gib());
  };
  if (memory.host.memory.count() == 0) return;
  std::string line = "  host memory of a node   " + of(memory.host.memory, memory.host_capacity);
  if (memory.host.disk.count() > 0) line += ", NVMe " + of(memory.host.disk, memory.disk_capacity);
  page.line(line);
}

// Columns of the parts of the step that are anything anywhere.
std::string part_heads(const Report& report) {
  std::string heads;
  for (const BreakdownField& field : breakdown_fields)
    if (field.shows(report.breakdown)) {
      constexpr std::string_view exposed = "exposed ";
      heads += fmt::format(" {:>9}", field.title.starts_with(exposed)
                                         ? field.title.substr(exposed.size())
                                         : field.title);
    }
  return heads;
}

std::string part_cells(const Report& report, const Breakdown& parts) {
  std::string cells;
  for (const BreakdownField& field : breakdown_fields)
    if (field.shows(report.breakdown))
      cells += fmt::format(" {:>9.1f}", 100 * ratio(parts.*field.member, report.step_time));
  return cells;
}

void add_pools(Page& page, const Report& report) {
  if (report.pools.empty()) return;
  page.heading("Pools", "time of a GPU in % of the step; what waits for the other pool is exposed");
  page.line(fmt::format("  {:<20} {:>6}", "nodes of", "GPUs") + part_heads(report) + "   device");
  for (const PoolTime& pool : report.pools)
    page.line(fmt::format("  {:<20} {:>6}", pool.name, grouped(pool.gpus)) +
              part_cells(report, pool.breakdown) + "   " + pool.device);
}

void add_stages(Page& page, const Report& report) {
  page.heading("Pipeline stages", "time in % of the step, memory in GiB");
  page.line(fmt::format("  {:>5}", "stage") + part_heads(report) +
            fmt::format("   {:>8}  {}", "memory", "of device"));
  for (std::size_t i = 0; i < report.stage_breakdown.size(); ++i) {
    std::string row = fmt::format("  {:>5}", i) + part_cells(report, report.stage_breakdown[i]);
    const StageMemory& memory = report.memory[i];
    const double used = memory.total.gib() / memory.capacity.gib();
    row += fmt::format("   {:>8.1f}  {}{}", memory.total.gib(),
                       page.paint(memory.fits() ? "34" : "31", bar(used, 18)),
                       memory.fits() ? "" : " too much");
    page.line(row);
  }
}

void add_unlike(Page& page, const MemoryError& error) {
  if (error.unlike.empty()) return;
  std::string names;
  for (const std::string& name : error.unlike)
    names += (names.empty() ? "" : ", ") + name;
  for (const std::string& line :
       wrapped("! memory not validated: no run whose memory was measured has " + names, page_width))
    page.line(page.paint("33", line));
}

// An allocator that fills the device: what it cannot return is what has to fit.
void add_retries(Page& page, const Report& report) {
  int retries = 0;
  for (const StageMemory& stage : report.memory)
    retries = std::max(retries, stage.retries);
  if (!report.fits_by_retries() && retries == 0) return;
  page.line(
      fmt::format("  allocator's retries {:>8} a step; each synchronises the device, which is "
                  "not in the forecast",
                  grouped(static_cast<std::uint64_t>(retries))));
  const StageMemory& worst = report.worst_memory();
  if (!worst.fits_by_retries()) return;
  page.line(page.paint(
      "33", fmt::format("! fits only with retries: {:.2f} GiB cannot be returned, the rest up to "
                        "{:.2f} is cached",
                        worst.needed().gib(), worst.total.gib())));
}

void add_memory_left(Page& page, const Report& report) {
  const StageMemory& worst = report.worst_memory();
  const Bytes left = worst.capacity - worst.needed();
  const MemoryError& error = *report.memory_error;
  const bool doubt = report.memory_in_doubt();
  std::string about =
      fmt::format("{} its error, {:.1f} % ({} runs, {})", doubt ? "inside" : "beyond",
                  100 * error.fraction, error.rows, error.of);
  if (const std::optional<double> chance = report.fits_chance())
    about += fmt::format(": {:.0f} % of such runs fit", 100 * *chance);
  page.line(fmt::format("  {:<20}{:>8.2f} GiB  {:>5.1f} %  {}", "left", left.gib(),
                        100 * left.gib() / worst.capacity.gib(),
                        page.paint(doubt ? "31" : "2", about)));
}

void add_memory(Page& page, const Report& report) {
  const StageMemory& worst = report.worst_memory();
  page.heading(fmt::format("Memory of stage {}", worst.stage),
               worst.peak_operator.empty()
                   ? "the fullest"
                   : fmt::format("the fullest; peak while '{}' is issued", worst.peak_operator));
  constexpr int cells = 50;
  const auto row = [&](std::string_view name, Bytes bytes) {
    const double share = bytes.gib() / worst.capacity.gib();
    page.line(fmt::format("  {:<20}{:>8.2f} GiB  {:>5.1f} %  {}", name, bytes.gib(), 100 * share,
                          page.paint("34", bar(share, cells))));
  };
  for (const auto& category : words_of(BufferCategory{})) {
    const Bytes bytes = worst.use.at_peak[static_cast<std::size_t>(category.value)];
    if (bytes.count() > 0) row(title_of(category.text), bytes);
  }
  const Bytes buffers = worst.max_allocated() - worst.workspaces - worst.use.peak;
  if (buffers.count() > 0) row("buffers of gathers", buffers);
  if (worst.fragments > buffers) row("allocator's fragments", worst.fragments - buffers);
  row("reserved by device", worst.reserved);
  row("total", worst.total);
  page.line(fmt::format("  {:<20}{:>8.2f} GiB", "capacity", worst.capacity.gib()));
  if (worst.replayed)
    page.line(
        page.paint("2", fmt::format("  as PyTorch counts   {:>8.2f} GiB max allocated, "
                                    "{:.2f} max reserved",
                                    worst.max_allocated().gib(), worst.max_reserved().gib())));
  if (report.fits() && report.memory_error) add_memory_left(page, report);
  if (report.memory_error) add_unlike(page, *report.memory_error);
  add_retries(page, report);
  add_host_memory(page, report);
}

void add_collectives(Page& page, const Report& report) {
  if (report.collectives.empty()) return;
  page.heading("Collectives", "per GPU that takes part; GB/s = 1e9 B/s");
  page.line(fmt::format("  {:<14} {:<14}{:>6} {:>6} {:>9} {:>9} {:>7} {:>7}  {}", "operation",
                        "group", "ranks", "count", "size", "time", "algbw", "busbw", "algorithm"));
  // Most time first; the rest is in the JSON.
  constexpr std::size_t most_rows = 14;
  std::vector<const CollectiveSummary*> rows;
  for (const CollectiveSummary& row : report.collectives)
    rows.push_back(&row);
  const auto time_of = [](const CollectiveSummary* row) {
    return in_seconds(row->mean_time) * static_cast<double>(row->count);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto* a, const auto* b) { return time_of(a) > time_of(b); });
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    const CollectiveSummary& row = *rows[i];
    const double algorithm = algorithm_bandwidth(row) / 1e9;
    page.line(fmt::format("  {:<14} {:<14}{:>6} {:>6} {:>9} {:>9} {:>7.1f} {:>7.1f}  {}",
                          word(row.kind), word(row.group), row.ranks, row.count, to_text(row.bytes),
                          to_text(row.mean_time), algorithm,
                          algorithm * bus_factor(row.kind, row.ranks), row.algorithm));
  }
  if (rows.size() > most_rows)
    page.line(fmt::format("  ({} more that take less time: -o json)", rows.size() - most_rows));
}

void add_links(Page& page, const Report& report) {
  if (report.busiest_links.empty()) return;
  page.heading("Busiest links", "one direction each; use = carried / (capacity x step)");
  page.line(fmt::format("  {:<48}{:>8} {:>11} {:>11} {:>7} {:>8}", "link", "alike", "carried",
                        "capacity", "busy", "use"));
  for (std::size_t i = 0; i < report.busiest_links.size(); ++i) {
    const LinkLoad& load = report.busiest_links[i];
    page.line(fmt::format("  {:<48}{:>8} {:>11} {:>11} {:>5.1f} % {:>6.1f} %", report.link_names[i],
                          grouped(load.represents), to_text(load.carried),
                          to_text(report.link_capacities[i]),
                          100 * ratio(load.busy, report.step_time), 100 * link_use(report, i)));
  }
}

void add_what_if(Page& page, const Report& report) {
  if (report.what_if.empty()) return;
  page.heading("What would help most", "the step if that were infinitely fast, simulated again");
  for (const WhatIf& entry : report.what_if) {
    const double gain = 1 - ratio(entry.step_time, report.step_time);
    page.line(fmt::format("  {:<28}{:>10}  {:>+6.1f} %  {}", word(entry.resource),
                          precise(entry.step_time), -100 * gain, page.paint("32", bar(gain, 50))));
  }
}

void add_provenance(Page& page, const Report& report) {
  page.heading("Where the numbers come from");
  for (const std::string& entry : provenance_lines(report)) {
    bool first = true;
    for (const std::string& line : wrapped(entry, page_width - 12)) {
      page.line((first ? "  " : "            ") + page.paint("2", line));
      first = false;
    }
  }
  page.line(
      "  " +
      page.paint("2", fmt::format("simulated {} of {} ranks, {} activities, {} events",
                                  grouped(report.stats.rank_classes), grouped(report.ranks),
                                  grouped(report.stats.activities), grouped(report.stats.events))));
}

}  // namespace

std::string to_table(const Report& report, TextStyle style) {
  Page page{style};
  add_headline(page, report);
  add_notes(page, report);
  add_breakdown(page, report);
  add_pools(page, report);
  if (report.layout.pipeline_parallel > 1) add_stages(page, report);
  add_memory(page, report);
  add_collectives(page, report);
  add_links(page, report);
  add_what_if(page, report);
  add_provenance(page, report);
  return page.take();
}

std::string memory_table(const Report& report, TextStyle style) {
  Page page{style};
  page.line(page.paint("1", fmt::format("{} on {} x {}: memory", report.model,
                                        grouped(report.ranks), report.device)));
  page.line(layout_text(report.layout, LayoutForm::sentence));
  page.line(batch_line(report));
  add_software(page, report);
  add_unvalidated(page, report);
  add_notes(page, report);
  page.heading("Stages", "GiB at the peak of each stage");
  std::string header = fmt::format("  {:>5}", "stage");
  for (const auto& category : words_of(BufferCategory{}))
    header += fmt::format(" {:>11}", category.text.substr(0, category.text.find('_')));
  const bool replayed = report.worst_memory().replayed;
  if (replayed) header += fmt::format(" {:>9}", "fragments");
  page.line(header + fmt::format(" {:>9} {:>8}", "reserved", "total"));
  for (const StageMemory& stage : report.memory) {
    std::string row = fmt::format("  {:>5}", stage.stage);
    for (const Bytes bytes : stage.use.at_peak)
      row += fmt::format(" {:>11.2f}", bytes.gib());
    if (replayed) row += fmt::format(" {:>9.2f}", stage.fragments.gib());
    row += fmt::format(" {:>9.2f} {:>8.2f}", stage.reserved.gib(), stage.total.gib());
    page.line(row + (stage.fits() ? "" : page.paint("31", " too much")));
  }
  add_memory(page, report);
  return page.take();
}

}  // namespace sim
