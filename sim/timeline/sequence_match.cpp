#include "sim/timeline/sequence_match.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {

SequencePairs match_sequences(std::uint32_t n, std::uint32_t m,
                              const std::function<double(std::uint32_t i, std::uint32_t j)>& cost,
                              double left_out) {
  const std::size_t width = std::size_t{m} + 1;
  SIM_CHECK(std::size_t{n} * m <= most_sequence_pairs, n, m);
  enum class Way : std::uint8_t { pair, leave_i, leave_j };
  std::vector<Way> way((std::size_t{n} + 1) * width, Way::leave_j);
  std::vector<double> before(width), row(width);
  for (std::uint32_t j = 0; j <= m; ++j)
    before[j] = left_out * j;
  for (std::uint32_t i = 1; i <= n; ++i) {
    row[0] = left_out * i;
    way[i * width] = Way::leave_i;
    for (std::uint32_t j = 1; j <= m; ++j) {
      Way& best = way[i * width + j];
      best = Way::pair;
      row[j] = before[j - 1] + cost(i - 1, j - 1);
      if (before[j] + left_out < row[j]) {
        row[j] = before[j] + left_out;
        best = Way::leave_i;
      }
      if (row[j - 1] + left_out < row[j]) {
        row[j] = row[j - 1] + left_out;
        best = Way::leave_j;
      }
    }
    std::swap(before, row);
  }
  SequencePairs pairs;
  for (std::uint32_t i = n, j = m; i > 0 || j > 0;) {
    const Way last = way[i * width + j];
    if (last == Way::pair) pairs.emplace_back(i - 1, j - 1);
    if (last != Way::leave_j) --i;
    if (last != Way::leave_i) --j;
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace sim
