// Lengths of a data set: read, packed into rows, and what they make of a step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>

#include "sim/base/input_error.hpp"
#include "sim/layout/batch_loads.hpp"
#include "sim/layout/layout_fields.hpp"
#include "sim/layout/row_packing.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

Layout with(std::vector<LengthCount> lengths, std::int64_t row,
            Packing method = Packing::first_fit_decreasing) {
  Layout layout;
  layout.sequence_length = row;
  layout.global_batch = 8;
  layout.data_parallel = 4;
  layout.packing_lengths.name = "lengths.csv";
  layout.packing_lengths.measured =
      std::make_shared<const std::vector<LengthCount>>(std::move(lengths));
  layout.packing = method;
  return layout;
}

Layout lognormal(double mean, double sigma, std::int64_t row = 4096) {
  Layout layout = with({}, row);
  layout.packing_lengths = {"lognormal", nullptr};
  layout.packing_mean = mean;
  layout.packing_sigma = sigma;
  return layout;
}

std::vector<std::int64_t> fillings(const PackedRows& packed) {
  std::vector<std::int64_t> rows;
  for (const PackedRow& row : packed.rows)
    rows.push_back(row.filled);
  std::ranges::sort(rows);
  return rows;
}

// The number of rows that first fit takes, as one would write it down: each length into the first
// row with room.
std::size_t rows_of_first_fit(std::vector<std::int64_t> lengths, std::int64_t room) {
  std::vector<std::int64_t> rows;
  std::ranges::sort(lengths, std::greater<>{});
  for (const std::int64_t length : lengths) {
    const auto row =
        std::ranges::find_if(rows, [&](std::int64_t filled) { return filled + length <= room; });
    if (row == rows.end())
      rows.push_back(length);
    else
      *row += length;
  }
  return rows.size();
}

std::vector<LengthCount> lengths_in(const std::string& text) {
  const std::string path = test::temporary_path("lengths.csv").string();
  std::ofstream{path} << text;
  return read_lengths(path);
}

}  // namespace

TEST_CASE("lengths are read one in a line, or with counts", "[layout][packing]") {
  CHECK(lengths_in("7\n3\n7\n") == std::vector<LengthCount>{{3, 1}, {7, 2}});
  CHECK(lengths_in("length,count\n# of a sample\n3, 10\n\n5,2\r\n3,1") ==
        std::vector<LengthCount>{{3, 11}, {5, 2}});
  CHECK(lengths_in("3,0\n4") == std::vector<LengthCount>{{4, 1}});
}

TEST_CASE("errors of a file of lengths name line and value", "[layout][packing]") {
  const auto problem_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(lengths_in(text));
    } catch (const InputError& error) {
      const Problem& first = error.problems().front();
      return fmt::format("{}: {}", first.where.line, first.what);
    }
    return "none";
  };
  CHECK(problem_of("") == "0: the file has no length; wanted: one in each line");
  CHECK(problem_of("5\nlong\n") ==
        "2: 'long' is no length; allowed: whole numbers from 1 to 4294967296");
  CHECK(problem_of("5\n0\n") == "2: '0' is no length; allowed: whole numbers from 1 to 4294967296");
  CHECK(problem_of("5,-1\n") ==
        "1: '-1' is no count; allowed: whole numbers from 0 to 1000000000000");
  CHECK(problem_of("5.5\n") ==
        "1: '5.5' is no length; allowed: whole numbers from 1 to 4294967296");
  CHECK(problem_of("99999999999999999999\n").substr(0, 3) == "1: ");
  CHECK_THROWS_AS(read_lengths("no such file"), InputError);
}

TEST_CASE("first fit fills rows as one would by hand", "[layout][packing]") {
  const PackedRows packed = packed_rows(with({{2, 1}, {3, 2}, {5, 1}, {6, 1}}, 10));
  // 6 | 5; 3 to 6: 9; 3 to 5: 8; 2 to 5: 10.
  CHECK(fillings(packed) == std::vector<std::int64_t>{9, 10});
  CHECK(packed.sequences == 5);
  CHECK(packed.cut == 0);
  for (const PackedRow& row : packed.rows) {
    const bool full = row.filled == 10;
    CHECK(row.squares == (full ? 25 + 9 + 4 : 36 + 9 + 1));  // one token of padding is a sequence
    CHECK(row.real_squares == (full ? 25 + 9 + 4 : 36 + 9));
  }
}

