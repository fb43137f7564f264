// The report as JSON. SCHEMA.md documents every key; a test holds the two together.
#include <nlohmann/json.hpp>

#include "sim/collective/collective_cost.hpp"
#include "sim/layout/layout_fields.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/page.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule/closed_form.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

// The version of the form that SCHEMA.md describes. A key added: same number. A key removed, or one
// whose meaning changes: the next.
constexpr int schema_version = 1;

Json breakdown_json(const Breakdown& parts) {
  Json json;
  for (const BreakdownField& field : breakdown_fields)
    json[std::string{field.key}] = in_seconds(parts.*field.member);
  return json;
}

Json categories_json(const StageMemory& stage) {
  Json json;
  for (const auto& category : words_of(BufferCategory{}))
    json[std::string{category.text}] =
        stage.use.at_peak[static_cast<std::size_t>(category.value)].count();
  if (stage.fragments.count() > 0) json["fragments"] = stage.fragments.count();
  json["reserved"] = stage.reserved.count();
  if (stage.replayed) {
    json["max_allocated"] = stage.max_allocated().count();
    json["max_reserved"] = stage.max_reserved().count();
  }
  return json;
}

Json json_of(const Layout& layout) {
  Json json;
  const auto add = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      json[key] = Json::parse(value_json(layout, layout_field(key)));
  };
  add({"tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel",
       "virtual_stages", "schedule", "micro_batch"});
  json["micro_batches"] = layout.micro_batches();
  add({"global_batch", "sequence_length", "sequence_parallel", "zero_stage", "recompute",
       "compute_dtype"});
  if (layout.expert_parallel > 1) {
    add({"expert_parallel"});
    json["expert_tensor_parallel"] = layout.expert_tensor();
    add({"expert_imbalance"});
  }
  if (layout.optimizer != OptimizerKind::adam) add({"optimizer"});
  if (layout.moment_dtype != DType::fp32) add({"moment_dtype"});
  if (layout.context_parallel > 1) add({"context_exchange"});
  for (const LayoutField& field : layout_fields())
    if (!field.written_always && !same_value(layout, Layout{}, field))
      json[field.key.path] = Json::parse(value_json(layout, field));
  return json;
}

Json pools_json(const Report& report) {
  Json pools = Json::array();
  for (const PoolTime& pool : report.pools)
    pools.push_back({{"nodes_of", pool.name},
                     {"device", pool.device},
                     {"gpus", pool.gpus},
                     {"breakdown_s", breakdown_json(pool.breakdown)}});
  return pools;
}

Json stages_json(const Report& report) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    const StageMemory& memory = report.memory[i];
    Json stage{{"stage", memory.stage}};
    if (i < report.stage_breakdown.size())
      stage["breakdown_s"] = breakdown_json(report.stage_breakdown[i]);
    stage["peak_mem_bytes"] = memory.total.count();
    stage["memory_bytes"] = categories_json(memory);
    stage["peak_operator"] = memory.peak_operator;
    if (memory.host.memory.count() > 0) {
      stage["host_bytes_per_node"] = memory.host.memory.count();
      stage["disk_bytes_per_node"] = memory.host.disk.count();
    }
    stage["fits"] = memory.fits();
    if (memory.retries > 0) stage["allocator_retries"] = memory.retries;
    if (memory.fits_by_retries()) stage["memory_bytes"]["needed"] = memory.needed().count();
    stages.push_back(std::move(stage));
  }
  return stages;
}

Json collectives_json(const Report& report) {
  Json rows = Json::array();
  for (const CollectiveSummary& row : report.collectives) {
    const double algorithm = algorithm_bandwidth(row) / 1e9;
    rows.push_back({{"operation", word(row.kind)},
                    {"group", word(row.group)},
                    {"ranks", row.ranks},
                    {"count", row.count},
                    {"bytes", row.bytes.count()},
                    {"mean_time_s", in_seconds(row.mean_time)},
                    {"algbw_gbytes_per_s", algorithm},
                    {"busbw_gbytes_per_s", algorithm * bus_factor(row.kind, row.ranks)},
                    {"algorithm", row.algorithm}});
  }
  return rows;
}

Json links_json(const Report& report) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < report.busiest_links.size(); ++i) {
    const LinkLoad& load = report.busiest_links[i];
    rows.push_back(
        {{"name", report.link_names[i]},
         {"represents", load.represents},
         {"carried_bytes", load.carried.count()},
         {"capacity_gbytes_per_s", report.link_capacities[i].in_bytes_per_second() / 1e9},
         {"busy_s", in_seconds(load.busy)},
         {"use", link_use(report, i)}});
  }
  return rows;
}

