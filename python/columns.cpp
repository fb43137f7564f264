#include "python/columns.hpp"

#include <unordered_map>

namespace stepcast_python {
namespace {

class Builder {
 public:
  Builder(const sim::Plan& plan, const sim::Timeline& timeline) : plan_{plan} {
    for (const auto& stream : words_of(sim::Stream{}))
      columns_.streams.emplace_back(stream.text);
    std::size_t rows = 0;
    for (const sim::RankTrack& track : timeline.tracks)
      rows += track.spans.size();
    reserve(rows);
    for (const sim::RankTrack& track : timeline.tracks)
      add(track);
  }
  TimelineColumns take() { return std::move(columns_); }

 private:
  void reserve(std::size_t rows) {
    for (auto* column : {&columns_.rank, &columns_.represents, &columns_.stage, &columns_.name,
                         &columns_.stream, &columns_.layer, &columns_.micro_batch})
      column->reserve(rows);
    for (auto* column : {&columns_.begin_ps, &columns_.active_ps, &columns_.end_ps})
      column->reserve(rows);
  }

  void add(const sim::RankTrack& track) {
    const sim::Program& program = plan_.program(track.rank);
    const std::vector<std::int32_t> names = names_of(program);
    for (const sim::Span& span : track.spans) {
      const std::uint32_t op = span.op.value;
      const sim::OpLabel& label = program.label[op];
      columns_.rank.push_back(static_cast<std::int32_t>(track.rank.value));
      columns_.represents.push_back(static_cast<std::int32_t>(track.represents));
      columns_.stage.push_back(program.stage);
      columns_.name.push_back(names[label.name]);
      columns_.stream.push_back(static_cast<std::int32_t>(program.stream[op]));
      columns_.layer.push_back(label.layer);
      columns_.micro_batch.push_back(label.microbatch);
      columns_.begin_ps.push_back(span.begin.time_since_epoch().count());
      columns_.active_ps.push_back(span.active.time_since_epoch().count());
      columns_.end_ps.push_back(span.end.time_since_epoch().count());
    }
  }

  // Programs of several stages share names: one index for all.
  std::vector<std::int32_t> names_of(const sim::Program& program) {
    std::vector<std::int32_t> indices;
    for (const std::string& name : program.names) {
      const auto next = static_cast<std::int32_t>(columns_.names.size());
      const auto [found, is_new] = index_.try_emplace(name, next);
      if (is_new) columns_.names.push_back(name);
      indices.push_back(found->second);
    }
    return indices;
  }

  const sim::Plan& plan_;
  TimelineColumns columns_;
  std::unordered_map<std::string, std::int32_t> index_;
};

}  // namespace

std::shared_ptr<const TimelineColumns> columns_of(const sim::Plan& plan,
                                                  const sim::Timeline& timeline) {
  return std::make_shared<const TimelineColumns>(Builder{plan, timeline}.take());
}

}  // namespace stepcast_python