TEST_CASE("best fit takes the fullest row with room, first fit the first", "[layout][packing]") {
  // 9 and 8, behind them 7, 6 and 5: 3 and 2 tokens are left for the 2.
  const std::vector<LengthCount> lengths{{2, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}, {9, 1}};
  CHECK(fillings(packed_rows(with(lengths, 20))) == std::vector<std::int64_t>{18, 19});
  CHECK(fillings(packed_rows(with(lengths, 20, Packing::best_fit_decreasing))) ==
        std::vector<std::int64_t>{17, 20});
}

TEST_CASE("first fit by a tree is first fit", "[layout][packing][property]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::vector<LengthCount> counts;
    std::vector<std::int64_t> lengths;
    for (std::int64_t length = 1 + static_cast<std::int64_t>(seed % 7); length < 100;
         length += 1 + static_cast<std::int64_t>((seed * 31 + 7) % 13)) {
      const auto count =
          static_cast<std::int64_t>((seed * 17 + 5 * static_cast<std::uint64_t>(length)) % 9);
      if (count == 0) continue;
      counts.push_back({length, count});
      lengths.insert(lengths.end(), static_cast<std::size_t>(count), length);
    }
    if (lengths.empty()) continue;
    const PackedRows packed = packed_rows(with(counts, 128));
    CHECK(packed.rows.size() == rows_of_first_fit(lengths, 128));
    std::int64_t real = 0, sequences = 0;
    for (const PackedRow& row : packed.rows) {
      CHECK(row.filled <= 128);
      real += row.real;
      sequences += row.sequences;
    }
    CHECK(real == std::reduce(lengths.begin(), lengths.end()));
    CHECK(sequences == packed.sequences);
  }
}

TEST_CASE("long sequences are cut, and each is padded to what the ranks need",
          "[layout][packing]") {
  Layout layout = with({{3, 1}, {25, 1}}, 16);
  const PackedRows cut = packed_rows(layout);
  CHECK(cut.cut == 1);
  CHECK(fillings(cut) == std::vector<std::int64_t>{3, 16});
  layout.context_parallel = 2;
  CHECK(length_multiple(layout) == 4);
  CHECK(fillings(packed_rows(layout)) == std::vector<std::int64_t>{4, 16});
  layout.tensor_parallel = 8;
  CHECK(length_multiple(layout) == 4);
  layout.sequence_parallel = true;
  CHECK(length_multiple(layout) == 16);
  layout.packing_multiple = 32;
  CHECK(length_multiple(layout) == 32);
}

TEST_CASE("concatenated sequences leave no room", "[layout][packing]") {
  const PackedRows packed = packed_rows(with({{7, 100}}, 10, Packing::concatenated));
  CHECK(packed.rows.size() == 70);
  for (const PackedRow& row : packed.rows)
    CHECK(row.real == 10);
}

TEST_CASE("lognormal lengths have the mean that was asked for", "[layout][packing]") {
  const BatchLoads loads = batch_loads(lognormal(300, 0.5), 0);
  CHECK(loads.cut == 0);
  CHECK(loads.real_share() > 0.98);
  CHECK(loads.sequences == Approx(loads.real_tokens / 300).epsilon(0.005));
  // Where ln l has deviation d, E[l^2] / E[l] is the mean times exp(d^2).
  CHECK(loads.real_attended == Approx(300 * std::exp(0.25)).epsilon(0.02));
  CHECK(loads.tokens == 4096);
}

TEST_CASE("equal sequences leave no replica behind", "[layout][packing]") {
  const BatchLoads loads = batch_loads(lognormal(512, 0), 0.001);
  CHECK(loads.imbalance == Approx(1).epsilon(1e-12));
  CHECK(loads.attention_imbalance == Approx(1).epsilon(1e-12));
  CHECK(loads.real_share() == 1);
  CHECK(loads.attended == 512);
  CHECK(loads.sequences == 8);
  CHECK(loads.waited_for == std::vector<MicroBatchLoad>(2, {4096, 512}));
  const BatchLoads left = batch_loads(lognormal(500, 0), 0.001);  // 96 tokens of each row
  CHECK(left.imbalance == Approx(1).epsilon(1e-12));
  CHECK(left.real_share() == 4000.0 / 4096);
}