// identity_json() is what every answer begins with.
Json identity_json(const Report& report) {
  Json json = {{"schema_version", schema_version}, {"tool_version", STEPCAST_VERSION},
               {"scenario", report.scenario},      {"model", report.model},
               {"cluster", report.cluster},        {"device", report.device}};
  for (const Unvalidated& part : report.not_validated)
    json["not_validated"].push_back(
        {{"what", part.what}, {"name", part.name}, {"rests_on", part.rests_on}});
  return json;
}

void add_software(Json& json, const Report& report) {
  if (!report.software) return;
  const Software& it = *report.software;
  Json software{{"text", software_line(it)}, {"framework", it.framework},
                {"version", it.version},     {"preset", it.preset},
                {"kernels", it.kernels},     {"attention", it.attention},
                {"allocator", it.allocator}, {"unlike_preset", it.unlike_preset}};
  if (!it.newest.empty()) {
    software["newest_version"] = it.newest;
    software["newest_has"] = it.newest_has;
  }
  json["software"] = std::move(software);
}

void add_notes(Json& json, const Report& report) {
  std::vector<std::string> lines = note_lines(report);
  if (!lines.empty()) json["notes"] = std::move(lines);
}

// How the job lies on the nodes.
void add_nodes(Json& json, const Report& report) {
  json["gpus"] = report.ranks;
  json["nodes"] = report.nodes;
  if (!report.allocation.empty()) json["allocation"] = report.allocation;
  json["gpus_per_node"] = report.gpus_per_node;
  json["idle_gpus_per_node"] = report.idle_gpus_per_node();
  if (report.even_gpus_per_node != report.gpus_per_node) json["uneven_nodes"] = uneven_text(report);
  for (const CrossingGroups& groups : report.crossing)
    json["crossing_groups"].push_back({{"role", word(groups.role)},
                                       {"ranks", groups.ranks},
                                       {"groups", groups.groups},
                                       {"crossing", groups.crossing},
                                       {"nodes", groups.nodes},
                                       {"set", groups.remedy},
                                       {"text", describe(groups, report.room)}});
}

// Between which the time lies in `interval.share` of such runs, and what follows from it.
void add_interval(Json& json, const Report& report) {
  if (!report.interval) return;
  const TimeInterval& interval = *report.interval;
  json["step_time_s_low"] = in_seconds(report.step_time) * interval.low;
  json["step_time_s_high"] = in_seconds(report.step_time) * interval.high;
  json["tokens_per_s_low"] = report.tokens_per_second / interval.high;
  json["tokens_per_s_high"] = report.tokens_per_second / interval.low;
  json["interval"] = {{"share", interval.level},
                      {"runs", interval.rows},
                      {"sets", interval.sets},
                      {"framework_named", interval.named},
                      {"unlike", interval.unlike}};
}

void add_fullest_stage(Json& json, const Report& report) {
  const StageMemory& worst = report.worst_memory();
  json["peak_mem_bytes"] = worst.total.count();
  json["device_mem_bytes"] = worst.capacity.count();
  json["fits"] = report.fits();
  json["memory_left_bytes"] = report.memory_left().count();
  json["memory_in_doubt"] = report.memory_in_doubt();
  json["fits_by_retries"] = report.fits_by_retries();
  if (report.memory_error)
    json["memory_error"] = {{"share", report.memory_error->fraction},
                            {"runs", report.memory_error->rows},
                            {"of", report.memory_error->of},
                            {"unlike", report.memory_error->unlike}};
  if (const std::optional<double> chance = report.fits_chance())
    json["fits_chance"] = std::round(*chance * 1e4) / 1e4;
  if (const std::optional<MemoryRange> range = report.memory_range()) {
    json["peak_mem_bytes_low"] = range->low.count();
    json["peak_mem_bytes_high"] = range->high.count();
  }
  json["worst_stage"] = worst.stage;
}

void add_expert_load(Json& json, const Report& report) {
  if (!report.expert_load) return;
  const ExpertLoadFacts& load = *report.expert_load;
  json["expert_load"] = {{"fullest_rank_share", load.fullest},
                         {"held_share", load.held},
                         {"held_rank", load.rank},
                         {"dropped_share", load.dropped},
                         {"rows", load.rows}};
}

