// Points as records: every figure as it is, so that a sweep from records is the sweep itself.
#include <nlohmann/json.hpp>

#include "sim/report/numbers.hpp"
#include "sim/sweep/distributed_sweep.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr IntegerRange any_time{std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max()};
constexpr RealRange any_real{std::numeric_limits<double>::lowest(),
                             std::numeric_limits<double>::max()};

// Numbers are written with as many digits as make them read back the same. Text is a path or a
// message and may be any bytes: what is no UTF-8 is replaced.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string answer_text(const PointResult& point) {
  if (!point.told()) return line_of({{"problem", point.problem}});
  Json breakdown;
  for (const BreakdownField& field : breakdown_fields)
    breakdown[std::string{field.key}] = (point.breakdown.*field.member).count();
  Json json{{"layout", point.layout},
            {"gpus", point.gpus},
            {"step_time_ps", point.step_time.count()},
            {"step_time_low_ps", point.shortest.count()},
            {"step_time_high_ps", point.longest.count()},
            {"tokens_per_s", point.tokens_per_second},
            {"tokens_per_s_per_gpu", point.tokens_per_second_per_gpu},
            {"mfu", point.mfu},
            {"peak_mem_bytes", point.memory.count()},
            {"device_mem_bytes", point.capacity.count()},
            {"breakdown_ps", breakdown}};
  if (!point.notes.empty()) json["notes"] = point.notes;
  return line_of(json);
}

PointResult read_point(const ObjectReader& answer) {
  if (answer.has("problem")) {
    const std::string why = answer.text("problem");
    if (why.empty())
      answer.problem("problem", "is empty: a point that cannot be forecast says why");
    return no_result(why);
  }
  PointResult point;
  point.layout = answer.text("layout");
  point.gpus = static_cast<int>(answer.integer("gpus", {1, std::numeric_limits<int>::max()}));
  point.step_time = Duration{answer.integer("step_time_ps")};
  point.shortest = Duration{answer.integer("step_time_low_ps")};
  point.longest = Duration{answer.integer("step_time_high_ps")};
  point.tokens_per_second = answer.real("tokens_per_s", any_real);
  point.tokens_per_second_per_gpu = answer.real("tokens_per_s_per_gpu", any_real);
  point.mfu = answer.real("mfu", any_real);
  point.memory = Bytes{answer.integer("peak_mem_bytes")};
  point.capacity = Bytes{answer.integer("device_mem_bytes")};
  if (answer.has("notes"))
    for (const ValueReader& note : answer.list("notes"))
      point.notes.push_back(note.text());
  const ObjectReader breakdown = answer.object("breakdown_ps");
  for (const BreakdownField& field : breakdown_fields)
    point.breakdown.*field.member = Duration{breakdown.integer(field.key, any_time)};
  return point;
}

PointResult point_of_text(std::string_view answer) {
  const Document document = Document::parse_json(answer, "answer");
  PointResult point = read_point(document.root_object());
  document.finish();
  return point;
}

}  // namespace sim