TEST_CASE("more replicas wait longer, more micro-batches less", "[layout][packing][property]") {
  const auto imbalance = [](int replicas, int batches, int zero = 0) {
    Layout layout = lognormal(600, 1.2);
    layout.data_parallel = replicas;
    layout.global_batch = std::int64_t{replicas} * batches;
    layout.zero_stage = zero;
    return batch_loads(layout, 0.0001).attention_imbalance;
  };
  CHECK(imbalance(1, 8) == Approx(1).epsilon(0.02));
  CHECK(imbalance(2, 8) > imbalance(1, 8));
  CHECK(imbalance(16, 8) > imbalance(2, 8));
  CHECK(imbalance(16, 64) < imbalance(16, 8));
  // Under ZeRO-3 the replicas gather weights together: all wait in each micro-batch.
  CHECK(imbalance(16, 64, 3) > imbalance(16, 64));
  CHECK(imbalance(16, 64, 3) == Approx(imbalance(16, 1, 3)).epsilon(0.1));
}

TEST_CASE("padded rows are as long as the longest of their micro-batch", "[layout][packing]") {
  Layout layout = lognormal(500, 0.8);
  layout.packing = Packing::pad_to_longest;
  const auto share = [&](std::int64_t micro_batch, Packing method) {
    layout.micro_batch = micro_batch;
    layout.global_batch = 32 * micro_batch;
    layout.packing = method;
    return batch_loads(layout, 0).real_share();
  };
  CHECK(share(1, Packing::pad_to_longest) == Approx(1).epsilon(1e-9));
  const double two = share(2, Packing::pad_to_longest), eight = share(8, Packing::pad_to_longest);
  CHECK(two < 0.9);
  CHECK(eight < two);
  CHECK(share(8, Packing::pad_by_length) > eight + 0.2);
  layout.packing = Packing::pad_to_longest;
  const BatchLoads loads = batch_loads(layout, 0);
  CHECK(loads.longest_row <= 4096);
  for (const MicroBatchLoad& load : loads.waited_for)
    CHECK(load.tokens <= loads.longest_row);
}

TEST_CASE("a step is the same whenever it is asked for, and another for another seed",
          "[layout][packing]") {
  Layout layout = lognormal(600, 1);
  const BatchLoads once = batch_loads(layout, 0.001), again = batch_loads(layout, 0.001);
  CHECK(once.waited_for == again.waited_for);
  CHECK(once.imbalance == again.imbalance);
  layout.packing_seed = 2;
  CHECK(batch_loads(layout, 0.001).waited_for != once.waited_for);
}

TEST_CASE("of many micro-batches some are joined, and no work is lost", "[layout][packing]") {
  Layout layout = lognormal(600, 1);
  layout.global_batch = 4 * 500;
  const std::vector<MicroBatchLoad> batches = batch_loads(layout, 0.001).waited_for;
  CHECK(batches.size() == 500);
  std::vector<double> kinds;
  for (const MicroBatchLoad& load : batches)
    kinds.push_back(load.attended);
  std::ranges::sort(kinds);
  CHECK(std::distance(kinds.begin(), std::unique(kinds.begin(), kinds.end())) <= 32);
}

TEST_CASE("lengths of a layout are text, and compared by what was measured", "[layout][packing]") {
  const LayoutField& field = layout_field("packing.lengths");
  const Layout a = with({{3, 1}}, 16), b = with({{3, 1}}, 16), c = with({{4, 1}}, 16);
  CHECK(same_value(a, b, field));
  CHECK_FALSE(same_value(a, c, field));
  CHECK(value_text(a, field) == "\"lengths.csv\"");
  CHECK(value_text(Layout{}, field) == "none");
  CHECK(value_json(lognormal(1, 1), field) == "\"lognormal\"");
}
