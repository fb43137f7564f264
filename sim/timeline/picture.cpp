#include "sim/timeline/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "sim/base/quantity.hpp"
#include "sim/timeline/ink.hpp"
#include "sim/timeline/svg.hpp"

namespace sim {
namespace {

constexpr int columns = 1000;
constexpr int left_margin = 110;
constexpr int top = 52;
constexpr int compute_height = 12;
constexpr int comm_height = 5;
constexpr int row_height = 24;

// Time of each ink in each column of one lane.
class InkLane {
 public:
  explicit InkLane(Duration length) : length_{std::max<std::int64_t>(1, length.count())} {}

  void add(Ink ink, TimePoint begin, TimePoint end) {
    const std::int64_t from = begin.time_since_epoch().count();
    const std::int64_t to = end.time_since_epoch().count();
    for (std::int64_t column = column_at(from); column < columns; ++column) {
      const std::int64_t start = std::max(from, edge(column));
      const std::int64_t stop = std::min(to, edge(column + 1));
      if (stop <= start) break;
      time_[static_cast<std::size_t>(column)][static_cast<std::size_t>(ink)] += stop - start;
    }
  }

  // The ink that fills most of a column, if something fills half of it or more.
  Ink at(int column) const {
    const auto& times = time_[static_cast<std::size_t>(column)];
    const auto most = std::max_element(times.begin(), times.end());
    std::int64_t all = 0;
    for (const std::int64_t time : times)
      all += time;
    if (2 * all < edge(column + 1) - edge(column)) return Ink::none;
    return static_cast<Ink>(most - times.begin());
  }

 private:
  // Edges of columns, exact: a step of hours times a thousand columns fits in 64 bits.
  std::int64_t edge(std::int64_t column) const { return length_ / columns * column; }
  std::int64_t column_at(std::int64_t time) const {
    return std::min<std::int64_t>(columns - 1, time / std::max<std::int64_t>(1, length_ / columns));
  }

  std::int64_t length_;
  std::vector<std::array<std::int64_t, ink_count>> time_ =
      std::vector<std::array<std::int64_t, ink_count>>(columns);
};

// Runs of equal columns as one path per ink: a thousandth of the size of a rectangle each.
void draw(const InkLane& lane, int y, int height, std::array<std::string, ink_count>& paths) {
  for (int column = 0; column < columns;) {
    const Ink ink = lane.at(column);
    int end = column + 1;
    while (end < columns && lane.at(end) == ink)
      ++end;
    if (ink != Ink::none)
      paths[static_cast<std::size_t>(ink)] += fmt::format("M{} {}h{}v{}h-{}z", left_margin + column,
                                                          y, end - column, height, end - column);
    column = end;
  }
}

std::vector<const RankTrack*> chosen_tracks(const Timeline& timeline,
                                            const PictureOptions& options) {
  std::vector<const RankTrack*> tracks;
  if (options.ranks.empty())
    for (const RankTrack& track : timeline.tracks)
      tracks.push_back(&track);
  for (const RankId rank : options.ranks) {
    const auto found = std::find_if(timeline.tracks.begin(), timeline.tracks.end(),
                                    [&](const RankTrack& track) { return track.rank == rank; });
    if (found == timeline.tracks.end())
      throw std::invalid_argument(fmt::format("the timeline has no track of rank {}", rank.value));
    tracks.push_back(&*found);
  }
  return tracks;
}

std::string legend_row(int y) {
  std::string svg;
  int x = left_margin;
  for (const InkLegend& entry : ink_legend) {
    svg += fmt::format(R"(<rect x="{}" y="{}" width="10" height="10" fill="{}"/>)", x, y - 9,
                       entry.colour);
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 14, y, entry.text);
    x += 24 + 7 * static_cast<int>(entry.text.size());
  }
  return svg;
}

std::string time_axis(Duration length, int y) {
  std::string svg;
  constexpr int marks = 5;
  for (int i = 0; i <= marks; ++i) {
    const int x = left_margin + columns * i / marks;
    svg += fmt::format(R"(<path d="M{} {}v5" stroke="#888"/>)", x, y);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, y + 17,
                       to_text(length * i / marks));
  }
  return svg;
}

}  // namespace

std::string to_svg(const Plan& plan, const Timeline& timeline, const PictureOptions& options) {
  const std::vector<const RankTrack*> tracks = chosen_tracks(timeline, options);
  const Duration length = timeline.end.time_since_epoch();
  const int rows = static_cast<int>(tracks.size());
  const int bottom = top + rows * row_height;
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(font-family="sans-serif" font-size="11"><rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n<text x=\"{2}\" y=\"18\" font-size=\"14\">{3}</text>\n",
      left_margin + columns + 40, bottom + 28, left_margin, svg_escaped(options.title));
  svg += legend_row(38);
  std::array<std::string, ink_count> paths;
  for (int row = 0; row < rows; ++row) {
    const RankTrack& track = *tracks[static_cast<std::size_t>(row)];
    const Program& program = plan.program(track.rank);
    InkLane compute{length};
    InkLane communication{length};
    for (const Span& span : track.spans) {
      const bool kernel = program.stream[span.op.value] == Stream::compute;
      (kernel ? compute : communication).add(ink_of(program, span.op), span.active, span.end);
    }
    const int y = top + row * row_height;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">stage {} x{}</text>\n",
                       left_margin - 8, y + compute_height, program.stage, track.represents);
    svg += fmt::format("<path d=\"M{} {}h{}\" stroke=\"#ddd\"/>\n", left_margin,
                       y + compute_height + comm_height + 2, columns);
    draw(compute, y, compute_height, paths);
    draw(communication, y + compute_height, comm_height, paths);
  }
  for (std::size_t ink = 0; ink < ink_count; ++ink)
    svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", ink_legend[ink].colour, paths[ink]);
  return svg + time_axis(length, bottom) + "</svg>\n";
}

}  // namespace sim
