#include "sim/layout/row_packing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/random.hpp"
#include "sim/base/rounding.hpp"

namespace sim {
namespace {

// Sequences of a sample: enough for `rows_wanted` rows, but no more than are packed in an instant.
constexpr std::int64_t fewest_sampled = 8192, most_sampled = 65'536;
constexpr double rows_wanted = 512;
constexpr std::uint64_t stream_of_order = 1, stream_of_rows = 2;

// The standard normal quantile by bisection: erfc is the same on every machine to the last bits
// that matter to a whole number of tokens.
double normal_quantile(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

template <class Item>
void shuffle(std::vector<Item>& items, std::uint64_t seed, std::uint64_t stream) {
  for (std::size_t i = items.size(); i > 1; --i) {
    const auto other = static_cast<std::size_t>(uniform(seed, stream, i) * static_cast<double>(i));
    std::swap(items[i - 1], items[std::min(other, i - 1)]);
  }
}

std::int64_t sample_size(const Layout& layout, double mean) {
  const double wanted = rows_wanted * static_cast<double>(layout.sequence_length) / mean;
  return std::clamp(static_cast<std::int64_t>(std::min(wanted, 1e9)), fewest_sampled, most_sampled);
}

// ln l is normal; `packing_mean` is that of l.
std::vector<std::int64_t> lognormal_lengths(const Layout& layout) {
  const double sigma = layout.packing_sigma;
  const double middle = std::log(layout.packing_mean) - sigma * sigma / 2;
  std::vector<std::int64_t> lengths(
      static_cast<std::size_t>(sample_size(layout, layout.packing_mean)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(lengths.size());
    const double length = std::exp(middle + sigma * normal_quantile(share));
    lengths[i] = std::max<std::int64_t>(1, std::llround(std::min(length, 1e12)));
  }
  return lengths;
}

// All of a small data set, of a large one its quantiles.
std::vector<std::int64_t> measured_lengths(const Layout& layout) {
  const std::vector<LengthCount>& counts = *layout.packing_lengths.measured;
  std::int64_t all = 0;
  double tokens = 0;
  for (const LengthCount& item : counts) {
    all += item.count;
    tokens += static_cast<double>(item.length) * static_cast<double>(item.count);
  }
  const std::int64_t size =
      all <= most_sampled ? all : sample_size(layout, tokens / static_cast<double>(all));
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(size));
  std::size_t at = 0;
  double before = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double place =
        (static_cast<double>(i) + 0.5) / static_cast<double>(size) * static_cast<double>(all);
    while (at + 1 < counts.size() && before + static_cast<double>(counts[at].count) <= place)
      before += static_cast<double>(counts[at++].count);
    lengths.push_back(counts[at].length);
  }
  return lengths;
}

// Whether these are all sequences of the data set, and no sample of them.
bool is_whole(const Layout& layout, std::size_t lengths) {
  if (!layout.packing_lengths.measured) return false;
  std::int64_t all = 0;
  for (const LengthCount& item : *layout.packing_lengths.measured)
    all += item.count;
  return std::cmp_equal(all, lengths);
}

double square(std::int64_t length) {
  return static_cast<double>(length) * static_cast<double>(length);
}

// Free tokens of rows under way. The first row with room: a tree of maxima.
class FirstFit {
 public:
  FirstFit(std::size_t most_rows, std::int64_t room) {
    while (leaves_ < most_rows)
      leaves_ *= 2;
    most_.assign(2 * leaves_, room);
  }
  // The row that takes so many tokens.
  std::size_t place(std::int64_t length) {
    std::size_t node = 1;
    while (node < leaves_)
      node = 2 * node + (most_[2 * node] >= length ? 0 : 1);
    const std::size_t row = node - leaves_;
    most_[node] -= length;
    while (node > 1) {
      node /= 2;
      most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    }
    return row;
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> most_;
};

// The fullest row with room; of equals the one that came to be so last.
class BestFit {
 public:
  explicit BestFit(std::int64_t room) : room_{room} {}
  std::size_t place(std::int64_t length) {
    auto found = free_.lower_bound(length);
    std::size_t row = rows_;
    std::int64_t left = room_;
    if (found == free_.end()) {
      ++rows_;
    } else {
      row = found->second.back();
      left = found->first;
      found->second.pop_back();
      if (found->second.empty()) free_.erase(found);
    }
    if (left > length) free_[left - length].push_back(row);
    return row;
  }

