#include "sim/page/spans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "sim/timeline/ink.hpp"

namespace sim {
namespace {

constexpr int wait_ink = static_cast<int>(ink_count);

std::int64_t nanoseconds(TimePoint at) {
  return ((at - TimePoint{}).count() + 500) / 1000;
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i])
                                                  : std::uint32_t{0});
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : letters[(group >> (18 - 6 * i)) & 63];
  }
  return text;
}

void add_varint(std::string& bytes, std::uint64_t value) {
  while (value >= 128) {
    bytes += static_cast<char>((value & 127) | 128);
    value >>= 7;
  }
  bytes += static_cast<char>(value);
}

// Kinds of spans: what is drawn alike. Those of micro-batches are the same ones again and again.
class SpanKinds {
 public:
  std::uint64_t of(const std::string& name, int ink, std::int64_t duration) {
    const auto [at, added] = number_.emplace(std::tuple{name, ink, duration}, list_.size());
    if (added) list_.push_back({name, ink, duration});
    return at->second;
  }
  const nlohmann::json& list() const { return list_; }

 private:
  std::map<std::tuple<std::string, int, std::int64_t>, std::uint64_t> number_;
  nlohmann::json list_ = nlohmann::json::array();
};

struct Lane {
  std::string bytes;
  std::int64_t end = 0;
};

class RankLanes {
 public:
  RankLanes(const Program& program, SpanKinds& kinds) : program_{program}, kinds_{kinds} {}

  void add(const Span& span) {
    Lane& lane = lanes_[static_cast<std::size_t>(program_.stream[span.op.value])];
    const int ink = static_cast<int>(ink_of(program_, span.op));
    if (ink > wait_ink) return;
    const std::string& name = label(span.op);
    add_span(lane, span.begin, span.active, name + " (waits)", wait_ink);
    add_span(lane, span.active, span.end, name, ink);
  }

  nlohmann::json json() const {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t stream = 0; stream < lanes_.size(); ++stream)
      if (!lanes_[stream].bytes.empty())
        list.push_back({{"stream", word(static_cast<Stream>(stream))},
                        {"spans", base64(lanes_[stream].bytes)}});
    return list;
  }

 private:
  const std::string& label(OpId op) {
    const OpLabel& of = program_.label[op.value];
    label_ = fmt::format("{} {}", program_.names[of.name], word(program_.pass[op.value]));
    if (of.layer >= 0) label_ += fmt::format(", layer {}", of.layer);
    return label_;
  }

  void add_span(Lane& lane, TimePoint begin, TimePoint end, const std::string& name, int ink) {
    const std::int64_t from = std::max(lane.end, nanoseconds(begin)), to = nanoseconds(end);
    if (to <= from) return;
    add_varint(lane.bytes, static_cast<std::uint64_t>(from - lane.end));
    add_varint(lane.bytes, kinds_.of(name, ink, to - from));
    lane.end = to;
  }

  const Program& program_;
  SpanKinds& kinds_;
  std::array<Lane, stream_count> lanes_;
  std::string label_;
};

const RankTrack& track_of(const Timeline& timeline, RankId rank) {
  for (const RankTrack& track : timeline.tracks)
    if (track.rank == rank) return track;
  throw std::invalid_argument{fmt::format("the timeline has no track of rank {}", rank.value)};
}

}  // namespace

std::string timeline_json(const Plan& plan, const Timeline& timeline,
                          const std::vector<RankId>& ranks) {
  nlohmann::ordered_json json;
  json["end_ns"] = nanoseconds(timeline.end);
  json["inks"] = nlohmann::json::array();
  for (const InkLegend& ink : ink_legend)
    json["inks"].push_back({{"name", ink.text}, {"colour", ink.colour}});
  json["inks"].push_back({{"name", "waits for a partner"}, {"colour", ""}});
  SpanKinds kinds;
  nlohmann::json tracks = nlohmann::json::array();
  for (const RankId rank : ranks) {
    const RankTrack& track = track_of(timeline, rank);
    RankLanes lanes{plan.program(rank), kinds};
    for (const Span& span : track.spans)
      lanes.add(span);
    tracks.push_back({{"rank", rank.value},
                      {"represents", track.represents},
                      {"stage", coordinates_of(plan.layout, rank).pipeline},
                      {"lanes", lanes.json()}});
  }
  json["kinds"] = kinds.list();
  json["ranks"] = std::move(tracks);
  return json.dump();
}

}  // namespace sim
