// Sentences with labels: any bytes are an InputError that names a line of the file, or rows whose
// ids are of the vocabulary, whose padding is at the end, and whose label is a class.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "real/engine/data/labelled_text.hpp"
#include "sim/base/input_error.hpp"
#include "sim/model/transformer.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

namespace {

using fuzz::require;

constexpr std::int64_t vocabulary = 40, sequence_length = 7, classes = 2;

sim::Model classifier() {
  sim::TransformerShape shape;
  shape.layers = 1;
  shape.hidden = shape.head_dim = shape.feed_forward = 8;
  shape.heads = shape.kv_heads = 1;
  shape.vocabulary = vocabulary;
  shape.max_sequence = sequence_length;
  shape.mask = sim::AttentionMask::bidirectional;
  shape.head = sim::Head::classifier;
  shape.classes = classes;
  return sim::build_transformer(shape);
}

void check_row(const std::vector<std::int32_t>& row) {
  const auto end = row.end() - 1;
  require(row.front() == 1);
  require(
      std::all_of(row.begin(), end, [](std::int32_t id) { return id >= 0 && id < vocabulary; }));
  const auto padding = std::find(row.begin(), end, 0);
  require(std::all_of(padding, end, [](std::int32_t id) { return id == 0; }));
  require(row.back() >= 0 && row.back() < classes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  static const sim::Model model = classifier();
  file.write({reinterpret_cast<const char*>(data), size});
  try {
    const real::LabelledText samples{file.path(), model, sequence_length};
    require(samples.size() > 0 && samples.ids() <= vocabulary);
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      std::vector<std::int32_t> row(sequence_length + 1);
      samples.sample(1, 0, sample, row.data());
      check_row(row);
    }
  } catch (const sim::InputError& error) {
    for (const sim::Problem& problem : error.problems())
      require(problem.where.file == file.path() && !problem.what.empty());
  }
  return 0;
}