 private:
  std::int64_t room_;
  std::size_t rows_ = 0;
  std::map<std::int64_t, std::vector<std::size_t>> free_;
};

void add(PackedRow& row, std::int64_t real, std::int64_t padded) {
  row.real += real;
  row.filled += padded;
  ++row.sequences;
  row.real_squares += square(real);
  row.squares += square(padded);
}

struct Packer {
  std::int64_t room = 0, multiple = 1;
  std::vector<PackedRow> rows;

  template <class Fit>
  void fit(const std::vector<std::int64_t>& lengths, Fit places) {
    for (const std::int64_t length : lengths) {
      const std::int64_t padded = std::min(room, round_up(length, multiple));
      const std::size_t row = places.place(padded);
      if (row >= rows.size()) rows.resize(row + 1);
      add(rows[row], length, padded);
    }
    for (PackedRow& row : rows)
      row.squares += square(room - row.filled);
  }

  // A sequence that a row cannot take whole goes on in the next.
  void concatenate(const std::vector<std::int64_t>& lengths) {
    rows.emplace_back();
    for (std::int64_t length : lengths)
      while (length > 0) {
        if (rows.back().filled == room) {
          if (rows.size() == static_cast<std::size_t>(most_sampled)) return;
          rows.emplace_back();
        }
        const std::int64_t part = std::min(length, room - rows.back().filled);
        add(rows.back(), part, part);
        length -= part;
      }
    if (rows.size() > 1 && rows.back().filled < room) rows.pop_back();
    rows.back().squares += square(room - rows.back().filled);
  }

  void one_each(const std::vector<std::int64_t>& lengths) {
    for (const std::int64_t length : lengths)
      add(rows.emplace_back(), length, std::min(room, round_up(length, multiple)));
  }
};

}  // namespace

std::int64_t length_multiple(const Layout& layout) {
  if (layout.packing_multiple > 0) return layout.packing_multiple;
  const std::int64_t c = layout.context_parallel, t = layout.tensor_parallel;
  return std::lcm(c > 1 ? 2 * c : 1, layout.sequence_parallel && t > 1 ? c * t : 1);
}

PackedRows packed_rows(const Layout& layout) {
  PackedRows made;
  std::vector<std::int64_t> lengths =
      layout.packing_lengths.measured ? measured_lengths(layout) : lognormal_lengths(layout);
  const std::int64_t room = layout.sequence_length;
  made.sequences = static_cast<std::int64_t>(lengths.size());
  Packer packer{room, length_multiple(layout), {}};
  const auto seed = static_cast<std::uint64_t>(layout.packing_seed);
  if (layout.packing == Packing::concatenated) {
    shuffle(lengths, seed, stream_of_order);
    packer.concatenate(lengths);
  } else {
    for (std::int64_t& length : lengths) {
      made.cut += length > room ? 1 : 0;
      length = std::min(length, room);
    }
    std::reverse(lengths.begin(), lengths.end());  // the longest first
    if (layout.packing == Packing::first_fit_shuffle) shuffle(lengths, seed, stream_of_order);
    if (pads_rows(layout.packing))
      packer.one_each(lengths);
    else if (layout.packing == Packing::best_fit_decreasing)
      packer.fit(lengths, BestFit{room});
    else
      packer.fit(lengths, FirstFit{lengths.size(), room});
  }
  made.rows = std::move(packer.rows);
  // The row that was begun last holds what was left. A data set has one, too, but not one in a
  // sample.
  if (!is_whole(layout, lengths.size()) && !pads_rows(layout.packing) && made.rows.size() > 1)
    made.rows.pop_back();
  shuffle(made.rows, seed, stream_of_rows);
  return made;
}

}  // namespace sim