// Times of the mean worker; shares of the time.
Json servers_json(const Report& report) {
  const ServerRun& run = *report.servers;
  Json json = {{"mode", word(report.layout.servers)},
               {"exchange_s", in_seconds(run.exchange)},
               {"wait_for_workers_s", in_seconds(run.others)},
               {"busy", run.servers_busy},
               {"busiest_link", report.servers_link},
               {"busiest_link_share", run.busiest_share},
               {"worker_steps", run.worker_steps}};
  if (!run.staleness.empty())
    json["staleness"] = {{"mean", run.staleness.mean()},
                         {"half", run.staleness.quantile(0.5)},
                         {"of_95_percent", run.staleness.quantile(0.95)},
                         {"counts", run.staleness.counts()}};
  return json;
}

Json loads_json(const BatchLoads& loads) {
  return {{"row_tokens", loads.tokens},
          {"real_share", loads.real_share()},
          {"per_row", loads.sequences},
          {"attended_tokens", loads.attended},
          {"real_attended_tokens", loads.real_attended},
          {"cut_share", loads.cut},
          {"imbalance", loads.imbalance},
          {"attention_imbalance", loads.attention_imbalance},
          {"replicas_together", loads.together}};
}

}  // namespace

std::string to_json(const Report& report) {
  Json json = identity_json(report);
  json["engine"] = report.engine;
  json["seed"] = report.seed;
  add_software(json, report);
  add_nodes(json, report);
  json["parameters"] = report.parameters;
  json["tokens_per_step"] = report.tokens;
  json["token_unit"] = report.counts_samples ? "sample" : "token";
  json["step_time_s"] = in_seconds(report.step_time);
  json["step_time_ps"] = report.step_time.count();
  json["tokens_per_s"] = report.tokens_per_second;
  json["tokens_per_s_per_gpu"] = report.tokens_per_second_per_gpu;
  json["model_tflops_per_gpu"] = report.model_rate_per_gpu.in_flops_per_second() / 1e12;
  json["hardware_tflops_per_gpu"] = report.hardware_rate_per_gpu.in_flops_per_second() / 1e12;
  json["peak_tflops_per_gpu"] = report.peak_rate.in_flops_per_second() / 1e12;
  json["mfu"] = report.mfu;
  json["hfu"] = report.hfu;
  add_interval(json, report);
  json["flop_formula"] = flop_formula(report);
  add_fullest_stage(json, report);
  json["breakdown_s"] = breakdown_json(report.breakdown);
  if (report.meetings)
    json["meetings"] = {{"every_steps", report.layout.local_steps},
                        {"exposed_s", in_seconds(report.meetings->exposed)},
                        {"per_step_s", in_seconds(report.meetings->per_step)},
                        {"message_bytes", report.meetings->message.count()}};
  add_expert_load(json, report);
  if (report.servers) json["servers"] = servers_json(report);
  if (report.loads) json["sequences"] = loads_json(*report.loads);
  json["bubble"] = {{"share", report.bubble_share},
                    {"closed_form_share", report.bubble_closed_form},
                    {"closed_form", bubble_closed_form(report.layout).formula}};
  json["memory_bytes"] = categories_json(report.worst_memory());
  json["layout"] = json_of(report.layout);
  if (!report.pools.empty()) json["pools"] = pools_json(report);
  json["stages"] = stages_json(report);
  json["collectives"] = collectives_json(report);
  json["busiest_links"] = links_json(report);
  json["what_if"] = Json::array();
  for (const WhatIf& entry : report.what_if)
    json["what_if"].push_back(
        {{"infinitely_fast", word(entry.resource)}, {"step_time_s", in_seconds(entry.step_time)}});
  add_notes(json, report);
  json["provenance"] = provenance_lines(report);
  json["simulation"] = {{"rank_classes", report.stats.rank_classes},
                        {"activities", report.stats.activities},
                        {"events", report.stats.events}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string memory_json(const Report& report) {
  Json json = identity_json(report);
  add_software(json, report);
  add_notes(json, report);
  add_nodes(json, report);
  json["parameters"] = report.parameters;
  add_fullest_stage(json, report);
  add_expert_load(json, report);
  json["memory_bytes"] = categories_json(report.worst_memory());
  json["layout"] = json_of(report.layout);
  json["stages"] = stages_json(report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sim
